//! What a store keeps beside the events, as it lies there, for whoever holds it against them.
//!
//! The chain covers events. Stream heads, commands and the logs' own rows are copies that make writing
//! fast: a changed one does not change history, but it makes a store refuse, repeat or misread.

use std::time::Duration;

use async_trait::async_trait;

use crate::{
    id::{CommandId, LogId},
    store::ReadError,
};

/// A stream's head as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamRow {
    pub stream: String,
    /// Sequence number of its last event.
    pub seq: u64,
    /// Position of its last event, where that is kept too.
    pub pos: Option<u64>,
}

/// A command as it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CommandRow {
    pub command: CommandId,
    /// Positions of its events. Of one without any `last` is where the log ended, and `first` the next.
    pub first: u64,
    pub last: u64,
}

impl CommandRow {
    /// Whether it has no events, and is remembered so that it has none later either.
    pub fn is_without_events(&self) -> bool {
        self.last.checked_add(1) == Some(self.first)
    }
}

/// Whether the payloads of a log can be read here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readable {
    Yes,
    /// The owner's key was destroyed, or never was here.
    NoKey,
    /// There is a key for its owner, but it was sealed with another.
    OtherKey,
}

/// A row that belongs to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stray {
    pub table: &'static str,
    /// What tells it from the others, for people.
    pub row: String,
}

/// What somebody found who looked through a database file page by page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Integrity {
    /// What does not fit, in the database's own words.
    pub wrong: Vec<String>,
    /// It took too long, and the rest was not looked at.
    pub is_cut: bool,
}

/// Reads what is kept beside the events. Rows are given as they are, also where they are damaged.
#[async_trait]
pub trait Tables: Send + Sync {
    /// Returns the stream heads of one log whose names follow `after`, by name, at most `limit`.
    async fn streams(
        &self,
        log: LogId,
        after: &str,
        limit: usize,
    ) -> Result<Vec<StreamRow>, ReadError>;

    /// Returns the commands of one log that follow `after`, by id, at most `limit`.
    async fn commands(
        &self,
        log: LogId,
        after: Option<CommandId>,
        limit: usize,
    ) -> Result<Vec<CommandRow>, ReadError>;

    /// Returns whether the log's payloads can be read here.
    async fn readable(&self, log: LogId) -> Result<Readable, ReadError>;

    /// Returns rows that belong to no log that is here, and logs that are none; at most `limit`.
    async fn strays(&self, limit: usize) -> Result<Vec<Stray>, ReadError>;

    /// Looks through the file that all of it lies in, indexes and unused pages as well, for at most this
    /// long; at most `limit` findings. A database that has its own ways for that finds nothing here.
    async fn integrity(&self, limit: usize, time: Duration) -> Result<Integrity, ReadError> {
        let (_, _) = (limit, time);
        Ok(Integrity::default())
    }
}
