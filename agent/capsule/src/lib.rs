//! The time capsule: directory trees saved into a store that learns nothing, and given back exactly.
//!
//! A save cuts files into chunks, packs those the store has not, and ends with one snapshot record. The
//! format is in the crate's README, byte by byte; all of it can be read with a store, a key and this
//! crate. Everything here blocks: callers with a runtime give it a thread of its own.

#![forbid(unsafe_code)]

pub mod cache;
pub mod capsule;

pub mod check;
pub mod chunk;
pub mod cursor;

pub mod diff;
pub mod encoding;
pub mod entry;
pub mod error;
pub mod frame;
pub mod generation;
pub mod id;
pub mod index;
pub mod key;
pub mod pack;
pub mod reader;
pub mod restore;

pub mod save;
pub mod seal;
pub mod snapshot;
pub mod store;
pub mod sweep;
pub mod tree;

pub use capsule::Capsule;
pub use error::{Damage, Error};
pub use id::{ChunkId, ObjectId, SnapshotId};
pub use key::UserKey;
pub use reader::Reader;
pub use snapshot::Snapshot;
pub use store::{Folder, Store};
