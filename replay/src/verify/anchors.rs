//! Where logs are tied to each other: anchors in account logs, and branches.

use std::sync::Arc;

use cocoonbox_events::{ChainHash, LogId, LogInfo, ReadError, Store};

use super::answered;
use crate::error::Error;

/// What an account log says of a box log.
pub(super) struct Anchor {
    /// Position in the account log.
    pub(super) at: u64,
    pub(super) box_log: LogId,
    pub(super) pos: u64,
    pub(super) chain: ChainHash,
}

impl Anchor {
    /// Returns what is wrong with it.
    pub(super) async fn check(&self, store: &Arc<dyn Store>) -> Result<Option<String>, Error> {
        let Self {
            box_log,
            pos,
            chain,
            ..
        } = self;
        let found = answered(store.chain_at(*box_log, *pos).await, *box_log)?;
        Ok(match found {
            Ok(found) if found == *chain => None,
            Ok(found) => Some(format!(
                "box log {box_log} has link {found} at {pos}, the anchor says {chain}"
            )),
            Err(ReadError::NoSuchLog { .. }) => Some(format!("box log {box_log} is not here")),
            Err(ReadError::AheadOfTail { tail, .. }) => Some(format!(
                "box log {box_log} ends at {tail}, before the anchor at {pos}"
            )),
            Err(error) => Some(format!(
                "box log {box_log} cannot be read at {pos}: {error}"
            )),
        })
    }
}

/// Returns what is wrong with how a branch hangs on its parent, or a parent on the branch that it was
/// rewound to.
pub(super) async fn parent(
    store: &Arc<dyn Store>,
    info: &LogInfo,
) -> Result<Option<String>, Error> {
    if let Some(to) = info.moved_to {
        let hangs = store
            .info(to)
            .is_ok_and(|to| to.parent.is_some_and(|parent| parent.log == info.id));
        if !hangs {
            return Ok(Some(format!(
                "it says that it goes on in log {to}, which does not branch off it"
            )));
        }
    }
    let Some(parent) = info.parent else {
        return Ok(None);
    };
    let Ok(above) = store.info(parent.log) else {
        return Ok(Some(format!("its parent {} is not here", parent.log)));
    };
    if above.kind != info.kind || above.owner != info.owner {
        return Ok(Some(
            "its kind or owner is not that of its parent".to_owned(),
        ));
    }
    let found = answered(store.chain_at(parent.log, parent.pos).await, parent.log)?;
    Ok(match found {
        Ok(chain) if chain == parent.chain => None,
        Ok(chain) => Some(format!(
            "its parent {} has link {chain} at {}, the branch says {}",
            parent.log, parent.pos, parent.chain
        )),
        Err(error) => Some(format!(
            "its parent {} has no position {}: {error}",
            parent.log, parent.pos
        )),
    })
}
