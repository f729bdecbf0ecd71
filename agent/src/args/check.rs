//! A tool's schema, and what arguments have against it.

use std::fmt::Write;

use jsonschema::{
    PatternOptions, ValidationError, Validator,
    error::{TypeKind, ValidationErrorKind},
};
use serde_json::Value;

/// Faults that a model is told of at one time.
const FAULTS_MAX: usize = 6;
/// Longest piece of a model's own words that is told back to it, in characters.
const SHOWN_CHARS_MAX: usize = 80;
/// Patterns come from strangers' servers. Theirs are matched in linear time, and this bounds their size.
const PATTERN_BYTES_MAX: usize = 1024 * 1024;

/// A JSON Schema, compiled. JSON Schema 2020-12 where it does not name another draft.
#[derive(Debug)]
pub struct Schema {
    json: Value,
    validator: Validator,
}

/// Why something is not usable as a schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not a usable JSON Schema: {0}")]
pub struct BadSchema(String);

impl Schema {
    /// Compiles a schema. References to anything outside of it are refused.
    pub fn new(json: &Value) -> Result<Self, BadSchema> {
        let validator = compile(json).map_err(|error| BadSchema(shown(&error.to_string())))?;
        Ok(Self {
            json: json.clone(),
            validator,
        })
    }

    pub(super) fn json(&self) -> &Value {
        &self.json
    }

    /// Returns whether a value fits.
    pub fn admits(&self, value: &Value) -> bool {
        self.validator.is_valid(value)
    }

    /// What is wrong with a value: where, what was expected, what was found.
    pub(super) fn faults(&self, value: &Value) -> Vec<String> {
        let mut faults = Vec::new();
        let mut left = 0_usize;
        for error in self.validator.iter_errors(value) {
            if faults.len() < FAULTS_MAX {
                faults.push(self.fault(&error));
            } else {
                left += 1;
            }
        }
        if left > 0 {
            faults.push(format!("{left} more"));
        }
        faults
    }

    fn fault(&self, error: &ValidationError<'_>) -> String {
        let path = error.instance_path().to_string();
        let place = match path.as_str() {
            "" => "the whole".to_owned(),
            path => format!("`{}`", shown(path)),
        };
        let found = || found(error.instance());
        match error.kind() {
            ValidationErrorKind::Required { property } => {
                let inside = if path.is_empty() {
                    String::new()
                } else {
                    format!(" in {place}")
                };
                format!(
                    "`{}` is missing{inside}",
                    shown(property.as_str().unwrap_or_default())
                )
            }
            ValidationErrorKind::AdditionalProperties { unexpected }
            | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
                let mut fault =
                    format!("{place} cannot have `{}`", shown(&unexpected.join("`, `")));
                let known = self.known(error);
                if !known.is_empty() {
                    let _ = write!(fault, "; it can have `{}`", shown(&known.join("`, `")));
                }
                fault
            }
            ValidationErrorKind::Type { kind } => {
                format!("{place} has to be {}, found {}", types(kind), found())
            }
            ValidationErrorKind::Enum { options } => {
                format!(
                    "{place} has to be one of {}, found {}",
                    shown(&options.to_string()),
                    found()
                )
            }
            _ => format!(
                "{place}: {}, found {}",
                shown(&error.masked().to_string()),
                found()
            ),
        }
    }

    /// The names that the object of this error can have.
    fn known(&self, error: &ValidationError<'_>) -> Vec<String> {
        let path = error.schema_path().to_string();
        let schema = path
            .rsplit_once('/')
            .and_then(|(at, _)| self.json.pointer(at));
        let properties = schema.and_then(|schema| schema["properties"].as_object());
        properties.map_or_else(Vec::new, |all| all.keys().cloned().collect())
    }
}

pub(super) fn compile(json: &Value) -> Result<Validator, ValidationError<'static>> {
    jsonschema::options()
        .offline()
        .with_pattern_options(PatternOptions::regex().size_limit(PATTERN_BYTES_MAX))
        .build(json)
}

fn types(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => format!("of type {one}"),
        TypeKind::Multiple(many) => {
            let names: Vec<String> = many.iter().map(|one| one.to_string()).collect();
            format!("of type {}", names.join(" or "))
        }
    }
}

fn found(value: &Value) -> String {
    let name = match value {
        Value::Null => return "null".to_owned(),
        Value::Bool(_) => "the boolean",
        Value::Number(_) => "the number",
        Value::String(_) => "the string",
        Value::Array(_) => "the array",
        Value::Object(_) => "the object",
    };
    format!("{name} {}", shown(&value.to_string()))
}

fn shown(text: &str) -> String {
    let mut chars = text.chars();
    let mut shown: String = chars.by_ref().take(SHOWN_CHARS_MAX).collect();
    if chars.next().is_some() {
        shown.push('…');
    }
    shown
}
