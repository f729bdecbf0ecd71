//! Words of JSON Schema 2020-12 that tools describe their arguments with.

use serde_json::{Value, json};

/// An object with these properties and no others.
pub(super) fn object(properties: Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

pub(super) fn text(about: &str) -> Value {
    json!({ "type": "string", "description": about })
}

pub(super) fn number(about: &str, min: u64, max: u64) -> Value {
    json!({ "type": "integer", "minimum": min, "maximum": max, "description": about })
}

pub(super) fn flag(about: &str) -> Value {
    json!({ "type": "boolean", "description": about })
}

/// A path of the file tools.
pub(super) fn path() -> Value {
    text("Relative to /workspace, or absolute beneath /workspace, /home/user or /tmp.")
}

/// Checks that a tool's schema is one, and that `A` knows every action in it.
#[cfg(test)]
pub(super) fn assert_actions<A: serde::de::DeserializeOwned>(parameters: &Value) {
    crate::args::Schema::new(parameters).expect("a schema");
    let actions = parameters["properties"]["action"]["enum"].as_array();
    for action in actions.expect("actions") {
        // Fields may be missing, but it is known.
        if let Err(error) = serde_json::from_value::<A>(json!({ "action": action })) {
            let said = error.to_string();
            assert!(said.contains("missing field"), "{said}");
        }
    }
}
