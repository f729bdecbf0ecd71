//! From events to state.
//!
//! Only what cannot be is refused here. What a decider chooses (which step is due, whether to ask) is
//! not checked again, so that a history stays readable when the choice changes; `replay rerun` is where
//! choices are compared.

mod person;

use cocoonbox_events::{AgentEvent, IllegalTransition, approval, erasure::ERASED_ARGS};
use cocoonbox_proto::log::v1::{
    self as log, Effect, ModelRole, ModelRoles, Risk, agent_model_failed::Reason,
    agent_tool_finished::Outcome,
};

use super::{
    command::REPLY_BYTES_MAX,
    history::total,
    next::ATTEMPTS_MAX,
    reply,
    state::{Life, Parent, Prompt, State, instruction},
    turn::{Failure, Partial, PartialBlock, Squeezed, Stage, ToolUse, Turn, UseState},
};

pub(super) fn evolve(mut state: State, event: &AgentEvent) -> Result<State, IllegalTransition> {
    let before = state.describe();
    let taken = match event {
        AgentEvent::Created(event) => state.created(event),
        AgentEvent::Renamed(event) => state.renamed(event),
        AgentEvent::Closed(_) => state.closed(),
        AgentEvent::PromptReceived(event) => state.prompt_received(event),
        AgentEvent::TurnStarted(event) => state.turn_started(event),
        AgentEvent::ModelCalled(event) => state.model_called(event),
        AgentEvent::OutputStreamed(event) => state.output_streamed(event),
        AgentEvent::ModelReplied(event) => state.model_replied(event),
        AgentEvent::ModelFailed(event) => state.model_failed(event),
        AgentEvent::ToolCalled(event) => state.tool_called(event),
        AgentEvent::ToolFinished(event) => state.tool_finished(event),
        AgentEvent::ApprovalRequested(event) => state.approval_requested(event),
        AgentEvent::ApprovalDecided(event) => state.approval_decided(event),
        AgentEvent::CancelRequested(event) => state.cancel_requested(event),
        AgentEvent::TurnEnded(event) => state.turn_ended(event),
        AgentEvent::ModelsSet(event) => state.models_set(event),
        AgentEvent::RulesSet(event) => state.rules_set(event),
        AgentEvent::PromptWithdrawn(event) => state.prompt_withdrawn(event),
        AgentEvent::Branched(event) => state.branched(event),
        AgentEvent::BranchSelected(event) => state.branch_selected(event),
        AgentEvent::Instructed(event) => state.instructed(event),
        AgentEvent::Compacted(event) => state.compacted(event),
        AgentEvent::ApprovalExpired(event) => state.approval_expired(event),
        AgentEvent::QuestionAsked(event) => state.question_asked(event),
        AgentEvent::QuestionAnswered(event) => state.question_answered(event),
        AgentEvent::TodoSet(event) => state.todo_set(event),
    };
    match taken {
        Some(()) => Ok(state),
        None => Err(IllegalTransition {
            state: before,
            event: event.kind().name(),
        }),
    }
}

/// Each takes one event in, or says `None` where it cannot follow.
impl State {
    fn created(&mut self, event: &log::AgentCreated) -> Option<()> {
        require(self.life == Life::Absent && !event.agent_id.is_empty())?;
        self.life = Life::Open;
        self.agent_id.clone_from(&event.agent_id);
        self.name.clone_from(&event.name);
        self.models = match &event.models {
            Some(models) => models.clone(),
            None => ModelRoles {
                main: Some(event.model.clone()?),
                ..ModelRoles::default()
            },
        };
        self.models_of_box = event.models_of_box;
        require(self.models.main.is_some())?;
        self.rules.policy = approval::policy(event.approval);
        self.rules.rules.clone_from(&event.rules);
        self.role = event.role();
        self.steps_max = event.steps_max;
        self.tokens_max = event.tokens_max;
        self.parent = (!event.parent_agent_id.is_empty()).then(|| Parent {
            agent_id: event.parent_agent_id.clone(),
            tool_call_id: event.parent_tool_call_id.clone(),
        });
        Some(())
    }

    fn models_set(&mut self, event: &log::AgentModelsSet) -> Option<()> {
        require(self.life == Life::Open)?;
        self.models = event.models.clone()?;
        self.models_of_box = event.of_box;
        require(self.models.main.is_some())?;
        self.wake();
        Some(())
    }

    fn rules_set(&mut self, event: &log::AgentRulesSet) -> Option<()> {
        require(self.life == Life::Open)?;
        self.rules.rules.clone_from(&event.rules);
        Some(())
    }

    fn renamed(&mut self, event: &log::AgentRenamed) -> Option<()> {
        require(self.life == Life::Open)?;
        self.name.clone_from(&event.name);
        Some(())
    }

    fn closed(&mut self) -> Option<()> {
        require(self.life == Life::Open && !self.is_busy())?;
        self.life = Life::Closed;
        Some(())
    }

    fn prompt_received(&mut self, event: &log::AgentPromptReceived) -> Option<()> {
        require(self.life == Life::Open)?;
        require(self.prompt_ids.insert(event.prompt_id.clone()))?;
        self.queued.push_back(Prompt {
            prompt_id: event.prompt_id.clone(),
            text: event.text.clone(),
            steer: event.steer,
            images: event.images.clone(),
        });
        self.wake();
        Some(())
    }

    fn prompt_withdrawn(&mut self, event: &log::AgentPromptWithdrawn) -> Option<()> {
        self.unqueue(&event.prompt_id).map(drop)
    }

    fn branched(&mut self, event: &log::AgentBranched) -> Option<()> {
        require(self.life == Life::Open && self.turn.is_none())?;
        self.history
            .branch(&event.branch_id, &event.before_prompt_id)
    }

    fn branch_selected(&mut self, event: &log::AgentBranchSelected) -> Option<()> {
        require(self.life == Life::Open && self.turn.is_none())?;
        self.history.select(&event.branch_id)
    }

    fn turn_started(&mut self, event: &log::AgentTurnStarted) -> Option<()> {
        require(self.life == Life::Open && self.turn.is_none() && !event.prompt_ids.is_empty())?;
        require(self.ids.insert(event.turn_id.clone()))?;
        for prompt_id in &event.prompt_ids {
            let prompt = self.queued.pop_front()?;
            require(prompt.prompt_id == *prompt_id)?;
            self.history.take_up(prompt);
        }
        self.turn = Some(Turn::new(event.turn_id.clone()));
        Some(())
    }

    fn model_called(&mut self, event: &log::AgentModelCalled) -> Option<()> {
        let role = event.role();
        let is_summary = role == ModelRole::Summarize;
        // By the room of the model that it is made for, so before that changes.
        let entries = if is_summary {
            self.summarizable().max(1)
        } else {
            0
        };
        let turn = self
            .turn
            .as_mut()
            .filter(|turn| turn.turn_id == event.turn_id)?;
        // It ends, but somebody has said something meanwhile.
        let failure = match &turn.stage {
            Stage::CallDue { failure } => failure.as_ref(),
            Stage::EndDue { .. } if !event.prompt_ids.is_empty() => None,
            Stage::EndDue { .. }
            | Stage::Calling { .. }
            | Stage::Compacting { .. }
            | Stage::Tools { .. } => return None,
        };
        if !is_summary && failure.is_none() {
            turn.steps += 1;
        }
        if failure.is_none_or(|failure| failure.role != role) {
            turn.tries = 0;
            if is_summary {
                turn.shelved = std::mem::take(&mut turn.given_up);
            }
        }
        // A second attempt at nothing cannot be.
        let attempt_max = if failure.is_none() { 1 } else { u32::MAX };
        require((1..=attempt_max).contains(&event.attempt))?;
        require(self.ids.insert(event.call_id.clone()))?;
        for prompt_id in &event.prompt_ids {
            let prompt = self.unqueue(prompt_id)?;
            self.history.take_up(prompt);
        }
        self.turn.as_mut()?.stage = Stage::Calling {
            call_id: event.call_id.clone(),
            role,
            model: event.model.clone().unwrap_or_default(),
            attempt: event.attempt,
            partial: Partial::default(),
            entries,
        };
        Some(())
    }

    fn output_streamed(&mut self, event: &log::AgentOutputStreamed) -> Option<()> {
        let turn = self.turn.as_mut()?;
        let Stage::Calling {
            call_id, partial, ..
        } = &mut turn.stage
        else {
            return None;
        };
        require(*call_id == event.call_id)?;
        let kept: usize = partial.blocks.values().map(|block| block.text.len()).sum();
        let block = partial
            .blocks
            .entry(event.block)
            .or_insert_with(|| PartialBlock {
                part: event.part(),
                bytes: 0,
                text: String::new(),
            });
        // A gap is a chunk that was erased; going back is not possible.
        require(event.offset >= block.bytes && block.part == event.part())?;
        block.bytes = event.offset.checked_add(event.text.len() as u64)?;
        if kept + event.text.len() <= REPLY_BYTES_MAX {
            block.text.push_str(&event.text);
        }
        Some(())
    }

    fn model_replied(&mut self, event: &log::AgentModelReplied) -> Option<()> {
        let turn = self.turn.as_mut()?;
        let Stage::Calling {
            call_id,
            model,
            attempt,
            entries,
            ..
        } = &turn.stage
        else {
            return None;
        };
        require(*call_id == event.call_id)?;
        let usage = event.usage.unwrap_or_default();
        self.tokens_used = self.tokens_used.saturating_add(total(&usage));
        if *entries > 0 {
            let (entries, attempt, model) = (*entries, *attempt, model.clone());
            turn.stage = reply::summed(event, entries, attempt);
            if matches!(turn.stage, Stage::CallDue { .. }) {
                turn.given_up.push(model);
                turn.tries = 0;
            }
            return Some(());
        }
        turn.tries = 0;
        turn.given_up.clear();
        turn.squeezed = Squeezed::Not;
        let (stage, entry) = reply::settle(event);
        turn.stage = stage;
        for tool in turn.uses() {
            require(self.tool_ids.insert(tool.tool_call_id.clone()))?;
        }
        self.history.measure(&usage);
        if let Some(entry) = entry {
            self.history.push(entry);
        }
        Some(())
    }

    fn model_failed(&mut self, event: &log::AgentModelFailed) -> Option<()> {
        let turn = self.turn.as_mut()?;
        let Stage::Calling {
            call_id,
            role,
            model,
            attempt,
            ..
        } = &turn.stage
        else {
            return None;
        };
        require(*call_id == event.call_id)?;
        let (role, model, attempt) = (*role, model.clone(), *attempt);
        let reason = event.reason();
        let is_budget = reason == Reason::Budget;
        // Another telling may fit where this one did not.
        let is_squeezable = reason == Reason::TooLong
            && role != ModelRole::Summarize
            && turn.squeezed < Squeezed::Cut;
        if !is_budget && !is_squeezable {
            turn.tries += 1;
            if !event.retryable || turn.tries >= ATTEMPTS_MAX {
                turn.given_up.push(model);
                turn.tries = 0;
            }
        }
        let failure = Failure {
            role,
            reason,
            detail: event.detail.clone(),
            retryable: event.retryable,
            retry_after_ms: event.retry_after_ms,
            attempt: if is_budget { attempt - 1 } else { attempt },
            tries: turn.tries,
            woken: false,
        };
        turn.stage = Stage::CallDue {
            failure: Some(failure),
        };
        Some(())
    }

    fn compacted(&mut self, event: &log::AgentCompacted) -> Option<()> {
        let turn = self.turn.as_mut()?;
        require(turn.turn_id == event.turn_id)?;
        let squeezed = match &turn.stage {
            Stage::Compacting { call_id, .. } if *call_id == event.call_id => Squeezed::Summed,
            Stage::CallDue { .. } if event.call_id.is_empty() => Squeezed::Cut,
            _ => return None,
        };
        let was_asked = match &turn.stage {
            Stage::CallDue { failure } => failure
                .as_ref()
                .is_some_and(|failure| failure.role == ModelRole::Summarize),
            _ => true,
        };
        if was_asked {
            turn.given_up = std::mem::take(&mut turn.shelved);
        }
        turn.squeezed = squeezed;
        turn.tries = 0;
        turn.stage = Stage::CallDue { failure: None };
        let entries = usize::try_from(event.entries).ok()?;
        self.history.compact(entries, event.summary.clone())
    }

    fn instructed(&mut self, event: &log::AgentInstructed) -> Option<()> {
        require(self.turn_id() == Some(event.turn_id.as_str()))?;
        let told = instruction(&event.system, &event.tools, &event.tools_hash);
        self.instructed = Some(told);
        Some(())
    }

    fn tool_called(&mut self, event: &log::AgentToolCalled) -> Option<()> {
        require(self.turn_id() == Some(event.turn_id.as_str()))?;
        let tool = self.tool_use(&event.tool_call_id)?;
        let allowed_by = match &tool.state {
            UseState::Waiting => "",
            UseState::Allowed { approval_id } => approval_id,
            _ => return None,
        };
        // Logs from before the field was there do not name it.
        require(event.approval_id.is_empty() || event.approval_id == allowed_by)?;
        // One of the two may be erased, with the other kept.
        let erased = [&tool.args_json, &event.args_json]
            .iter()
            .any(|args| *args == ERASED_ARGS);
        require(tool.name == event.name && (erased || tool.args_json == event.args_json))?;
        // As it counted when it was called: the build that folds may know the tool better.
        tool.effect = match event.effect() {
            Effect::ReadOnly => Effect::ReadOnly,
            Effect::SideEffect | Effect::Unspecified => Effect::SideEffect,
        };
        if event.risk() != Risk::Unspecified {
            tool.risk = event.risk();
        }
        tool.state = UseState::Called;
        Some(())
    }

    fn tool_finished(&mut self, event: &log::AgentToolFinished) -> Option<()> {
        let tool = self.tool_use(&event.tool_call_id)?;
        let outcome = event.outcome();
        let follows = match (&tool.state, outcome) {
            (_, Outcome::Unspecified) | (UseState::Finished { .. }, _) => false,
            (UseState::Called, outcome) => outcome != Outcome::Denied,
            (UseState::Answered { .. }, outcome) => {
                matches!(outcome, Outcome::Ok | Outcome::Cancelled)
            }
            // By a person, by a rule, or because its arguments say nothing.
            (UseState::Waiting, outcome) => matches!(
                outcome,
                Outcome::Denied | Outcome::Cancelled | Outcome::Error
            ),
            (UseState::Denied { .. }, outcome) => {
                matches!(outcome, Outcome::Denied | Outcome::Cancelled)
            }
            (
                UseState::Asked { .. } | UseState::Questioned { .. } | UseState::Allowed { .. },
                outcome,
            ) => {
                matches!(
                    outcome,
                    Outcome::Cancelled | Outcome::Denied | Outcome::Error
                )
            }
        };
        require(follows)?;
        tool.state = UseState::Finished {
            outcome,
            content: event.content.clone(),
            images: event.images.clone(),
        };
        self.close_tools();
        Some(())
    }

    fn todo_set(&mut self, event: &log::AgentTodoSet) -> Option<()> {
        require(self.life == Life::Open)?;
        self.todo.clone_from(&event.items);
        Some(())
    }

    fn cancel_requested(&mut self, event: &log::AgentCancelRequested) -> Option<()> {
        let turn = self
            .turn
            .as_mut()
            .filter(|turn| turn.turn_id == event.turn_id)?;
        require(!turn.cancelling)?;
        turn.cancelling = true;
        Some(())
    }

    fn turn_ended(&mut self, event: &log::AgentTurnEnded) -> Option<()> {
        let turn = self
            .turn
            .as_ref()
            .filter(|turn| turn.turn_id == event.turn_id)?;
        require(matches!(
            turn.stage,
            Stage::CallDue { .. } | Stage::Compacting { .. } | Stage::EndDue { .. }
        ))?;
        self.turn = None;
        Some(())
    }

    fn tool_use(&mut self, tool_call_id: &str) -> Option<&mut ToolUse> {
        match &mut self.turn.as_mut()?.stage {
            Stage::Tools { uses, .. } => uses
                .iter_mut()
                .find(|tool| tool.tool_call_id == tool_call_id),
            Stage::CallDue { .. }
            | Stage::Calling { .. }
            | Stage::Compacting { .. }
            | Stage::EndDue { .. } => None,
        }
    }

    fn unqueue(&mut self, prompt_id: &str) -> Option<Prompt> {
        let mut queued = self.queued.iter();
        let index = queued.position(|prompt| prompt.prompt_id == prompt_id)?;
        self.queued.remove(index)
    }

    /// Something happened that a turn without a budget may be waiting for.
    fn wake(&mut self) {
        if let Some(Turn {
            stage: Stage::CallDue {
                failure: Some(failure),
            },
            ..
        }) = &mut self.turn
        {
            failure.woken = true;
        }
    }
}

fn require(fact: bool) -> Option<()> {
    fact.then_some(())
}
