//! Values that nearly fit their schema. The schema says what was meant, or nothing is done.

use std::cell::Cell;

use serde_json::{Map, Value};

use super::{Repair, check::compile};

/// Names that models put whole arguments beneath.
const WRAPPERS: [&str; 5] = ["arguments", "input", "parameters", "args", "kwargs"];
/// References that are followed, and levels of schema that are gone down.
const DEPTH_MAX: usize = 32;
/// Steps of one fitting, so that a stranger's schema of choices within choices cannot keep us busy.
const STEPS_MAX: u32 = 4_000;
/// What it counts to hold a value against a part of the schema, which is compiled for it.
const CHECK_STEPS: u32 = 20;

/// The value, and where it only wraps another one, that too.
pub(super) fn unwrapped(value: &Value) -> Vec<(Value, Vec<Repair>)> {
    let mut found = vec![(value.clone(), Vec::new())];
    // The string of an object, the wrapper of one, and the string in a wrapper.
    for at in 0..4 {
        let Some((value, repairs)) = found.get(at).cloned() else {
            break;
        };
        let inner = match &value {
            Value::String(text) => {
                let quoted = Repair::Quoted { at: String::new() };
                structure(text).map(|inner| (inner, quoted))
            }
            Value::Object(members) => wrapped(members),
            _ => None,
        };
        if let Some((inner, repair)) = inner {
            found.push((inner, [repairs, vec![repair]].concat()));
        }
    }
    found
}

/// `{"arguments": {…}}`, with or without the tool's name beside it.
fn wrapped(members: &Map<String, Value>) -> Option<(Value, Repair)> {
    let name = WRAPPERS
        .into_iter()
        .find(|name| members.contains_key(*name))?;
    let beside = members.keys().filter(|key| *key != name);
    let is_call = beside
        .into_iter()
        .all(|key| matches!(key.as_str(), "name" | "tool" | "type" | "id"));
    let inner = members.get(name)?;
    (is_call && (inner.is_object() || inner.is_string())).then(|| {
        let name = name.to_owned();
        (inner.clone(), Repair::Wrapped { name })
    })
}

/// Makes a value fit as far as its schema leaves one reading.
pub(super) fn fit(schema: &Value, value: Value) -> (Value, Vec<Repair>) {
    let steps = Cell::new(STEPS_MAX);
    let mut fitting = Fitting {
        root: schema,
        repairs: Vec::new(),
        steps: &steps,
    };
    let value = fitting.value(schema, value, "", 0);
    (value, fitting.repairs)
}

struct Fitting<'a> {
    root: &'a Value,
    repairs: Vec<Repair>,
    /// What is left of them, for this and what it tries.
    steps: &'a Cell<u32>,
}

impl<'a> Fitting<'a> {
    fn value(&mut self, schema: &'a Value, value: Value, at: &str, depth: usize) -> Value {
        if depth > DEPTH_MAX || !schema.is_object() || !self.may(1) {
            return value;
        }
        let mut value = value;
        if let Some(target) = self.target(schema) {
            value = self.value(target, value, at, depth + 1);
        }
        for part in schema["allOf"].as_array().into_iter().flatten() {
            value = self.value(part, value, at, depth + 1);
        }
        for choice in ["anyOf", "oneOf"] {
            if let Some(branches) = schema[choice].as_array() {
                value = self.chosen(branches, value, at, depth);
            }
        }
        let value = self.typed(schema, value, at);
        match value {
            Value::Object(members) => Value::Object(self.members(schema, members, at, depth)),
            Value::Array(items) => {
                let items = items.into_iter().enumerate().map(|(index, item)| {
                    let of_item = schema["prefixItems"].get(index).unwrap_or(&schema["items"]);
                    self.value(of_item, item, &format!("{at}/{index}"), depth + 1)
                });
                Value::Array(items.collect())
            }
            other => other,
        }
    }

    fn members(
        &mut self,
        schema: &'a Value,
        members: Map<String, Value>,
        at: &str,
        depth: usize,
    ) -> Map<String, Value> {
        let required = schema["required"].as_array();
        let mut fit = Map::new();
        for (name, value) in members {
            let at = format!("{at}/{name}");
            let known = schema["properties"].get(&name);
            let of_member = known.unwrap_or(&schema["additionalProperties"]);
            let is_required = required.is_some_and(|all| all.iter().any(|n| *n == *name));
            if value.is_null()
                && known.is_some()
                && !is_required
                && !self.admits_null(of_member, depth)
            {
                self.repairs.push(Repair::Null { at });
                continue;
            }
            let value = self.value(of_member, value, &at, depth + 1);
            fit.insert(name, value);
        }
        fit
    }

    /// A string that can only be meant as a value of another type.
    fn typed(&mut self, schema: &Value, value: Value, at: &str) -> Value {
        let (Some(types), Value::String(text)) = (types(schema), &value) else {
            return value;
        };
        if types.contains(&"string") {
            return value;
        }
        let read = match serde_json::from_str::<Value>(text) {
            Ok(read) => read,
            Err(_) => match text.as_str() {
                "True" => Value::Bool(true),
                "False" => Value::Bool(false),
                "None" => Value::Null,
                _ => return value,
            },
        };
        if !types.iter().any(|name| is_of(&read, name)) {
            return value;
        }
        let at = at.to_owned();
        self.repairs.push(if read.is_object() || read.is_array() {
            Repair::Quoted { at }
        } else {
            Repair::Text { at }
        });
        read
    }

    /// What a choice of schemas makes of a value that none of them admits, if they agree.
    fn chosen(&mut self, branches: &'a [Value], value: Value, at: &str, depth: usize) -> Value {
        if branches.iter().any(|branch| self.admits(branch, &value)) {
            return value;
        }
        let mut found: Option<(Value, Vec<Repair>)> = None;
        for branch in branches {
            let mut fitting = Fitting {
                root: self.root,
                repairs: Vec::new(),
                steps: self.steps,
            };
            let fit = fitting.value(branch, value.clone(), at, depth + 1);
            if !self.admits(branch, &fit) {
                continue;
            }
            match &found {
                Some((other, _)) if *other != fit => return value,
                Some(_) => {}
                None => found = Some((fit, fitting.repairs)),
            }
        }
        let Some((fit, repairs)) = found else {
            return value;
        };
        self.repairs.extend(repairs);
        fit
    }

    /// Whether a part of the schema admits a value.
    fn admits(&self, part: &Value, value: &Value) -> bool {
        if !self.may(CHECK_STEPS) {
            return false;
        }
        let mut part = part.clone();
        if let Value::Object(part) = &mut part {
            for name in ["$schema", "$defs", "definitions"] {
                if let Some(of_root) = self.root.get(name) {
                    part.insert(name.to_owned(), of_root.clone());
                }
            }
        }
        compile(&part).is_ok_and(|validator| validator.is_valid(value))
    }

    fn admits_null(&self, schema: &Value, depth: usize) -> bool {
        if depth > DEPTH_MAX || !self.may(1) {
            return true;
        }
        if let Some(target) = self.target(schema) {
            return self.admits_null(target, depth + 1);
        }
        let of_any = |name: &str| {
            let branches = schema[name].as_array();
            branches.is_none_or(|all| all.iter().any(|b| self.admits_null(b, depth + 1)))
        };
        types(schema).is_none_or(|types| types.contains(&"null"))
            && schema["enum"]
                .as_array()
                .is_none_or(|all| all.contains(&Value::Null))
            && schema.get("const").is_none_or(Value::is_null)
            && of_any("anyOf")
            && of_any("oneOf")
    }

    /// Takes steps off what is left; false if they are not there.
    fn may(&self, steps: u32) -> bool {
        let left = self.steps.get().checked_sub(steps);
        self.steps.set(left.unwrap_or(0));
        left.is_some()
    }

    /// What a reference within the schema points to.
    fn target(&self, schema: &Value) -> Option<&'a Value> {
        let pointer = schema["$ref"].as_str()?.strip_prefix('#')?;
        self.root.pointer(pointer)
    }
}

fn types(schema: &Value) -> Option<Vec<&str>> {
    match &schema["type"] {
        Value::String(one) => Some(vec![one.as_str()]),
        Value::Array(many) => Some(many.iter().filter_map(Value::as_str).collect()),
        _ => None,
    }
}

fn is_of(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

/// The object that a string holds as JSON.
fn structure(text: &str) -> Option<Value> {
    let text = text.trim();
    let value = serde_json::from_str(text).ok();
    let value = value.or_else(|| {
        super::lenient::parse(text, false)
            .ok()
            .map(|(value, _)| value)
    })?;
    (Value::is_object(&value) || Value::is_string(&value)).then_some(value)
}
