//! Vendors' JSON: fields and kinds are added at will, so whatever is absent counts as empty.

use serde_json::Value;

use super::failure::Failure;

/// Parses the data of an event. JSON it has to be.
pub(super) fn parse(data: &str) -> Result<Value, Failure> {
    serde_json::from_str(data).map_err(|error| Failure::garbled(format!("not JSON: {error}")))
}

pub(super) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    let list = value.get(field).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

pub(super) fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}
