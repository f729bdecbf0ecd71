//! The call itself: plain HTTP to the door, which knows the vendor and adds the key.

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use cocoonbox_proto::log::v1::agent_model_failed::Reason;
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::http1,
    header::{ACCEPT, CONTENT_TYPE, HOST, HeaderMap},
};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, task::JoinSet, time::timeout};

use super::{
    Parser,
    assemble::{Delta, Reply},
    failure::{Answer, Failure},
    request::Request,
    sse,
};

/// The name under which the door knows the model gateway. It is never resolved.
const GATEWAY: &str = "gateway.cocoonbox";

/// Where the door and the gateway say in one word that an answer is theirs, and why.
const WORD: &str = "x-cocoonbox-reason";

/// The door is on loopback; a busy one answers late, a dead one never.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// A vendor that says nothing for so long, not even a ping, has lost the call.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// How much of an answer that is not a stream is read.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Where models are reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Door {
    pub(crate) address: SocketAddr,
    pub(crate) silence_max: Duration,
}

/// A call under way. Dropping it breaks it off.
pub(crate) struct Call {
    body: Incoming,
    events: sse::Parser,
    // Taken by the end of the reply.
    parser: Option<Parser>,
    silence_max: Duration,
    // Drives the connection; aborted with the call.
    _connection: JoinSet<()>,
}

/// What the stream said next.
pub(crate) enum Heard {
    More(Vec<Delta>),
    Whole(Box<Reply>),
}

impl Door {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self {
            address,
            silence_max: SILENCE_MAX,
        }
    }

    /// Makes a call and returns once the stream has begun.
    pub(crate) async fn call(&self, call_id: &str, request: &Request<'_>) -> Result<Call, Failure> {
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
        let http = http::Request::post(format!("http://{GATEWAY}{}", request.path()))
            .header(HOST, GATEWAY)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream")
            .header("anthropic-version", "2023-06-01")
            .header("x-cocoonbox-call", call_id)
            .body(Full::new(Bytes::from(request.body().to_string())))
            .map_err(|error| Failure::new(Reason::Rejected, error.to_string()))?;
        let response = timeout(self.silence_max, sender.send_request(http))
            .await
            .map_err(|_| stalled(self.silence_max))?
            .map_err(|error| unreachable(&error))?;
        let status = response.status().as_u16();
        let retry_after_ms = retry_after_ms(response.headers());
        let is_stream = response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok())
            .is_some_and(|kind| kind.trim_start().starts_with("text/event-stream"));
        let word = response
            .headers()
            .get(WORD)
            .and_then(|word| word.to_str().ok());
        let word = word.unwrap_or_default().to_owned();
        let mut body = response.into_body();
        if status != 200 || !is_stream {
            let body = read_answer(&mut body, self.silence_max).await;
            let (word, body) = (word.as_str(), body.as_slice());
            return Err(Failure::of_answer(&Answer {
                status,
                word,
                body,
                retry_after_ms,
            }));
        }
        Ok(Call {
            body,
            events: sse::Parser::default(),
            parser: Some(Parser::new(request.wire(), call_id)),
            silence_max: self.silence_max,
            _connection: tasks,
        })
    }
}

impl Call {
    /// Waits for more. Cancel-safe: only a whole frame is taken in. Not to be asked again after an
    /// end.
    pub(crate) async fn next(&mut self) -> Result<Heard, Failure> {
        loop {
            let frame = timeout(self.silence_max, self.body.frame())
                .await
                .map_err(|_| stalled(self.silence_max))?;
            let Some(frame) = frame else {
                return Err(Failure::new(Reason::Cut, "the stream ended before its end"));
            };
            let frame = frame
                .map_err(|error| Failure::new(Reason::Cut, format!("the stream broke: {error}")))?;
            let Ok(bytes) = frame.into_data() else {
                continue;
            };
            let mut deltas = Vec::new();
            for event in self.events.take(&bytes)? {
                let Some(parser) = &mut self.parser else {
                    return Ok(Heard::More(deltas));
                };
                deltas.extend(parser.take(&event)?);
                if parser.is_done()
                    && let Some(parser) = self.parser.take()
                {
                    return Ok(Heard::Whole(Box::new(parser.finish())));
                }
            }
            if !deltas.is_empty() {
                return Ok(Heard::More(deltas));
            }
        }
    }
}

fn stalled(silence_max: Duration) -> Failure {
    Failure::new(
        Reason::Stalled,
        format!("nothing came for {} s", silence_max.as_secs()),
    )
}

async fn read_answer(body: &mut Incoming, silence_max: Duration) -> Vec<u8> {
    let mut answer = Vec::new();
    while let Ok(Some(Ok(frame))) = timeout(silence_max, body.frame()).await {
        let Ok(bytes) = frame.into_data() else {
            continue;
        };
        let room = ANSWER_BYTES_MAX - answer.len();
        answer.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if answer.len() == ANSWER_BYTES_MAX {
            break;
        }
    }
    answer
}

fn retry_after_ms(headers: &HeaderMap) -> u64 {
    let number = |name: &str| -> Option<f64> {
        headers
            .get(name)?
            .to_str()
            .ok()?
            .trim()
            .parse::<f64>()
            .ok()
            .filter(|n| *n >= 0.0)
    };
    // A date as the value is allowed but nobody's clock is to be trusted with it: then we choose.
    let ms = number("retry-after-ms").or_else(|| number("retry-after").map(|s| s * 1_000.0));
    let wait = ms.map(|ms| Duration::try_from_secs_f64(ms / 1_000.0).unwrap_or_default());
    wait.map_or(0, |wait| {
        u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)
    })
}
