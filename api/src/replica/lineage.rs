//! A log and what it branches off, as a box has to know it.

use cocoonbox_commands::boxes;
use cocoonbox_events::{
    AppendError, LogId, LogInfo, LogKind, NewLog, Parent, ReadError, Store, Tail,
};
use cocoonbox_proto::agent::v1 as wire;

/// Branches of one box. The agent takes no more.
pub(super) const LINEAGE_MAX: usize = 1_000;

/// The logs from the first to one that branches off it, each with the part of it that counts.
#[derive(Clone, Debug)]
pub(super) struct Lineage(Vec<Stretch>);

/// The part of a log that is history of the one at the end of the lineage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) log: LogId,
    /// The log before it in the lineage, and where its own part begins.
    pub(super) parent: Option<Parent>,
    /// Its last position that counts.
    pub(super) end: u64,
}

impl Lineage {
    /// Follows a log up to its first parent. Logs of which nothing is left in this history are passed
    /// over: a branch may part from its parent before that has anything of its own.
    pub(super) fn of(store: &dyn Store, log: LogId) -> Result<Self, ReadError> {
        let mut at = store.info(log)?;
        let mut end = at.tail.pos;
        let mut stretches = Vec::new();
        while let Some(parent) = at.parent.filter(|_| stretches.len() < LINEAGE_MAX) {
            let before = holder(store, parent)?;
            stretches.push(Stretch {
                log: at.id,
                parent: Some(Parent {
                    log: before.id,
                    ..parent
                }),
                end,
            });
            end = parent.pos;
            at = before;
        }
        stretches.push(Stretch {
            log: at.id,
            parent: None,
            end,
        });
        stretches.reverse();
        Ok(Self(stretches))
    }

    /// From the first log on.
    pub(super) fn stretches(&self) -> &[Stretch] {
        &self.0
    }

    pub(super) fn to_wire(&self) -> Vec<wire::Branch> {
        self.0.iter().copied().map(Stretch::to_wire).collect()
    }
}

impl Stretch {
    pub(super) fn to_wire(self) -> wire::Branch {
        let parent = self.parent;
        wire::Branch {
            log_id: self.log.as_bytes().to_vec(),
            parent_log: parent.map_or_else(Vec::new, |parent| parent.log.as_bytes().to_vec()),
            parent_pos: parent.map_or(0, |parent| parent.pos),
            parent_chain: parent.map_or_else(Vec::new, |parent| parent.chain.0.to_vec()),
        }
    }

    /// The position behind which the log's own part begins.
    pub(super) fn base(&self) -> u64 {
        self.parent.map_or(0, |parent| parent.pos)
    }
}

/// The log that holds the position at which something branches off.
fn holder(store: &dyn Store, parent: Parent) -> Result<LogInfo, ReadError> {
    let mut at = store.info(parent.log)?;
    while let Some(up) = at.parent.filter(|up| parent.pos < up.pos) {
        at = store.info(up.log)?;
    }
    Ok(at)
}

/// The logs that a box's log goes on from, and itself, each with its last position that is history of it.
pub fn history(store: &dyn Store, log: LogId) -> Result<Vec<(LogId, u64)>, ReadError> {
    let lineage = Lineage::of(store, log)?;
    let parts = lineage.stretches().iter();
    Ok(parts.map(|part| (part.log, part.end)).collect())
}

/// Opens the replica of a box's log as the account log has it: one that began empty, a fork, or a rewind
/// that was written down and perhaps not done.
pub async fn open(store: &dyn Store, state: &boxes::State) -> Result<Option<Tail>, AppendError> {
    let Some(id) = state.box_log else {
        return Ok(None);
    };
    let new = NewLog {
        id,
        kind: LogKind::Box,
        owner: state.user_id.clone(),
        parent: state.parent,
    };
    let is_fork = state.parent == state.origin.as_ref().map(|origin| origin.at);
    let opened = if is_fork {
        store.open(new).await
    } else {
        store.rewind(new).await
    };
    opened.map(Some)
}
