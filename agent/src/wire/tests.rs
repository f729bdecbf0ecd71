//! The wires on what vendors send, and on what they might.

mod calls;
mod oddities;
mod requests;
mod streams;

use cocoonbox_proto::log::v1::{Wire, block};

use super::{Delta, Failure, Reply, parser, sse};

/// A stream of each wire in the shape that its vendor sends, and the wire.
const RECORDED: [(Wire, &str); 3] = [
    (
        Wire::AnthropicMessages,
        include_str!("tests/recorded/anthropic.sse"),
    ),
    (Wire::OpenaiChat, include_str!("tests/recorded/openai.sse")),
    (
        Wire::OpenaiResponses,
        include_str!("tests/recorded/responses.sse"),
    ),
];

/// Parses bytes that come in pieces; no reply if the stream ends before its end.
fn parse(wire: Wire, bytes: &[u8], cuts: &[usize]) -> Result<(Vec<Delta>, Option<Reply>), Failure> {
    let mut events = sse::Parser::default();
    let mut parser = parser(wire, "call");
    let mut deltas = Vec::new();
    let mut from = 0;
    for cut in cuts.iter().copied().chain([bytes.len()]) {
        for event in events.take(&bytes[from..cut])? {
            deltas.extend(parser.take(&event)?);
            if parser.is_done() {
                return Ok((deltas, Some(parser.finish())));
            }
        }
        from = cut;
    }
    let reply = parser.may_end().then(|| parser.finish());
    Ok((deltas, reply))
}

fn reply(wire: Wire, text: &str) -> Reply {
    let (_, reply) = parse(wire, text.as_bytes(), &[]).expect("parses");
    reply.expect("whole")
}

/// Makes a stream of the data of events.
fn events(data: &[&str]) -> String {
    let event = |data: &&str| format!("data: {data}\n\n");
    data.iter().map(event).collect()
}

/// Says in short what is in a reply.
fn told(reply: &Reply) -> Vec<String> {
    let blocks = reply
        .blocks
        .iter()
        .filter_map(|block| block.block.as_ref())
        .map(|block| match block {
            block::Block::Text(text) => format!("text {}", text.text),
            block::Block::Thinking(thinking) => format!(
                "thinking {}|{}|{}|{}",
                thinking.text, thinking.signature, thinking.redacted, thinking.vendor_id
            ),
            block::Block::ToolUse(tool) => {
                format!("{} {} {}", tool.name, tool.tool_call_id, tool.args_json)
            }
            block::Block::Vendor(vendor) => format!("vendor {}", vendor.json),
        });
    blocks.collect()
}
