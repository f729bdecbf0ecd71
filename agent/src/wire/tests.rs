//! Both parsers on what vendors send, and on what they might.

use std::time::Duration;

use cocoonbox_proto::log::v1::{
    StopReason, Wire, agent_model_failed::Reason, agent_output_streamed::Part, block,
};
use proptest::prelude::*;
use tokio::net::TcpListener;

use super::{Delta, Door, Failure, Parser, Reply, Request, sse};

const ANTHROPIC: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","usage":{"input_tokens":7,"cache_read_input_tokens":3,"output_tokens":1}}}

event: ping
data: {"type":"ping"}

data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm 🦋."}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}

data: {"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"xx"}}

data: {"type":"content_block_start","index":2,"content_block":{"type":"of_the_future","text":"?"}}

data: {"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"?"}}

data: {"type":"content_block_start","index":3,"content_block":{"type":"text","text":""}}

data: {"type":"content_block_delta","index":3,"delta":{"type":"text_delta","text":"Hi"}}

data: {"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"t1","name":"ls","input":{}}}

data: {"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":"{\"path\":"}}

data: {"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":"\"a\"}"}}

data: {"type":"content_block_start","index":5,"content_block":{"type":"tool_use","id":"t2","name":"ls","input":{}}}

data: {"type":"event_of_the_future"}

data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}

data: {"type":"message_stop"}

"#;

const OPENAI: &str = r#"data: {"id":"c1","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}

data: {"id":"c1","choices":[{"index":0,"delta":{"content":"Hi 🦋"}}]}

data: {"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t1","type":"function","function":{"name":"ls","arguments":""}}]}}]}

data: {"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"t2","type":"function","function":{"name":"ls","arguments":"{}"}},{"index":0,"function":{"arguments":"{\"path\":\"a\"}"}}]}}]}

data: {"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

data: {"id":"c1","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":3}}}

data: [DONE]

"#;

fn parse(wire: Wire, bytes: &[u8], cuts: &[usize]) -> Result<(Vec<Delta>, Option<Reply>), Failure> {
    let mut events = sse::Parser::default();
    let mut parser = Parser::new(wire, "call");
    let mut deltas = Vec::new();
    let mut from = 0;
    for cut in cuts.iter().copied().chain([bytes.len()]) {
        for event in events.take(&bytes[from..cut])? {
            deltas.extend(parser.take(&event)?);
        }
        from = cut;
    }
    let reply = parser.is_done().then(|| parser.finish());
    Ok((deltas, reply))
}

fn uses(reply: &Reply) -> Vec<(&str, &str)> {
    reply
        .blocks
        .iter()
        .filter_map(|block| match block.block.as_ref()? {
            block::Block::ToolUse(tool) => {
                Some((tool.tool_call_id.as_str(), tool.args_json.as_str()))
            }
            _ => None,
        })
        .collect()
}

#[test]
fn anthropic_blocks_are_kept_and_the_unknown_is_passed_over() {
    let (deltas, reply) =
        parse(Wire::AnthropicMessages, ANTHROPIC.as_bytes(), &[]).expect("parses");
    let reply = reply.expect("whole");
    assert_eq!(
        (reply.stop, reply.vendor_stop.as_str()),
        (StopReason::ToolUse, "tool_use")
    );
    assert_eq!(reply.vendor_request_id, "msg_1");
    let usage = reply.usage;
    assert_eq!((usage.input, usage.output, usage.cache_read), (7, 9, 3));
    assert_eq!(uses(&reply), [("t1", "{\"path\":\"a\"}"), ("t2", "{}")]);
    let Some(block::Block::Thinking(thinking)) = &reply.blocks[0].block else {
        panic!("thinks")
    };
    assert_eq!(
        (thinking.text.as_str(), thinking.signature.as_str()),
        ("Hm 🦋.", "c2ln")
    );
    let Some(block::Block::Thinking(hidden)) = &reply.blocks[1].block else {
        panic!("thinks")
    };
    assert_eq!(hidden.redacted, "xx");
    assert_eq!(reply.blocks.len(), 5);
    let parts: Vec<_> = deltas
        .iter()
        .map(|delta| (delta.block, delta.part))
        .collect();
    let expected = [
        (0, Part::Thinking),
        (3, Part::Text),
        (4, Part::ToolArgs),
        (4, Part::ToolArgs),
    ];
    assert_eq!(parts, expected);
}

#[test]
fn openai_tool_calls_are_put_together_by_index() {
    let (_, reply) = parse(Wire::OpenaiChat, OPENAI.as_bytes(), &[]).expect("parses");
    let reply = reply.expect("whole");
    assert_eq!(reply.stop, StopReason::ToolUse);
    assert_eq!(uses(&reply), [("t1", "{\"path\":\"a\"}"), ("t2", "{}")]);
    let usage = reply.usage;
    assert_eq!((usage.input, usage.output, usage.cache_read), (7, 9, 3));
}

#[test]
fn openai_without_a_finish_reason_is_cut() {
    let failure = parse(Wire::OpenaiChat, b"data: [DONE]\n\n", &[]).expect_err("cut");
    assert_eq!(failure.reason, Reason::Cut);
}

#[test]
fn errors_in_the_stream_are_errors() {
    let text = b"data: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n";
    let failure = parse(Wire::AnthropicMessages, text, &[]).expect_err("an error");
    assert_eq!(
        (failure.reason, failure.retryable),
        (Reason::Overloaded, true)
    );
    let text = b"data: {\"error\":{\"type\":\"invalid_request_error\",\"message\":\"no\"}}\n\n";
    let failure = parse(Wire::OpenaiChat, text, &[]).expect_err("an error");
    assert_eq!(
        (failure.reason, failure.retryable),
        (Reason::Rejected, false)
    );
    for wire in [Wire::AnthropicMessages, Wire::OpenaiChat] {
        let failure = parse(wire, b"data: <html>\n\n", &[]).expect_err("garbage");
        assert_eq!(failure.reason, Reason::Garbled);
    }
}

proptest! {
    #[test]
    fn any_split_is_the_same_reply(cuts in proptest::collection::vec(0_usize..1_900, 0..20)) {
        for (wire, text) in [(Wire::AnthropicMessages, ANTHROPIC), (Wire::OpenaiChat, OPENAI)] {
            let mut cuts: Vec<_> =
                cuts.iter().copied().filter(|cut| *cut < text.len()).collect();
            cuts.sort_unstable();
            let whole = parse(wire, text.as_bytes(), &[]).expect("parses");
            prop_assert_eq!(parse(wire, text.as_bytes(), &cuts).expect("parses"), whole);
        }
    }

    #[test]
    fn no_event_makes_a_parser_panic(data in r#"(\{("type"|"index"|"delta"|"choices"|"error"|"usage"):(1|-1|"text"|null|\[\]|\[\{\}\]|\{\}),?\}|.{0,20})"#) {
        let text = format!("data: {data}\n\n");
        for wire in [Wire::AnthropicMessages, Wire::OpenaiChat] {
            parse(wire, text.as_bytes(), &[]).ok();
        }
    }
}

#[tokio::test]
async fn a_silent_vendor_is_stalled_and_an_absent_one_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let silent = Door {
        address,
        silence_max: Duration::from_millis(50),
    };
    let model = cocoonbox_proto::log::v1::ModelChoice::default();
    let request = Request {
        model: &model,
        system: "s",
        conversation: &[],
        tools: &[],
    };
    let failure = silent.call("c", &request).await.err().expect("a failure");
    assert_eq!(failure.reason, Reason::Stalled);
    drop(listener);
    let failure = silent.call("c", &request).await.err().expect("a failure");
    assert_eq!(
        (failure.reason, failure.retryable),
        (Reason::Unreachable, true)
    );
}
