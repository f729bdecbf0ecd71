//! The two vendors' wires, as far as the gateway must know them.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use serde_json::json;

use crate::door::{Body, REASON_HEADER};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    Anthropic,
    OpenAi,
}

/// What a path asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Health,
    /// A model call: metered.
    Call(Wire),
    /// The list of models: passed on, not metered.
    Models(Wire),
    NotFound(Option<Wire>),
    WrongMethod(Wire),
}

/// The gateway's own answers, in the shape that the caller's library understands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    #[error(
        "no such path: only `/v1/messages`, `/v1/chat/completions` and `/v1/models` are served"
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
    #[error("the model vendor cannot be reached from cocoonbox-api")]
    Unreachable,
    #[error("the model vendor did not answer in time")]
    Timeout,
    #[error("the model vendor answered with a redirect, which is not followed: check the base URL")]
    Redirected,
}

impl Wire {
    /// Returns the name in usage records.
    pub(crate) fn vendor(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
        }
    }

    pub(crate) fn call_path(self) -> &'static str {
        match self {
            Self::Anthropic => "/v1/messages",
            Self::OpenAi => "/v1/chat/completions",
        }
    }

    pub(crate) fn not_configured(self) -> Failure {
        match self {
            Self::Anthropic => Failure::NotConfigured("Anthropic", "ANTHROPIC"),
            Self::OpenAi => Failure::NotConfigured("OpenAI", "OPENAI"),
        }
    }

    fn of_path(path: &str) -> Option<(Self, &str)> {
        let anthropic = path
            .strip_prefix("/anthropic")
            .map(|rest| (Self::Anthropic, rest));
        anthropic.or_else(|| {
            path.strip_prefix("/openai")
                .map(|rest| (Self::OpenAi, rest))
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
            Self::NotConfigured(..) => StatusCode::SERVICE_UNAVAILABLE,
            Self::BodyTooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BodyBroken => StatusCode::BAD_REQUEST,
            Self::Unreachable | Self::Redirected => StatusCode::BAD_GATEWAY,
            Self::Timeout => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::NotFound => "GATEWAY_NO_SUCH_PATH",
            Self::WrongMethod => "GATEWAY_METHOD",
            Self::NotConfigured(..) => "MODEL_NOT_CONFIGURED",
            Self::BodyTooLarge(_) => "MODEL_BODY_TOO_LARGE",
            Self::BodyBroken => "MODEL_BODY_BROKEN",
            Self::Unreachable => "MODEL_UNREACHABLE",
            Self::Timeout => "MODEL_TIMEOUT",
            Self::Redirected => "MODEL_REDIRECTED",
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
                    status if status.is_client_error() => "invalid_request_error",
                    _ => "api_error",
                };
                json!({ "type": "error", "error": { "type": kind, "message": message } })
            }
            Some(Wire::OpenAi) => {
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
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_paths_and_nothing_else() {
        let post = |path| Route::of(&Method::POST, path);
        let get = |path| Route::of(&Method::GET, path);
        assert_eq!(post("/anthropic/v1/messages"), Route::Call(Wire::Anthropic));
        assert_eq!(
            post("/openai/v1/chat/completions"),
            Route::Call(Wire::OpenAi)
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
