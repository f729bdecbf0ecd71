//! The wires behind one face.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use crate::conversation::Conversation;
use crate::fault::{Failure, Fault, Strike};
use crate::playback::{FaultFrames, Frame};
use crate::reply::Reply;
use crate::{anthropic, openai, responses};

/// A vendor's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    Anthropic,
    /// Chat completions.
    OpenAi,
    Responses,
}

impl Wire {
    /// Returns the wire that a request to a shared path belongs to.
    pub(crate) fn of_headers(headers: &HeaderMap) -> Self {
        let is_anthropic =
            headers.contains_key("anthropic-version") || headers.contains_key("x-api-key");
        if is_anthropic {
            Self::Anthropic
        } else {
            Self::OpenAi
        }
    }

    /// Checks what the vendor asks of the headers.
    pub(crate) fn admit(self, headers: &HeaderMap, api_key: Option<&str>) -> Result<(), Failure> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let bearer = || text("authorization").and_then(|value| value.strip_prefix("Bearer "));
        let given = match self {
            Self::Anthropic => text("x-api-key").or_else(bearer),
            Self::OpenAi | Self::Responses => bearer(),
        };
        if api_key.is_some_and(|key| given != Some(key)) {
            return Err(Failure::of_status(401));
        }
        if self == Self::Anthropic && text("anthropic-version").is_none() {
            return Err(Failure::invalid("anthropic-version: header is required"));
        }
        Ok(())
    }

    pub(crate) fn read(self, body: Value) -> Result<Conversation, Failure> {
        match self {
            Self::Anthropic => anthropic::read(body),
            Self::OpenAi => openai::read(body),
            Self::Responses => responses::read(body),
        }
    }

    pub(crate) fn frames(self, reply: &Reply, conversation: &Conversation) -> Vec<Frame> {
        match self {
            Self::Anthropic => anthropic::frames(reply),
            Self::OpenAi => openai::frames(reply, conversation),
            Self::Responses => responses::frames(reply, conversation),
        }
    }

    pub(crate) fn whole(self, reply: &Reply, conversation: &Conversation) -> Value {
        match self {
            Self::Anthropic => anthropic::whole(reply),
            Self::OpenAi => openai::whole(reply),
            Self::Responses => responses::whole(reply, conversation),
        }
    }

    pub(crate) fn error(self, failure: &Failure, request_id: &str) -> Value {
        match self {
            Self::Anthropic => anthropic::error(failure, request_id),
            Self::OpenAi | Self::Responses => openai::error(failure),
        }
    }

    /// Returns what a fault looks like in the middle of a stream.
    pub(crate) fn fault_frames(self, strike: &Strike, request_id: &str) -> FaultFrames {
        let overloaded = Failure::of_status(529);
        let failure = match &strike.fault {
            Fault::Report(failure) => failure,
            Fault::Refuse(_)
            | Fault::Cut { .. }
            | Fault::Garbage
            | Fault::Stall { .. }
            | Fault::Repeat => &overloaded,
        };
        match self {
            Self::Anthropic => FaultFrames {
                report: anthropic::error_event(failure, request_id),
                garbage: anthropic::garbage(),
                ping: anthropic::ping(),
            },
            Self::OpenAi => FaultFrames {
                report: openai::error_event(failure),
                garbage: openai::garbage(),
                ping: openai::ping(),
            },
            Self::Responses => FaultFrames {
                report: responses::error_event(failure),
                garbage: responses::garbage(),
                ping: openai::ping(),
            },
        }
    }

    pub(crate) fn models(self, names: &[String]) -> Value {
        match self {
            Self::Anthropic => anthropic::models(names),
            Self::OpenAi | Self::Responses => openai::models(names),
        }
    }

    /// Returns the headers that the vendor puts on every answer.
    pub(crate) fn headers(self, request_id: &str) -> Vec<(HeaderName, HeaderValue)> {
        let id = HeaderValue::from_str(request_id)
            .unwrap_or_else(|_| HeaderValue::from_static("req_unprintable"));
        match self {
            Self::Anthropic => vec![
                (HeaderName::from_static("request-id"), id),
                (
                    HeaderName::from_static("anthropic-organization-id"),
                    HeaderValue::from_static("00000000-0000-4000-8000-000000000000"),
                ),
            ],
            Self::OpenAi | Self::Responses => vec![
                (HeaderName::from_static("x-request-id"), id),
                (
                    HeaderName::from_static("openai-organization"),
                    HeaderValue::from_static("scripted"),
                ),
                (
                    HeaderName::from_static("openai-version"),
                    HeaderValue::from_static("2020-10-01"),
                ),
                (
                    HeaderName::from_static("openai-processing-ms"),
                    HeaderValue::from_static("1"),
                ),
            ],
        }
    }

    /// Returns the status that this vendor gives an overload.
    pub(crate) fn overload_status(self) -> u16 {
        match self {
            Self::Anthropic => 529,
            Self::OpenAi | Self::Responses => 503,
        }
    }
}
