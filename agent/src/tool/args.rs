//! Arguments of a call, held against the tool's schema before anything runs.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Finished;
use crate::{
    args::{self, Read, Repair, Schema},
    wire::ToolSpec,
};

/// Why a call cannot be carried out. The message is for the model.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum Problem {
    #[error("there is no tool `{name}`; the tools are {}", known.join(", "))]
    NoSuchTool {
        name: String,
        known: Vec<Cow<'static, str>>,
    },
    #[error(transparent)]
    Args(args::Problem),
}

/// Compiled schemas by the tool's name, made when a tool is first called.
#[derive(Debug, Default)]
pub(super) struct Schemas(Mutex<HashMap<String, Compiled>>);

#[derive(Debug)]
struct Compiled {
    /// What it was made of: a server may change its tools.
    parameters: Value,
    schema: Arc<Schema>,
}

impl Schemas {
    /// Reads the arguments of a call. `is_cut`: the reply reached its length limit.
    pub(super) fn read(
        &self,
        spec: &ToolSpec,
        args_json: &str,
        is_cut: bool,
    ) -> Result<Read, Problem> {
        args::read(&self.schema(spec), args_json, is_cut).map_err(Problem::Args)
    }

    fn schema(&self, spec: &ToolSpec) -> Arc<Schema> {
        let mut compiled = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = compiled.get(&*spec.name)
            && known.parameters == spec.parameters
        {
            return Arc::clone(&known.schema);
        }
        // The tests see to it that ours compile, and the catalogue that those of servers do.
        let schema = Schema::new(&spec.parameters).or_else(|bad| {
            tracing::error!(tool = &*spec.name, %bad, "schema not usable");
            Schema::new(&json!({ "type": "object" }))
        });
        let schema = Arc::new(schema.expect("this one is a schema"));
        let known = Compiled {
            parameters: spec.parameters.clone(),
            schema: Arc::clone(&schema),
        };
        compiled.insert(spec.name.clone().into_owned(), known);
        schema
    }
}

impl Finished {
    /// Says with the result what was repaired before the tool ran.
    pub(super) fn repaired(mut self, repairs: &[Repair]) -> Self {
        if !repairs.is_empty() {
            let said: Vec<String> = repairs.iter().map(Repair::to_string).collect();
            let said = said.join("; ");
            self.content = format!("[your arguments were repaired: {said}]\n{}", self.content);
        }
        self
    }
}

/// Arguments as the tool's own type; what the call ends with if they are not.
pub(crate) fn typed<T: DeserializeOwned>(args: Value) -> Result<T, Finished> {
    serde_json::from_value(args).map_err(|error| {
        let faults = vec![error.to_string()];
        let problem = args::Problem::Schema { faults };
        Finished::error(format!("nothing was run: {problem}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(kind: &str) -> ToolSpec {
        ToolSpec {
            name: "ls".into(),
            description: "".into(),
            parameters: json!({ "type": "object", "properties": { "path": { "type": kind } } }),
        }
    }

    #[test]
    fn a_schema_that_changes_is_compiled_anew() {
        let schemas = Schemas::default();
        let args = "{\"path\": 5}";
        schemas
            .read(&spec("string"), args, false)
            .expect_err("a number");
        schemas
            .read(&spec("integer"), args, false)
            .expect("a number");
        assert_eq!(schemas.0.lock().expect("a lock").len(), 1);
    }

    #[test]
    fn what_was_repaired_is_said_and_nothing_else() {
        assert_eq!(Finished::ok("x").repaired(&[]).content, "x");
        let said = Finished::ok("x").repaired(&[Repair::Fence, Repair::TrailingComma]);
        assert_eq!(
            said.content,
            "[your arguments were repaired: a code fence around them was taken off; \
             a trailing comma was taken out]\nx"
        );
    }
}
