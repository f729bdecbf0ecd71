//! Streams that go on after a break: from the last offset key, with growing pauses.

use std::time::Duration;

use cocoonbox_events::OffsetKey;
use cocoonbox_proto::{
    control::v1::{ListBoxesResponse, OperationEvent},
    log::v1::EventOrHeartbeat,
};
use futures::future::BoxFuture;
use tokio::time::Instant;
use tonic::{Code, Response, Status, Streaming};
use tonic_types::StatusExt;

use crate::{exit::Exit, failure::Failure};

const PAUSE_MIN: Duration = Duration::from_millis(200);
/// Long enough that a thousand clients do not hinder an api from starting.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Statuses that may be an accident of the connection or a fault that comes again each time: tried
/// this often without a single message in between.
const DOUBTFUL_TRIES: u32 = 5;

/// A message that says where to resume behind it.
pub trait Keyed {
    fn offset_key(&self) -> &str;
}

impl Keyed for EventOrHeartbeat {
    fn offset_key(&self) -> &str {
        &self.offset_key
    }
}

impl Keyed for ListBoxesResponse {
    fn offset_key(&self) -> &str {
        &self.offset_key
    }
}

impl Keyed for OperationEvent {
    fn offset_key(&self) -> &str {
        &self.offset_key
    }
}

/// Opens the stream behind a key (empty = from the start).
pub type Open<M> =
    Box<dyn FnMut(String) -> BoxFuture<'static, Result<Response<Streaming<M>>, Status>> + Send>;

/// When an end of the stream is its end, and when it is a break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The server ends it when all was said.
    AtTail,
    /// It goes on for ever; the reader knows when it has enough.
    Never,
}

/// A stream that is opened again when it breaks. No message is given twice or left out, as far as
/// the server keeps its promise about keys.
pub struct Follow<M> {
    open: Open<M>,
    ending: Ending,
    /// How long to go on trying without hearing anything.
    patience: Duration,
    from: String,
    stream: Option<Streaming<M>>,
    trouble: Option<Trouble>,
    /// Whether a rewind is gone past, or is an error.
    past_rewinds: bool,
    rewound: Option<String>,
}

/// What came between us and the stream.
struct Trouble {
    since: Instant,
    pause: Duration,
    retry_at: Instant,
    doubtful: u32,
}

impl<M: Keyed> Follow<M> {
    pub fn new(open: Open<M>, from: impl Into<String>, ending: Ending, patience: Duration) -> Self {
        Self {
            open,
            ending,
            patience,
            from: from.into(),
            stream: None,
            trouble: None,
            past_rewinds: false,
            rewound: None,
        }
    }

    /// Goes on where the histories part when what was seen was undone; [`Self::rewound`] says so.
    pub fn past_rewinds(mut self) -> Self {
        self.past_rewinds = true;
        self
    }

    /// Says, once, that what was returned before has been undone.
    pub fn rewound(&mut self) -> Option<String> {
        self.rewound.take()
    }

    /// Where to resume: behind everything that was returned.
    pub fn key(&self) -> &str {
        &self.from
    }

    /// Returns the next message; `None` at the end of a stream that has one.
    ///
    /// Cancel-safe: what is not returned is not lost.
    pub async fn next(&mut self) -> Result<Option<M>, Failure> {
        loop {
            if let Some(trouble) = &self.trouble {
                tokio::time::sleep_until(trouble.retry_at).await;
            }
            let Some(stream) = &mut self.stream else {
                match (self.open)(self.from.clone()).await {
                    Ok(answer) => self.stream = Some(answer.into_inner()),
                    Err(status) => self.broken(&status)?,
                }
                continue;
            };
            match stream.message().await {
                Ok(Some(message)) => {
                    self.trouble = None;
                    if !message.offset_key().is_empty() {
                        message.offset_key().clone_into(&mut self.from);
                    }
                    return Ok(Some(message));
                }
                Ok(None) if self.ending == Ending::AtTail => return Ok(None),
                Ok(None) => self.broken(&Status::unavailable("the stream ended before its end"))?,
                Err(status) => self.broken(&status)?,
            }
        }
    }

    /// Decides whether to try again, and when.
    fn broken(&mut self, status: &Status) -> Result<(), Failure> {
        self.stream = None;
        if let Some(key) = go_on_with(status).filter(|_| self.past_rewinds) {
            self.rewound = Some(undone(&self.from, &key));
            self.from = key;
            return Ok(());
        }
        let doubtful = match status.code() {
            Code::Unavailable | Code::ResourceExhausted | Code::Aborted => false,
            Code::Unknown | Code::Internal | Code::Cancelled | Code::DeadlineExceeded => true,
            _ => return Err(status.clone().into()),
        };
        let now = Instant::now();
        let trouble = self.trouble.get_or_insert(Trouble {
            since: now,
            pause: PAUSE_MIN,
            retry_at: now,
            doubtful: 0,
        });
        trouble.doubtful += u32::from(doubtful);
        let hopeless = trouble.doubtful >= DOUBTFUL_TRIES;
        if hopeless || now.duration_since(trouble.since) + trouble.pause > self.patience {
            return Err(self.gave_up(status));
        }
        trouble.retry_at = now + trouble.pause;
        trouble.pause = (trouble.pause * 2).min(PAUSE_MAX);
        Ok(())
    }

    fn gave_up(&self, status: &Status) -> Failure {
        let cause = Failure::from(status.clone());
        let mut failure = Failure::new(
            Exit::StreamBroke,
            format!("the stream broke off: {}", cause.message),
        );
        failure.reason = cause.reason;
        match self.from.as_str() {
            "" => failure,
            key => failure.advise(format!("resume with `--from {key}`")),
        }
    }
}

/// The key to go on with after a rewind.
fn go_on_with(status: &Status) -> Option<String> {
    let details = status.get_error_details();
    let info = details.error_info()?;
    let is_rewind = info.reason == "HISTORY_REWOUND";
    info.metadata
        .get("offset_key")
        .filter(|_| is_rewind)
        .cloned()
}

/// What a person is told.
fn undone(from: &str, key: &str) -> String {
    let pos = |key: &str| key.parse::<OffsetKey>().map(|key| key.pos);
    match (pos(from), pos(key)) {
        (Ok(seen), Ok(common)) if seen > common => format!(
            "the box's history was rewound to position {common}; what you saw after it, up to {seen}, was undone"
        ),
        _ => format!("the box's history was rewound and goes on behind {key}"),
    }
}
