//! From commands to events.

use cocoonbox_events::AgentEvent;
use cocoonbox_proto::log::v1::{
    self as log, AgentModelFailed, AgentModelReplied, AgentToolFinished, Image, ModelRoles,
};

use super::{
    advance,
    command::{
        Command, IMAGES_MAX, PROMPT_BYTES_MAX, QUEUE_PROMPTS_MAX, SYSTEM_BYTES_MAX, TODO_ITEMS_MAX,
        TODO_TEXT_BYTES_MAX,
    },
    person,
    rejection::Rejection,
    report, series,
    state::{Life, STEPS_DEFAULT, State},
};
use crate::{models, name::check_label};

/// Ids that clients choose: all that wait are named in one event.
pub(super) const ID_BYTES_MAX: usize = 128;
/// Rules: there are six risks.
const RULES_MAX: usize = 32;

pub(super) type Decision = Result<Vec<AgentEvent>, Rejection>;

pub(super) fn decide(state: &State, command: &Command) -> Decision {
    if let Command::Create(created) = command {
        return create(state, created);
    }
    if state.life == Life::Absent {
        return Err(Rejection::NotFound);
    }
    match command {
        // Handled above.
        Command::Create(_) => Ok(Vec::new()),
        Command::Rename { name } => rename(state, name),
        Command::SetModels { models } => set_models(state, models, false),
        Command::FollowBox { models } => set_models(state, models, true),
        Command::SetRules { rules } => set_rules(state, rules),
        Command::Close => match state.life {
            Life::Absent => Err(Rejection::NotFound),
            Life::Closed => Ok(Vec::new()),
            Life::Open if state.is_busy() => Err(Rejection::Busy),
            Life::Open => Ok(vec![AgentEvent::Closed(log::AgentClosed {})]),
        },
        Command::Prompt {
            prompt_id,
            text,
            steer,
            images,
        } => prompt(state, prompt_id, text, *steer, images),
        Command::Withdraw { prompt_id } => person::withdraw(state, prompt_id),
        Command::Branch {
            branch_id,
            before_prompt_id,
            prompt_id,
            text,
        } => person::branch(state, branch_id, before_prompt_id, (prompt_id, text)),
        Command::SelectBranch { branch_id } => person::select_branch(state, branch_id),
        Command::Instruct {
            system,
            tools,
            tools_hash,
        } => instruct(state, system, tools, tools_hash),
        Command::SetTodo { items } => set_todo(state, items),
        Command::Advance {
            turn_id,
            call_id,
            approval_id,
            now_us,
        } => advance::advance(state, turn_id, call_id, approval_id, *now_us),
        Command::Series {
            reports,
            step,
            calls,
        } => series::series(state, reports, step, *calls),
        Command::Approve {
            approval_id,
            allowed,
            comment,
            scope,
            now_us,
        } => person::approve(state, approval_id, (*allowed, *scope), comment, *now_us),
        Command::Expire {
            approval_id,
            now_us,
        } => Ok(person::expire(state, approval_id, *now_us)),
        Command::Answer {
            question_id,
            answer,
        } => person::answer(state, question_id, answer),
        Command::Cancel { turn_id } => person::cancel(state, turn_id),
        Command::Streamed { .. }
        | Command::Replied { .. }
        | Command::ModelFailed { .. }
        | Command::ToolFinished { .. }
        | Command::NotRun { .. }
        | Command::Restarted => reported(state, command),
    }
}

/// What the loop tells.
fn reported(state: &State, command: &Command) -> Decision {
    match command.clone() {
        Command::Streamed { call_id, chunks } => report::streamed(state, &call_id, &chunks),
        Command::Replied {
            call_id,
            blocks,
            stop,
            vendor_stop,
            usage,
            vendor_request_id,
        } => {
            let of = AgentModelReplied {
                call_id,
                blocks,
                stop: stop.into(),
                vendor_stop,
                usage: Some(usage),
                vendor_request_id,
            };
            report::replied(state, of)
        }
        Command::ModelFailed {
            call_id,
            reason,
            detail,
            retryable,
            retry_after_ms,
        } => {
            let of = AgentModelFailed {
                call_id,
                reason: reason.into(),
                detail,
                retryable,
                retry_after_ms,
            };
            report::model_failed(state, of)
        }
        Command::ToolFinished {
            tool_call_id,
            outcome,
            content,
            exec_id,
            images,
            blob,
        } => {
            let of = AgentToolFinished {
                tool_call_id,
                outcome: outcome.into(),
                content,
                exec_id,
                images,
                blob,
            };
            report::tool_finished(state, of)
        }
        Command::NotRun {
            tool_call_id,
            content,
        } => Ok(report::not_run(state, &tool_call_id, &content)),
        // The others are not told by the loop.
        _ => Ok(report::restarted(state)),
    }
}

fn create(state: &State, asked: &log::AgentCreated) -> Decision {
    not_empty("agent_id", &asked.agent_id)?;
    if state.life != Life::Absent {
        if state.agent_id == asked.agent_id {
            return Ok(Vec::new());
        }
        let (actual, asked) = (state.agent_id.clone(), asked.agent_id.clone());
        return Err(Rejection::OtherAgent { actual, asked });
    }
    check_label(&asked.name)?;
    match (&asked.models, &asked.model) {
        (Some(models), _) => check_models(models)?,
        (None, Some(model)) => models::check_model(model)?,
        (None, None) => return Err(Rejection::Empty { field: "model" }),
    }
    if let Some(rules) = &asked.rules {
        fits("rules", rules.rules.len(), RULES_MAX)?;
    }
    fits("parent_agent_id", asked.parent_agent_id.len(), ID_BYTES_MAX)?;
    fits(
        "parent_tool_call_id",
        asked.parent_tool_call_id.len(),
        ID_BYTES_MAX,
    )?;
    let mut created = asked.clone();
    if created.steps_max == 0 {
        created.steps_max = STEPS_DEFAULT;
    }
    Ok(vec![AgentEvent::Created(created)])
}

fn check_models(models: &ModelRoles) -> Result<(), Rejection> {
    if models.main.is_none() {
        return Err(Rejection::Empty {
            field: "models.main",
        });
    }
    Ok(models::check(models)?)
}

fn rename(state: &State, name: &str) -> Decision {
    open(state)?;
    check_label(name)?;
    if state.name == *name {
        return Ok(Vec::new());
    }
    Ok(vec![AgentEvent::Renamed(log::AgentRenamed {
        name: name.to_owned(),
    })])
}

fn set_models(state: &State, models: &ModelRoles, of_box: bool) -> Decision {
    open(state)?;
    check_models(models)?;
    if state.models == *models && state.models_of_box == of_box {
        return Ok(Vec::new());
    }
    Ok(vec![AgentEvent::ModelsSet(log::AgentModelsSet {
        models: Some(models.clone()),
        of_box,
    })])
}

fn set_rules(state: &State, rules: &log::ApprovalRules) -> Decision {
    open(state)?;
    fits("rules", rules.rules.len(), RULES_MAX)?;
    if state.rules.rules.as_ref() == Some(rules) {
        return Ok(Vec::new());
    }
    Ok(vec![AgentEvent::RulesSet(log::AgentRulesSet {
        rules: Some(rules.clone()),
    })])
}

pub(super) fn prompt(
    state: &State,
    prompt_id: &str,
    text: &str,
    steer: bool,
    images: &[Image],
) -> Decision {
    open(state)?;
    not_empty("prompt_id", prompt_id)?;
    fits("prompt_id", prompt_id.len(), ID_BYTES_MAX)?;
    if images.is_empty() {
        not_empty("text", text.trim())?;
    }
    fits("text", text.len(), PROMPT_BYTES_MAX)?;
    fits("images", images.len(), IMAGES_MAX)?;
    if state.prompt_ids.contains(prompt_id) {
        return Ok(Vec::new());
    }
    if state.queued.len() >= QUEUE_PROMPTS_MAX {
        return Err(Rejection::QueueFull);
    }
    Ok(vec![AgentEvent::PromptReceived(log::AgentPromptReceived {
        prompt_id: prompt_id.to_owned(),
        text: text.to_owned(),
        steer,
        images: images.to_vec(),
    })])
}

fn instruct(state: &State, system: &str, tools: &[String], tools_hash: &[u8]) -> Decision {
    fits("system", system.len(), SYSTEM_BYTES_MAX)?;
    let Some(turn) = &state.turn else {
        return Err(Rejection::NoTurn);
    };
    if state.is_instructed(system, tools, tools_hash) {
        return Ok(Vec::new());
    }
    Ok(vec![AgentEvent::Instructed(log::AgentInstructed {
        turn_id: turn.turn_id.clone(),
        system: system.to_owned(),
        tools: tools.to_vec(),
        tools_hash: tools_hash.to_vec(),
    })])
}

fn set_todo(state: &State, items: &[log::agent_todo_set::Item]) -> Decision {
    open(state)?;
    fits("items", items.len(), TODO_ITEMS_MAX)?;
    for item in items {
        not_empty("text", &item.text)?;
        fits("text", item.text.len(), TODO_TEXT_BYTES_MAX)?;
    }
    if state.todo == items {
        return Ok(Vec::new());
    }
    Ok(vec![AgentEvent::TodoSet(log::AgentTodoSet {
        items: items.to_vec(),
    })])
}

pub(super) fn open(state: &State) -> Result<(), Rejection> {
    match state.life {
        Life::Absent => Err(Rejection::NotFound),
        Life::Open => Ok(()),
        Life::Closed => Err(Rejection::Closed),
    }
}

pub(super) fn fresh(state: &State, field: &'static str, id: &str) -> Result<(), Rejection> {
    not_empty(field, id)?;
    if state.ids.contains(id) {
        Err(Rejection::IdReused { id: id.to_owned() })
    } else {
        Ok(())
    }
}

pub(super) fn not_empty(field: &'static str, value: &str) -> Result<(), Rejection> {
    if value.is_empty() {
        Err(Rejection::Empty { field })
    } else {
        Ok(())
    }
}

pub(super) fn fits(field: &'static str, size: usize, max: usize) -> Result<(), Rejection> {
    if size > max {
        Err(Rejection::TooLarge { field, size, max })
    } else {
        Ok(())
    }
}
