//! What people decide: answers, branches, cancels.

use cocoonbox_events::AgentEvent;
use cocoonbox_proto::log::v1::{
    self as log, agent_approval_decided::Scope, agent_tool_finished::Outcome,
};

use super::{
    advance::turn_started,
    command::{ANSWER_BYTES_MAX, BRANCHES_MAX},
    decide::{Decision, ID_BYTES_MAX, fits, not_empty, open, prompt},
    rejection::Rejection,
    report::finished,
    state::State,
    turn::{ToolUse, Turn, UseState},
};
use crate::bounded;

const DENIED: &str = "not run: a person denied this call";
const EXPIRED: &str = "not run: nobody answered in time whether this may run";

pub(super) fn withdraw(state: &State, prompt_id: &str) -> Decision {
    if state
        .queued
        .iter()
        .any(|prompt| prompt.prompt_id == prompt_id)
    {
        return Ok(vec![AgentEvent::PromptWithdrawn(
            log::AgentPromptWithdrawn {
                prompt_id: prompt_id.to_owned(),
            },
        )]);
    }
    // One that neither waits nor was taken up was withdrawn before.
    if state.prompt_ids.contains(prompt_id) && !state.history.has_ever_taken_up(prompt_id) {
        return Ok(Vec::new());
    }
    let prompt_id = prompt_id.to_owned();
    Err(Rejection::PromptNotQueued { prompt_id })
}

pub(super) fn branch(
    state: &State,
    branch_id: &str,
    before_prompt_id: &str,
    (prompt_id, text): (&str, &str),
) -> Decision {
    open(state)?;
    not_empty("branch_id", branch_id)?;
    fits("branch_id", branch_id.len(), ID_BYTES_MAX)?;
    if state.history.has_branch(branch_id) {
        return Ok(Vec::new());
    }
    if state.is_busy() {
        return Err(Rejection::Busy);
    }
    if state.history.branch_ids().len() >= BRANCHES_MAX {
        return Err(Rejection::TooManyBranches);
    }
    if !state.history.has_taken_up(before_prompt_id) {
        let prompt_id = before_prompt_id.to_owned();
        return Err(Rejection::PromptNotTakenUp { prompt_id });
    }
    if state.prompt_ids.contains(prompt_id) {
        let id = prompt_id.to_owned();
        return Err(Rejection::IdReused { id });
    }
    let branched = AgentEvent::Branched(log::AgentBranched {
        branch_id: branch_id.to_owned(),
        before_prompt_id: before_prompt_id.to_owned(),
    });
    let prompted = prompt(state, prompt_id, text, false, &[])?;
    Ok(std::iter::once(branched).chain(prompted).collect())
}

pub(super) fn select_branch(state: &State, branch_id: &str) -> Decision {
    open(state)?;
    if state.history.branch_id() == branch_id {
        return Ok(Vec::new());
    }
    if !state.history.has_branch(branch_id) {
        let branch_id = branch_id.to_owned();
        return Err(Rejection::UnknownBranch { branch_id });
    }
    if state.is_busy() {
        return Err(Rejection::Busy);
    }
    Ok(vec![AgentEvent::BranchSelected(log::AgentBranchSelected {
        branch_id: branch_id.to_owned(),
    })])
}

pub(super) fn approve(
    state: &State,
    approval_id: &str,
    (allowed, scope): (bool, Scope),
    comment: &str,
    now_us: i64,
) -> Decision {
    let approval_id = approval_id.to_owned();
    let Some(turn) = &state.turn else {
        return Err(Rejection::UnknownApproval { approval_id });
    };
    if let Some(before) = turn.decided.get(&approval_id) {
        return if *before == allowed {
            Ok(Vec::new())
        } else {
            Err(Rejection::AlreadyDecided { approval_id })
        };
    }
    let Some((tool, expires_at_us)) = asked(turn, &approval_id) else {
        return Err(Rejection::UnknownApproval { approval_id });
    };
    if allowed && is_over(expires_at_us, now_us) {
        return Err(Rejection::ApprovalExpired { approval_id });
    }
    let comment = bounded::detail(comment);
    let decided = AgentEvent::ApprovalDecided(log::AgentApprovalDecided {
        approval_id,
        allowed,
        comment: comment.clone(),
        scope: scope.into(),
    });
    Ok(if allowed {
        vec![decided]
    } else {
        vec![decided, finished(tool, Outcome::Denied, denied(&comment))]
    })
}

pub(super) fn expire(state: &State, approval_id: &str, now_us: i64) -> Vec<AgentEvent> {
    let found = state
        .turn
        .as_ref()
        .and_then(|turn| asked(turn, approval_id));
    // Answered, or its turn is over: then there is nothing to expire.
    let Some((tool, expires_at_us)) = found else {
        return Vec::new();
    };
    if !is_over(expires_at_us, now_us) {
        return Vec::new();
    }
    let expired = AgentEvent::ApprovalExpired(log::AgentApprovalExpired {
        approval_id: approval_id.to_owned(),
    });
    vec![expired, finished(tool, Outcome::Denied, EXPIRED.to_owned())]
}

pub(super) fn answer(state: &State, question_id: &str, answer: &str) -> Decision {
    not_empty("answer", answer.trim())?;
    fits("answer", answer.len(), ANSWER_BYTES_MAX)?;
    let question_id = question_id.to_owned();
    let Some(turn) = &state.turn else {
        return Err(Rejection::UnknownQuestion { question_id });
    };
    if turn.answered.contains(&question_id) {
        return Err(Rejection::AlreadyAnswered { question_id });
    }
    let of = |tool: &&ToolUse| match &tool.state {
        UseState::Questioned {
            question_id: id, ..
        } => *id == question_id,
        _ => false,
    };
    let Some(tool) = turn.uses().iter().find(of) else {
        return Err(Rejection::UnknownQuestion { question_id });
    };
    let answered = AgentEvent::QuestionAnswered(log::AgentQuestionAnswered {
        question_id,
        answer: answer.to_owned(),
    });
    Ok(vec![
        answered,
        finished(tool, Outcome::Ok, answer.to_owned()),
    ])
}

pub(super) fn cancel(state: &State, turn_id: &str) -> Decision {
    let requested = |turn_id: &str| {
        AgentEvent::CancelRequested(log::AgentCancelRequested {
            turn_id: turn_id.to_owned(),
        })
    };
    match &state.turn {
        Some(turn) if turn.cancelling => Ok(Vec::new()),
        Some(turn) => Ok(vec![requested(&turn.turn_id)]),
        None if state.queued.is_empty() => Ok(Vec::new()),
        None => Ok(vec![turn_started(state, turn_id)?, requested(turn_id)]),
    }
}

/// Returns what the model is told of a call that a person denied.
pub(super) fn denied(comment: &str) -> String {
    if comment.is_empty() {
        DENIED.to_owned()
    } else {
        format!("{DENIED}: {comment}")
    }
}

/// Returns what the model is told of a call that nobody answered for.
pub(super) fn expired() -> String {
    EXPIRED.to_owned()
}

fn asked<'a>(turn: &'a Turn, id: &str) -> Option<(&'a ToolUse, i64)> {
    turn.uses().iter().find_map(|tool| match &tool.state {
        UseState::Asked {
            approval_id,
            expires_at_us,
        } if approval_id == id => Some((tool, *expires_at_us)),
        _ => None,
    })
}

fn is_over(expires_at_us: i64, now_us: i64) -> bool {
    expires_at_us != 0 && now_us >= expires_at_us
}
