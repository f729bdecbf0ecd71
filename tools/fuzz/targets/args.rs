//! Arguments as models write them: what is valid is never changed, and what is repaired fits the schema.

#![no_main]

use std::sync::LazyLock;

use cocoonbox_agent::args::{Schema, read};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

static OPEN: LazyLock<Schema> = LazyLock::new(|| Schema::new(&json!(true)).unwrap());

static TIGHT: LazyLock<Schema> = LazyLock::new(|| {
    let schema = json!({
        "type": "object",
        "properties": {
            "command": { "type": "string" },
            "timeout_ms": { "type": "integer", "minimum": 1 },
            "background": { "type": "boolean" },
            "edits": { "type": "array", "items": { "$ref": "#/$defs/edit" } },
            "either": { "anyOf": [{ "type": "integer" }, { "type": ["boolean", "null"] }] },
        },
        "required": ["command"],
        "additionalProperties": false,
        "$defs": { "edit": {
            "type": "object",
            "properties": { "old": { "type": "string" }, "count": { "type": "number" } },
            "required": ["old"],
        } },
    });
    Schema::new(&schema).unwrap()
});

fuzz_target!(|text: &str| {
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        let read = read(&OPEN, text, false).unwrap();
        assert_eq!(read.value, value);
        assert!(read.repairs.is_empty());
    }
    for is_cut in [false, true] {
        if let Ok(read) = read(&TIGHT, text, is_cut) {
            assert!(TIGHT.admits(&read.value));
            let again = read.value.to_string();
            assert_eq!(
                cocoonbox_agent::args::read(&TIGHT, &again, is_cut)
                    .unwrap()
                    .value,
                read.value
            );
        }
    }
});
