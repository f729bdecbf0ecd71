//! The store: many logs, one contract.

use async_trait::async_trait;
use tokio::sync::watch;

use crate::{
    chain::{Break, ChainHash},
    id::{CommandId, EventId, LogId, StreamName},
    offset_key::OffsetKey,
    record::{Append, Recorded},
    tables::Tables,
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
    /// Where it branched off, if it is not a beginning.
    pub parent: Option<Parent>,
}

/// Where a log branched off another. Everything up to there is the branch's history as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    pub log: LogId,
    /// The last position that both have.
    pub pos: u64,
    /// The link there.
    pub chain: ChainHash,
}

/// One log of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogInfo {
    pub id: LogId,
    pub kind: LogKind,
    pub owner: String,
    pub parent: Option<Parent>,
    /// The branch that a rewind went on in. This log is never written again.
    pub moved_to: Option<LogId>,
    pub tail: Tail,
}

/// A signed statement of where a log was, kept with it and elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The position that it speaks of.
    pub size: u64,
    /// The link there.
    pub chain: ChainHash,
    /// A signed note (<https://c2sp.org/signed-note>). The store does not read it.
    pub note: String,
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

/// Positions written, first and last. Of a command without events `first` is the position after `last`,
/// and `last` where the log ended.
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
    /// Also the id of its last event, if it has events.
    Committed(Range, Option<EventId>),
    /// The command had happened before; this is what it wrote then.
    Replayed(Range),
}

/// A command that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Happened {
    /// Digest of what it asked for; `None` if only its events are known, as in a replica, if they were
    /// erased, or if it has none.
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
///
/// # Branches
///
/// A log with a parent inherits the parent's history up to [`Parent::pos`]: its own positions go on
/// behind that, and so do its streams' sequence numbers. Reading it from the start gives the parent's
/// events first, as they are (with the id of the log that holds them), so that folds, projections and
/// streams need not know of branches. An empty branch ends at its parent's position, with its own
/// genesis link. A fork leaves the parent open, a [`Store::rewind`] closes it.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Opens a log, creating it when absent. Idempotent; a log never changes kind, owner or parent.
    async fn open(&self, log: NewLog) -> Result<Tail, AppendError>;

    /// Opens `new` and closes its parent, both or neither: what the parent has behind the branching
    /// point is left behind, and nobody writes to it again. Idempotent. [`AppendError::Moved`] when
    /// the parent was closed in favour of another branch, [`AppendError::NoParent`] without one.
    async fn rewind(&self, new: NewLog) -> Result<Tail, AppendError>;

    /// Appends the events of one command. Without events it is only remembered, so that it has no effect
    /// later either; what it asked for is not, since no erasure of an event would reach that.
    async fn append(&self, log: LogId, append: Append) -> Result<Appended, AppendError>;

    /// Appends events of another store's log unchanged: same positions, same hashes. Events that are
    /// held already are compared and passed over, so a batch may be sent twice.
    async fn replicate(&self, log: LogId, events: Vec<Recorded>) -> Result<Tail, ReplicaError>;

    /// Keeps a checkpoint; one that is kept already is passed over. Refused with
    /// [`AppendError::OtherHistory`] when the log's link there is another, or the log ends before it.
    async fn keep_checkpoint(&self, log: LogId, checkpoint: Checkpoint) -> Result<(), AppendError>;

    /// Returns the kept checkpoints with a size over `after`, by size, at most `limit`. Only those of
    /// the log itself; a parent's are the parent's.
    async fn checkpoints(
        &self,
        log: LogId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Checkpoint>, ReadError>;

    /// Reads the events behind `after`, at most `limit` (and [`crate::limits::PAGE_EVENTS_MAX`], and
    /// about [`crate::limits::PAGE_BYTES_MAX`]; at least one if there is one). A page never spans two
    /// logs.
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

    /// Whether the log is known to end at `pos`, so that nothing has to be read to see what came since. Stores that
    /// others write to cannot know.
    fn ends_at(&self, _log: LogId, _pos: u64) -> bool {
        false
    }

    /// Returns the link at `pos` (0 = genesis).
    async fn chain_at(&self, log: LogId, pos: u64) -> Result<ChainHash, ReadError>;

    /// Returns every log.
    fn logs(&self) -> Vec<LogInfo>;

    /// Returns what is known of one log.
    fn info(&self, log: LogId) -> Result<LogInfo, ReadError>;

    /// Rings when this log has moved; the value is the durable tail position.
    fn doorbell(&self, log: LogId) -> Result<watch::Receiver<u64>, ReadError>;

    /// Rings when any log has moved; the value only counts.
    fn any_doorbell(&self) -> watch::Receiver<u64>;

    /// Returns what is kept beside the events, where there is such a thing to be checked.
    fn tables(&self) -> Option<&dyn Tables> {
        None
    }

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

    /// Checks a key that a client gave back and returns the position behind which to read on in `log`.
    ///
    /// The key may be of an ancestor: up to where the branches part nothing is lost or repeated.
    /// Behind that the answer is [`ReadError::Moved`].
    async fn resume(&self, log: LogId, key: &OffsetKey) -> Result<u64, ReadError> {
        let Some(common) = self.common(log, key.log)? else {
            return Err(ReadError::OtherLog { log: key.log });
        };
        if key.pos > common {
            return Err(ReadError::Moved { to: log, common });
        }
        let tail = self.info(key.log)?.tail.pos;
        if key.pos > tail {
            return Err(ReadError::AheadOfTail { pos: key.pos, tail });
        }
        let chain = self.chain_at(key.log, key.pos).await?;
        if chain.short() == key.chain {
            Ok(key.pos)
        } else {
            Err(ReadError::Diverged { pos: key.pos })
        }
    }

    /// Returns the last position of `other` that is history of `log` as well: `u64::MAX` if they are the
    /// same log, `None` if `log` does not descend from it.
    fn common(&self, log: LogId, other: LogId) -> Result<Option<u64>, ReadError> {
        let mut common = u64::MAX;
        let mut at = self.info(log)?;
        while at.id != other {
            let Some(parent) = at.parent else {
                return Ok(None);
            };
            common = common.min(parent.pos);
            at = self.info(parent.log)?;
        }
        Ok(Some(common))
    }

    /// Follows rewinds from `log` to the branch that is written today.
    fn current(&self, log: LogId) -> Result<LogId, ReadError> {
        let mut at = self.info(log)?;
        while let Some(next) = at.moved_to {
            at = self.info(next)?;
        }
        Ok(at.id)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    #[error("log {log} does not exist")]
    NoSuchLog { log: LogId },
    #[error("log {log} exists with another kind, owner or parent")]
    OtherLog { log: LogId },
    #[error("log {log} was rewound and goes on as {to}")]
    Moved { log: LogId, to: LogId },
    #[error("a rewind needs a log to branch off")]
    NoParent,
    #[error("the history of log {log} is another at position {pos}")]
    OtherHistory { log: LogId, pos: u64 },
    #[error("stream `{stream}` is at seq {actual}, expected {expected:?}")]
    Conflict {
        stream: StreamName,
        expected: Expect,
        actual: u64,
    },
    #[error("command id was used before for something else")]
    CommandReused,
    #[error(
        "{events} events in one append; {} fit",
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
    /// Law: a stream resumed from any key goes on without gap or repeat, or says why it cannot.
    #[error("the history was rewound to position {common} and goes on in log {to}")]
    Moved { to: LogId, common: u64 },
    #[error("the key is of log {log}, which is not part of this history")]
    OtherLog { log: LogId },
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
            Self::Committed(range, _) | Self::Replayed(range) => *range,
        }
    }
}
