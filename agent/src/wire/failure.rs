//! Why there is no reply, in the log's words.

mod classes;
#[cfg(test)]
mod tests;

use std::time::Duration;

use cocoonbox_proto::log::v1::agent_model_failed::Reason;
use serde_json::Value;

/// Longest explanation kept; vendors answer with pages at times.
const DETAIL_CHARS_MAX: usize = 1_000;

/// A model call that gave no whole reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) reason: Reason,
    pub(crate) detail: String,
    pub(crate) retryable: bool,
    /// What the vendor asked for; 0 = nothing.
    pub(crate) retry_after_ms: u64,
}

/// An answer that is not a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    /// What the door or the gateway calls it; empty where it is the vendor's.
    pub(crate) word: &'a str,
    pub(crate) body: &'a [u8],
    pub(crate) retry_after_ms: u64,
}

/// What a vendor says of an error, wherever it says it.
#[derive(Clone, Debug, Default)]
struct Told {
    kind: String,
    code: String,
    message: String,
}

impl Failure {
    pub(crate) fn new(reason: Reason, detail: impl Into<String>) -> Self {
        let retryable = match reason {
            // The same call would meet the same.
            Reason::Rejected | Reason::NotConfigured | Reason::TooLong => false,
            Reason::Unspecified
            | Reason::Unreachable
            | Reason::RateLimited
            | Reason::Overloaded
            | Reason::Cut
            | Reason::Stalled
            | Reason::Garbled
            | Reason::AgentRestarted
            | Reason::ServerError
            | Reason::Budget => true,
        };
        let detail = detail.into().chars().take(DETAIL_CHARS_MAX).collect();
        Self {
            reason,
            detail,
            retryable,
            retry_after_ms: 0,
        }
    }

    pub(crate) fn garbled(detail: String) -> Self {
        Self::new(Reason::Garbled, detail)
    }

    pub(crate) fn stalled(silence: Duration) -> Self {
        let detail = format!("nothing came for {} s", silence.as_secs());
        Self::new(Reason::Stalled, detail)
    }

    /// Reads an answer that is not a stream. The `word` is the door's or the gateway's own, where the
    /// answer is.
    pub(crate) fn of_answer(answer: &Answer<'_>) -> Self {
        let json: Value = serde_json::from_slice(answer.body).unwrap_or_default();
        let status = answer.status;
        let told = Told::of(&json);
        // A stream was asked for; an error with a good status is classed by what it says.
        if answer.word.is_empty() && (200..300).contains(&status) {
            return Self::of_told(&told);
        }
        let detail = match told.message.as_str() {
            "" => format!("{status}: {}", String::from_utf8_lossy(answer.body).trim()),
            message => format!("{status}: {message}"),
        };
        let reason = classes::of_word(answer.word)
            .or_else(|| classes::of_words(&told))
            .unwrap_or_else(|| classes::of_status(status, answer.word));
        let retry_after_ms = match answer.retry_after_ms {
            0 if reason == Reason::RateLimited => classes::wait_ms(&told.message),
            asked => asked,
        };
        Self {
            retry_after_ms,
            ..Self::new(reason, detail)
        }
    }

    /// Reads an error that comes in a stream, or with a good status: an object with an `error`, or the
    /// error itself.
    pub(crate) fn of_error(json: &Value) -> Self {
        Self::of_told(&Told::of(json))
    }

    fn of_told(told: &Told) -> Self {
        let reason = classes::of_words(told)
            .or_else(|| classes::of_kind(&told.kind))
            .or_else(|| classes::of_kind(&told.code))
            .unwrap_or(if told.is_empty() {
                Reason::Garbled
            } else {
                Reason::ServerError
            });
        let retry_after_ms = match reason {
            Reason::RateLimited => classes::wait_ms(&told.message),
            _ => 0,
        };
        let words = [&told.kind, &told.code, &told.message];
        let words: Vec<&str> = words
            .into_iter()
            .map(String::as_str)
            .filter(|word| !word.is_empty())
            .collect();
        let detail = if words.is_empty() {
            "what came is neither a stream nor an error".to_owned()
        } else {
            words.join(": ")
        };
        Self {
            retry_after_ms,
            ..Self::new(reason, detail)
        }
    }
}

impl Told {
    /// Servers put the error in `error` or in the open, as an object or as text, and call it many things.
    fn of(json: &Value) -> Self {
        let error = json.get("error").filter(|error| !error.is_null());
        let error = error.unwrap_or(json);
        if let Some(message) = error.as_str() {
            return Self {
                message: message.to_owned(),
                ..Self::default()
            };
        }
        let text = |field: &str| match error.get(field) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => String::new(),
        };
        let is_plain = |kind: &String| {
            // These say only that it is one.
            !matches!(kind.as_str(), "error" | "response.failed")
        };
        Self {
            kind: Some(text("type")).filter(is_plain).unwrap_or_default(),
            code: text("code"),
            message: Some(text("message"))
                .filter(|message| !message.is_empty())
                .unwrap_or_else(|| text("detail")),
        }
    }

    fn is_empty(&self) -> bool {
        self.message.is_empty() && self.kind.is_empty() && self.code.is_empty()
    }
}
