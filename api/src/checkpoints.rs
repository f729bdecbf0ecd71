//! Signed checkpoints: made while logs move, kept in the store and where it cannot reach, handed out.
//!
//! ```text
//! any log moved ─▶ 1,024 events or 60 s ─▶ sign ─▶ store ─▶ objects (made once, never replaced)
//! ```
//!
//! Any number of api processes may do this for the same logs: what the store has first is what counts.
//! Nothing here holds up an append. What fails is tried again, and seen in [`Standing`].

mod keys;
mod objects;
mod rpc;
mod standing;
mod writer;

pub use self::{
    keys::KeyError,
    objects::{Folder, ObjectError, Objects, Put},
    rpc::Rpc,
    standing::Standing,
    writer::{CheckpointError, Checkpointer, Handle, Parts},
};
