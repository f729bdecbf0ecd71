//! How far a transaction came before it failed, and what its callers are told.

use cocoonbox_events::{AppendError, LogId};

use crate::error::Failure;

/// Why nothing of a batch is acked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fate {
    NoSuchLog,
    Overloaded,
    DiskFull,
    Stopped,
    Unknown,
}

/// How far a transaction came.
pub(crate) enum Failed {
    /// Nothing was decided.
    Beginning(sqlx::Error),
    Writing(sqlx::Error),
    /// The commit was sent.
    Committing(sqlx::Error),
    NoSuchLog,
    /// What was acked at this position is not there any more: a backup was put back, or a standby that
    /// lagged behind was promoted.
    WentBack {
        acked: u64,
    },
}

impl Failed {
    /// Whether the same may be tried again at once, on another connection.
    pub(crate) fn is_repeatable(&self) -> bool {
        match self {
            Self::Beginning(error) => {
                matches!(Failure::of(error), Failure::Lost | Failure::Again)
            }
            Self::Writing(_) | Self::Committing(_) | Self::NoSuchLog | Self::WentBack { .. } => {
                false
            }
        }
    }

    /// What its caller is told.
    pub(crate) fn error(self, log: LogId) -> AppendError {
        self.fate(log).error(log)
    }

    pub(super) fn fate(self, log: LogId) -> Fate {
        match self {
            Self::NoSuchLog => Fate::NoSuchLog,
            Self::WentBack { acked } => {
                tracing::error!(%log, acked, "acked events are gone; rewind the log to go on");
                Fate::Stopped
            }
            Self::Beginning(error) | Self::Writing(error) => {
                tracing::warn!(%error, %log, "log write failed");
                Fate::of(&error)
            }
            Self::Committing(error) => {
                tracing::error!(%error, %log, "log write failed in its commit");
                Fate::of_commit(&error)
            }
        }
    }
}

impl Fate {
    /// Of a transaction whose commit was not sent: nothing happened.
    fn of(error: &sqlx::Error) -> Self {
        match Failure::of(error) {
            Failure::Busy | Failure::Again => Self::Overloaded,
            Failure::DiskFull => Self::DiskFull,
            Failure::Lost | Failure::ReadOnly | Failure::Duplicate | Failure::Refused => {
                Self::Stopped
            }
        }
    }

    /// Only a serialisation error says for sure that a commit did not happen.
    fn of_commit(error: &sqlx::Error) -> Self {
        match Failure::of(error) {
            Failure::Again => Self::Overloaded,
            _ => Self::Unknown,
        }
    }

    pub(super) fn error(self, log: LogId) -> AppendError {
        match self {
            Self::NoSuchLog => AppendError::NoSuchLog { log },
            Self::Overloaded => AppendError::Overloaded,
            Self::DiskFull => AppendError::DiskFull,
            Self::Stopped => AppendError::Stopped,
            Self::Unknown => AppendError::Unknown,
        }
    }
}
