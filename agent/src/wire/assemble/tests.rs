use serde_json::json;

use super::*;

#[test]
fn a_long_reply_is_cut_at_a_character_and_says_so() {
    let mut assembly = Assembly::default();
    assembly.open_text(0);
    let piece = "🦋".repeat(1_000);
    while !assembly.is_full() {
        assembly.add(0, Part::Text, &piece);
    }
    assert_eq!(assembly.add(0, Part::Text, "more"), None);
    let reply = assembly.finish();
    assert_eq!(reply.stop, StopReason::MaxTokens);
    let Some(block::Block::Text(text)) = &reply.blocks[0].block else {
        panic!("no text")
    };
    assert!(text.text.ends_with(CUT_NOTE));
    assert!(text.text.len() <= REPLY_BYTES_MAX);
}

#[test]
fn arguments_that_are_too_long_stay_the_last_block() {
    let mut assembly = Assembly::default();
    assembly.open_tool(0, "a".into(), "write".into());
    assembly.add(0, Part::ToolArgs, &"x".repeat(REPLY_BYTES_MAX));
    let reply = assembly.finish();
    assert_eq!(reply.blocks.len(), 1);
    assert_eq!(reply.stop, StopReason::MaxTokens);
}

#[test]
fn a_block_of_the_vendor_is_whole_or_absent() {
    let mut assembly = Assembly::default();
    let wire = Wire::AnthropicMessages;
    assembly.open_vendor(0, wire, json!({ "type": "server_tool_use" }));
    assembly.add_to_vendor_input(0, "{\"query\":");
    assembly.add_to_vendor_input(0, "\"x\"}");
    assembly.open_vendor(1, wire, json!({ "type": "of_the_future", "text": "" }));
    assembly.change_vendor(1, REPLY_BYTES_MAX, |block| block["text"] = json!("long"));
    let reply = assembly.finish();
    let vendor = |block: &Block| match &block.block {
        Some(block::Block::Vendor(vendor)) => vendor.json.clone(),
        other => panic!("{other:?}"),
    };
    let whole = r#"{"type":"server_tool_use","input":{"query":"x"}}"#;
    assert_eq!(vendor(&reply.blocks[0]), whole);
    assert_eq!(reply.blocks.len(), 2, "the note stands for the other");
    assert_eq!(reply.stop, StopReason::MaxTokens);
}

#[test]
fn what_is_said_again_at_the_end_is_not_added_again() {
    let mut assembly = Assembly::default();
    assembly.open_tool(0, "a".into(), "ls".into());
    assembly.add(0, Part::ToolArgs, "{\"path\":");
    assembly.add(0, Part::ToolArgs, "\"a\"}");
    assert_eq!(assembly.add(0, Part::ToolArgs, "{\"path\":\"a\"}"), None);
    assert_eq!(
        assembly.complete(0, Part::ToolArgs, "{\"path\":\"a\"}"),
        None
    );
    assembly.open_text(1);
    assembly.add(1, Part::Text, "ab");
    let rest = assembly.complete(1, Part::Text, "abc").expect("a rest");
    assert_eq!(rest.text, "c");
    assert_eq!(assembly.complete(1, Part::Text, "xyz"), None);
    let reply = assembly.finish();
    let Some(block::Block::ToolUse(tool)) = &reply.blocks[0].block else {
        panic!("no tool")
    };
    assert_eq!(tool.args_json, "{\"path\":\"a\"}");
    let Some(block::Block::Text(text)) = &reply.blocks[1].block else {
        panic!("no text")
    };
    assert_eq!(text.text, "xyz");
}
