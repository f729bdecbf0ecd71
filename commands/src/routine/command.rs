//! What can be asked of a routine or reported of its runs.

use cocoonbox_proto::log::v1::{
    RoutineDefinition, agent_turn_ended, routine_missed, routine_paused, routine_run_ended::Outcome,
};

use super::{CRON_BYTES_MAX, PROMPT_BYTES_MAX, RUN_MS_MAX, RUN_MS_MIN, ZONE_BYTES_MAX};
use crate::name::BadName;

/// Times are microseconds since the epoch; `next_us` is when the routine is due, 0 = not by itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    Create {
        routine_id: String,
        agent_id: String,
        definition: Box<RoutineDefinition>,
        prompt: String,
        next_us: i64,
    },
    /// In all but the box.
    Change {
        definition: Box<RoutineDefinition>,
        prompt: String,
        next_us: i64,
    },
    Pause {
        reason: routine_paused::Reason,
    },
    Resume {
        next_us: i64,
    },
    /// Begins a run. `due_us` is what the routine says it is due at, or 0 where a person asks for it. The same run id
    /// is one run.
    Start {
        run_id: String,
        due_us: i64,
        next_us: i64,
        until_us: i64,
        wakes: bool,
    },
    /// Lets a time at which it was due go by.
    Miss {
        due_us: i64,
        next_us: i64,
        reason: routine_missed::Reason,
    },
    /// The box's agent has the run's prompt.
    Prompted {
        run_id: String,
        prompt_id: String,
        offset_key: String,
    },
    /// How the run came out. Says nothing of a run that is not under way.
    End {
        run_id: String,
        outcome: Outcome,
        /// How the turn ended, if it did.
        turn: agent_turn_ended::Outcome,
        /// Why the box was not reached, as the reason of an error.
        reason: String,
    },
    Delete,
}

/// Why not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("there is no such routine")]
    NotFound,
    #[error("this routine was deleted")]
    Deleted,
    #[error("there is such a routine already")]
    Exists,
    #[error(transparent)]
    BadName(#[from] BadName),
    #[error("a prompt has 1 to {PROMPT_BYTES_MAX} bytes")]
    BadPrompt,
    #[error(
        "a routine has either an expression of cron of at most {CRON_BYTES_MAX} bytes, with a zone of at most \
         {ZONE_BYTES_MAX}, or a time"
    )]
    BadTime,
    #[error("a run takes {RUN_MS_MIN} to {RUN_MS_MAX} ms")]
    BadLimit,
    #[error("a routine stays with its box")]
    OtherBox,
    /// Another was faster, or it was changed meanwhile.
    #[error("it is not due then")]
    NotDue,
    #[error("run `{run_id}` has not ended")]
    Running { run_id: String },
    #[error("its prompt was erased; change it first")]
    Erased,
}
