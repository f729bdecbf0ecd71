//! The models' own wires: what is asked of a vendor, and what its stream says.
//!
//! Nothing here knows the log or the loop. A [`Call`] is made through the door, which adds the key.

mod anthropic;
mod assemble;
mod failure;
mod http;
mod openai;
mod request;
mod sse;
#[cfg(test)]
mod tests;

pub(crate) use assemble::{Delta, Reply};
pub(crate) use failure::Failure;
pub(crate) use http::{Call, Door, Heard};
pub(crate) use request::{Request, ToolSpec};

use cocoonbox_proto::log::v1::Wire;
use serde_json::Value;

/// Reads one vendor's stream.
enum Parser {
    Anthropic(anthropic::Parser),
    OpenAi(openai::Parser),
}

impl Parser {
    fn new(wire: Wire, call_id: &str) -> Self {
        match wire {
            Wire::OpenaiChat => Self::OpenAi(openai::Parser::new(call_id)),
            Wire::AnthropicMessages | Wire::Unspecified => {
                Self::Anthropic(anthropic::Parser::default())
            }
        }
    }

    /// Takes one event in and returns what it added.
    fn take(&mut self, event: &sse::Event) -> Result<Vec<Delta>, Failure> {
        match self {
            Self::Anthropic(parser) => parser.take(event),
            Self::OpenAi(parser) => parser.take(event),
        }
    }

    /// Whether the reply is whole: its vendor said so, or it has become too long to go on.
    fn is_done(&self) -> bool {
        match self {
            Self::Anthropic(parser) => parser.is_done(),
            Self::OpenAi(parser) => parser.is_done(),
        }
    }

    fn finish(self) -> Reply {
        match self {
            Self::Anthropic(parser) => parser.finish(),
            Self::OpenAi(parser) => parser.finish(),
        }
    }
}

/// Parses the data of an event. Vendors add fields and kinds at will; JSON it has to be.
fn json(data: &str) -> Result<Value, Failure> {
    serde_json::from_str(data).map_err(|error| Failure::garbled(format!("not JSON: {error}")))
}
