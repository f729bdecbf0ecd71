//! What a store is asked for, and what it answers.

use cocoonbox_events::{
    Append, AppendError, Appended, LogId, NewLog, Recorded, ReplicaError, Tail, store::Checkpoint,
};

pub(super) enum Ask {
    Open(NewLog),
    Rewind(NewLog),
    Append(LogId, Append),
    Replicate(LogId, Vec<Recorded>),
    Erase(LogId, Vec<u64>),
    Checkpoint(LogId, Checkpoint),
    Incarnation(u64),
}

pub(super) enum Answer {
    Tail(Result<Tail, AppendError>),
    Appended(Result<Appended, AppendError>),
    Replica(Result<Tail, ReplicaError>),
    Done(Result<(), AppendError>),
}

impl Ask {
    /// Answers with an error of the store.
    pub(super) fn refuse(&self, error: impl Fn() -> AppendError) -> Answer {
        match self {
            Self::Open(_) | Self::Rewind(_) => Answer::Tail(Err(error())),
            Self::Append(..) => Answer::Appended(Err(error())),
            Self::Replicate(..) => Answer::Replica(Err(ReplicaError::Store(error()))),
            Self::Erase(..) | Self::Checkpoint(..) | Self::Incarnation(_) => {
                Answer::Done(Err(error()))
            }
        }
    }
}
