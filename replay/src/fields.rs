//! What differs between two JSON values, field by field.

use serde_json::{Map, Value, json};

/// One field that is otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldChange {
    /// Names joined by dots; empty for the whole value.
    pub path: String,
    /// Null: not there.
    pub before: Value,
    pub after: Value,
}

impl FieldChange {
    pub fn to_json(&self) -> Value {
        json!({"path": self.path, "before": self.before, "after": self.after})
    }
}

/// Compares two values; objects by their fields, everything else as a whole.
pub fn compare(before: &Value, after: &Value) -> Vec<FieldChange> {
    let mut changed = Vec::new();
    walk("", before, after, &mut changed);
    changed
}

fn walk(path: &str, before: &Value, after: &Value, changed: &mut Vec<FieldChange>) {
    let empty = Map::new();
    let (old, new) = match (before, after) {
        _ if before == after => return,
        (Value::Object(old), Value::Object(new)) => (old, new),
        (Value::Null, Value::Object(new)) => (&empty, new),
        (Value::Object(old), Value::Null) => (old, &empty),
        _ => {
            changed.push(FieldChange {
                path: path.to_owned(),
                before: before.clone(),
                after: after.clone(),
            });
            return;
        }
    };
    let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let inner = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        let of = |map: &Map<String, Value>| map.get(name).cloned().unwrap_or_default();
        walk(&inner, &of(old), &of(new), changed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_named_by_their_path() {
        let before = json!({"a": 1, "b": {"c": [1], "d": 2}, "same": true});
        let after = json!({"a": 1, "b": {"c": [1, 2]}, "same": true, "new": {"x": 1}});
        let told: Vec<String> = compare(&before, &after)
            .iter()
            .map(|field| format!("{}: {} -> {}", field.path, field.before, field.after))
            .collect();
        assert_eq!(
            told,
            ["b.c: [1] -> [1,2]", "b.d: 2 -> null", "new.x: null -> 1"]
        );
        assert!(compare(&before, &before).is_empty());
    }
}
