//! What was sent to the decider, read back from the event that it led to.

use cocoonbox_commands::agent::{Chunk, Command, State, UseState};
use cocoonbox_events::AgentEvent;
use cocoonbox_proto::log::v1 as log;

/// Returns what can have led to an event in this state, with the event behind it, the likelier first.
pub(super) fn commands_for(
    state: &State,
    event: &AgentEvent,
    then: Option<&AgentEvent>,
) -> Vec<(&'static str, Command)> {
    match event.clone() {
        AgentEvent::Created(e) => vec![("create", Command::Create(Box::new(e)))],
        AgentEvent::Renamed(e) => vec![("rename", Command::Rename { name: e.name })],
        AgentEvent::Closed(_) => vec![("close", Command::Close)],
        AgentEvent::PromptReceived(e) => {
            vec![(
                "prompt",
                Command::Prompt {
                    prompt_id: e.prompt_id,
                    text: e.text,
                    steer: e.steer,
                    images: e.images,
                },
            )]
        }
        AgentEvent::ModelsSet(e) => {
            let models = e.models.unwrap_or_default();
            vec![if e.of_box {
                ("follow_box", Command::FollowBox { models })
            } else {
                ("set_models", Command::SetModels { models })
            }]
        }
        AgentEvent::RulesSet(e) => {
            let rules = e.rules.unwrap_or_default();
            vec![("set_rules", Command::SetRules { rules })]
        }
        AgentEvent::PromptWithdrawn(e) => {
            let prompt_id = e.prompt_id;
            vec![("withdraw", Command::Withdraw { prompt_id })]
        }
        AgentEvent::Branched(e) => branched(e, then),
        AgentEvent::BranchSelected(e) => {
            let branch_id = e.branch_id;
            vec![("select_branch", Command::SelectBranch { branch_id })]
        }
        AgentEvent::Instructed(e) => {
            let instruct = Command::Instruct {
                system: e.system,
                tools: e.tools,
                tools_hash: e.tools_hash,
            };
            vec![("instruct", instruct)]
        }
        AgentEvent::TodoSet(e) => vec![("set_todo", Command::SetTodo { items: e.items })],
        AgentEvent::TurnStarted(e) => vec![advance(&e.turn_id, "", "", 0)],
        AgentEvent::ModelCalled(e) => vec![advance("", &e.call_id, "", 0)],
        AgentEvent::OutputStreamed(e) => {
            let chunk = Chunk {
                block: e.block,
                part: e.part(),
                offset: e.offset,
                text: e.text.clone(),
            };
            vec![(
                "streamed",
                Command::Streamed {
                    call_id: e.call_id,
                    chunks: vec![chunk],
                },
            )]
        }
        AgentEvent::ModelReplied(e) => {
            let stop = e.stop();
            vec![(
                "replied",
                Command::Replied {
                    call_id: e.call_id,
                    blocks: e.blocks,
                    stop,
                    vendor_stop: e.vendor_stop,
                    usage: e.usage.unwrap_or_default(),
                    vendor_request_id: e.vendor_request_id,
                },
            )]
        }
        AgentEvent::ModelFailed(e) => {
            let reason = e.reason();
            let reported = (
                "model_failed",
                Command::ModelFailed {
                    call_id: e.call_id,
                    reason,
                    detail: e.detail,
                    retryable: e.retryable,
                    retry_after_ms: e.retry_after_ms,
                },
            );
            if reason == log::agent_model_failed::Reason::AgentRestarted {
                vec![("restarted", Command::Restarted), reported]
            } else {
                vec![reported]
            }
        }
        AgentEvent::Compacted(_) | AgentEvent::ToolCalled(_) | AgentEvent::TurnEnded(_) => {
            vec![advance("", "", "", 0)]
        }
        AgentEvent::ToolFinished(e) => tool_finished(state, e),
        AgentEvent::ApprovalRequested(e) => {
            // When it was asked is in how long it waits.
            let now_us = match e.expires_at_us {
                0 => 0,
                expires_at_us => expires_at_us - state.rules.ttl_us(),
            };
            vec![advance("", "", &e.approval_id, now_us)]
        }
        AgentEvent::QuestionAsked(e) => vec![advance("", "", &e.question_id, 0)],
        AgentEvent::ApprovalExpired(e) => {
            let approval_id = e.approval_id;
            let now_us = i64::MAX;
            vec![(
                "expire",
                Command::Expire {
                    approval_id,
                    now_us,
                },
            )]
        }
        AgentEvent::QuestionAnswered(e) => {
            let (question_id, answer) = (e.question_id, e.answer);
            vec![(
                "answer",
                Command::Answer {
                    question_id,
                    answer,
                },
            )]
        }
        AgentEvent::ApprovalDecided(e) => {
            let approve = Command::Approve {
                allowed: e.allowed,
                scope: e.scope(),
                approval_id: e.approval_id,
                comment: e.comment,
                now_us: 0,
            };
            vec![("approve", approve)]
        }
        AgentEvent::CancelRequested(e) => vec![("cancel", Command::Cancel { turn_id: e.turn_id })],
    }
}

fn advance(
    turn_id: &str,
    call_id: &str,
    approval_id: &str,
    now_us: i64,
) -> (&'static str, Command) {
    let advance = Command::Advance {
        turn_id: turn_id.to_owned(),
        call_id: call_id.to_owned(),
        approval_id: approval_id.to_owned(),
        now_us,
    };
    ("advance", advance)
}

/// The prompt of a new branch is written with it.
fn branched(event: log::AgentBranched, then: Option<&AgentEvent>) -> Vec<(&'static str, Command)> {
    let (prompt_id, text) = match then {
        Some(AgentEvent::PromptReceived(prompt)) => (prompt.prompt_id.clone(), prompt.text.clone()),
        // Cut behind it: which prompt it was is not known, and not compared.
        _ => ("unknown".to_owned(), "unknown".to_owned()),
    };
    let branch = Command::Branch {
        branch_id: event.branch_id,
        before_prompt_id: event.before_prompt_id,
        prompt_id,
        text,
    };
    vec![("branch", branch)]
}

fn tool_finished(state: &State, event: log::AgentToolFinished) -> Vec<(&'static str, Command)> {
    let uses = state
        .turn
        .as_ref()
        .map(cocoonbox_commands::agent::Turn::uses)
        .unwrap_or_default();
    let called = uses
        .iter()
        .any(|tool| tool.tool_call_id == event.tool_call_id && tool.state == UseState::Called);
    let outcome = event.outcome();
    if !called {
        let not_run = Command::NotRun {
            tool_call_id: event.tool_call_id,
            content: event.content,
        };
        let is_error = outcome == log::agent_tool_finished::Outcome::Error;
        let told = is_error.then_some(("not_run", not_run));
        return told.into_iter().chain([advance("", "", "", 0)]).collect();
    }
    let reported = (
        "tool_finished",
        Command::ToolFinished {
            tool_call_id: event.tool_call_id,
            outcome,
            content: event.content,
            exec_id: event.exec_id,
            images: event.images,
            blob: event.blob,
        },
    );
    if outcome == log::agent_tool_finished::Outcome::Interrupted {
        vec![("restarted", Command::Restarted), reported]
    } else {
        vec![reported]
    }
}
