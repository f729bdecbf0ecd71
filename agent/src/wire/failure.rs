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

    /// Reads an answer that is not a stream: a status and usually a JSON body.
    pub(crate) fn of_answer(status: u16, body: &[u8], retry_after_ms: u64) -> Self {
        let json: Value = serde_json::from_slice(body).unwrap_or_default();
        let error = json.get("error").unwrap_or(&json);
        let message = error.get("message").and_then(Value::as_str);
        let detail = match message {
            Some(message) => format!("{status}: {message}"),
            None => format!("{status}: {}", String::from_utf8_lossy(body).trim()),
        };
        let reason = if detail
            .to_ascii_lowercase()
            .replace('_', " ")
            .contains("not configured")
        {
            Reason::NotConfigured
        } else {
            match status {
                // A stream was asked for; an error with a good status is classed by what it says.
                200..=299 => return Self::of_error(error),
                401 | 403 => Reason::NotConfigured,
                429 => Reason::RateLimited,
                503 | 529 => Reason::Overloaded,
                408 | 409 | 500.. => Reason::ServerError,
                _ => Reason::Rejected,
            }
        };
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
            let failure = Failure::of_answer(status, b"{\"error\":{\"message\":\"no\"}}", 0);
            assert_eq!(
                (failure.reason, failure.retryable),
                (reason, retryable),
                "{status}"
            );
            assert_eq!(failure.detail, format!("{status}: no"));
        }
    }

    #[test]
    fn a_gateway_without_a_model_says_so() {
        let body = b"{\"error\":{\"message\":\"no model is NOT_CONFIGURED here\"}}";
        assert_eq!(
            Failure::of_answer(404, body, 0).reason,
            Reason::NotConfigured
        );
    }

    #[test]
    fn an_error_with_a_good_status_is_an_error() {
        let body =
            b"{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}";
        assert_eq!(Failure::of_answer(200, body, 0).reason, Reason::Overloaded);
        assert_eq!(
            Failure::of_answer(200, b"<html>", 0).reason,
            Reason::Garbled
        );
    }
}
