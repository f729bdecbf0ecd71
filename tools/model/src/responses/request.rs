//! Reads an OpenAI Responses request and refuses what the vendor would refuse.
//!
//! Nothing is kept from one request to the next: each has to bring its whole conversation along.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

use crate::conversation::{Conversation, Turn};
use crate::fault::Failure;
use crate::picture;
use crate::reply::signature_of;

/// The smallest limit of output that the vendor takes.
const OUTPUT_TOKENS_MIN: u64 = 16;

/// Characters of a call's id.
const CALL_ID_CHARS_MAX: usize = 64;

#[derive(Deserialize)]
struct Request {
    model: String,
    input: Input,
    #[serde(default)]
    stream: bool,
    max_output_tokens: Option<u64>,
    previous_response_id: Option<String>,
    #[serde(default)]
    tools: Vec<Offer>,
}

#[derive(Deserialize)]
struct Offer {
    name: Option<String>,
    #[serde(default)]
    tools: Vec<Offer>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Input {
    Text(String),
    Items(Vec<Value>),
}

/// An item of the conversation, as far as it is looked at.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item {
    Message {
        role: Role,
        content: Content,
    },
    Reasoning {
        id: Option<String>,
        encrypted_content: Option<String>,
        // Has to be there.
        #[serde(rename = "summary")]
        _summary: Vec<Value>,
    },
    #[serde(alias = "custom_tool_call")]
    FunctionCall {
        call_id: String,
        name: String,
    },
    #[serde(alias = "custom_tool_call_output")]
    FunctionCallOutput {
        call_id: String,
        output: Content,
    },
    #[serde(other)]
    Other,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Role {
    User,
    Assistant,
    System,
    Developer,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
struct Part {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    image_url: Option<String>,
}

/// Reads a request body.
pub(crate) fn read(body: Value) -> Result<Conversation, Failure> {
    let request: Request =
        serde_json::from_value(body).map_err(|error| Failure::invalid(error.to_string()))?;
    if request
        .max_output_tokens
        .is_some_and(|max| max < OUTPUT_TOKENS_MIN)
    {
        return Err(Failure::invalid(format!(
            "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= \
             {OUTPUT_TOKENS_MIN}."
        )));
    }
    if let Some(id) = request.previous_response_id {
        return Err(Failure::invalid(format!(
            "Previous response with id '{id}' not found."
        )));
    }
    let items = match request.input {
        Input::Text(text) => vec![Item::Message {
            role: Role::User,
            content: Content::Text(text),
        }],
        Input::Items(items) => items
            .into_iter()
            .enumerate()
            .map(|(at, item)| read_item(at, item))
            .collect::<Result<_, _>>()?,
    };
    check_reasoning(&items)?;
    let mut reader = Reader::default();
    for (at, item) in items.iter().enumerate() {
        reader.take(at, item)?;
    }
    let (turns, images) = reader.finish()?;
    let mut offered = Vec::new();
    let mut namespaces = HashMap::new();
    for offer in request.tools {
        for tool in offer.tools.iter().filter_map(|tool| tool.name.clone()) {
            namespaces.extend(offer.name.clone().map(|name| (tool.clone(), name)));
            offered.push(tool);
        }
        offered.extend(offer.name);
    }
    Ok(Conversation {
        model: request.model,
        stream: request.stream,
        include_usage: true,
        include_obfuscation: false,
        offered,
        namespaces,
        images,
        turns,
    })
}

fn read_item(at: usize, mut item: Value) -> Result<Item, Failure> {
    // A message may leave its type out.
    if item.get("type").is_none() && item.get("role").is_some() {
        item["type"] = "message".into();
    }
    serde_json::from_value(item).map_err(|error| Failure::invalid(format!("input[{at}]: {error}")))
}

/// Thinking comes back sealed, unaltered, and before what it led to.
fn check_reasoning(items: &[Item]) -> Result<(), Failure> {
    for (at, item) in items.iter().enumerate() {
        let Item::Reasoning {
            id,
            encrypted_content,
            ..
        } = item
        else {
            continue;
        };
        let id = id.as_deref().unwrap_or_default();
        match encrypted_content.as_deref() {
            None | Some("") => {
                return Err(Failure::new(
                    404,
                    format!(
                        "Item with id '{id}' not found. Items are not persisted when `store` is set \
                         to false."
                    ),
                ));
            }
            Some(seal) if seal != signature_of(id) => {
                return Err(Failure::invalid(format!(
                    "The encrypted content for item {id} could not be verified."
                )));
            }
            Some(_) => {}
        }
        let follows = items.get(at + 1);
        let is_of_model = follows.is_some_and(|next| match next {
            Item::Message { role, .. } => *role == Role::Assistant,
            Item::Reasoning { .. } | Item::FunctionCall { .. } | Item::Other => true,
            Item::FunctionCallOutput { .. } => false,
        });
        if !is_of_model {
            return Err(Failure::invalid(format!(
                "Item '{id}' of type 'reasoning' was provided without its required following item."
            )));
        }
    }
    Ok(())
}

/// Gathers items into turns and holds outputs against calls.
#[derive(Default)]
struct Reader {
    turns: Vec<Turn>,
    /// Calls that wait for their output.
    open: Vec<String>,
    results: Vec<String>,
    images: usize,
    /// The item before was the model's.
    is_replying: bool,
}

impl Reader {
    fn take(&mut self, at: usize, item: &Item) -> Result<(), Failure> {
        let is_of_model = match item {
            Item::Message { role, .. } => *role == Role::Assistant,
            Item::Reasoning { .. } | Item::FunctionCall { .. } | Item::Other => true,
            Item::FunctionCallOutput { .. } => false,
        };
        if is_of_model && !self.is_replying {
            self.close()?;
            self.turns.push(Turn::Reply);
            self.images = 0;
        }
        self.is_replying = is_of_model;
        match item {
            Item::FunctionCall { call_id, name } => {
                if call_id.chars().count() > CALL_ID_CHARS_MAX {
                    return Err(Failure::invalid(format!(
                        "Invalid 'input[{at}].call_id': string too long."
                    )));
                }
                if !picture::is_name(name) {
                    return Err(Failure::invalid(format!(
                        "Invalid 'input[{at}].name': string does not match pattern. Expected a \
                         string that matches the pattern '^[a-zA-Z0-9_-]+$'."
                    )));
                }
                self.open.push(call_id.clone());
            }
            Item::FunctionCallOutput { call_id, output } => {
                let Some(index) = self.open.iter().position(|id| id == call_id) else {
                    return Err(Failure::invalid(format!(
                        "No tool call found for function call output with call_id {call_id}."
                    )));
                };
                self.open.remove(index);
                self.images += output.images(at)?;
                self.results.push(output.text());
            }
            Item::Message {
                role: Role::User,
                content,
            } => {
                let images = content.images(at)?;
                self.images += images;
                // Pictures right behind results are the tools'.
                if self.results.is_empty() || images == 0 {
                    self.close()?;
                    self.turns.push(Turn::Prompt(content.text()));
                }
            }
            Item::Message { .. } | Item::Reasoning { .. } | Item::Other => {}
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), Failure> {
        if let Some(id) = self.open.first() {
            return Err(Failure::invalid(format!(
                "No tool output found for function call {id}."
            )));
        }
        if !self.results.is_empty() {
            let results = std::mem::take(&mut self.results);
            self.turns.push(Turn::Results(results));
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(Vec<Turn>, usize), Failure> {
        self.close()?;
        Ok((self.turns, self.images))
    }
}

impl Content {
    fn parts(&self) -> &[Part] {
        match self {
            Self::Text(_) => &[],
            Self::Parts(parts) => parts,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Parts(parts) => {
                let texts: Vec<&str> = parts
                    .iter()
                    .filter_map(|part| part.text.as_deref())
                    .collect();
                texts.join("\n")
            }
        }
    }

    /// Counts the pictures, after a look at each.
    fn images(&self, at: usize) -> Result<usize, Failure> {
        let images = self
            .parts()
            .iter()
            .filter(|part| part.kind == "input_image");
        let mut count = 0;
        for image in images {
            let url = image.image_url.as_deref().unwrap_or_default();
            picture::check_url(url).map_err(|fact| {
                Failure::invalid(format!("Invalid 'input[{at}].content': {fact}."))
            })?;
            count += 1;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_input(input: Value) -> Result<Conversation, String> {
        read(json!({"model": "m", "input": input}))
            .map_err(|failure| failure.message.unwrap_or_default())
    }

    fn reasoning(id: &str) -> Value {
        let seal = signature_of(id);
        json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": seal})
    }

    #[test]
    fn items_are_gathered_into_turns() {
        let call = |id: &str| json!({"type": "function_call", "call_id": id, "name": "t", "arguments": "{}"});
        let output =
            |id: &str| json!({"type": "function_call_output", "call_id": id, "output": id});
        let png = "data:image/png;base64,iVBORw0KGgo=";
        let conversation = read_input(json!([
            {"role": "user", "content": "a"},
            reasoning("rs_1"),
            {"type": "web_search_call", "id": "w"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "b"}]},
            call("1"),
            call("2"),
            output("2"),
            output("1"),
            {"role": "user", "content": [
                {"type": "input_text", "text": "of 1"}, {"type": "input_image", "image_url": png},
            ]},
        ]))
        .unwrap();
        let results = Turn::Results(vec!["2".into(), "1".into()]);
        let prompt = Turn::Prompt("a".into());
        assert_eq!(conversation.turns, [prompt, Turn::Reply, results]);
        assert_eq!(conversation.images, 1);
        assert_eq!(read_input(json!("a")).unwrap().prompt(), "a");
    }

    #[test]
    fn what_the_vendor_refuses_is_refused() {
        let prompt = json!({"role": "user", "content": "a"});
        let call = json!({"type": "function_call", "call_id": "1", "name": "t", "arguments": "{}"});
        let output = json!({"type": "function_call_output", "call_id": "1", "output": "r"});
        let named =
            json!({"type": "function_call", "call_id": "1", "name": "a.b", "arguments": ""});
        let unsealed = json!({"type": "reasoning", "id": "rs_1", "summary": []});
        let altered =
            json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"});
        let picture =
            json!({"role": "user", "content": [{"type": "input_image", "image_url": "x"}]});
        for (input, fact) in [
            (
                json!([prompt, call, prompt]),
                "No tool output found for function call 1.",
            ),
            (
                json!([prompt, output]),
                "No tool call found for function call output",
            ),
            (json!([prompt, named, output]), "Invalid 'input[1].name'"),
            (
                json!([prompt, unsealed, call, output]),
                "Item with id 'rs_1' not found.",
            ),
            (
                json!([prompt, altered, call, output]),
                "The encrypted content for item rs_1",
            ),
            (
                json!([prompt, reasoning("rs_1"), prompt]),
                "Item 'rs_1' of type 'reasoning' was",
            ),
            (json!([picture]), "Invalid 'input[0].content'"),
        ] {
            let error = read_input(input).unwrap_err();
            assert!(error.starts_with(fact), "{error}");
        }
    }

    #[test]
    fn tools_may_stand_in_a_namespace() {
        let tools = json!([
            {"type": "function", "name": "a"},
            {"type": "namespace", "name": "mcp__x", "tools": [{"type": "function", "name": "b"}]},
            {"type": "web_search"},
        ]);
        let conversation = read(json!({"model": "m", "input": "a", "tools": tools})).unwrap();
        assert_eq!(conversation.offered, ["a", "b", "mcp__x"]);
        assert_eq!(conversation.namespaces["b"], "mcp__x");
    }
}
