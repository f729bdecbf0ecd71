//! A routine as it stands.

use cocoonbox_events::erasure::ERASED;
use cocoonbox_proto::log::v1::{RoutineDefinition, routine_paused, routine_run_ended::Outcome};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Life {
    #[default]
    Absent,
    Open,
    Deleted,
}

/// A run that is owed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub run_id: String,
    /// 0 = a person asked for it.
    pub due_us: i64,
    /// It is given up then.
    pub until_us: i64,
    /// The box sleeps again behind it.
    pub wakes: bool,
    /// Set once the box's agent has the prompt.
    pub prompted: Option<Prompted>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompted {
    pub prompt_id: String,
    /// What comes of it is behind this in the box's log.
    pub offset_key: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    pub life: Life,
    pub routine_id: String,
    pub agent_id: String,
    pub definition: RoutineDefinition,
    pub prompt: String,
    pub paused: Option<routine_paused::Reason>,
    /// When it is due, microseconds since the epoch; 0 = not by itself.
    pub next_us: i64,
    pub run: Option<Run>,
    /// Runs in a row that came to nothing.
    pub failures: u32,
    /// How many runs have ended.
    pub runs: u64,
}

impl State {
    /// When the clock starts it, if it does.
    pub fn due_us(&self) -> Option<i64> {
        let waits = self.life == Life::Open && self.paused.is_none() && self.next_us > 0;
        waits.then_some(self.next_us)
    }

    pub fn is_erased(&self) -> bool {
        self.prompt == ERASED
    }

    /// The run under way, if it is this one.
    pub fn run_of(&self, run_id: &str) -> Option<&Run> {
        self.run.as_ref().filter(|run| run.run_id == run_id)
    }
}

/// Whether a run came to nothing for a reason that the next one will meet too.
pub(super) fn is_failure(outcome: Outcome) -> bool {
    match outcome {
        Outcome::Failed | Outcome::TimedOut | Outcome::Unreached => true,
        Outcome::Unspecified
        | Outcome::Done
        | Outcome::Cancelled
        | Outcome::Waiting
        | Outcome::Lost => false,
    }
}
