//! What holds of the events, whoever wrote them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use cocoonbox_commands::agent::{Entry, Rules, State};
use cocoonbox_events::{AgentEvent, Aggregate};
use cocoonbox_proto::log::v1::{
    AgentCreated, AgentToolCalled, ApprovalRules, Effect, ModelRole, Risk, StopReason, Verdict,
    agent_approval_decided::Scope, block,
};

use crate::agent_loop::{Loop, agent};

/// Every tool use is followed by exactly its results, in order, and ids are used once.
pub(super) fn check_conversation(entries: &[Arc<Entry>]) {
    let mut owed: Option<Vec<String>> = None;
    let mut seen = BTreeSet::new();
    for entry in entries {
        match (owed.take(), &**entry) {
            (None, Entry::User { text, .. }) => assert!(!text.is_empty()),
            (None, Entry::Assistant { blocks }) => {
                assert!(!blocks.is_empty());
                let mut uses = Vec::new();
                for block in blocks {
                    match block.block.as_ref().unwrap() {
                        block::Block::ToolUse(tool) => {
                            assert!(seen.insert(tool.tool_call_id.clone()), "used twice");
                            uses.push(tool.tool_call_id.clone());
                        }
                        block::Block::Text(text) => assert!(!text.text.is_empty()),
                        block::Block::Thinking(_) | block::Block::Vendor(_) => {}
                    }
                }
                owed = (!uses.is_empty()).then_some(uses);
            }
            (Some(uses), Entry::ToolResults(results)) => {
                let ids: Vec<_> = results
                    .iter()
                    .map(|result| result.tool_call_id.clone())
                    .collect();
                assert_eq!(uses, ids);
            }
            (owed, entry) => panic!("{entry:?} while {owed:?} are owed"),
        }
    }
    assert_eq!(owed, None);
}

/// What can be seen from the events alone.
#[derive(Default)]
pub(super) struct Observer {
    calls_out: BTreeSet<String>,
    uses_open: BTreeSet<String>,
    called: BTreeMap<String, u32>,
    results: BTreeMap<String, u32>,
    effects_out: u32,
    effect_of: BTreeMap<String, bool>,
    approvals: BTreeMap<String, u32>,
    /// Approvals that were given and not used, and what for.
    given: BTreeSet<String>,
    /// What each approval is asked for.
    asked: BTreeMap<String, (String, Risk)>,
    granted: BTreeMap<String, Risk>,
    names: BTreeMap<String, String>,
    rules: Rules,
    drawn: BTreeSet<String>,
    summarizing: bool,
    pub(super) in_turn: bool,
}

impl Observer {
    /// One that has seen how the agent was made.
    pub(super) fn of(it: &Loop) -> Self {
        let rules = state_after(&it.machine.history[0]).rules;
        Self {
            rules,
            ..Self::default()
        }
    }

    pub(super) fn see_all(&mut self, events: &[AgentEvent]) {
        for event in events {
            self.see(event);
        }
    }

    pub(super) fn see(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::TurnStarted(e) => {
                self.draw(&e.turn_id);
                assert!(!self.in_turn);
                self.in_turn = true;
            }
            AgentEvent::ModelCalled(e) => {
                assert!(
                    self.in_turn && self.uses_open.is_empty(),
                    "called with open tool uses"
                );
                assert!(self.calls_out.is_empty(), "two calls at once");
                self.draw(&e.call_id);
                self.summarizing = e.role() == ModelRole::Summarize;
                assert!(
                    e.prompt_ids.is_empty() || !self.summarizing,
                    "steered a summary"
                );
                self.calls_out.insert(e.call_id.clone());
            }
            AgentEvent::ModelReplied(e) => {
                assert!(self.calls_out.remove(&e.call_id));
                if e.stop() != StopReason::Refusal && !self.summarizing {
                    for block in &e.blocks {
                        if let Some(block::Block::ToolUse(tool)) = &block.block {
                            assert!(self.uses_open.insert(tool.tool_call_id.clone()));
                            self.names
                                .insert(tool.tool_call_id.clone(), tool.name.clone());
                        }
                    }
                }
            }
            AgentEvent::ModelFailed(e) => assert!(self.calls_out.remove(&e.call_id)),
            AgentEvent::ToolCalled(e) => {
                self.check_allowed(e);
                let side_effect = e.effect() == Effect::SideEffect;
                assert!(self.uses_open.contains(&e.tool_call_id));
                *self.called.entry(e.tool_call_id.clone()).or_default() += 1;
                assert_eq!(self.called[&e.tool_call_id], 1, "called twice");
                self.effects_out += u32::from(side_effect);
                assert!(self.effects_out <= 1, "two effects at once");
                self.effect_of.insert(e.tool_call_id.clone(), side_effect);
            }
            AgentEvent::ToolFinished(e) => {
                assert!(
                    self.uses_open.remove(&e.tool_call_id),
                    "a result that nobody asked for"
                );
                *self.results.entry(e.tool_call_id.clone()).or_default() += 1;
                assert_eq!(self.results[&e.tool_call_id], 1, "two results");
                if self.effect_of.get(&e.tool_call_id) == Some(&true) {
                    self.effects_out -= 1;
                }
            }
            AgentEvent::ApprovalRequested(e) => {
                self.draw(&e.approval_id);
                let name = self.names[&e.tool_call_id].clone();
                self.asked.insert(e.approval_id.clone(), (name, e.risk()));
            }
            AgentEvent::QuestionAsked(e) => self.draw(&e.question_id),
            AgentEvent::Created(_) => self.rules = state_after(event).rules,
            AgentEvent::RulesSet(e) => self.rules = rules_of(e.rules.clone()),
            AgentEvent::ApprovalExpired(e) => {
                *self.approvals.entry(e.approval_id.clone()).or_default() += 1;
                assert_eq!(self.approvals[&e.approval_id], 1, "decided twice");
            }
            AgentEvent::ApprovalDecided(e) => {
                if e.allowed {
                    self.given.insert(e.approval_id.clone());
                    let (name, risk) = self.asked[&e.approval_id].clone();
                    if e.scope() == Scope::Conversation {
                        let granted = self.granted.entry(name).or_insert(risk);
                        *granted = risk.max(*granted);
                    }
                }
                *self.approvals.entry(e.approval_id.clone()).or_default() += 1;
                assert_eq!(self.approvals[&e.approval_id], 1, "decided twice");
            }
            AgentEvent::TurnEnded(_) => {
                assert!(self.in_turn && self.uses_open.is_empty() && self.calls_out.is_empty());
                self.in_turn = false;
            }
            AgentEvent::Renamed(_)
            | AgentEvent::Closed(_)
            | AgentEvent::PromptReceived(_)
            | AgentEvent::OutputStreamed(_)
            | AgentEvent::ModelsSet(_)
            | AgentEvent::PromptWithdrawn(_)
            | AgentEvent::Branched(_)
            | AgentEvent::BranchSelected(_)
            | AgentEvent::Instructed(_)
            | AgentEvent::Compacted(_)
            | AgentEvent::QuestionAnswered(_)
            | AgentEvent::TodoSet(_)
            | AgentEvent::CancelRequested(_) => {}
        }
    }

    fn draw(&mut self, id: &str) {
        assert!(self.drawn.insert(id.to_owned()), "`{id}` is used twice");
    }

    /// A tool that is asked about runs with an approval of its own, or one for the whole conversation.
    fn check_allowed(&mut self, e: &AgentToolCalled) {
        if !e.approval_id.is_empty() {
            assert!(
                self.given.remove(&e.approval_id),
                "not given, or used before"
            );
            return;
        }
        let granted = self
            .granted
            .get(&e.name)
            .is_some_and(|granted| e.risk() <= *granted);
        match self.rules.verdict(e.risk(), e.effect()) {
            Verdict::Allow => {}
            Verdict::Ask | Verdict::Unspecified => assert!(granted, "nobody was asked: {e:?}"),
            Verdict::Deny => panic!("denied: {e:?}"),
        }
    }
}

fn state_after(event: &AgentEvent) -> State {
    State::default().evolve(event).unwrap()
}

fn rules_of(rules: Option<ApprovalRules>) -> Rules {
    let created = AgentEvent::Created(AgentCreated { rules, ..agent() });
    state_after(&created).rules
}
