//! `ask_user` and `todo`: tools that the conversation itself answers. Only what a model is told of them is
//! here; nothing runs.

use async_trait::async_trait;
use cocoonbox_commands::agent::{
    TODO_ITEMS_MAX,
    tools::{ASK_USER, TODO},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    Asker, Context, Finished, Tool,
    schema::{object, text},
};
use crate::wire::ToolSpec;

/// A tool that the decider answers.
pub(crate) struct TalkTool {
    spec: ToolSpec,
}

impl TalkTool {
    /// `ask_user`.
    pub(crate) fn ask_user() -> Self {
        let spec = ToolSpec {
            name: ASK_USER.into(),
            description: "Asks the owner and waits for the answer. For what you cannot find out \
                yourself and what changes what you do. One question at a time."
                .into(),
            parameters: object(
                json!({
                    "question": text("The question, with what the owner needs to know to answer it."),
                    "choices": {
                        "type": "array",
                        "items": { "type": "string" },
                        "maxItems": 20,
                        "description": "Answers to choose from. The owner may always write another.",
                    },
                }),
                &["question"],
            ),
        };
        Self { spec }
    }

    /// `todo`.
    pub(crate) fn todo() -> Self {
        let item = object(
            json!({
                "text": text("What is to be done."),
                "state": {
                    "type": "string",
                    "enum": ["pending", "in_progress", "completed"],
                },
            }),
            &["text", "state"],
        );
        let spec = ToolSpec {
            name: TODO.into(),
            description:
                "Writes your list of things to do; the owner sees it. Give the whole list \
                each time: it replaces the one before."
                    .into(),
            parameters: object(
                json!({
                    "items": { "type": "array", "items": item, "maxItems": TODO_ITEMS_MAX },
                }),
                &["items"],
            ),
        };
        Self { spec }
    }
}

#[async_trait]
impl Tool for TalkTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn is_for(&self, asker: Asker) -> bool {
        // A helper works for an agent, which has the list and speaks to the owner.
        !asker.is_child || self.spec.name == ASK_USER
    }

    async fn run(&self, _: &Context<'_>, _: Value, _: &CancellationToken) -> Option<Finished> {
        // The decider answers these before anything is run.
        Some(Finished::error(
            "nothing was run: the agent could not answer this",
        ))
    }
}
