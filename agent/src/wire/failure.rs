//! Why there is no reply, in the log's words.

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

impl Failure {
    pub(crate) fn new(reason: Reason, detail: impl Into<String>) -> Self {
        let retryable = match reason {
            Reason::Rejected | Reason::NotConfigured => false,
            Reason::Unspecified
            | Reason::Unreachable
            | Reason::RateLimited
            | Reason::Overloaded
            | Reason::Cut
            | Reason::Stalled
            | Reason::Garbled
            | Reason::AgentRestarted
            | Reason::ServerError => true,
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

    /// Reads an answer that is not a stream. The `word` is the door's or the gateway's own, where the
    /// answer is.
    pub(crate) fn of_answer(answer: &Answer<'_>) -> Self {
        let json: Value = serde_json::from_slice(answer.body).unwrap_or_default();
        let error = json.get("error").unwrap_or(&json);
        let status = answer.status;
        let detail = match error.get("message").and_then(Value::as_str) {
            Some(message) => format!("{status}: {message}"),
            None => format!("{status}: {}", String::from_utf8_lossy(answer.body).trim()),
        };
        let reason = match (answer.word, status) {
            // A 403 with a word is the door's own no, not the vendor's.
            ("MODEL_NOT_CONFIGURED", _) | (_, 401) | ("", 403) => Reason::NotConfigured,
            ("MODEL_UNREACHABLE" | "MODEL_TIMEOUT" | "EGRESS_BUSY", _) => Reason::Unreachable,
            (_, 429) => Reason::RateLimited,
            (_, 503 | 529) => Reason::Overloaded,
            (_, 408 | 409 | 500..) => Reason::ServerError,
            // A stream was asked for; an error with a good status is classed by what it says.
            (_, 200..=299) => return Self::of_error(error),
            _ => Reason::Rejected,
        };
        let retry_after_ms = answer.retry_after_ms;
        Self {
            retry_after_ms,
            ..Self::new(reason, detail)
        }
    }

    /// Reads the `error` object that both vendors put into streams, too.
    pub(crate) fn of_error(error: &Value) -> Self {
        let text = |field: &str| error.get(field).and_then(Value::as_str).unwrap_or_default();
        let kind = if text("type").is_empty() {
            text("code")
        } else {
            text("type")
        };
        let reason = match kind {
            "overloaded_error" => Reason::Overloaded,
            "rate_limit_error" | "rate_limit_exceeded" | "tokens" | "requests" => {
                Reason::RateLimited
            }
            "authentication_error" | "permission_error" | "insufficient_quota" => {
                Reason::NotConfigured
            }
            "invalid_request_error" | "not_found_error" | "request_too_large" => Reason::Rejected,
            "" if text("message").is_empty() => Reason::Garbled,
            _ => Reason::ServerError,
        };
        Self::new(reason, format!("{kind}: {}", text("message")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, word: &str, body: &[u8]) -> Failure {
        Failure::of_answer(&Answer {
            status,
            word,
            body,
            retry_after_ms: 7,
        })
    }

    #[test]
    fn statuses_become_reasons() {
        let cases = [
            (400, Reason::Rejected, false),
            (401, Reason::NotConfigured, false),
            (403, Reason::NotConfigured, false),
            (404, Reason::Rejected, false),
            (408, Reason::ServerError, true),
            (409, Reason::ServerError, true),
            (413, Reason::Rejected, false),
            (429, Reason::RateLimited, true),
            (500, Reason::ServerError, true),
            (502, Reason::ServerError, true),
            (503, Reason::Overloaded, true),
            (529, Reason::Overloaded, true),
        ];
        for (status, reason, retryable) in cases {
            let failure = of(status, "", b"{\"error\":{\"message\":\"no\"}}");
            assert_eq!(
                (failure.reason, failure.retryable),
                (reason, retryable),
                "{status}"
            );
            assert_eq!(
                (failure.detail, failure.retry_after_ms),
                (format!("{status}: no"), 7)
            );
        }
    }

    #[test]
    fn the_gateway_says_what_the_vendor_cannot() {
        assert_eq!(
            of(503, "MODEL_NOT_CONFIGURED", b"").reason,
            Reason::NotConfigured
        );
        assert_eq!(
            of(502, "MODEL_UNREACHABLE", b"").reason,
            Reason::Unreachable
        );
        assert_eq!(of(403, "GATEWAY_FORM", b"no\n").reason, Reason::Rejected);
    }

    #[test]
    fn an_error_with_a_good_status_is_an_error() {
        let body =
            b"{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}";
        assert_eq!(of(200, "", body).reason, Reason::Overloaded);
        assert_eq!(of(200, "", b"<html>").reason, Reason::Garbled);
    }
}
