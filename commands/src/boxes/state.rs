//! What is known of a box.

use cocoonbox_events::{Aggregate, BoxEvent, ChainHash, IllegalTransition, LogId, Parent, Payload};
use cocoonbox_proto::log::v1::ModelRoles;

use super::{Command, Rejection};

/// A box, folded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Empty until the box is created.
    pub box_id: String,
    /// Flavor number of `cocoonbox.control.v1.Flavor`.
    pub flavor: u32,
    pub name: String,
    /// The box's own log.
    pub box_log: Option<LogId>,
    /// Where that branches off another, by a fork or the last rewind.
    pub parent: Option<Parent>,
    /// What a fork was made from.
    pub origin: Option<Origin>,
    pub user_id: String,
    /// Image version of the last start; empty before the first.
    pub image: String,
    /// Agent version of the last start that got to run; empty before.
    pub agent_version: String,
    /// Whether the last hibernation kept the memory.
    pub memory_kept: bool,
    /// Which models its agents use that have none of their own. What is absent is the installation's.
    pub models: ModelRoles,
    pub phase: Phase,
    /// The wake id drawn last, in whatever phase it was; a wake id is used once.
    pub last_wake: Option<String>,
    /// Position in the box log that the account log is tied to; 0 = none yet.
    pub anchored: u64,
    /// The link at `anchored`.
    pub anchored_chain: Option<ChainHash>,
    /// The last hibernation left nothing behind in the box: its log ends where the replica does, as long
    /// as no machine was started since.
    pub quiesced: bool,
    /// Processes of the last machine that were killed because its memory was full, as far as it was told.
    pub memory_kills: u64,
    /// Until when it is not put to sleep for being idle; 0 = nobody asked for that.
    pub awake_until_ms: i64,
}

/// The box and the moment that a fork has its files and its history from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub box_id: String,
    /// Of the other box's log.
    pub at: Parent,
    /// The other box's snapshot whose files it has; `None` = its disks are copies.
    pub snapshot_id: Option<String>,
}

/// Where a box is in its life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Nobody asked for it yet.
    #[default]
    Absent,
    Starting {
        operation: String,
        /// Drawn and written before anything is started with it.
        wake: Option<String>,
    },
    Running {
        wake: String,
    },
    Hibernating {
        operation: String,
        /// The machine to be stopped; `None` if none was started.
        wake: Option<String>,
        /// The operation of a start that was asked for meanwhile.
        then_wake: Option<String>,
    },
    Hibernated,
    Failed {
        operation: String,
        reason: String,
        detail: String,
    },
    Deleting {
        operation: String,
        /// The machine that may still be there.
        wake: Option<String>,
    },
    Deleted,
}

/// What the reactor owes this box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Debt {
    /// Bring a machine up. With a wake id, one was being started with it already.
    Start {
        operation: String,
        wake: Option<String>,
    },
    /// Bring the machine down and keep its disks.
    Stop {
        operation: String,
        wake: Option<String>,
    },
    /// Remove machine and disks.
    Remove { operation: String },
}

impl State {
    /// Returns what is to be done to the machine; `None` in the phases that are at rest.
    pub fn owed(&self) -> Option<Debt> {
        match &self.phase {
            Phase::Starting { operation, wake } => Some(Debt::Start {
                operation: operation.clone(),
                wake: wake.clone(),
            }),
            Phase::Hibernating {
                operation, wake, ..
            } => Some(Debt::Stop {
                operation: operation.clone(),
                wake: wake.clone(),
            }),
            Phase::Deleting { operation, .. } => Some(Debt::Remove {
                operation: operation.clone(),
            }),
            Phase::Absent
            | Phase::Running { .. }
            | Phase::Hibernated
            | Phase::Failed { .. }
            | Phase::Deleted => None,
        }
    }

    /// Returns the operation under way whose end says where the box is going: a start that waits for
    /// a hibernation comes before that hibernation.
    pub fn current_operation(&self) -> Option<&str> {
        match &self.phase {
            Phase::Starting { operation, .. } | Phase::Deleting { operation, .. } => {
                Some(operation)
            }
            Phase::Hibernating {
                operation,
                then_wake,
                ..
            } => Some(then_wake.as_ref().unwrap_or(operation)),
            Phase::Absent
            | Phase::Running { .. }
            | Phase::Hibernated
            | Phase::Failed { .. }
            | Phase::Deleted => None,
        }
    }

    /// Returns the wake id of the machine that is there or may be.
    pub fn wake(&self) -> Option<&str> {
        match &self.phase {
            Phase::Running { wake } => Some(wake),
            Phase::Starting { wake, .. }
            | Phase::Hibernating { wake, .. }
            | Phase::Deleting { wake, .. } => wake.as_deref(),
            // A failed start or stop may have left its machine behind.
            Phase::Failed { .. } => self.last_wake.as_deref(),
            Phase::Absent | Phase::Hibernated | Phase::Deleted => None,
        }
    }

    /// Whether the box has not run yet, and begins with what another had at some moment.
    pub fn is_new_from_a_moment(&self) -> bool {
        let is_from_a_moment = |origin: &Origin| origin.snapshot_id.is_some();
        self.agent_version.is_empty() && self.origin.as_ref().is_some_and(is_from_a_moment)
    }

    /// Whether the box was created, deleted ones included.
    pub fn exists(&self) -> bool {
        !self.box_id.is_empty()
    }
}

impl Phase {
    /// The name that messages use.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Starting { .. } => "starting",
            Self::Running { .. } => "running",
            Self::Hibernating { .. } => "hibernating",
            Self::Hibernated => "hibernated",
            Self::Failed { .. } => "failed",
            Self::Deleting { .. } => "deleting",
            Self::Deleted => "deleted",
        }
    }
}

impl Aggregate for State {
    type Command = Command;
    type Event = BoxEvent;
    type Rejection = Rejection;

    fn decide(&self, command: &Command) -> Result<Vec<BoxEvent>, Rejection> {
        super::decide::decide(self, command)
    }

    fn evolve(self, event: &BoxEvent) -> Result<Self, IllegalTransition> {
        super::evolve::evolve(self, event)
    }

    fn pick(payload: Payload) -> Option<BoxEvent> {
        BoxEvent::pick(payload)
    }
}
