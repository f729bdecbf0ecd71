//! The log: what happened, in one order, once, for ever.
//!
//! A [`Store`] holds many logs. A log is a gapless, hash-chained sequence of [`Recorded`] events; each
//! belongs to one stream. Positions are handed out as [`OffsetKey`]s, from which any reader resumes.

#![forbid(unsafe_code)]

pub mod aggregate;
pub mod approval;
pub mod chain;
pub mod checkpoint;
pub mod clock;
pub mod day;
pub mod erasure;
pub mod follow;
pub mod id;
pub mod keys;
pub mod limits;
pub mod memory;
pub mod offset_key;
pub mod record;
pub mod registry;
pub mod replica;
pub mod seal;
pub mod sealing;
pub mod sqlite;
pub mod store;
pub mod tables;
pub mod wrapped;

pub use aggregate::{Aggregate, Execute, Executed, Fold, IllegalTransition, LoadError, Meta};
pub use chain::{ChainHash, PayloadHash};
pub use clock::{Clock, Ids, ManualClock, SystemClock, SystemIds};
pub use day::day;
pub use erasure::Husks;
pub use follow::Follower;
pub use id::{CommandId, EventId, LogId, StreamName};
pub use keys::{KeyStore, Keyring, LogKey, NoKeys, Sealing, SigningKeys};
pub use memory::MemoryStore;
pub use offset_key::OffsetKey;
pub use record::{Append, NewEvent, Recorded};
pub use registry::{
    AgentEvent, BlobEvent, BoxEvent, BudgetEvent, CapsuleEvent, ControlEvent, DecodeError,
    DesktopEvent, DirectoryEvent, ErasureEvent, ExecEvent, Kind, LogEvent, Payload, RoutineEvent,
    ShareEvent, SnapshotEvent, UsageEvent, UserEvent,
};
pub use sqlite::SqliteStore;
pub use store::{
    AppendError, Appended, Checkpoint, Expect, Happened, LogInfo, LogKind, NewLog, Page, Parent,
    ReadError, ReplicaError, Store, Tail,
};
