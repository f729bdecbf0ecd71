//! Why a question could not be answered.

use cocoonbox_events::LogId;

use crate::rows;

#[derive(Debug, thiserror::Error)]
pub enum ViewsError {
    #[error(transparent)]
    Rows(#[from] rows::Error),
    /// This build cannot read the rows that are there, and its own are not built yet.
    #[error("the rows of `{projection}` are being built: {done} of {of} events are taken in")]
    Building {
        projection: &'static str,
        done: u64,
        of: u64,
    },
    #[error("there is no projection `{projection}`")]
    NoSuchProjection { projection: String },
    /// The process is stopping, or the read panicked.
    #[error("reading the views was interrupted")]
    Interrupted,
}

impl From<rusqlite::Error> for ViewsError {
    fn from(source: rusqlite::Error) -> Self {
        Self::Rows(source.into())
    }
}

impl ViewsError {
    /// Whether asking again may help.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Interrupted | Self::Building { .. } | Self::Rows(rows::Error::Database(_))
        )
    }
}

/// The views have not seen a position in time. Asking again later may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the views are at position {reached} of log {log}, asked for {asked}")]
pub struct Behind {
    pub log: LogId,
    pub asked: u64,
    pub reached: u64,
}
