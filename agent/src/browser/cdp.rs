//! What Chromium is asked over its pipe, and what it answers.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    sync::{mpsc, oneshot},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::pipe::{Message, Reader};

/// Commands that wait to be written. Chromium reads at once, or hangs as a whole.
const OUT_MAX: usize = 4_096;
/// For whatever needs no page's own thread, or only a moment of it.
pub(super) const SOON: Duration = Duration::from_secs(10);

/// An answer as it came.
type Raw = Result<Vec<u8>, Fault>;
/// With the session that is asked.
type Waiting = HashMap<u64, (Option<String>, oneshot::Sender<Raw>)>;

/// Chromium, as it is spoken to. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Cdp(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    next: AtomicU64,
    waiting: Mutex<Waiting>,
    out: mpsc::Sender<Vec<u8>>,
    gone: CancellationToken,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("the browser has ended")]
    Gone,
    #[error("the frame or tab went away meanwhile")]
    Left,
    #[error("`{0}` was not answered in time")]
    Late(&'static str),
    #[error("the browser refuses `{method}`: {message}")]
    Refused {
        method: &'static str,
        message: String,
    },
    #[error("the browser's answer is too large")]
    TooLarge,
    #[error("the browser's answer to `{method}` is not understood")]
    Form {
        method: &'static str,
        #[source]
        source: serde_json::Error,
    },
}

/// A command that was sent.
#[derive(Debug)]
pub(super) struct Sent {
    method: &'static str,
    answer: oneshot::Receiver<Raw>,
}

/// To whom a command goes: the browser itself, or one of its sessions.
pub(super) type To<'a> = Option<&'a str>;

#[derive(Deserialize)]
struct Head<'a> {
    id: Option<u64>,
    #[serde(borrow)]
    method: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow, rename = "sessionId")]
    session_id: Option<std::borrow::Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Reply<T> {
    result: Option<T>,
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    message: String,
}

impl Cdp {
    /// Speaks over these ends until Chromium closes them. `on_event` is given each event's method, session
    /// and whole text; what it sends goes out before anything that is answered later.
    pub(super) fn start(
        from: impl AsyncRead + Unpin + Send + 'static,
        into: impl AsyncWrite + Unpin + Send + 'static,
        tasks: &tokio_util::task::TaskTracker,
        mut on_event: impl FnMut(&Cdp, &str, Option<&str>, &[u8]) + Send + 'static,
    ) -> Self {
        let (out, outgoing) = mpsc::channel(OUT_MAX);
        let cdp = Self(Arc::new(Inner {
            next: AtomicU64::new(1),
            waiting: Mutex::default(),
            out,
            gone: CancellationToken::new(),
        }));
        let (writing, reading) = (cdp.clone(), cdp.clone());
        tasks.spawn(async move {
            let gone = writing.0.gone.clone();
            gone.run_until_cancelled(write(into, outgoing)).await;
            writing.end();
        });
        tasks.spawn(async move {
            let mut reader = Reader::new(from);
            while let Ok(Some(message)) = reader.next().await {
                match message {
                    Message::Whole(bytes) => reading.take(bytes, &mut on_event),
                    Message::TooLong(beginning) => reading.too_large(&beginning),
                }
            }
            reading.end();
        });
        cdp
    }

    /// Sends a command. Those that are sent by one thread arrive in that order, whether or not anyone
    /// waits for their answers.
    pub(super) fn send(&self, to: To<'_>, method: &'static str, params: Value) -> Sent {
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        let (answer, sent) = oneshot::channel();
        let mut message = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = to {
            message["sessionId"] = session.into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.waiting().insert(id, (to.map(str::to_owned), answer));
        if self.0.gone.is_cancelled() || self.0.out.try_send(bytes).is_err() {
            self.waiting().remove(&id);
        }
        Sent {
            method,
            answer: sent,
        }
    }

    /// Asks, and waits for the answer for as long as usual.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        to: To<'_>,
        method: &'static str,
        params: Value,
    ) -> Result<T, Fault> {
        self.send(to, method, params).within(SOON).await
    }

    /// Does it, and waits until it is done.
    pub(super) async fn tell(
        &self,
        to: To<'_>,
        method: &'static str,
        params: Value,
    ) -> Result<(), Fault> {
        let done: serde::de::IgnoredAny = self.ask(to, method, params).await?;
        let _ = done;
        Ok(())
    }

    /// Is cancelled when Chromium has closed its ends.
    pub(super) fn gone(&self) -> &CancellationToken {
        &self.0.gone
    }

    fn take(&self, bytes: Vec<u8>, on_event: &mut impl FnMut(&Cdp, &str, Option<&str>, &[u8])) {
        let Ok(head) = serde_json::from_slice::<Head<'_>>(&bytes) else {
            tracing::warn!("a message of the browser is not understood");
            return;
        };
        if let Some(method) = head.method {
            on_event(self, &method, head.session_id.as_deref(), &bytes);
        } else if let Some(id) = head.id {
            drop(head);
            self.answer(id, Ok(bytes));
        }
    }

    fn too_large(&self, beginning: &[u8]) {
        let text = String::from_utf8_lossy(beginning);
        let id = text.strip_prefix("{\"id\":").map(|rest| {
            let digits = rest.find(|c: char| !c.is_ascii_digit());
            rest[..digits.unwrap_or(rest.len())].parse()
        });
        if let Some(Ok(id)) = id {
            self.answer(id, Err(Fault::TooLarge));
        }
    }

    fn answer(&self, id: u64, answer: Raw) {
        if let Some((_, waiting)) = self.waiting().remove(&id) {
            // Nobody may be interested any more.
            waiting.send(answer).ok();
        }
    }

    /// Answers in the place of a session that has ended: Chromium says nothing of what it was asked.
    pub(super) fn left(&self, session: &str) {
        let mut waiting = self.waiting();
        let of = |to: &Option<String>| to.as_deref() == Some(session);
        let asked = waiting.iter().filter(|(_, (to, _))| of(to));
        let ids: Vec<u64> = asked.map(|(id, _)| *id).collect();
        for id in ids {
            if let Some((_, answer)) = waiting.remove(&id) {
                answer.send(Err(Fault::Left)).ok();
            }
        }
    }

    fn end(&self) {
        self.0.gone.cancel();
        self.waiting().clear();
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sent {
    /// Waits for the answer.
    pub(super) async fn within<T: DeserializeOwned>(self, limit: Duration) -> Result<T, Fault> {
        let method = self.method;
        let answer = timeout(limit, self.answer).await;
        let answer = answer.map_err(|_| Fault::Late(method))?;
        let bytes = answer.map_err(|_| Fault::Gone)??;
        let form = |source| Fault::Form { method, source };
        let reply: Reply<T> = serde_json::from_slice(&bytes).map_err(form)?;
        match reply {
            Reply {
                error: Some(Refusal { message }),
                ..
            } => Err(Fault::Refused {
                method,
                message: message.chars().take(300).collect(),
            }),
            Reply {
                result: Some(result),
                ..
            } => Ok(result),
            Reply { .. } => Err(Fault::Gone),
        }
    }
}

async fn write(mut into: impl AsyncWrite + Unpin, mut outgoing: mpsc::Receiver<Vec<u8>>) {
    while let Some(bytes) = outgoing.recv().await {
        if into.write_all(&bytes).await.is_err() || into.flush().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, DuplexStream, duplex, split};
    use tokio_util::task::TaskTracker;

    use super::*;

    fn connected() -> (Cdp, DuplexStream, Arc<Mutex<Vec<String>>>) {
        let (ours, theirs) = duplex(1 << 20);
        let (from, into) = split(ours);
        let events = Arc::<Mutex<Vec<String>>>::default();
        let seen = Arc::clone(&events);
        let cdp = Cdp::start(from, into, &TaskTracker::new(), move |_, method, to, _| {
            let said = format!("{method} {}", to.unwrap_or_default());
            seen.lock().unwrap().push(said);
        });
        (cdp, theirs, events)
    }

    #[tokio::test]
    async fn answers_find_who_asked_in_any_order() {
        let (cdp, mut browser, events) = connected();
        let one = cdp.send(None, "A.one", json!({}));
        let two = cdp.send(Some("s"), "A.two", json!({ "x": 1 }));
        let three = cdp.send(None, "A.three", json!({}));
        let expected = "{\"id\":1,\"method\":\"A.one\",\"params\":{}}\0\
            {\"id\":2,\"method\":\"A.two\",\"params\":{\"x\":1},\"sessionId\":\"s\"}\0";
        let mut sent = vec![0; expected.len()];
        browser.read_exact(&mut sent).await.unwrap();
        assert_eq!(String::from_utf8(sent).unwrap(), expected);
        let said = "{\"method\":\"B.came\",\"sessionId\":\"s\",\"params\":{}}\0nonsense\0\
            {\"id\":2,\"error\":{\"code\":-1,\"message\":\"no\"},\"sessionId\":\"s\"}\0\
            {\"id\":1,\"result\":{\"a\":5}}\0{\"id\":99,\"result\":{}}\0";
        browser.write_all(said.as_bytes()).await.unwrap();
        let refused = two.within::<Value>(SOON).await.unwrap_err();
        assert_eq!(refused.to_string(), "the browser refuses `A.two`: no");
        assert_eq!(one.within::<Value>(SOON).await.unwrap(), json!({ "a": 5 }));
        assert_eq!(*events.lock().unwrap(), ["B.came s"]);
        let four = cdp.send(Some("s"), "A.four", json!({}));
        cdp.left("s");
        let left = four.within::<Value>(SOON).await;
        assert!(matches!(left, Err(Fault::Left)));
        drop(browser);
        let gone = three.within::<Value>(SOON).await;
        assert!(matches!(gone, Err(Fault::Gone)));
        cdp.gone().cancelled().await;
        let after = cdp.ask::<Value>(None, "A.four", json!({})).await;
        assert!(matches!(after, Err(Fault::Gone)));
    }

    #[tokio::test]
    async fn an_answer_that_is_too_large_is_said_to_be() {
        let (cdp, _browser, _) = connected();
        let sent = cdp.send(None, "A.one", json!({}));
        cdp.too_large(b"{\"id\":1,\"result\":{\"nodes\":[");
        assert!(matches!(
            sent.within::<Value>(SOON).await,
            Err(Fault::TooLarge)
        ));
        cdp.too_large(b"{\"method\":\"x\"");
    }
}
