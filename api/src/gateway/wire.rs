//! The vendors' wires, as far as the gateway must know them.

use std::io;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use serde_json::json;

use super::hold::Refusal;
use crate::door::{Body, REASON_HEADER};

/// The reason of a call that a budget has no room for. Agents wait on it.
const BUDGET_REASON: &str = "budget";

/// Where a request is counted without being answered.
pub(crate) const COUNT_PATH: &str = "/v1/messages/count_tokens";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    Anthropic,
    /// Chat completions.
    OpenAi,
    Responses,
}

/// What a path asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Health,
    /// A model call: metered.
    Call(Wire),
    /// The list of models: passed on, not metered.
    Models(Wire),
    /// What a request would be read as: passed on; vendors ask nothing for it.
    Count(Wire),
    NotFound(Option<Wire>),
    WrongMethod(Wire),
}

/// The gateway's own answers, in the shape that the caller's library understands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    #[error(
        "no such path: only `/v1/messages`, `/v1/messages/count_tokens`, `/v1/chat/completions`, \
         `/v1/responses` and `/v1/models` are served"
    )]
    NotFound,
    #[error("wrong method: calls are POST, lists are GET")]
    WrongMethod,
    #[error(
        "this installation has no {0} models: set `{1}_API_KEY`, or `{1}_BASE_URL` for any server that \
         speaks the same wire, in the environment of cocoonbox-api and start it again"
    )]
    NotConfigured(&'static str, &'static str),
    #[error("the request body is larger than {0} bytes")]
    BodyTooLarge(u64),
    #[error("the request body broke off")]
    BodyBroken,
    #[error("the model vendor `{0}` cannot be reached from cocoonbox-api: {1}")]
    Unreachable(&'static str, Outage),
    #[error("the model vendor `{0}` did not answer in time")]
    Timeout(&'static str),
    #[error(
        "the model vendor `{0}` answered with a redirect, which is not followed: check the base URL"
    )]
    Redirected(&'static str),
    #[error("{}", .0.text)]
    Refused(Refusal),
}

/// What is wrong with the way to a vendor. Addresses are the operator's and not told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Outage {
    #[error("its name is not found")]
    Name,
    #[error("it refuses connections")]
    Refused,
    #[error("connecting takes too long")]
    Connect,
    #[error("its TLS certificate or handshake is not good")]
    Tls,
    #[error("it closed the connection before it answered")]
    Closed,
    #[error("the connection fails")]
    Other,
}

impl Outage {
    pub(crate) fn of(error: &reqwest::Error) -> Self {
        if error.is_timeout() {
            return Self::Connect;
        }
        let mut at: Option<&(dyn std::error::Error + 'static)> = Some(error);
        let mut found = Self::Other;
        while let Some(error) = at {
            if error.is::<rustls::Error>() {
                return Self::Tls;
            }
            if let Some(error) = error.downcast_ref::<std::io::Error>() {
                found = match error.kind() {
                    io::ErrorKind::ConnectionRefused => Self::Refused,
                    io::ErrorKind::TimedOut => Self::Connect,
                    io::ErrorKind::ConnectionReset
                    | io::ErrorKind::UnexpectedEof
                    | io::ErrorKind::BrokenPipe => Self::Closed,
                    _ => found,
                };
                // An error of ours may be wrapped in one of the socket's.
                if error.get_ref().is_some_and(
                    <dyn std::error::Error + Send + Sync + 'static>::is::<rustls::Error>,
                ) {
                    return Self::Tls;
                }
            }
            if error
                .downcast_ref::<hyper::Error>()
                .is_some_and(hyper::Error::is_incomplete_message)
            {
                return Self::Closed;
            }
            // The only word that the connector has for it.
            if error.to_string() == "dns error" {
                return Self::Name;
            }
            at = error.source();
        }
        found
    }
}

impl Wire {
    /// Returns the name in usage records.
    pub(crate) fn vendor(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi | Self::Responses => "openai",
        }
    }

    pub(crate) fn call_path(self) -> &'static str {
        match self {
            Self::Anthropic => "/v1/messages",
            Self::OpenAi => "/v1/chat/completions",
            Self::Responses => "/v1/responses",
        }
    }

    pub(crate) fn not_configured(self) -> Failure {
        match self {
            Self::Anthropic => Failure::NotConfigured("Anthropic", "ANTHROPIC"),
            Self::OpenAi | Self::Responses => Failure::NotConfigured("OpenAI", "OPENAI"),
        }
    }

    fn of_path(path: &str) -> Option<(Self, &str)> {
        let anthropic = path
            .strip_prefix("/anthropic")
            .map(|rest| (Self::Anthropic, rest));
        anthropic.or_else(|| {
            let rest = path.strip_prefix("/openai")?;
            let wire = if rest == Self::Responses.call_path() {
                Self::Responses
            } else {
                Self::OpenAi
            };
            Some((wire, rest))
        })
    }
}

impl Route {
    pub(crate) fn of(method: &Method, path: &str) -> Self {
        let Some((wire, rest)) = Wire::of_path(path) else {
            return if path == "/healthz" {
                Self::Health
            } else {
                Self::NotFound(None)
            };
        };
        let (route, allowed) = if rest == wire.call_path() {
            (Self::Call(wire), Method::POST)
        } else if rest == "/v1/models" {
            (Self::Models(wire), Method::GET)
        } else if wire == Wire::Anthropic && rest == COUNT_PATH {
            (Self::Count(wire), Method::POST)
        } else {
            return Self::NotFound(Some(wire));
        };
        if *method == allowed {
            route
        } else {
            Self::WrongMethod(wire)
        }
    }
}

impl Failure {
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::WrongMethod => StatusCode::METHOD_NOT_ALLOWED,
            Self::BodyTooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BodyBroken => StatusCode::BAD_REQUEST,
            Self::Unreachable(..) | Self::Redirected(_) => StatusCode::BAD_GATEWAY,
            Self::Timeout(_) => StatusCode::GATEWAY_TIMEOUT,
            Self::Refused(refusal) if refusal.is_budget => StatusCode::PAYMENT_REQUIRED,
            Self::NotConfigured(..) | Self::Refused(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::NotFound => "GATEWAY_NO_SUCH_PATH",
            Self::WrongMethod => "GATEWAY_METHOD",
            Self::NotConfigured(..) => "MODEL_NOT_CONFIGURED",
            Self::BodyTooLarge(_) => "MODEL_BODY_TOO_LARGE",
            Self::BodyBroken => "MODEL_BODY_BROKEN",
            Self::Unreachable(..) => "MODEL_UNREACHABLE",
            Self::Timeout(_) => "MODEL_TIMEOUT",
            Self::Redirected(_) => "MODEL_REDIRECTED",
            Self::Refused(refusal) if refusal.is_budget => BUDGET_REASON,
            Self::Refused(_) => "MODEL_BUDGET_UNKNOWN",
        }
    }

    /// Writes the failure as the vendor would.
    pub(crate) fn response(&self, wire: Option<Wire>) -> Response<Body> {
        let message = format!("cocoonbox: {self}");
        let reason = self.reason();
        let body = match wire {
            Some(Wire::Anthropic) | None => {
                let kind = match self.status() {
                    StatusCode::NOT_FOUND => "not_found_error",
                    StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
                    StatusCode::PAYMENT_REQUIRED => "billing_error",
                    status if status.is_client_error() => "invalid_request_error",
                    _ => "api_error",
                };
                json!({ "type": "error", "error": { "type": kind, "message": message } })
            }
            Some(Wire::OpenAi | Wire::Responses) if reason == BUDGET_REASON => {
                let kind = "insufficient_quota";
                json!({ "error": { "message": message, "type": kind, "param": null, "code": kind } })
            }
            Some(Wire::OpenAi | Wire::Responses) => {
                let kind = if self.status().is_client_error() {
                    "invalid_request_error"
                } else {
                    "server_error"
                };
                let code = reason.to_ascii_lowercase();
                json!({ "error": { "message": message, "type": kind, "param": null, "code": code } })
            }
        };
        let body = Full::new(Bytes::from(body.to_string()));
        let mut response = Response::new(body.map_err(|never| match never {}).boxed_unsync());
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        headers.insert(
            HeaderName::from_static(REASON_HEADER),
            HeaderValue::from_static(reason),
        );
        if let Self::Refused(refusal) = self {
            headers.insert(header::RETRY_AFTER, refusal.retry_after_s.into());
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn these_paths_and_nothing_else() {
        let post = |path| Route::of(&Method::POST, path);
        let get = |path| Route::of(&Method::GET, path);
        assert_eq!(post("/anthropic/v1/messages"), Route::Call(Wire::Anthropic));
        assert_eq!(
            post("/openai/v1/chat/completions"),
            Route::Call(Wire::OpenAi)
        );
        assert_eq!(post("/openai/v1/responses"), Route::Call(Wire::Responses));
        assert_eq!(
            post("/anthropic/v1/messages/count_tokens"),
            Route::Count(Wire::Anthropic)
        );
        assert_eq!(get("/anthropic/v1/models"), Route::Models(Wire::Anthropic));
        assert_eq!(get("/openai/v1/models"), Route::Models(Wire::OpenAi));
        assert_eq!(get("/healthz"), Route::Health);
        assert_eq!(
            get("/anthropic/v1/messages"),
            Route::WrongMethod(Wire::Anthropic)
        );
        for path in [
            "/openai/v1/messages",
            "/openai/v1/messages/count_tokens",
            "/openai/v1/responses/resp_1",
            "/anthropic/v1/responses",
            "/anthropic/v1/messages/",
            "/anthropic/v1/messages/batches",
            "/anthropic//v1/messages",
            "/anthropic/../admin",
            "/anthropicx/v1/messages",
            "/openai/v1/files",
            "/v1/messages",
            "/",
        ] {
            assert!(matches!(post(path), Route::NotFound(_)), "{path}");
        }
    }
}
