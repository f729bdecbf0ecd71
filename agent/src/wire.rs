//! The models' own wires: what is asked of a vendor, and what its stream says.
//!
//! Nothing here knows the log or the loop. A [`Call`] is made through the door, which adds the key.

mod answer;
mod anthropic;
mod assemble;
mod failure;
mod http;
mod image;
mod json;
mod openai;
mod request;
mod responses;
mod sse;
#[cfg(test)]
mod tests;
mod told;

pub(crate) use assemble::{Delta, Reply};
pub(crate) use failure::Failure;
pub(crate) use http::{Call, Caller, Door, Heard};
pub(crate) use image::{ImageBytes, images_shown};
pub(crate) use request::{Request, ToolSpec};

pub use cocoonbox_proto::log::v1::Wire;

use serde_json::Value;

/// Reads one vendor's reply.
trait Parser: Send {
    /// Takes one event of the stream in and returns what it added.
    fn take(&mut self, event: &sse::Event) -> Result<Vec<Delta>, Failure>;

    /// Takes a whole reply in, from a server that did not stream though it was asked to.
    fn take_whole(&mut self, reply: &Value) -> Result<Vec<Delta>, Failure>;

    /// Whether the reply is whole: its vendor said so, or it has become too long to go on.
    fn is_done(&self) -> bool;

    /// Whether nothing that matters is missing if the stream ends here, though its vendor has yet to say
    /// that this was all.
    fn may_end(&self) -> bool;

    fn finish(self: Box<Self>) -> Reply;
}

fn parser(wire: Wire, call_id: &str) -> Box<dyn Parser> {
    match wire {
        Wire::OpenaiChat => Box::new(openai::Parser::new(call_id)),
        Wire::OpenaiResponses => Box::new(responses::Parser::new(call_id)),
        Wire::AnthropicMessages | Wire::Unspecified => Box::new(anthropic::Parser::default()),
    }
}

/// Reads a stream that comes in pieces, for the fuzzer: says what came of it, in words.
pub fn read_stream(wire: Wire, pieces: &[&[u8]]) -> String {
    let mut events = sse::Parser::default();
    let mut parser = parser(wire, "call");
    for piece in pieces {
        let events = match events.take(piece) {
            Ok(events) => events,
            Err(failure) => return format!("{failure:?}"),
        };
        for event in events {
            if let Err(failure) = parser.take(&event) {
                return format!("{failure:?}");
            }
            if parser.is_done() {
                return format!("{:?}", parser.finish());
            }
        }
    }
    let may_end = parser.may_end();
    format!("{:?}", may_end.then(|| parser.finish()))
}
