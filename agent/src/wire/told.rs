//! What is told back to a vendor, in a form that every vendor takes.
//!
//! A conversation may have been had with several models, and models write what their own vendor refuses
//! to read. What is refused once would be refused in every later call.

use std::borrow::Cow;

use cocoonbox_commands::agent::ToolResult;
use cocoonbox_proto::log::v1::{VendorBlock, Wire, agent_tool_finished::Outcome};
use serde_json::{Value, json};

/// Characters of a tool's name and of a call's id that every vendor takes.
const CHARS_MAX: usize = 64;

/// Under this name goes back what cannot be parsed. Some servers parse what their own model wrote, and
/// fail where it is malformed.
const MALFORMED: &str = "malformed_arguments";

/// Returns a tool's name. A model may have made one up.
pub(super) fn name(name: &str) -> Cow<'_, str> {
    if is_plain(name) {
        return Cow::Borrowed(name);
    }
    let plain = |c: char| if is_plain_char(c) { c } else { '_' };
    let name: String = name.chars().take(CHARS_MAX).map(plain).collect();
    if name.is_empty() {
        Cow::Borrowed("unnamed")
    } else {
        Cow::Owned(name)
    }
}

/// Returns a call's id for a vendor that takes letters, digits, `_` and `-` only.
pub(super) fn plain_id(id: &str) -> Cow<'_, str> {
    if is_plain(id) {
        Cow::Borrowed(id)
    } else {
        hashed(id)
    }
}

/// Returns a call's id for a vendor that takes any characters but not many.
pub(super) fn short_id(id: &str) -> Cow<'_, str> {
    if !id.is_empty() && id.len() <= CHARS_MAX {
        Cow::Borrowed(id)
    } else {
        hashed(id)
    }
}

/// Returns a call's arguments as an object; malformed ones as what they were.
pub(super) fn args(args_json: &str) -> Value {
    match serde_json::from_str(args_json) {
        Ok(Value::Object(object)) => Value::Object(object),
        _ => json!({ MALFORMED: args_json }),
    }
}

/// Returns a call's arguments as the text of an object: as the model wrote it, if it is one.
pub(super) fn args_json(args_json: &str) -> Cow<'_, str> {
    let args = args(args_json);
    if args.get(MALFORMED).is_some() {
        Cow::Owned(args.to_string())
    } else {
        Cow::Borrowed(args_json)
    }
}

/// Returns a vendor's own block for the wire that it came over. An erased one is gone.
pub(super) fn vendor(block: &VendorBlock, wire: Wire) -> Option<Value> {
    if block.wire() != wire {
        return None;
    }
    let json: Value = serde_json::from_str(&block.json).ok()?;
    json.get("type").and_then(Value::as_str)?;
    Some(json)
}

/// Returns a tool's result as text that says something.
pub(super) fn result(result: &ToolResult) -> &str {
    if result.content.trim().is_empty() {
        "[no output]"
    } else {
        &result.content
    }
}

/// Returns a tool's result with its outcome, for wires that have no mark for a failed tool.
pub(super) fn result_with_outcome(of: &ToolResult) -> String {
    match of.outcome {
        Outcome::Ok => result(of).to_owned(),
        outcome => {
            let outcome = outcome.as_str_name().to_ascii_lowercase();
            format!("[{outcome}] {}", result(of))
        }
    }
}

/// Returns what stands before the pictures of a tool's result, where they cannot stand in it.
pub(super) fn picture_line(result: &ToolResult) -> String {
    let id = short_id(&result.tool_call_id);
    format!("[from the result of the tool call `{id}`:]")
}

fn hashed(id: &str) -> Cow<'_, str> {
    let hash = blake3::hash(id.as_bytes()).to_hex();
    Cow::Owned(format!("call_{}", &hash[..32]))
}

fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.len() <= CHARS_MAX && text.chars().all(is_plain_char)
}

fn is_plain_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_vendor_takes_what_is_told_back(text in "\\PC{0,90}") {
            prop_assert!(is_plain(&name(&text)));
            prop_assert!(is_plain(&plain_id(&text)));
            prop_assert!((1..=CHARS_MAX).contains(&short_id(&text).len()));
            prop_assert!(args(&text).is_object());
        }
    }

    #[test]
    fn what_is_well_formed_stays() {
        assert_eq!(name("mcp__a-b"), "mcp__a-b");
        assert_eq!(name("functions.ls 🦋"), "functions_ls__");
        assert_eq!(plain_id("toolu_1"), "toolu_1");
        assert_eq!(short_id("functions.ls:0"), "functions.ls:0");
        assert_ne!(plain_id("functions.ls:0"), plain_id("functions.ls:1"));
        assert_eq!(args("{\"a\":1}"), json!({ "a": 1 }));
        assert_eq!(args("[]"), json!({ "malformed_arguments": "[]" }));
    }
}
