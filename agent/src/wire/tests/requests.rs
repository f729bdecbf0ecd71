//! What a conversation looks like on each wire.

use std::sync::Arc;

use cocoonbox_commands::agent::{Entry, ToolResult};
use cocoonbox_proto::log::v1::{
    Block, Image, ModelChoice, TextBlock, ThinkingBlock, ToolUseBlock, VendorBlock, Wire,
    agent_tool_finished::Outcome, block,
};
use serde_json::{Value, json};

use crate::wire::{ImageBytes, Request, ToolSpec, images_shown};

fn model(wire: Wire) -> ModelChoice {
    ModelChoice {
        wire: wire.into(),
        model: "m".into(),
        output_tokens_max: 16_000,
        images: true,
        ..ModelChoice::default()
    }
}

fn body(model: &ModelChoice, conversation: &[Entry]) -> Value {
    let conversation: Vec<_> = conversation.iter().cloned().map(Arc::new).collect();
    let images = images_shown(model, &conversation);
    let images: ImageBytes = images
        .into_iter()
        .map(|image| (image.blob.clone(), "abc".into()))
        .collect();
    let tools = [ToolSpec {
        name: "ls".into(),
        description: "Lists.".into(),
        parameters: json!({ "type": "object" }),
    }];
    let request = Request {
        model,
        system: "sys",
        conversation: &conversation,
        tools: &tools,
        images: &images,
    };
    request.body()
}

fn image(blob: &str) -> Image {
    Image {
        blob: blob.into(),
        media_type: "image/png".into(),
        width_px: 800,
        height_px: 600,
        size_bytes: 3,
    }
}

fn user(text: &str, images: &[Image]) -> Entry {
    Entry::User {
        text: text.into(),
        images: images.to_vec(),
    }
}

fn assistant(blocks: impl IntoIterator<Item = block::Block>) -> Entry {
    let block = |block| Block { block: Some(block) };
    Entry::Assistant {
        blocks: blocks.into_iter().map(block).collect(),
    }
}

fn text(text: &str) -> block::Block {
    block::Block::Text(TextBlock { text: text.into() })
}

fn thinking(text: &str, signature: &str, vendor_id: &str) -> block::Block {
    block::Block::Thinking(ThinkingBlock {
        text: text.into(),
        signature: signature.into(),
        redacted: String::new(),
        vendor_id: vendor_id.into(),
    })
}

fn vendor(wire: Wire, json: &str) -> block::Block {
    block::Block::Vendor(VendorBlock {
        wire: wire.into(),
        json: json.into(),
    })
}

fn call(id: &str, args: &str) -> block::Block {
    block::Block::ToolUse(ToolUseBlock {
        tool_call_id: id.into(),
        name: "ls".into(),
        args_json: args.into(),
        ..ToolUseBlock::default()
    })
}

fn results(results: &[(&str, Outcome, &str, &[Image])]) -> Entry {
    let result = |(id, outcome, content, images): &(&str, Outcome, &str, &[Image])| ToolResult {
        tool_call_id: (*id).into(),
        outcome: *outcome,
        content: (*content).into(),
        images: images.to_vec(),
    };
    Entry::ToolResults(results.iter().map(result).collect())
}

/// A conversation that was had with a model of each wire.
fn mixed() -> Vec<Entry> {
    vec![
        user("look", &[image("a")]),
        assistant([
            thinking("old", "", "reasoning_content"),
            text("Hm."),
            call("t0", "{}"),
        ]),
        results(&[("t0", Outcome::Ok, "", &[])]),
        user("again", &[]),
        assistant([
            thinking("hm", "sig", ""),
            thinking("sealed", "seal", "rs_1"),
            thinking("open", "", "reasoning_content"),
            vendor(
                Wire::AnthropicMessages,
                r#"{"type":"server_tool_use","id":"s"}"#,
            ),
            vendor(
                Wire::OpenaiResponses,
                r#"{"type":"web_search_call","id":"w"}"#,
            ),
            vendor(Wire::AnthropicMessages, "{}"),
            call("functions.ls:1", r#"{"path":"#),
        ]),
        results(&[("functions.ls:1", Outcome::Error, "no", &[image("b")])]),
    ]
}

const PNG: &str = "data:image/png;base64,YWJj";

#[test]
fn anthropic_takes_pictures_where_they_are_and_its_own_blocks() {
    let body = body(&model(Wire::AnthropicMessages), &mixed());
    let mark = json!({ "type": "ephemeral" });
    let source = json!({ "type": "base64", "media_type": "image/png", "data": "YWJj" });
    let last_id = body["messages"][3]["content"][2]["id"].clone();
    assert!(last_id.as_str().expect("an id").starts_with("call_"));
    let expected = json!([
        { "role": "user", "content": [
            { "type": "image", "source": source },
            { "type": "text", "text": "look" },
        ] },
        { "role": "assistant", "content": [
            { "type": "text", "text": "Hm." },
            { "type": "tool_use", "id": "t0", "name": "ls", "input": {} },
        ] },
        { "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": "t0", "is_error": false,
              "content": [{ "type": "text", "text": "[no output]" }] },
            { "type": "text", "text": "again", "cache_control": mark },
        ] },
        { "role": "assistant", "content": [
            { "type": "thinking", "thinking": "hm", "signature": "sig" },
            { "type": "server_tool_use", "id": "s" },
            { "type": "tool_use", "id": last_id, "name": "ls",
              "input": { "malformed_arguments": r#"{"path":"# } },
        ] },
        { "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": last_id, "is_error": true, "cache_control": mark,
              "content": [{ "type": "text", "text": "no" }, { "type": "image", "source": source }] },
        ] },
    ]);
    assert_eq!(body["messages"], expected);
    assert_eq!(body["tools"][0]["cache_control"], mark);
    assert_eq!(body["system"][0]["cache_control"], mark);
}

#[test]
fn cache_marks_are_where_the_call_before_has_put_them() {
    let model = model(Wire::AnthropicMessages);
    let marked = |conversation: &[Entry]| {
        let body = body(&model, conversation);
        let messages = body["messages"].as_array().expect("messages").clone();
        let marks = messages.iter().enumerate().filter_map(|(at, message)| {
            let content = message["content"].as_array().expect("blocks");
            let marks = content.iter().filter(|b| b.get("cache_control").is_some());
            (marks.count() > 0).then_some(at)
        });
        marks.collect::<Vec<_>>()
    };
    let mut conversation = vec![user("a", &[])];
    assert_eq!(marked(&conversation), [0]);
    for step in 1..4 {
        let id = format!("t{step}");
        conversation.push(assistant([call(&id, "{}")]));
        conversation.push(results(&[(&id, Outcome::Ok, "r", &[])]));
        assert_eq!(marked(&conversation), [2 * step - 2, 2 * step]);
    }
    // A reply that goes on after a pause stands last, and has no mark.
    conversation.push(assistant([text("and")]));
    assert_eq!(marked(&conversation), [4, 6]);
}

#[test]
fn openai_chat_is_shown_pictures_of_tools_by_a_user() {
    let body = body(&model(Wire::OpenaiChat), &mixed());
    let picture = json!({ "type": "image_url", "image_url": { "url": PNG } });
    let expected = json!([
        { "role": "system", "content": "sys" },
        { "role": "user", "content": [{ "type": "text", "text": "look" }, picture] },
        { "role": "assistant", "content": "Hm.", "tool_calls": [
            { "id": "t0", "type": "function", "function": { "name": "ls", "arguments": "{}" } },
        ] },
        { "role": "tool", "tool_call_id": "t0", "content": "[no output]" },
        { "role": "user", "content": "again" },
        { "role": "assistant", "content": null, "reasoning_content": "open", "tool_calls": [
            { "id": "functions.ls:1", "type": "function", "function": { "name": "ls",
              "arguments": r#"{"malformed_arguments":"{\"path\":"}"# } },
        ] },
        { "role": "tool", "tool_call_id": "functions.ls:1", "content": "[error] no" },
        { "role": "user", "content": [
            { "type": "text", "text": "[from the result of the tool call `functions.ls:1`:]" },
            picture,
        ] },
    ]);
    assert_eq!(body["messages"], expected);
    assert_eq!(body["stream_options"], json!({ "include_usage": true }));
}

#[test]
fn openai_responses_is_given_back_its_own_items() {
    let body = body(&model(Wire::OpenaiResponses), &mixed());
    let picture = json!({ "type": "input_image", "image_url": PNG, "detail": "auto" });
    let expected = json!([
        { "type": "message", "role": "user",
          "content": [{ "type": "input_text", "text": "look" }, picture] },
        { "type": "message", "role": "assistant",
          "content": [{ "type": "output_text", "text": "Hm." }] },
        { "type": "function_call", "call_id": "t0", "name": "ls", "arguments": "{}" },
        { "type": "function_call_output", "call_id": "t0", "output": "[no output]" },
        { "type": "message", "role": "user",
          "content": [{ "type": "input_text", "text": "again" }] },
        { "type": "reasoning", "id": "rs_1", "encrypted_content": "seal",
          "summary": [{ "type": "summary_text", "text": "sealed" }] },
        { "type": "web_search_call", "id": "w" },
        { "type": "function_call", "call_id": "functions.ls:1", "name": "ls",
          "arguments": r#"{"malformed_arguments":"{\"path\":"}"# },
        { "type": "function_call_output", "call_id": "functions.ls:1", "output": "[error] no" },
        { "type": "message", "role": "user", "content": [
            { "type": "input_text", "text": "[from the result of the tool call `functions.ls:1`:]" },
            picture,
        ] },
    ]);
    assert_eq!(body["input"], expected);
    assert_eq!(body["store"], json!(false));
    assert_eq!(body["include"], json!(["reasoning.encrypted_content"]));
    assert_eq!(body["instructions"], "sys");
    assert_eq!(body["tools"][0]["name"], "ls");
}

#[test]
fn thinking_that_led_to_nothing_is_not_given_back() {
    let conversation = [
        user("a", &[]),
        assistant([text("b"), thinking("c", "seal", "rs_1")]),
        user("d", &[]),
    ];
    let body = body(&model(Wire::OpenaiResponses), &conversation);
    assert!(!body["input"].to_string().contains("rs_1"));
}

#[test]
fn models_that_do_not_think_are_not_asked_for_it() {
    let named = |name: &str, tokens| {
        let model = ModelChoice {
            model: name.into(),
            thinking_tokens_max: tokens,
            ..model(Wire::OpenaiResponses)
        };
        let body = body(&model, &[user("a", &[])]);
        (
            body.get("include").is_some(),
            body["reasoning"]["effort"].clone(),
        )
    };
    assert_eq!(named("gpt-4.1", 0), (false, Value::Null));
    assert_eq!(named("gpt-5.1", 0), (true, Value::Null));
    assert_eq!(named("gpt-5.1", 2_000), (true, json!("low")));
    assert_eq!(named("gpt-5.1", 8_000), (true, json!("medium")));
    assert_eq!(named("gpt-5.1", 32_000), (true, json!("high")));
}

#[test]
fn text_models_are_told_of_pictures_on_every_wire() {
    for wire in [
        Wire::AnthropicMessages,
        Wire::OpenaiChat,
        Wire::OpenaiResponses,
    ] {
        let model = ModelChoice {
            images: false,
            ..model(wire)
        };
        let body = body(&model, &mixed()).to_string();
        let note = "[image 800x600 png, not shown: this model reads text only]";
        assert_eq!(body.matches(note).count(), 2, "{wire:?}");
        assert!(!body.contains("YWJj"));
    }
    let model = ModelChoice {
        images: false,
        ..model(Wire::OpenaiChat)
    };
    let body = body(&model, &mixed());
    assert!(
        body["messages"][1]["content"].is_string(),
        "plain for plain servers"
    );
}

#[test]
fn anthropic_thinks_within_its_budget_and_where_it_may() {
    let thinking_model = |thinking_tokens_max, output_tokens_max| ModelChoice {
        thinking_tokens_max,
        output_tokens_max,
        ..model(Wire::AnthropicMessages)
    };
    let budget = |model: &ModelChoice, conversation: &[Entry]| {
        body(model, conversation)["thinking"]["budget_tokens"].as_u64()
    };
    let prompt = [user("a", &[])];
    assert_eq!(budget(&thinking_model(4_000, 16_000), &prompt), Some(4_000));
    assert_eq!(
        budget(&thinking_model(40_000, 16_000), &prompt),
        Some(14_976)
    );
    assert_eq!(budget(&thinking_model(4_000, 2_000), &prompt), None);
    assert_eq!(budget(&thinking_model(0, 16_000), &prompt), None);
    let run = |first: block::Block| {
        vec![
            user("a", &[]),
            assistant([first, call("t", "{}")]),
            results(&[("t", Outcome::Ok, "r", &[])]),
        ]
    };
    let thinks = thinking_model(4_000, 16_000);
    assert_eq!(budget(&thinks, &run(thinking("t", "sig", ""))), Some(4_000));
    // Begun by another vendor's model: this one may not think until the next prompt.
    let mut conversation = run(text("Hm."));
    assert_eq!(budget(&thinks, &conversation), None);
    conversation.extend([assistant([text("done")]), user("b", &[])]);
    assert_eq!(budget(&thinks, &conversation), Some(4_000));
    // A pause within a reply, with a model that does not think.
    let paused = [
        user("a", &[]),
        assistant([thinking("t", "sig", ""), text("wait \n")]),
    ];
    let body = body(&thinking_model(0, 16_000), &paused);
    let expected = json!([{ "type": "text", "text": "wait" }]);
    assert_eq!(body["messages"][1]["content"], expected);
}
