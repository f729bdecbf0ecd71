//! Which events belong together by the ids in their payloads, where no cause says it.
//!
//! In a box log an event's cause is often only the event before it in its stream. What a person wants
//! to see is the prompt that began the turn, the reply that asked for the tool, the call that started
//! the command. Those are named by ids.

use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::{BuildHasher, Hash},
};

use cocoonbox_events::{
    AgentEvent, BoxEvent, CapsuleEvent, ExecEvent, LogId, Payload, Recorded, SnapshotEvent,
    StreamName, UsageEvent,
};
use cocoonbox_proto::log::v1::block::Block;

use super::Place;

/// How an event is tied to the one above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Via {
    /// Its header names it.
    Cause,
    Prompt,
    Turn,
    Call,
    Tool,
    Approval,
    Exec,
    /// The first event of a box log, tied to the creation of the box.
    BoxLog,
    Operation,
    /// An anchor in an account log, tied to the event it holds fast.
    Anchor,
}

impl Via {
    /// What stands in the drawing; nothing for a cause.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cause => "",
            Self::Prompt => "prompt",
            Self::Turn => "turn",
            Self::Call => "call",
            Self::Tool => "tool",
            Self::Approval => "approval",
            Self::Exec => "exec",
            Self::BoxLog => "box log",
            Self::Operation => "operation",
            Self::Anchor => "anchor",
        }
    }
}

/// An id as a number. Hashed with a key that is drawn for each index, so that a box cannot choose ids
/// that look like another's.
pub(super) type Name = u64;

/// What one event says of itself and of what it belongs to.
#[derive(Default)]
pub(super) struct Links {
    pub(super) names: Vec<Name>,
    pub(super) follows: Option<(Whom, Via)>,
}

/// What an event belongs to.
#[derive(Clone, Copy)]
pub(super) enum Whom {
    Name(Name),
    Place(Place),
}

impl Links {
    fn follow(&mut self, name: Name, via: Via) {
        self.follows = Some((Whom::Name(name), via));
    }
}

/// Reads links, one event after the other.
#[derive(Default)]
pub(super) struct Reader {
    key: RandomState,
    /// The log of each box, as the account logs say.
    boxes: HashMap<String, LogId>,
}

impl Reader {
    /// Names an event by its id.
    pub(super) fn event(&self, id: &[u8]) -> Name {
        self.name(LogId(uuid::Uuid::nil()), "event", id)
    }

    fn name(&self, scope: LogId, what: &str, id: impl Hash) -> Name {
        self.key.hash_one((scope, what, id))
    }

    /// Returns the links of an event; one that cannot be read has none.
    pub(super) fn read(&mut self, event: &Recorded) -> Links {
        let log = event.log;
        let mut links = Links::default();
        if event.pos == 1 {
            links.follow(self.name(log, "box log", ()), Via::BoxLog);
        }
        if let Ok(Some(payload)) = event.payload() {
            self.payload(log, &event.stream, payload, &mut links);
        }
        links
    }

    fn payload(&mut self, log: LogId, stream: &StreamName, payload: Payload, links: &mut Links) {
        match payload {
            Payload::Agent(event) => self.agent(log, event, links),
            Payload::Exec(event) => {
                let exec = self.name(log, "exec", stream.id());
                match event {
                    ExecEvent::Started(started) => {
                        links.names.push(exec);
                        if !started.tool_call_id.is_empty() {
                            let tool = self.name(log, "tool", &started.tool_call_id);
                            links.follow(tool, Via::Tool);
                        }
                    }
                    ExecEvent::OutputStreamed(_) | ExecEvent::Exited(_) => {
                        links.follow(exec, Via::Exec);
                    }
                }
            }
            Payload::Box(event) => self.of_box(log, event, links),
            Payload::Snapshot(event) => self.snapshot(log, event, links),
            Payload::Capsule(event) => self.capsule(log, event, links),
            Payload::Usage(UsageEvent::ModelCalled(called)) => {
                if let Some(box_log) = self.boxes.get(&called.box_id) {
                    let call = self.name(*box_log, "call", &called.call_id);
                    links.follow(call, Via::Call);
                }
            }
            Payload::Directory(_)
            | Payload::User(_)
            | Payload::Budget(_)
            | Payload::Control(_)
            | Payload::Routine(_)
            | Payload::Log(_)
            | Payload::Blob(_)
            | Payload::Desktop(_)
            | Payload::Share(_)
            | Payload::Erasure(_) => {}
        }
    }

    fn agent(&self, log: LogId, event: AgentEvent, links: &mut Links) {
        let name = |what: &str, id: &str| self.name(log, what, id);
        match event {
            AgentEvent::Created(_)
            | AgentEvent::Renamed(_)
            | AgentEvent::Closed(_)
            | AgentEvent::ModelsSet(_)
            | AgentEvent::RulesSet(_)
            | AgentEvent::BranchSelected(_)
            | AgentEvent::TodoSet(_) => {}
            AgentEvent::PromptWithdrawn(e) => {
                links.follow(name("prompt", &e.prompt_id), Via::Prompt);
            }
            AgentEvent::Branched(e) => {
                links.follow(name("prompt", &e.before_prompt_id), Via::Prompt);
            }
            AgentEvent::Instructed(e) => links.follow(name("turn", &e.turn_id), Via::Turn),
            AgentEvent::Compacted(e) if e.call_id.is_empty() => {
                links.follow(name("turn", &e.turn_id), Via::Turn);
            }
            AgentEvent::Compacted(e) => links.follow(name("call", &e.call_id), Via::Call),
            AgentEvent::QuestionAsked(e) => {
                links.follow(name("tool use", &e.tool_call_id), Via::Tool);
                links.names.push(name("approval", &e.question_id));
            }
            AgentEvent::QuestionAnswered(e) => {
                links.follow(name("approval", &e.question_id), Via::Approval);
            }
            AgentEvent::ApprovalExpired(e) => {
                links.follow(name("approval", &e.approval_id), Via::Approval);
            }
            AgentEvent::PromptReceived(e) => links.names.push(name("prompt", &e.prompt_id)),
            AgentEvent::TurnStarted(e) => {
                if let Some(first) = e.prompt_ids.first() {
                    links.follow(name("prompt", first), Via::Prompt);
                }
                links.names.push(name("turn", &e.turn_id));
            }
            AgentEvent::ModelCalled(e) => {
                links.follow(name("turn", &e.turn_id), Via::Turn);
                links.names.push(name("call", &e.call_id));
            }
            AgentEvent::OutputStreamed(e) => links.follow(name("call", &e.call_id), Via::Call),
            AgentEvent::ModelFailed(e) => links.follow(name("call", &e.call_id), Via::Call),
            AgentEvent::ModelReplied(e) => {
                links.follow(name("call", &e.call_id), Via::Call);
                for block in e.blocks {
                    if let Some(Block::ToolUse(tool)) = block.block {
                        links.names.push(name("tool use", &tool.tool_call_id));
                    }
                }
            }
            AgentEvent::ToolCalled(e) => {
                links.follow(name("tool use", &e.tool_call_id), Via::Tool);
                links.names.push(name("tool", &e.tool_call_id));
            }
            AgentEvent::ToolFinished(e) => links.follow(name("tool", &e.tool_call_id), Via::Tool),
            AgentEvent::ApprovalRequested(e) => {
                links.follow(name("tool use", &e.tool_call_id), Via::Tool);
                links.names.push(name("approval", &e.approval_id));
            }
            AgentEvent::ApprovalDecided(e) => {
                links.follow(name("approval", &e.approval_id), Via::Approval);
            }
            AgentEvent::CancelRequested(e) => links.follow(name("turn", &e.turn_id), Via::Turn),
            AgentEvent::TurnEnded(e) => links.follow(name("turn", &e.turn_id), Via::Turn),
        }
    }

    fn capsule(&self, log: LogId, event: CapsuleEvent, links: &mut Links) {
        let (asked, id) = match event {
            CapsuleEvent::SweepRequested(e) => (true, e.sweep_id),
            CapsuleEvent::SweepPlanned(e) => (false, e.sweep_id),
            CapsuleEvent::Swept(e) => (false, e.sweep_id),
            CapsuleEvent::SweepFailed(e) => (false, e.sweep_id),
            CapsuleEvent::RuleSet(_) | CapsuleEvent::Checked(_) | CapsuleEvent::KeyExported(_) => {
                return;
            }
        };
        let name = self.name(log, "operation", &id);
        if asked {
            links.names.push(name);
        } else {
            links.follow(name, Via::Operation);
        }
    }

    /// A restore and the save before it have one id, and belong together.
    fn snapshot(&self, log: LogId, event: SnapshotEvent, links: &mut Links) {
        let (asked, id) = match event {
            SnapshotEvent::SaveRequested(e) => (true, e.save_id),
            SnapshotEvent::RestoreRequested(e) => (true, e.restore_id),
            SnapshotEvent::SaveBegun(e) => (false, e.save_id),
            SnapshotEvent::Committed(e) => (false, e.save_id),
            SnapshotEvent::Unchanged(e) => (false, e.save_id),
            SnapshotEvent::Failed(e) => (false, e.save_id),
            SnapshotEvent::Restored(e) => (false, e.restore_id),
            SnapshotEvent::RestoreFailed(e) => (false, e.restore_id),
            SnapshotEvent::Pruned(_) | SnapshotEvent::Pinned(_) | SnapshotEvent::Unpinned(_) => {
                return;
            }
        };
        let name = self.name(log, "operation", &id);
        if asked {
            links.names.push(name);
        } else {
            links.follow(name, Via::Operation);
        }
    }

    fn of_box(&mut self, log: LogId, event: BoxEvent, links: &mut Links) {
        let operation = |id: &str| self.name(log, "operation", id);
        let follows = match &event {
            BoxEvent::Created(created) => {
                if let Some(box_log) = LogId::from_slice(&created.box_log) {
                    self.boxes.insert(created.box_id.clone(), box_log);
                    links.names.push(self.name(box_log, "box log", ()));
                }
                return;
            }
            BoxEvent::EnsureRequested(e) => {
                links.names.push(operation(&e.operation_id));
                return;
            }
            BoxEvent::WakeRequested(e) => {
                links.names.push(operation(&e.operation_id));
                return;
            }
            BoxEvent::HibernateRequested(e) => {
                links.names.push(operation(&e.operation_id));
                return;
            }
            BoxEvent::DeleteRequested(e) => {
                links.names.push(operation(&e.operation_id));
                return;
            }
            BoxEvent::Starting(e) => &e.operation_id,
            BoxEvent::Running(e) => &e.operation_id,
            BoxEvent::Hibernated(e) => &e.operation_id,
            BoxEvent::Failed(e) => &e.operation_id,
            BoxEvent::Deleted(e) => &e.operation_id,
            BoxEvent::LogAnchored(e) => {
                if let Some(box_log) = LogId::from_slice(&e.box_log) {
                    links.follows = Some((Whom::Place((box_log, e.pos)), Via::Anchor));
                }
                return;
            }
            BoxEvent::LogRewound(e) => {
                if let Some(old_log) = LogId::from_slice(&e.old_log) {
                    links.follows = Some((Whom::Place((old_log, e.common)), Via::Anchor));
                }
                if let Some(new_log) = LogId::from_slice(&e.new_log) {
                    links.names.push(self.name(new_log, "box log", ()));
                }
                return;
            }
            BoxEvent::Renamed(_)
            | BoxEvent::ModelsSet(_)
            | BoxEvent::MemoryExhausted(_)
            | BoxEvent::KeptAwake(_)
            | BoxEvent::MachineLost(_) => return,
        };
        links.follow(operation(follows), Via::Operation);
    }
}
