//! The call itself: plain HTTP to the door, which knows the vendor and adds the key.

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use cocoonbox_proto::log::v1::{ModelRole, Wire, agent_model_failed::Reason};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::http1,
    header::{ACCEPT, CONTENT_TYPE, HOST},
};
use hyper_util::rt::TokioIo;
use tokio::{
    net::TcpStream,
    task::JoinSet,
    time::{Instant, timeout, timeout_at},
};

use super::{
    Parser,
    answer::{self, Form, Head},
    assemble::{Delta, Reply},
    failure::{Answer, Failure},
    parser,
    request::Request,
    sse,
};

/// The name under which the door knows the model gateway. It is never resolved.
const GATEWAY: &str = "gateway.cocoonbox";

/// The door is on loopback; a busy one answers late, a dead one never.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Bytes of one stream. The longest reply that the log takes, a character an event, is well below.
const STREAM_BYTES_MAX: u64 = 256 << 20;

/// Where models are reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Door {
    pub(crate) address: SocketAddr,
    /// In the place of what suits the wire.
    pub(crate) patience: Option<Patience>,
}

/// How long a vendor is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Without a single byte.
    pub(crate) silence_max: Duration,
    /// With nothing but signs of life.
    pub(crate) standstill_max: Duration,
}

/// Whose call it is. The gateway meters and budgets by it; the vendor is not told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller<'a> {
    pub(crate) call_id: &'a str,
    pub(crate) agent_id: &'a str,
    pub(crate) role: ModelRole,
}

/// A call under way. Dropping it breaks it off.
pub(crate) struct Call {
    body: Incoming,
    events: sse::Parser,
    // Taken by the end of the reply.
    parser: Option<Box<dyn Parser>>,
    // Deltas that were there before the stream.
    begun: Vec<Delta>,
    patience: Patience,
    bytes: u64,
    moved_at: Instant,
    // Drives the connection; aborted with the call.
    _connection: JoinSet<()>,
}

/// What the stream said next.
pub(crate) enum Heard {
    More(Vec<Delta>),
    Whole(Box<Reply>),
}

impl Caller<'_> {
    fn headers(&self) -> [(&'static str, &str); 3] {
        let role = match self.role {
            ModelRole::Main => "main",
            ModelRole::Computer => "computer",
            ModelRole::Summarize => "summarize",
        };
        [
            ("x-cocoonbox-call", self.call_id),
            ("x-cocoonbox-agent", self.agent_id),
            ("x-cocoonbox-role", role),
        ]
    }
}

impl Patience {
    fn of(wire: Wire) -> Self {
        let silence_s = match wire {
            // It pings every few seconds.
            Wire::AnthropicMessages | Wire::Unspecified => 120,
            // A model that thinks without showing it is silent meanwhile.
            Wire::OpenaiChat | Wire::OpenaiResponses => 300,
        };
        Self {
            silence_max: Duration::from_secs(silence_s),
            standstill_max: Duration::from_mins(20),
        }
    }
}

impl Door {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self {
            address,
            patience: None,
        }
    }

    /// Makes a call and returns once the stream has begun.
    pub(crate) async fn call(
        &self,
        caller: Caller<'_>,
        request: &Request<'_>,
    ) -> Result<Call, Failure> {
        let wire = request.wire();
        let patience = self.patience.unwrap_or_else(|| Patience::of(wire));
        let unreachable =
            |error: &dyn std::fmt::Display| Failure::new(Reason::Unreachable, error.to_string());
        let stream = timeout(CONNECT_MAX, TcpStream::connect(self.address))
            .await
            .map_err(|_| unreachable(&"the door does not answer"))?
            .map_err(|error| unreachable(&error))?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| unreachable(&error))?;
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            // How a connection ended is seen by whoever reads its body.
            connection.await.ok();
        });
        let mut http = http::Request::post(format!("http://{GATEWAY}{}", request.path()))
            .header(HOST, GATEWAY)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream");
        for (name, value) in caller.headers() {
            http = http.header(name, value);
        }
        for (name, value) in request.headers() {
            http = http.header(*name, *value);
        }
        let http = http
            .body(Full::new(Bytes::from(request.body().to_string())))
            .map_err(|error| Failure::new(Reason::Rejected, error.to_string()))?;
        let response = timeout(patience.silence_max, sender.send_request(http))
            .await
            .map_err(|_| Failure::stalled(patience.silence_max))?
            .map_err(|error| unreachable(&error))?;
        let head = Head::of(response.status().as_u16(), response.headers());
        let mut call = Call {
            body: response.into_body(),
            events: sse::Parser::default(),
            parser: Some(parser(wire, caller.call_id)),
            begun: Vec::new(),
            patience,
            bytes: 0,
            moved_at: Instant::now(),
            _connection: tasks,
        };
        if head.status != 200 || head.form != Form::Stream {
            call.read_answer(&head).await?;
        }
        Ok(call)
    }
}

impl Call {
    /// Waits for more. Cancel-safe: only a whole frame is taken in. Not to be asked again after an
    /// end.
    pub(crate) async fn next(&mut self) -> Result<Heard, Failure> {
        if !self.begun.is_empty() {
            return Ok(Heard::More(std::mem::take(&mut self.begun)));
        }
        loop {
            if let Some(reply) = self.whole() {
                return Ok(Heard::Whole(reply));
            }
            let Some(bytes) = self.frame().await? else {
                return self.ended();
            };
            self.bytes += bytes.len() as u64;
            if self.bytes > STREAM_BYTES_MAX {
                return Err(Failure::garbled("the stream does not end".to_owned()));
            }
            let mut deltas = Vec::new();
            for event in self.events.take(&bytes)? {
                let Some(parser) = &mut self.parser else {
                    return Ok(Heard::More(deltas));
                };
                deltas.extend(parser.take(&event)?);
                if let Some(reply) = self.whole() {
                    return Ok(Heard::Whole(reply));
                }
            }
            if !deltas.is_empty() {
                self.moved_at = Instant::now();
                return Ok(Heard::More(deltas));
            }
        }
    }

    fn whole(&mut self) -> Option<Box<Reply>> {
        let is_done = self.parser.as_ref().is_some_and(|parser| parser.is_done());
        let parser = self.parser.take_if(|_| is_done)?;
        Some(Box::new(parser.finish()))
    }

    /// Waits for the next piece of the body; `None` is its proper end.
    async fn frame(&mut self) -> Result<Option<Bytes>, Failure> {
        let Patience {
            silence_max,
            standstill_max,
        } = self.patience;
        let standstill = self.moved_at + standstill_max;
        let silence = Instant::now() + silence_max;
        loop {
            let frame = timeout_at(silence.min(standstill), self.body.frame())
                .await
                .map_err(|_| {
                    if silence < standstill {
                        Failure::stalled(silence_max)
                    } else {
                        let seconds = standstill_max.as_secs();
                        let detail = format!("nothing but signs of life for {seconds} s");
                        Failure::new(Reason::Stalled, detail)
                    }
                })?;
            let Some(frame) = frame else {
                return Ok(None);
            };
            let frame = frame
                .map_err(|error| Failure::new(Reason::Cut, format!("the stream broke: {error}")))?;
            if let Ok(bytes) = frame.into_data() {
                return Ok(Some(bytes));
            }
        }
    }

    fn ended(&mut self) -> Result<Heard, Failure> {
        match self.parser.take_if(|parser| parser.may_end()) {
            Some(parser) => Ok(Heard::Whole(Box::new(parser.finish()))),
            None => Err(Failure::new(Reason::Cut, "the stream ended before its end")),
        }
    }

    /// Reads an answer that is not a stream: an error, or a whole reply.
    async fn read_answer(&mut self, head: &Head) -> Result<(), Failure> {
        let read = answer::read(&mut self.body, self.patience).await;
        let answer = Answer {
            status: head.status,
            word: &head.word,
            body: &read.body,
            retry_after_ms: head.retry_after_ms,
        };
        if head.status != 200 || head.form == Form::Other {
            return Err(Failure::of_answer(&answer));
        }
        if let Some(failure) = read.broken {
            return Err(failure);
        }
        let Ok(json) = serde_json::from_slice(&read.body) else {
            return Err(Failure::of_answer(&answer));
        };
        if let Some(parser) = &mut self.parser {
            self.begun = parser.take_whole(&json)?;
        }
        Ok(())
    }
}
