//! From events to state.
//!
//! Only what cannot be is refused here. What a decider chooses (which step is due, whether to ask) is
//! not checked again, so that a history stays readable when the choice changes; `replay rerun` is where
//! choices are compared.

use cocoonbox_events::{AgentEvent, IllegalTransition};
use cocoonbox_proto::log::v1::{self as log, ApprovalPolicy, Effect, agent_tool_finished::Outcome};

use super::{
    command::REPLY_BYTES_MAX,
    reply,
    state::{Entry, Life, Prompt, State},
    turn::{Failure, Partial, PartialBlock, Stage, ToolUse, Turn, UseState},
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
        self.model = event.model.clone()?;
        // A policy that this build does not know is the stricter one.
        self.approval =
            ApprovalPolicy::try_from(event.approval).unwrap_or(ApprovalPolicy::AskBeforeEffects);
        self.steps_max = event.steps_max;
        Some(())
    }

    fn renamed(&mut self, event: &log::AgentRenamed) -> Option<()> {
        require(self.life == Life::Open)?;
        self.name.clone_from(&event.name);
        Some(())
    }

    fn closed(&mut self) -> Option<()> {
        require(self.life == Life::Open && self.turn.is_none() && self.queued.is_empty())?;
        self.life = Life::Closed;
        Some(())
    }

    fn prompt_received(&mut self, event: &log::AgentPromptReceived) -> Option<()> {
        require(self.life == Life::Open)?;
        require(self.prompt_ids.insert(event.prompt_id.clone()))?;
        let (prompt_id, text) = (event.prompt_id.clone(), event.text.clone());
        self.queued.push_back(Prompt { prompt_id, text });
        Some(())
    }

    fn turn_started(&mut self, event: &log::AgentTurnStarted) -> Option<()> {
        require(self.life == Life::Open && self.turn.is_none() && !event.prompt_ids.is_empty())?;
        require(self.ids.insert(event.turn_id.clone()))?;
        for prompt_id in &event.prompt_ids {
            let prompt = self.queued.pop_front()?;
            require(prompt.prompt_id == *prompt_id)?;
            self.conversation.push(Entry::User { text: prompt.text });
        }
        self.turn = Some(Turn::new(event.turn_id.clone()));
        Some(())
    }

    fn model_called(&mut self, event: &log::AgentModelCalled) -> Option<()> {
        let turn = self
            .turn
            .as_mut()
            .filter(|turn| turn.turn_id == event.turn_id)?;
        let Stage::CallDue { failure } = &turn.stage else {
            return None;
        };
        let attempt = failure.as_ref().map_or(1, |failure| failure.attempt + 1);
        require(event.attempt == attempt && self.ids.insert(event.call_id.clone()))?;
        if attempt == 1 {
            turn.steps += 1;
        }
        let call_id = event.call_id.clone();
        turn.stage = Stage::Calling {
            call_id,
            attempt,
            partial: Partial::default(),
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
        let Stage::Calling { call_id, .. } = &turn.stage else {
            return None;
        };
        require(*call_id == event.call_id)?;
        let (stage, entry) = reply::settle(event);
        turn.stage = stage;
        for tool in turn.uses() {
            require(self.tool_ids.insert(tool.tool_call_id.clone()))?;
        }
        self.conversation.extend(entry);
        Some(())
    }

    fn model_failed(&mut self, event: &log::AgentModelFailed) -> Option<()> {
        let turn = self.turn.as_mut()?;
        let Stage::Calling {
            call_id, attempt, ..
        } = &turn.stage
        else {
            return None;
        };
        require(*call_id == event.call_id)?;
        let failure = Failure {
            reason: event.reason(),
            detail: event.detail.clone(),
            retryable: event.retryable,
            retry_after_ms: event.retry_after_ms,
            attempt: *attempt,
        };
        turn.stage = Stage::CallDue {
            failure: Some(failure),
        };
        Some(())
    }

    fn tool_called(&mut self, event: &log::AgentToolCalled) -> Option<()> {
        require(self.turn_id() == Some(event.turn_id.as_str()))?;
        let tool = self.tool_use(&event.tool_call_id)?;
        require(matches!(tool.state, UseState::Waiting | UseState::Allowed))?;
        require(tool.name == event.name && tool.args_json == event.args_json)?;
        // As it counted when it was called: the build that folds may know the tool better.
        tool.effect = match event.effect() {
            Effect::ReadOnly => Effect::ReadOnly,
            Effect::SideEffect | Effect::Unspecified => Effect::SideEffect,
        };
        tool.state = UseState::Called;
        Some(())
    }

    fn tool_finished(&mut self, event: &log::AgentToolFinished) -> Option<()> {
        let tool = self.tool_use(&event.tool_call_id)?;
        let outcome = event.outcome();
        let follows = match (&tool.state, outcome) {
            (_, Outcome::Unspecified) | (UseState::Finished { .. }, _) => false,
            (UseState::Called, outcome) => outcome != Outcome::Denied,
            (UseState::Denied { .. }, outcome) => {
                matches!(outcome, Outcome::Denied | Outcome::Cancelled)
            }
            (UseState::Waiting | UseState::Asked { .. } | UseState::Allowed, outcome) => {
                outcome == Outcome::Cancelled
            }
        };
        require(follows)?;
        tool.state = UseState::Finished {
            outcome,
            content: event.content.clone(),
        };
        self.close_tools();
        Some(())
    }

    fn approval_requested(&mut self, event: &log::AgentApprovalRequested) -> Option<()> {
        require(self.ids.insert(event.approval_id.clone()))?;
        let tool = self.tool_use(&event.tool_call_id)?;
        require(tool.state == UseState::Waiting)?;
        tool.state = UseState::Asked {
            approval_id: event.approval_id.clone(),
        };
        Some(())
    }

    fn approval_decided(&mut self, event: &log::AgentApprovalDecided) -> Option<()> {
        let turn = self.turn.as_mut()?;
        let asked = UseState::Asked {
            approval_id: event.approval_id.clone(),
        };
        let Stage::Tools { uses, .. } = &mut turn.stage else {
            return None;
        };
        let tool = uses.iter_mut().find(|tool| tool.state == asked)?;
        tool.state = if event.allowed {
            UseState::Allowed
        } else {
            UseState::Denied {
                comment: event.comment.clone(),
            }
        };
        turn.decided
            .insert(event.approval_id.clone(), event.allowed);
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
            Stage::CallDue { .. } | Stage::EndDue { .. }
        ))?;
        self.turn = None;
        Some(())
    }

    fn tool_use(&mut self, tool_call_id: &str) -> Option<&mut ToolUse> {
        match &mut self.turn.as_mut()?.stage {
            Stage::Tools { uses, .. } => uses
                .iter_mut()
                .find(|tool| tool.tool_call_id == tool_call_id),
            Stage::CallDue { .. } | Stage::Calling { .. } | Stage::EndDue { .. } => None,
        }
    }
}

fn require(fact: bool) -> Option<()> {
    fact.then_some(())
}
