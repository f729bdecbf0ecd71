//! What is known of an agent.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use cocoonbox_events::{AgentEvent, Aggregate, IllegalTransition, Payload, erasure::ERASED};
use cocoonbox_proto::log::v1::{Image, ModelRole, ModelRoles, Risk, agent_todo_set::Item};

use super::{
    command::Command,
    entry::Entry,
    history::History,
    ids::Ids,
    next::Next,
    rejection::Rejection,
    rules::Rules,
    turn::{Partial, Stage, Turn},
};

/// Model calls in one turn where nobody said otherwise. Enough for hours of work, and an end to a
/// model that goes in circles.
pub const STEPS_DEFAULT: u32 = 100;

/// An agent, folded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Empty until the agent is created.
    pub agent_id: String,
    pub name: String,
    pub models: ModelRoles,
    /// They are those of the box, and follow when these change.
    pub models_of_box: bool,
    /// Whose model plays the agent.
    pub role: ModelRole,
    pub rules: Rules,
    pub steps_max: u32,
    /// Tokens that all turns together may use; 0 = no limit.
    pub tokens_max: u64,
    /// Tokens that all calls so far have used, in and out.
    pub tokens_used: u64,
    /// Whom a subagent works for.
    pub parent: Option<Parent>,
    pub life: Life,
    /// Prompts that no turn has taken up yet, in order.
    pub queued: VecDeque<Prompt>,
    pub turn: Option<Turn>,
    pub todo: Vec<Item>,
    pub(super) history: History,
    /// Up to which risk a tool may be called without asking, in this conversation.
    pub(super) granted: BTreeMap<String, Risk>,
    /// Stands for what the model was told last before the conversation.
    pub(super) instructed: Option<[u8; 32]>,
    /// Ids of every prompt. Clients choose them, so they are kept apart from ours.
    pub(super) prompt_ids: Ids,
    /// Ids of every turn, model call, approval and question: each is used once.
    pub(super) ids: Ids,
    /// Tool call ids in the conversation.
    pub(super) tool_ids: Ids,
}

/// The agent and the tool call that a subagent works for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    pub agent_id: String,
    pub tool_call_id: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Life {
    #[default]
    Absent,
    Open,
    Closed,
}

/// What an agent is doing, in few words for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    Idle,
    Working,
    /// For a person.
    Waiting,
    WaitingForBudget,
    Closed,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    pub prompt_id: String,
    pub text: String,
    pub steer: bool,
    pub images: Vec<Image>,
}

impl State {
    /// Returns the conversation as a model may be told it: complete, in order, and every tool use
    /// followed by exactly its results. A reply whose tools still run is not in it yet; a call that
    /// failed never is. What was summed up is its summary.
    pub fn conversation(&self) -> Vec<Arc<Entry>> {
        self.history.told().collect()
    }

    pub fn conversation_len(&self) -> usize {
        self.history.told_len()
    }

    /// Returns the branch that goes on; the first one has the empty id.
    pub fn branch_id(&self) -> &str {
        self.history.branch_id()
    }

    pub fn branch_ids(&self) -> Vec<String> {
        self.history.branch_ids()
    }

    /// Whether a turn is under way or prompts wait for one.
    pub fn is_busy(&self) -> bool {
        self.turn.is_some() || !self.queued.is_empty()
    }

    pub fn is_child(&self) -> bool {
        self.parent.is_some()
    }

    /// Whether the model has to be told [`Command::Instruct`] with this.
    pub fn is_instructed(&self, system: &str, tools: &[String], tools_hash: &[u8]) -> bool {
        self.instructed == Some(instruction(system, tools, tools_hash))
    }

    /// Returns the state with all that may be erased blanked: what is left is what deciders stand on, and
    /// is the same before and after an erasure.
    pub fn without_content(mut self) -> Self {
        self.history.blank();
        for prompt in &mut self.queued {
            ERASED.clone_into(&mut prompt.text);
        }
        for item in &mut self.todo {
            ERASED.clone_into(&mut item.text);
        }
        self.instructed = None;
        self
    }

    /// Returns the model call under way and what it has put out so far.
    pub fn partial(&self) -> Option<(&str, &Partial)> {
        match self.turn.as_ref().map(|turn| &turn.stage) {
            Some(Stage::Calling {
                call_id, partial, ..
            }) => Some((call_id, partial)),
            _ => None,
        }
    }

    /// Whether the turn under way was cancelled: what runs is to be stopped and reported.
    pub fn is_cancelling(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.cancelling)
    }

    pub fn turn_id(&self) -> Option<&str> {
        self.turn.as_ref().map(|turn| turn.turn_id.as_str())
    }

    /// Says in few words what the agent is doing.
    pub fn mood(&self) -> Mood {
        if self.life == Life::Closed {
            return Mood::Closed;
        }
        match &self.turn {
            None if self.queued.is_empty() => Mood::Idle,
            Some(turn) if turn.cancelling => Mood::Working,
            Some(_) if !self.waiting().is_empty() => Mood::Waiting,
            Some(_) if matches!(self.next(), Next::WaitBudget { .. }) => Mood::WaitingForBudget,
            None | Some(_) => Mood::Working,
        }
    }

    /// The name that messages use.
    pub(super) fn describe(&self) -> String {
        let stage = self.turn.as_ref().map(|turn| turn.stage.name());
        match (self.life, stage) {
            (Life::Absent, _) => "absent".to_owned(),
            (Life::Closed, _) => "closed".to_owned(),
            (Life::Open, None) => "idle".to_owned(),
            (Life::Open, Some(stage)) => stage.to_owned(),
        }
    }
}

impl Mood {
    /// The name that the wire uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Working => "working",
            Self::Waiting => "waiting",
            Self::WaitingForBudget => "waiting for budget",
            Self::Closed => "closed",
        }
    }
}

impl Aggregate for State {
    type Command = Command;
    type Event = AgentEvent;
    type Rejection = Rejection;

    fn decide(&self, command: &Command) -> Result<Vec<AgentEvent>, Rejection> {
        super::decide::decide(self, command)
    }

    fn evolve(self, event: &AgentEvent) -> Result<Self, IllegalTransition> {
        super::evolve::evolve(self, event)
    }

    fn pick(payload: Payload) -> Option<AgentEvent> {
        AgentEvent::pick(payload)
    }
}

/// Returns what stands for an instruction: the text itself may be long.
pub(super) fn instruction(system: &str, tools: &[String], tools_hash: &[u8]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for part in tools
        .iter()
        .map(String::as_bytes)
        .chain([tools_hash, system.as_bytes()])
    {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    *hasher.finalize().as_bytes()
}
