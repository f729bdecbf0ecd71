//! What a person was asked, and what they said.

use cocoonbox_proto::log::v1::{self as log, Risk, agent_approval_decided::Scope};

use super::require;
use crate::agent::{
    person,
    state::State,
    turn::{Stage, ToolUse, UseState},
};

impl State {
    pub(super) fn approval_requested(&mut self, event: &log::AgentApprovalRequested) -> Option<()> {
        require(self.ids.insert(event.approval_id.clone()))?;
        let tool = self.tool_use(&event.tool_call_id)?;
        require(tool.state == UseState::Waiting)?;
        if event.risk() != Risk::Unspecified {
            tool.risk = event.risk();
        }
        tool.state = UseState::Asked {
            approval_id: event.approval_id.clone(),
            expires_at_us: event.expires_at_us,
        };
        Some(())
    }

    pub(super) fn approval_decided(&mut self, event: &log::AgentApprovalDecided) -> Option<()> {
        let tool = self.asked(&event.approval_id)?;
        let (name, risk) = (tool.name.clone(), tool.risk);
        tool.state = if event.allowed {
            UseState::Allowed {
                approval_id: event.approval_id.clone(),
            }
        } else {
            UseState::Denied {
                content: person::denied(&event.comment),
            }
        };
        if event.allowed && event.scope() == Scope::Conversation {
            let granted = self.granted.entry(name).or_insert(risk);
            *granted = risk.max(*granted);
        }
        let decided = &mut self.turn.as_mut()?.decided;
        decided.insert(event.approval_id.clone(), event.allowed);
        Some(())
    }

    pub(super) fn approval_expired(&mut self, event: &log::AgentApprovalExpired) -> Option<()> {
        self.asked(&event.approval_id)?.state = UseState::Denied {
            content: person::expired(),
        };
        let decided = &mut self.turn.as_mut()?.decided;
        decided.insert(event.approval_id.clone(), false);
        Some(())
    }

    pub(super) fn question_asked(&mut self, event: &log::AgentQuestionAsked) -> Option<()> {
        require(self.ids.insert(event.question_id.clone()))?;
        let tool = self.tool_use(&event.tool_call_id)?;
        require(matches!(
            tool.state,
            UseState::Waiting | UseState::Allowed { .. }
        ))?;
        tool.state = UseState::Questioned {
            question_id: event.question_id.clone(),
            question: event.question.clone(),
            choices: event.choices.clone(),
        };
        Some(())
    }

    pub(super) fn question_answered(&mut self, event: &log::AgentQuestionAnswered) -> Option<()> {
        let turn = self.turn.as_mut()?;
        let Stage::Tools { uses, .. } = &mut turn.stage else {
            return None;
        };
        let tool = uses.iter_mut().find(|tool| match &tool.state {
            UseState::Questioned { question_id, .. } => *question_id == event.question_id,
            _ => false,
        })?;
        tool.state = UseState::Answered {
            answer: event.answer.clone(),
        };
        require(turn.answered.insert(event.question_id.clone()))
    }

    fn asked(&mut self, id: &str) -> Option<&mut ToolUse> {
        match &mut self.turn.as_mut()?.stage {
            Stage::Tools { uses, .. } => uses.iter_mut().find(|tool| match &tool.state {
                UseState::Asked { approval_id, .. } => approval_id == id,
                _ => false,
            }),
            _ => None,
        }
    }
}
