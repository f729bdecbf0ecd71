//! Erasing: of content in one's own logs, and of whole users.
//!
//! ```text
//!  account log   log.erasure_requested ─▶ rows ─▶ log.erasure_done                       (debt of the log)
//!  box log       erasure.requested ─▶ replica's rows, views ─▶ erasure.replica_erased    (debt of the
//!                        └─▶ BoxLog.Erase, at the next wake ─▶ erasure.box_erased         account log)
//!  user          deletion_requested ─▶ user.deleted, boxes, key, views, name ─▶ user_removed   (directory)
//! ```
//!
//! Whatever is asked for is written down first and owed until its ending is written, so it survives a
//! crash between any two steps; each step may be done again. The call that asks pays at once, and the
//! reactor pays what a call did not get to. What other processes did is followed by [`Elsewhere`].

mod boxed;
mod chunks;
mod delete;
mod elsewhere;
mod own;
mod reactor;
mod service;

use std::sync::Arc;

use cocoonbox_commands::{
    boxes, directory,
    erasure::{boxed as boxed_commands, own as own_commands},
};
use cocoonbox_events::{
    CommandId, Execute, Fold, Ids, LoadError, LogId, Meta, ReadError, Store,
    erasure::{PlanError, RowsError},
};
use cocoonbox_installation::{Keys, KeysError};
use cocoonbox_projections::{ForgetError, Views};
use cocoonbox_proto::log::v1::{Actor, actor};

pub use self::{
    delete::Deletion,
    elsewhere::{Elsewhere, ElsewhereError},
    reactor::run,
    service::{Service, from_erase},
};
use crate::{
    accounts::{AccountError, Accounts},
    capsules::Place,
    channel::Channels,
};

/// Does what erasures owe. Cheap to clone.
#[derive(Clone)]
pub struct Eraser {
    pub accounts: Arc<Accounts>,
    pub store: Arc<dyn Store>,
    pub keys: Arc<dyn Keys>,
    pub views: Views,
    pub channels: Channels,
    pub ids: Arc<dyn Ids>,
    /// Where files of boxes are saved.
    pub place: Place,
}

#[derive(Debug, thiserror::Error)]
pub enum EraseError {
    #[error(transparent)]
    Account(#[from] AccountError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Own(#[from] Execute<own_commands::Rejection>),
    #[error(transparent)]
    Boxed(#[from] Execute<boxed_commands::Rejection>),
    #[error(transparent)]
    Directory(#[from] Execute<directory::Rejection>),
    #[error("deleting a box")]
    Box(#[from] Execute<boxes::Rejection>),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("reading a log")]
    Read(#[from] ReadError),
    #[error(transparent)]
    Rows(#[from] RowsError),
    #[error("destroying a key")]
    Keys(#[from] KeysError),
    #[error("removing what was saved of the user's files")]
    Capsule(#[source] std::io::Error),
    #[error("forgetting in the views")]
    Forget(#[from] ForgetError),
    #[error("the name of a stream")]
    Stream(#[from] cocoonbox_events::id::BadStreamName),
    #[error("the box does not erase")]
    BoxRefuses(#[source] Box<tonic::Status>),
}

/// Meta of a report: its id follows from the last event, so that a crash between an effect and its event
/// leads to one event.
fn report<A>(fold: &Fold<A>, step: &str) -> (Meta, [u8; 32]) {
    let seed = fold.last.map(|id| *id.as_bytes()).unwrap_or_default();
    let meta = Meta {
        command: CommandId::derive(&seed, step),
        actor: Actor {
            kind: actor::Kind::System.into(),
            id: "erasure".into(),
        },
        cause: fold.last,
    };
    (meta, *blake3::hash(step.as_bytes()).as_bytes())
}

/// The id of a caller's command in one log: the caller chooses it, and it may be another's.
fn command_in(log: LogId, command: CommandId) -> CommandId {
    CommandId::derive(
        &[log.as_bytes().as_slice(), command.as_bytes()].concat(),
        "erase",
    )
}
