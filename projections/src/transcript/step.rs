//! What one event adds to a transcript and changes of its agent.

use cocoonbox_events::{AgentEvent, approval};
use cocoonbox_proto::{
    agent::v1::{PendingApproval, PendingQuestion, transcript_item::Kind as ItemKind},
    log::v1::{
        AgentApprovalRequested, AgentCreated, AgentPromptReceived, AgentQuestionAsked,
        AgentTodoSet, AgentToolCalled, AgentToolFinished, ModelRoles, agent_model_failed::Reason,
        agent_todo_set::item,
    },
};

use super::{
    OpenCall,
    agent_row::{AgentRow, AgentState},
    item::{ImageRow, ItemRow, Mark, Scope, lower},
    open_call,
};
use crate::rows::{self, Rows, View};

/// So much of a call's arguments stands beside a question whether it may run; the call itself has all.
const ARGS_BYTES_MAX: usize = 16 * 1024;

/// Takes in what is not streamed output.
pub(super) fn step(
    rows: &mut dyn Rows,
    scope: &Scope<'_>,
    agent: &mut AgentRow,
    event: AgentEvent,
    erased: bool,
) -> Result<(), rows::Error> {
    let whole = |kind: ItemKind, text: String| ItemRow {
        text,
        ..scope.item(kind, erased)
    };
    match event {
        AgentEvent::Created(event) => created(agent, event),
        AgentEvent::Renamed(renamed) => agent.name = renamed.name,
        AgentEvent::ModelsSet(set) => agent.set_models(set.models.unwrap_or_default(), set.of_box),
        AgentEvent::RulesSet(set) => agent.change(|more| more.rules = set.rules),
        AgentEvent::Closed(_) => {
            open_call::cut(rows, scope, agent)?;
            agent.state = AgentState::Closed;
        }
        AgentEvent::PromptReceived(prompt) => prompted(rows, scope, agent, prompt, erased)?,
        AgentEvent::PromptWithdrawn(withdrawn) => {
            agent.takes_up(std::slice::from_ref(&withdrawn.prompt_id));
            settle(rows, scope, "prompt", &withdrawn.prompt_id, "withdrawn")?;
        }
        AgentEvent::Branched(branched) => {
            agent.branches(&branched.branch_id);
            let mut item = whole(ItemKind::Branched, String::new());
            item.branch_id = branched.branch_id;
            item.prompt_id = branched.before_prompt_id;
            scope.put(rows, &item)?;
        }
        AgentEvent::BranchSelected(selected) => {
            agent.change(|more| more.branch_id.clone_from(&selected.branch_id));
            let mut item = whole(ItemKind::Branched, String::new());
            item.branch_id = selected.branch_id;
            scope.put(rows, &item)?;
        }
        AgentEvent::TurnStarted(started) => {
            agent.takes_up(&started.prompt_ids);
            agent.state = AgentState::Working;
        }
        AgentEvent::ModelCalled(call) => {
            open_call::cut(rows, scope, agent)?;
            agent.takes_up(&call.prompt_ids);
            if agent.state == AgentState::WaitingForBudget {
                agent.state = AgentState::Working;
            }
            agent.call = Some(OpenCall {
                call_id: call.call_id,
                pos: scope.event.pos,
            });
        }
        AgentEvent::ModelReplied(reply) => {
            open_call::reply(rows, scope, agent, reply, erased)?;
        }
        AgentEvent::ModelFailed(failed) => {
            open_call::cut(rows, scope, agent)?;
            if failed.reason() == Reason::Budget {
                agent.state = AgentState::WaitingForBudget;
            }
            let mut item = whole(ItemKind::ModelFailed, failed.detail.clone());
            if !erased {
                item.outcome = lower(failed.reason().as_str_name());
            }
            scope.put(rows, &item)?;
        }
        AgentEvent::Compacted(compacted) => {
            scope.put(rows, &whole(ItemKind::Compacted, compacted.summary))?;
        }
        AgentEvent::ToolCalled(call) => tool_called(rows, scope, call, erased)?,
        AgentEvent::ToolFinished(finished) => tool_finished(rows, scope, finished, erased)?,
        AgentEvent::ApprovalRequested(asked) => approval(rows, scope, agent, asked, erased)?,
        AgentEvent::ApprovalDecided(decided) => {
            let outcome = if decided.allowed { "allowed" } else { "denied" };
            settle(rows, scope, "approval", &decided.approval_id, outcome)?;
            agent.answered(&decided.approval_id);
        }
        AgentEvent::ApprovalExpired(expired) => {
            settle(rows, scope, "approval", &expired.approval_id, "expired")?;
            agent.answered(&expired.approval_id);
        }
        AgentEvent::QuestionAsked(asked) => question(rows, scope, agent, asked, erased)?,
        AgentEvent::QuestionAnswered(answered) => {
            settle(rows, scope, "approval", &answered.question_id, "answered")?;
            agent.answered(&answered.question_id);
        }
        AgentEvent::TodoSet(todo) => {
            scope.put(rows, &whole(ItemKind::Todo, todo_text(&todo)))?;
            agent.change(|more| more.todo = todo.items);
        }
        AgentEvent::TurnEnded(ended) => {
            open_call::cut(rows, scope, agent)?;
            let mut item = whole(ItemKind::TurnEnded, ended.detail.clone());
            if !erased {
                item.outcome = lower(ended.outcome().as_str_name());
            }
            scope.put(rows, &item)?;
            agent.rests();
        }
        // What comes of it is said by the events that follow, or nobody reads it in a transcript.
        AgentEvent::CancelRequested(_)
        | AgentEvent::OutputStreamed(_)
        | AgentEvent::Instructed(_) => {}
    }
    Ok(())
}

fn created(agent: &mut AgentRow, created: AgentCreated) {
    let models = created.models.unwrap_or(ModelRoles {
        main: created.model,
        ..ModelRoles::default()
    });
    agent.set_models(models, created.models_of_box);
    agent.change(|more| {
        let policy = approval::policy(created.approval);
        let rules = created.rules;
        more.rules = Some(rules.unwrap_or_else(|| approval::spelled_out(policy)));
        more.parent_agent_id = created.parent_agent_id;
    });
    agent.name = created.name;
    agent.state = AgentState::Idle;
}

fn prompted(
    rows: &mut dyn Rows,
    scope: &Scope<'_>,
    agent: &mut AgentRow,
    prompt: AgentPromptReceived,
    erased: bool,
) -> Result<(), rows::Error> {
    let mut item = ItemRow {
        text: prompt.text,
        images: prompt.images.into_iter().map(ImageRow::from).collect(),
        ..scope.item(ItemKind::Prompt, erased)
    };
    if !erased {
        item.prompt_id.clone_from(&prompt.prompt_id);
        scope.set_mark(rows, "prompt", &prompt.prompt_id, &scope.own_mark())?;
        agent.queues(prompt.prompt_id);
    }
    scope.put(rows, &item)
}

fn tool_called(
    rows: &mut dyn Rows,
    scope: &Scope<'_>,
    call: AgentToolCalled,
    erased: bool,
) -> Result<(), rows::Error> {
    let mark = scope.mark(rows, "tool", &call.tool_call_id)?;
    if let Some(mark) = mark {
        // The row is the reply's: it does not know the risk.
        if let Some(mut item) = rows::get::<ItemRow>(rows, View::Transcript, &mark.item)? {
            item.risk = call.risk;
            rows::put(rows, View::Transcript, &mark.item, &item)?;
        }
        return Ok(());
    }
    let item = ItemRow {
        tool_name: call.name,
        tool_call_id: call.tool_call_id,
        risk: call.risk,
        text: call.args_json,
        ..scope.item(ItemKind::ToolCall, erased)
    };
    scope.put(rows, &item)?;
    if !erased {
        let mark = Mark {
            tool_name: item.tool_name,
            ..scope.own_mark()
        };
        scope.set_mark(rows, "tool", &item.tool_call_id, &mark)?;
    }
    Ok(())
}

fn tool_finished(
    rows: &mut dyn Rows,
    scope: &Scope<'_>,
    finished: AgentToolFinished,
    erased: bool,
) -> Result<(), rows::Error> {
    let mark = scope.take_mark(rows, "tool", &finished.tool_call_id)?;
    let mut item = ItemRow {
        text: finished.content.clone(),
        ..scope.item(ItemKind::ToolResult, erased)
    };
    if !erased {
        item.outcome = lower(finished.outcome().as_str_name());
    }
    item.images = finished.images.into_iter().map(ImageRow::from).collect();
    item.blob = finished.blob;
    item.tool_call_id = finished.tool_call_id;
    item.tool_name = mark.map(|mark| mark.tool_name).unwrap_or_default();
    scope.put(rows, &item)
}

fn approval(
    rows: &mut dyn Rows,
    scope: &Scope<'_>,
    agent: &mut AgentRow,
    asked: AgentApprovalRequested,
    erased: bool,
) -> Result<(), rows::Error> {
    let tool = scope
        .mark(rows, "tool", &asked.tool_call_id)?
        .unwrap_or_default();
    let args: Option<ItemRow> = match tool.item.as_str() {
        "" => None,
        key => rows::get(rows, View::Transcript, key)?,
    };
    let args_json = args.map(|item| item.text).unwrap_or_default();
    let mut item = ItemRow {
        text: asked.approval_id.clone(),
        tool_name: tool.tool_name.clone(),
        tool_call_id: asked.tool_call_id,
        risk: asked.risk,
        request_id: asked.approval_id.clone(),
        ..scope.item(ItemKind::Approval, erased)
    };
    if !erased {
        "pending".clone_into(&mut item.outcome);
        scope.set_mark(rows, "approval", &asked.approval_id, &scope.own_mark())?;
    }
    agent.asks(PendingApproval {
        approval_id: asked.approval_id,
        tool_name: tool.tool_name,
        args_json: open_call::fitting(&args_json, ARGS_BYTES_MAX).to_owned(),
        risk: asked.risk,
        expires_at_ms: asked.expires_at_us.div_euclid(1_000),
        agent_id: agent.id.clone(),
    });
    scope.put(rows, &item)
}

fn question(
    rows: &mut dyn Rows,
    scope: &Scope<'_>,
    agent: &mut AgentRow,
    asked: AgentQuestionAsked,
    erased: bool,
) -> Result<(), rows::Error> {
    let choices = asked.choices.iter().map(|choice| format!("\n- {choice}"));
    let mut item = ItemRow {
        text: format!("{}{}", asked.question, choices.collect::<String>()),
        tool_call_id: asked.tool_call_id,
        request_id: asked.question_id.clone(),
        ..scope.item(ItemKind::Question, erased)
    };
    if !erased {
        "pending".clone_into(&mut item.outcome);
        // Ids of approvals and questions are drawn from one well.
        scope.set_mark(rows, "approval", &asked.question_id, &scope.own_mark())?;
    }
    agent.questions(PendingQuestion {
        question_id: asked.question_id,
        question: asked.question,
        choices: asked.choices,
        agent_id: agent.id.clone(),
    });
    scope.put(rows, &item)
}

/// Says in the item that waited what came of it.
fn settle(
    rows: &mut dyn Rows,
    scope: &Scope<'_>,
    what: &str,
    id: &str,
    outcome: &str,
) -> Result<(), rows::Error> {
    if let Some(mark) = scope.take_mark(rows, what, id)?
        && let Some(mut item) = rows::get::<ItemRow>(rows, View::Transcript, &mark.item)?
    {
        outcome.clone_into(&mut item.outcome);
        item.offset_key = scope.event.offset_key().to_string();
        rows::put(rows, View::Transcript, &mark.item, &item)?;
    }
    Ok(())
}

fn todo_text(todo: &AgentTodoSet) -> String {
    let line = |item: &cocoonbox_proto::log::v1::agent_todo_set::Item| {
        let mark = match item.state() {
            item::State::Pending => "[ ]",
            item::State::InProgress => "[>]",
            item::State::Completed => "[x]",
        };
        format!("{mark} {}", item.text)
    };
    todo.items.iter().map(line).collect::<Vec<_>>().join("\n")
}
