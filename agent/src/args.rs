//! Arguments of a tool call, from what a model wrote to what a tool may rely on.
//!
//! Text that is JSON and fits the tool's schema is taken as it is. Anything else is repaired if exactly
//! one reading is left, and what was repaired is said; else it is refused in words that a model can act
//! on. Nothing here knows tools, the log or a runtime.

mod check;
mod fit;
mod lenient;
mod repair;
#[cfg(test)]
mod tests;

pub use check::{BadSchema, Schema};
pub use repair::Repair;

use serde_json::{Map, Value};

/// Arguments that fit their schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    pub value: Value,
    /// What is different from what the model wrote; empty for nearly every call.
    pub repairs: Vec<Repair>,
}

/// Why arguments are refused. The message is for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("the arguments are not valid JSON: {why}")]
    NotJson { why: String },
    #[error("the arguments do not fit the tool's schema: {}", faults.join("; "))]
    Schema { faults: Vec<String> },
}

/// Reads arguments. `is_cut`: the reply reached its length limit, so what is missing at the end of the
/// text is not known.
pub fn read(schema: &Schema, text: &str, is_cut: bool) -> Result<Read, Problem> {
    let text = text.trim();
    if text.is_empty() {
        // How every vendor writes a call without arguments, at times.
        return fitted(schema, Value::Object(Map::new()), Vec::new());
    }
    let (value, repairs) = parse(text, is_cut)?;
    fitted(schema, value, repairs)
}

fn parse(text: &str, is_cut: bool) -> Result<(Value, Vec<Repair>), Problem> {
    let strict = match serde_json::from_str(text) {
        Ok(value) => return Ok((value, Vec::new())),
        Err(error) => error,
    };
    lenient::parse(text, is_cut).map_err(|hint| Problem::NotJson {
        why: format!("{strict}; {hint}"),
    })
}

fn fitted(schema: &Schema, value: Value, repairs: Vec<Repair>) -> Result<Read, Problem> {
    if schema.admits(&value) {
        return Ok(Read { value, repairs });
    }
    let mut found: Option<Read> = None;
    let mut nearest = None;
    for (candidate, unwrapped) in fit::unwrapped(&value) {
        let (fit, refits) = fit::fit(schema.json(), candidate);
        if !schema.admits(&fit) {
            nearest.get_or_insert(fit);
            continue;
        }
        let repairs = [repairs.clone(), unwrapped, refits].concat();
        match &found {
            Some(other) if other.value != fit => {
                let faults = vec!["it can be read in more than one way".to_owned()];
                return Err(Problem::Schema { faults });
            }
            Some(_) => {}
            None => {
                found = Some(Read {
                    value: fit,
                    repairs,
                });
            }
        }
    }
    // What is wrong is told of what is left of it, so that the model mends only that.
    found.ok_or_else(|| Problem::Schema {
        faults: schema.faults(&nearest.unwrap_or(value)),
    })
}
