//! What is known of an agent.

use std::collections::{BTreeSet, VecDeque};

use cocoonbox_events::{AgentEvent, Aggregate, IllegalTransition, Payload};
use cocoonbox_proto::log::v1::{ApprovalPolicy, Block, ModelChoice, agent_tool_finished::Outcome};

use super::{
    Command, Rejection,
    turn::{Partial, Stage, Turn, UseState},
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
    pub model: ModelChoice,
    pub approval: ApprovalPolicy,
    pub steps_max: u32,
    pub life: Life,
    /// Prompts that no turn has taken up yet, in order.
    pub queued: VecDeque<Prompt>,
    pub turn: Option<Turn>,
    pub(super) conversation: Vec<Entry>,
    /// Ids of every prompt. Clients choose them, so they are kept apart from ours.
    pub(super) prompt_ids: BTreeSet<String>,
    /// Ids of every turn, model call and approval: each is used once.
    pub(super) ids: BTreeSet<String>,
    /// Tool call ids in the conversation.
    pub(super) tool_ids: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Life {
    #[default]
    Absent,
    Open,
    Closed,
}

/// What an agent is doing, in one word for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    Idle,
    Working,
    /// For a person.
    Waiting,
    Closed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    pub prompt_id: String,
    pub text: String,
}

/// One entry of a conversation, as either vendor can be told it.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    User { text: String },
    Assistant { blocks: Vec<Block> },
    ToolResults(Vec<ToolResult>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    pub tool_call_id: String,
    pub outcome: Outcome,
    pub content: String,
}

impl State {
    /// Returns the conversation as a model may be told it: complete, in order, and every tool use
    /// followed by exactly its results. A reply whose tools still run is not in it yet; a call that
    /// failed never is.
    pub fn conversation(&self) -> &[Entry] {
        &self.conversation
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

    /// Says in one word what the agent is doing.
    pub fn mood(&self) -> Mood {
        if self.life == Life::Closed {
            return Mood::Closed;
        }
        let asked = |turn: &Turn| {
            turn.uses()
                .iter()
                .any(|tool| matches!(tool.state, UseState::Asked { .. }))
        };
        match &self.turn {
            None if self.queued.is_empty() => Mood::Idle,
            Some(turn) if !turn.cancelling && asked(turn) => Mood::Waiting,
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
