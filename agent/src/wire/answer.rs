//! The head of an answer, and the body of one that is not a stream.

use std::time::Duration;

use cocoonbox_proto::log::v1::agent_model_failed::Reason;
use http_body_util::BodyExt;
use hyper::{
    body::Incoming,
    header::{CONTENT_TYPE, DATE, HeaderMap},
};
use time::{OffsetDateTime, format_description::well_known::Rfc2822};
use tokio::time::{Instant, timeout_at};

use super::{failure::Failure, http::Patience};

/// Where the door and the gateway say in one word that an answer is theirs, and why.
const WORD: &str = "x-cocoonbox-reason";

/// How much of an answer that is not a stream is read. A whole reply has room in it.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// What an answer's head says.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) word: String,
    pub(super) form: Form,
    /// What the vendor asked for; 0 = nothing.
    pub(super) retry_after_ms: u64,
}

/// What a body is, by its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Stream,
    Json,
    /// A page for people, as proxies send.
    Other,
}

impl Head {
    pub(super) fn of(status: u16, headers: &HeaderMap) -> Self {
        Self {
            status,
            word: text(headers, WORD).unwrap_or_default().to_owned(),
            form: Form::of(text(headers, CONTENT_TYPE.as_str()).unwrap_or_default()),
            retry_after_ms: retry_after_ms(headers),
        }
    }
}

impl Form {
    fn of(content_type: &str) -> Self {
        let kind = content_type.split(';').next().unwrap_or_default();
        match kind.trim().to_ascii_lowercase().as_str() {
            // Small servers name nothing, or what their framework names by itself.
            "text/event-stream" | "text/plain" | "application/octet-stream" | "" => Self::Stream,
            kind if kind.ends_with("json") => Self::Json,
            _ => Self::Other,
        }
    }
}

/// A body as far as it came.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) body: Vec<u8>,
    /// Why it is not whole.
    pub(super) broken: Option<Failure>,
}

/// Reads as much of a body as counts, until it ends, breaks or falls silent.
pub(super) async fn read(body: &mut Incoming, patience: Patience) -> Read {
    let mut read = Read {
        body: Vec::new(),
        broken: None,
    };
    let until = Instant::now() + patience.standstill_max;
    loop {
        let silence = Instant::now() + patience.silence_max;
        let frame = match timeout_at(silence.min(until), body.frame()).await {
            Ok(None) => return read,
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => {
                let detail = format!("the answer broke: {error}");
                read.broken = Some(Failure::new(Reason::Cut, detail));
                return read;
            }
            Err(_) => {
                read.broken = Some(Failure::stalled(patience.silence_max));
                return read;
            }
        };
        let Ok(bytes) = frame.into_data() else {
            continue;
        };
        let room = ANSWER_BYTES_MAX - read.body.len();
        read.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if bytes.len() > room {
            let detail = "the answer is longer than 4 MiB".to_owned();
            read.broken = Some(Failure::garbled(detail));
            return read;
        }
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    Some(headers.get(name)?.to_str().ok()?.trim())
}

fn retry_after_ms(headers: &HeaderMap) -> u64 {
    let number = |name: &str| {
        let number = text(headers, name)?.parse::<f64>().ok();
        number.filter(|number| *number >= 0.0)
    };
    let ms = number("retry-after-ms").or_else(|| number("retry-after").map(|s| s * 1_000.0));
    let wait = ms.map(|ms| Duration::try_from_secs_f64(ms / 1_000.0).unwrap_or_default());
    let wait = wait.or_else(|| until(headers)).unwrap_or_default();
    u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)
}

/// A date is held against the sender's own clock: the box's may be wrong after a sleep.
fn until(headers: &HeaderMap) -> Option<Duration> {
    let date = |name: &str| OffsetDateTime::parse(text(headers, name)?, &Rfc2822).ok();
    let wait = date("retry-after")? - date(DATE.as_str())?;
    wait.try_into().ok()
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderName, HeaderValue};

    use super::*;

    fn wait(pairs: &[(&'static str, &'static str)]) -> u64 {
        let header = |(name, value): &(&'static str, &'static str)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        };
        retry_after_ms(&pairs.iter().map(header).collect())
    }

    #[test]
    fn every_form_of_retry_after_is_a_wait() {
        assert_eq!(wait(&[("retry-after", "2")]), 2_000);
        assert_eq!(wait(&[("retry-after", " 0.5 ")]), 500);
        assert_eq!(
            wait(&[("retry-after-ms", "1500"), ("retry-after", "9")]),
            1_500
        );
        let date = ("date", "Mon, 30 Nov 2026 10:00:00 GMT");
        let later = ("retry-after", "Mon, 30 Nov 2026 10:01:30 GMT");
        assert_eq!(wait(&[date, later]), 90_000);
        let earlier = ("retry-after", "Mon, 30 Nov 2026 09:59:00 GMT");
        assert_eq!(wait(&[date, earlier]), 0);
        assert_eq!(wait(&[later]), 0, "nobody's clock to hold it against");
        for nonsense in ["-1", "soon", "1e400", "NaN", ""] {
            assert_eq!(wait(&[("retry-after", nonsense)]), 0, "{nonsense}");
        }
    }

    #[test]
    fn a_body_is_what_its_head_says() {
        let cases = [
            ("text/event-stream; charset=utf-8", Form::Stream),
            ("Text/Event-Stream", Form::Stream),
            ("", Form::Stream),
            ("text/plain; charset=utf-8", Form::Stream),
            ("application/json", Form::Json),
            ("application/problem+json; charset=utf-8", Form::Json),
            ("text/html", Form::Other),
        ];
        for (content_type, form) in cases {
            assert_eq!(Form::of(content_type), form, "{content_type}");
        }
    }
}
