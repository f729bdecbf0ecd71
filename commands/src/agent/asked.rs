//! Tools that the conversation itself answers: a question to a person, and the list of what is to do.

use cocoonbox_proto::log::v1::{
    AgentTodoSet,
    agent_todo_set::{Item, item},
};
use serde_json::Value;

use super::command::{TODO_ITEMS_MAX, TODO_TEXT_BYTES_MAX};
use crate::bounded;

/// Longest question, and longest choice.
const QUESTION_BYTES_MAX: usize = 16 * 1024;
const CHOICE_BYTES_MAX: usize = 1_000;
const CHOICES_MAX: usize = 20;

/// What `ask_user` asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) question: String,
    pub(super) choices: Vec<String>,
}

/// Reads the arguments of `ask_user`: `{"question": "…", "choices": ["…"]}`. An error is for the model.
pub(super) fn question(args_json: &str) -> Result<Question, String> {
    let args = object(args_json)?;
    let question = args.get("question").and_then(Value::as_str).unwrap_or("");
    if question.trim().is_empty() {
        return Err("`question` has to be a text that is not empty".to_owned());
    }
    let choices = match args.get("choices") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(choices)) => choices
            .iter()
            .map(|choice| match choice.as_str() {
                Some(choice) if !choice.trim().is_empty() => {
                    Ok(bounded::prefix(choice, CHOICE_BYTES_MAX).to_owned())
                }
                _ => Err("each of `choices` has to be a text that is not empty".to_owned()),
            })
            .collect::<Result<_, _>>()?,
        Some(_) => return Err("`choices` has to be a list of texts".to_owned()),
    };
    if choices.len() > CHOICES_MAX {
        return Err(format!("at most {CHOICES_MAX} `choices` can be offered"));
    }
    let question = bounded::prefix(question, QUESTION_BYTES_MAX).to_owned();
    Ok(Question { question, choices })
}

/// Reads the arguments of `todo`: `{"items": [{"text": "…", "state": "pending"}]}`. The words of other
/// such tools that models know are taken too.
pub(super) fn todo(args_json: &str) -> Result<AgentTodoSet, String> {
    let args = object(args_json)?;
    let items = args.get("items").or_else(|| args.get("todos"));
    let Some(items) = items.and_then(Value::as_array) else {
        return Err("`items` has to be a list".to_owned());
    };
    if items.len() > TODO_ITEMS_MAX {
        return Err(format!("at most {TODO_ITEMS_MAX} items fit the list"));
    }
    let items = items.iter().map(todo_item).collect::<Result<_, _>>()?;
    Ok(AgentTodoSet { items })
}

fn todo_item(item: &Value) -> Result<Item, String> {
    let word = |names: [&str; 2]| names.iter().find_map(|name| item.get(name)?.as_str());
    let text = word(["text", "content"]).unwrap_or_default();
    if text.trim().is_empty() {
        return Err("each item needs a `text` that is not empty".to_owned());
    }
    let state = match word(["state", "status"]).unwrap_or("pending") {
        "pending" => item::State::Pending,
        "in_progress" => item::State::InProgress,
        "completed" | "done" => item::State::Completed,
        other => {
            let other = bounded::prefix(other, 40);
            return Err(format!(
                "`{other}` is no state; there are `pending`, `in_progress` and `completed`"
            ));
        }
    };
    Ok(Item {
        text: bounded::prefix(text, TODO_TEXT_BYTES_MAX).to_owned(),
        state: state.into(),
    })
}

/// Returns what the model is told of a list that was set.
pub(super) fn todo_told(todo: &AgentTodoSet) -> String {
    let done = |item: &&Item| item.state() == item::State::Completed;
    let count = todo.items.iter().filter(done).count();
    format!(
        "the list has {} items, {count} of them completed",
        todo.items.len()
    )
}

fn object(args_json: &str) -> Result<Value, String> {
    match serde_json::from_str(args_json) {
        Ok(Value::Object(args)) => Ok(Value::Object(args)),
        Ok(_) => Err("the arguments have to be a JSON object".to_owned()),
        Err(error) => Err(format!("the arguments are not JSON: {error}")),
    }
}
