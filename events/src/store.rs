//! The store: many logs, one contract.

use async_trait::async_trait;
use tokio::sync::watch;

use crate::{
    chain::{Break, ChainHash},
    id::{CommandId, LogId, StreamName},
    offset_key::OffsetKey,
    record::{Append, Recorded},
};

/// What a log is for. Decides who may write what in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogKind {
    /// One per installation.
    System,
    /// One per user.
    Account,
    /// One per box, written in the box; outside it is a replica.
    Box,
}

/// A log to be opened.
#[derive(Clone, Debug)]
pub struct NewLog {
    pub id: LogId,
    pub kind: LogKind,
    /// The user (account and box logs) whose key seals it; empty for the system log.
    pub owner: String,
    /// Where it branched off: another log, a position in it and the link there.
    pub parent: Option<(LogId, u64, ChainHash)>,
}

/// One log of a store.
#[derive(Clone, Debug)]
pub struct LogInfo {
    pub id: LogId,
    pub kind: LogKind,
    pub owner: String,
    pub tail: Tail,
}

/// The durable end of a log. `pos` 0 and the genesis link: empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    pub log: LogId,
    pub pos: u64,
    pub chain: ChainHash,
}

/// What an append believes of a stream's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    Any,
    /// The stream has no event.
    Absent,
    /// The last event of the stream has this sequence number; 0 is `Absent`.
    Exactly(u64),
}

/// Positions written, first and last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub first: u64,
    pub last: u64,
    /// The link at `last`.
    pub chain: ChainHash,
}

/// The answer to an append. Given only once the events are on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    Committed(Range),
    /// The command had happened before; this is what it wrote then.
    Replayed(Range),
}

/// A command that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Happened {
    /// Digest of what it asked for; `None` if only its events are known, as in a replica.
    pub digest: Option<[u8; 32]>,
    pub range: Range,
}

/// Events in order.
#[derive(Clone, Debug, Default)]
pub struct Page {
    pub events: Vec<Recorded>,
}

/// A store of logs.
///
/// * An acked append is on disk (for stores that have one) and is seen by every later read.
/// * Positions are gapless from 1 in commit order; sequence numbers are gapless from 1 in a stream.
/// * Rejections are answered only once everything that they were decided on is durable.
/// * Dropping the future of an append leaves its outcome unknown; repeat it with the same command id.
/// * Doorbells ring after the commit. They may ring once for many commits.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Opens a log, creating it when absent. Idempotent; a log never changes kind, owner or parent.
    async fn open(&self, log: NewLog) -> Result<Tail, AppendError>;

    /// Appends the events of one command.
    async fn append(&self, log: LogId, append: Append) -> Result<Appended, AppendError>;

    /// Appends events of another store's log unchanged: same positions, same hashes. Events that are
    /// held already are compared and passed over, so a batch may be sent twice.
    async fn replicate(&self, log: LogId, events: Vec<Recorded>) -> Result<Tail, ReplicaError>;

    /// Reads the events behind `after`, at most `limit` (and [`crate::limits::PAGE_EVENTS_MAX`], and
    /// about [`crate::limits::PAGE_BYTES_MAX`]; at least one if there is one).
    async fn read(&self, log: LogId, after: u64, limit: usize) -> Result<Page, ReadError>;

    /// Reads the events of one stream behind sequence number `after`.
    async fn read_stream(
        &self,
        log: LogId,
        stream: &StreamName,
        after: u64,
        limit: usize,
    ) -> Result<Page, ReadError>;

    /// Erases the payloads at these positions. Only the rows; the caller writes the events around it
    /// (`log.erasure_requested`, `log.erasure_done`). Positions that are erased already are fine.
    async fn erase(&self, log: LogId, positions: &[u64]) -> Result<(), AppendError>;

    /// Returns the durable tail.
    fn tail(&self, log: LogId) -> Result<Tail, ReadError>;

    /// Returns the link at `pos` (0 = genesis).
    async fn chain_at(&self, log: LogId, pos: u64) -> Result<ChainHash, ReadError>;

    /// Returns every log.
    fn logs(&self) -> Vec<LogInfo>;

    /// Rings when this log has moved; the value is the durable tail position.
    fn doorbell(&self, log: LogId) -> Result<watch::Receiver<u64>, ReadError>;

    /// Rings when any log has moved; the value only counts.
    fn any_doorbell(&self) -> watch::Receiver<u64>;

    /// Returns what a command wrote to this log, if it happened.
    ///
    /// Looks through the log from its start; a store that keeps an index does better.
    async fn happened(
        &self,
        log: LogId,
        command: CommandId,
    ) -> Result<Option<Happened>, ReadError> {
        let mut after = 0;
        let mut found: Option<Range> = None;
        loop {
            let page = self
                .read(log, after, crate::limits::PAGE_EVENTS_MAX)
                .await?;
            let Some(last) = page.events.last() else {
                return Ok(found.map(|range| Happened {
                    digest: None,
                    range,
                }));
            };
            after = last.pos;
            for event in &page.events {
                let (pos, chain) = (event.pos, event.chain);
                match &mut found {
                    Some(range) if crate::replica::command_of(event) != Some(command) => {
                        let range = *range;
                        return Ok(Some(Happened {
                            digest: None,
                            range,
                        }));
                    }
                    Some(range) => (range.last, range.chain) = (pos, chain),
                    None if crate::replica::command_of(event) == Some(command) => {
                        found = Some(Range {
                            first: pos,
                            last: pos,
                            chain,
                        });
                    }
                    None => {}
                }
            }
        }
    }

    /// Checks a key that a client gave back and returns the position to read behind.
    async fn resume(&self, key: &OffsetKey) -> Result<u64, ReadError> {
        let tail = self.tail(key.log)?;
        if key.pos > tail.pos {
            return Err(ReadError::AheadOfTail {
                pos: key.pos,
                tail: tail.pos,
            });
        }
        let chain = self.chain_at(key.log, key.pos).await?;
        if chain.short() == key.chain {
            Ok(key.pos)
        } else {
            Err(ReadError::Diverged { pos: key.pos })
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    #[error("log {log} does not exist")]
    NoSuchLog { log: LogId },
    #[error("log {log} exists with another kind, owner or parent")]
    OtherLog { log: LogId },
    #[error("stream `{stream}` is at seq {actual}, expected {expected:?}")]
    Conflict {
        stream: StreamName,
        expected: Expect,
        actual: u64,
    },
    #[error("command id was used before for something else")]
    CommandReused,
    #[error(
        "{events} events in one append; 1 to {} fit",
        crate::limits::APPEND_EVENTS_MAX
    )]
    TooMany { events: usize },
    #[error("`{kind}` with {bytes} payload bytes is over a limit of the log")]
    TooLarge { kind: &'static str, bytes: usize },
    #[error("the system's random source does not answer")]
    NoRandomness,
    #[error("the writer's queue is full")]
    Overloaded,
    #[error("the disk is full")]
    DiskFull,
    #[error("the log is sealed with a key that is not here")]
    NoKey,
    #[error("the store is read-only or stopped")]
    Stopped,
    /// The commit failed in a way that does not tell whether it happened.
    #[error("whether the append happened is not known; repeat it with the same command id")]
    Unknown,
}

#[derive(Debug, thiserror::Error)]
pub enum ReplicaError {
    #[error("log {log} does not exist")]
    NoSuchLog { log: LogId },
    #[error("the batch starts at {found}, but {expected} is next")]
    Gap { expected: u64, found: u64 },
    /// The other side has another history: tampering, or a rewind that was not declared.
    #[error("the history differs at position {pos}")]
    Diverged { pos: u64 },
    #[error("the batch does not verify")]
    Broken(#[source] Break),
    #[error("stream `{stream}` continues with seq {found}, expected {expected}")]
    StreamSeq {
        stream: StreamName,
        expected: u64,
        found: u64,
    },
    #[error("storing the batch")]
    Store(#[source] AppendError),
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("log {log} does not exist")]
    NoSuchLog { log: LogId },
    #[error("position {pos} is ahead of the tail {tail}")]
    AheadOfTail { pos: u64, tail: u64 },
    /// The key was made on another branch of this log, or the log was tampered with.
    #[error("the history differs from the key's at position {pos}")]
    Diverged { pos: u64 },
    #[error("a row at position {pos} is damaged: {what}")]
    Damaged { pos: u64, what: &'static str },
    #[error("reading the database")]
    Io(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Expect {
    /// Whether this is so of a stream whose last event is `seq` (0: it has none).
    pub fn holds(self, seq: u64) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => seq == 0,
            Self::Exactly(expected) => expected == seq,
        }
    }
}

impl NewLog {
    /// Whether two openings mean the same log.
    pub fn is_same(&self, other: &Self) -> bool {
        self.id == other.id
            && self.kind == other.kind
            && self.owner == other.owner
            && self.parent == other.parent
    }
}

impl AppendError {
    /// Whether the same append, with the same command id, may succeed later.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Overloaded | Self::DiskFull | Self::Unknown | Self::Stopped
        )
    }
}

impl Appended {
    pub fn range(&self) -> Range {
        match self {
            Self::Committed(range) | Self::Replayed(range) => *range,
        }
    }
}
