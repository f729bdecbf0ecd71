//! Agents as callers see them.

use cocoonbox_commands::agent::Waiting;
use cocoonbox_proto::agent::v1::{Agent, PendingApproval, PendingQuestion};

use crate::turn::AgentState;

/// Tells of agents. What a subagent asks is told with the agent that it works for, too.
pub(super) fn to_wire(all: Vec<AgentState>) -> Vec<Agent> {
    let mut agents: Vec<Agent> = all.into_iter().map(one).collect();
    let asking: Vec<_> = agents
        .iter()
        .filter(|agent| !agent.parent_agent_id.is_empty())
        .filter(|agent| !agent.approvals.is_empty() || !agent.questions.is_empty())
        .map(|child| {
            let (approvals, questions) = (child.approvals.clone(), child.questions.clone());
            (child.parent_agent_id.clone(), approvals, questions)
        })
        .collect();
    for (parent_id, approvals, questions) in asking {
        if let Some(parent) = agents.iter_mut().find(|agent| agent.id == parent_id) {
            "waiting".clone_into(&mut parent.state);
            parent.approvals.extend(approvals);
            parent.questions.extend(questions);
        }
    }
    agents
}

fn one(agent: AgentState) -> Agent {
    let AgentState { state, key } = agent;
    let Waiting {
        approvals,
        questions,
    } = state.waiting();
    let approvals = approvals.into_iter().map(|asked| PendingApproval {
        approval_id: asked.approval_id,
        tool_name: asked.tool_name,
        args_json: asked.args_json,
        risk: asked.risk.into(),
        expires_at_ms: asked.expires_at_us / 1_000,
        agent_id: state.agent_id.clone(),
    });
    let questions = questions.into_iter().map(|asked| PendingQuestion {
        question_id: asked.question_id,
        question: asked.question,
        choices: asked.choices,
        agent_id: state.agent_id.clone(),
    });
    let queued = state.queued.iter().map(|prompt| prompt.prompt_id.clone());
    Agent {
        state: state.mood().name().to_owned(),
        approvals: approvals.collect(),
        questions: questions.collect(),
        queued_prompt_ids: queued.collect(),
        branch_id: state.branch_id().to_owned(),
        branch_ids: state.branch_ids(),
        parent_agent_id: state
            .parent
            .as_ref()
            .map_or_else(String::new, |parent| parent.agent_id.clone()),
        model: Some(state.model().clone()),
        rules: Some(state.rules.long()),
        models: Some(state.models),
        models_of_box: state.models_of_box,
        todo: state.todo,
        id: state.agent_id,
        name: state.name,
        offset_key: key.to_string(),
    }
}
