//! What a script says arrives the same over every wire.

use cocoonbox_model::{Script, Server, Step, Tool};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::agent::{Agent, Wire};
use crate::client::{chat, messages, responses};

const TOOLS: [&str; 2] = ["one", "two"];

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,40}|[\"\\\\\n\u{1f980}]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("\\PC{0,6}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn arguments() -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::btree_map("[a-z_]{1,8}", value(), 0..4)
        .prop_map(|map| map.into_iter().collect())
}

fn tool() -> impl Strategy<Value = Tool> {
    let args = prop_oneof![
        arguments().prop_map(|args| (Some(args), None)),
        "\\PC{0,60}".prop_map(|raw| (None, Some(raw))),
    ];
    (prop::sample::select(&TOOLS[..]), args).prop_map(|(name, (args, raw_args))| Tool {
        name: name.to_owned(),
        args,
        raw_args,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let text = prop::option::of("\\PC{1,60}");
    (text, prop::collection::vec(tool(), 0..4), 1_usize..9).prop_map(|(text, tools, length)| Step {
        text,
        tools,
        chunk_chars: length.try_into().ok(),
        ..Step::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn text_and_arguments_arrive_the_same(step in step()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let server = Server::start_local(Script::of_steps(vec![step.clone()]).unwrap()).await.unwrap();
            for wire in [Wire::Anthropic, Wire::OpenAi, Wire::Responses] {
                let heard = Agent::new(&server, wire, &TOOLS).prompt("go").await;
                assert_eq!(heard.text, step.text.clone().unwrap_or_default());
                assert_eq!(heard.calls.len(), step.tools.len());
                for (call, tool) in heard.calls.iter().zip(&step.tools) {
                    assert_eq!(call.name, tool.name);
                    match (&tool.args, &tool.raw_args) {
                        (Some(args), _) => {
                            let heard: Value = serde_json::from_str(&call.arguments).unwrap();
                            assert_eq!(heard, Value::Object(args.clone()));
                        }
                        (None, raw) => assert_eq!(Some(&call.arguments), raw.as_ref()),
                    }
                }
            }
            server.shutdown().await;
        });
    }
}

#[tokio::test]
async fn whole_answers_say_what_streams_say() {
    let args = json!({"path": "/a", "limit": 3})
        .as_object()
        .unwrap()
        .clone();
    let step = Step {
        text: Some("two words".into()),
        ..Step::call("one", args)
    };
    let server = Server::start_local(Script::of_steps(vec![step]).unwrap())
        .await
        .unwrap();

    let tools = json!([{"name": "one", "input_schema": {}}]);
    let prompt = json!([{"role": "user", "content": "go"}]);
    let body = json!({"model": "m", "max_tokens": 9, "tools": tools, "messages": prompt});
    let message = messages(&server, &body).await.json();
    assert_eq!(
        message["content"][0],
        json!({"type": "text", "text": "two words"})
    );
    assert_eq!(
        message["content"][1]["input"],
        json!({"path": "/a", "limit": 3})
    );
    assert_eq!(message["stop_reason"], "tool_use");

    let tools = json!([{"type": "function", "function": {"name": "one"}}]);
    let completion = chat(
        &server,
        &json!({"model": "m", "tools": tools, "messages": prompt}),
    )
    .await;
    let choice = &completion.json()["choices"][0];
    assert_eq!(choice["message"]["content"], "two words");
    let function = json!({"name": "one", "arguments": r#"{"path":"/a","limit":3}"#});
    assert_eq!(choice["message"]["tool_calls"][0]["function"], function);
    assert_eq!(choice["finish_reason"], "tool_calls");

    let tools = json!([{"type": "function", "name": "one"}]);
    let body = json!({"model": "m", "tools": tools, "input": prompt});
    let response = responses(&server, &body).await.json();
    assert_eq!(response["output"][0]["content"][0]["text"], "two words");
    assert_eq!(
        response["output"][1]["arguments"],
        r#"{"path":"/a","limit":3}"#
    );
    assert_eq!(response["status"], "completed");
}
