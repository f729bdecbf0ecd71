//! A minimal agent loop over any wire, which reads nothing but the stream.

use cocoonbox_model::Server;
use serde_json::{Value, json};

use crate::client::{Answer, chat, messages, responses};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Wire {
    Anthropic,
    OpenAi,
    Responses,
}

/// What the model said in one turn.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) text: String,
    pub(crate) thinking: String,
    pub(crate) calls: Vec<HeardCall>,
    pub(crate) stop: String,
}

/// One tool call as heard.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct HeardCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

pub(crate) struct Agent<'a> {
    server: &'a Server,
    wire: Wire,
    tools: Vec<String>,
    history: Vec<Value>,
}

impl<'a> Agent<'a> {
    pub(crate) fn new(server: &'a Server, wire: Wire, tools: &[&str]) -> Self {
        let tools = tools.iter().map(|&name| name.to_owned()).collect();
        Self {
            server,
            wire,
            tools,
            history: Vec::new(),
        }
    }

    /// Says something and returns the model's turn.
    pub(crate) async fn prompt(&mut self, text: &str) -> Heard {
        self.history.push(json!({"role": "user", "content": text}));
        self.turn().await
    }

    /// Answers every call and returns the model's next turn.
    pub(crate) async fn answer(&mut self, results: &[(String, String)]) -> Heard {
        match self.wire {
            Wire::Anthropic => {
                let result = |(id, text): &(String, String)| json!({"type": "tool_result", "tool_use_id": id, "content": text});
                let content: Vec<Value> = results.iter().map(result).collect();
                self.history
                    .push(json!({"role": "user", "content": content}));
            }
            Wire::OpenAi => self.history.extend(
                results
                    .iter()
                    .map(|(id, text)| json!({"role": "tool", "tool_call_id": id, "content": text})),
            ),
            Wire::Responses => self.history.extend(results.iter().map(
                |(id, text)| json!({"type": "function_call_output", "call_id": id, "output": text}),
            )),
        }
        self.turn().await
    }

    async fn turn(&mut self) -> Heard {
        let (heard, said) = match self.wire {
            Wire::Anthropic => {
                let tool = |name| json!({"name": name, "input_schema": {"type": "object"}});
                let tools: Vec<Value> = self.tools.iter().map(tool).collect();
                let answer = messages(
                    self.server,
                    &json!({"model": "m", "max_tokens": 99, "stream": true, "tools": tools,
                            "messages": self.history}),
                )
                .await;
                assert!(answer.status == 200 && !answer.broken, "{answer:?}");
                hear_anthropic(&answer)
            }
            Wire::OpenAi => {
                let tool = |name| json!({"type": "function", "function": {"name": name}});
                let tools: Vec<Value> = self.tools.iter().map(tool).collect();
                let answer = chat(
                    self.server,
                    &json!({"model": "m", "stream": true, "tools": tools, "messages": self.history}),
                )
                .await;
                assert!(answer.status == 200 && !answer.broken, "{answer:?}");
                hear_openai(&answer)
            }
            Wire::Responses => {
                let tool = |name| json!({"type": "function", "name": name});
                let tools: Vec<Value> = self.tools.iter().map(tool).collect();
                let answer = responses(
                    self.server,
                    &json!({"model": "m", "stream": true, "tools": tools, "input": self.history}),
                )
                .await;
                assert!(answer.status == 200 && !answer.broken, "{answer:?}");
                let (heard, said) = hear_responses(&answer);
                self.history.extend(said);
                return heard;
            }
        };
        self.history.push(said);
        heard
    }
}

fn str_of<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Puts the turn together and returns it with the message that goes into the history.
fn hear_anthropic(answer: &Answer) -> (Heard, Value) {
    let mut heard = Heard::default();
    let mut blocks: Vec<Value> = Vec::new();
    for event in answer.events() {
        match str_of(&event, "/type") {
            "content_block_start" => {
                assert_eq!(event["index"], blocks.len());
                blocks.push(event["content_block"].clone());
                if event["content_block"]["type"] == "tool_use" {
                    heard.calls.push(HeardCall {
                        id: str_of(&event, "/content_block/id").to_owned(),
                        name: str_of(&event, "/content_block/name").to_owned(),
                        arguments: String::new(),
                    });
                }
            }
            "content_block_delta" => {
                heard.text += str_of(&event, "/delta/text");
                heard.thinking += str_of(&event, "/delta/thinking");
                if let Some(call) = heard.calls.last_mut() {
                    call.arguments += str_of(&event, "/delta/partial_json");
                }
                let block = blocks.last_mut().unwrap();
                match str_of(&event, "/delta/type") {
                    "text_delta" => block["text"] = json!(heard.text),
                    "thinking_delta" => block["thinking"] = json!(heard.thinking),
                    "signature_delta" => block["signature"] = event["delta"]["signature"].clone(),
                    "input_json_delta" => {}
                    other => panic!("unexpected delta `{other}`"),
                }
            }
            "content_block_stop" => {
                let block = blocks.last_mut().unwrap();
                if block["type"] == "tool_use" {
                    let arguments = &heard.calls.last().unwrap().arguments;
                    block["input"] = serde_json::from_str(arguments).unwrap_or(json!({}));
                }
            }
            "message_delta" => heard.stop += str_of(&event, "/delta/stop_reason"),
            "message_start" | "ping" | "message_stop" => {}
            other => panic!("unexpected event `{other}`"),
        }
    }
    (heard, json!({"role": "assistant", "content": blocks}))
}

/// Returns the turn as its deltas tell it, and the items that go back as they came.
fn hear_responses(answer: &Answer) -> (Heard, Vec<Value>) {
    let mut heard = Heard::default();
    let mut said = Vec::new();
    for (number, event) in answer.events().into_iter().enumerate() {
        assert_eq!(event["sequence_number"], number);
        let delta = str_of(&event, "/delta");
        match str_of(&event, "/type") {
            "response.output_text.delta" => heard.text += delta,
            "response.reasoning_summary_text.delta" => heard.thinking += delta,
            "response.output_item.added" if str_of(&event, "/item/type") == "function_call" => {
                heard.calls.push(HeardCall {
                    id: str_of(&event, "/item/call_id").to_owned(),
                    name: str_of(&event, "/item/name").to_owned(),
                    arguments: String::new(),
                });
            }
            "response.function_call_arguments.delta" => {
                heard.calls.last_mut().unwrap().arguments += delta;
            }
            "response.output_item.done" => said.push(event["item"].clone()),
            "response.completed" | "response.incomplete" => {
                heard.stop += str_of(&event, "/response/status");
                assert_eq!(event["response"]["output"], json!(said));
            }
            _ => {}
        }
    }
    (heard, said)
}

fn hear_openai(answer: &Answer) -> (Heard, Value) {
    assert!(answer.body.ends_with("data: [DONE]\n\n"));
    let mut heard = Heard::default();
    for event in answer.events() {
        heard.text += str_of(&event, "/choices/0/delta/content");
        heard.stop += str_of(&event, "/choices/0/finish_reason");
        for delta in event["choices"][0]["delta"]["tool_calls"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let index = usize::try_from(delta["index"].as_u64().unwrap()).unwrap();
            if index == heard.calls.len() {
                heard.calls.push(HeardCall {
                    id: str_of(delta, "/id").to_owned(),
                    name: str_of(delta, "/function/name").to_owned(),
                    arguments: String::new(),
                });
            }
            heard.calls[index].arguments += str_of(delta, "/function/arguments");
        }
    }
    let call = |call: &HeardCall| {
        let function = json!({"name": call.name, "arguments": call.arguments});
        json!({"id": call.id, "type": "function", "function": function})
    };
    let calls: Vec<Value> = heard.calls.iter().map(call).collect();
    let mut said = json!({"role": "assistant", "content": heard.text});
    if !calls.is_empty() {
        said["tool_calls"] = json!(calls);
    }
    (heard, said)
}
