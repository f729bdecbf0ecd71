//! What is known of a box's saves.

use std::collections::{BTreeMap, VecDeque};

use cocoonbox_events::{Aggregate, IllegalTransition, Parent, Payload, SnapshotEvent};

use super::{Command, Rejection, decide, evolve};

/// The saves of one box, folded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Owed, in their order. Only the first may have begun.
    pub saves: Vec<Save>,
    /// Owed, in their order.
    pub restores: Vec<Restore>,
    /// What can be restored, by id, which is by time.
    pub kept: BTreeMap<String, Kept>,
    /// Restores in place that can be taken back, in the order in which they were done.
    pub given: VecDeque<Given>,
    /// Those of them that were taken back, as long.
    pub undone: VecDeque<String>,
    /// Up to where of the box's log the last save, or look that found nothing changed, went.
    pub seen: Option<Parent>,
}

/// A save that is owed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Save {
    pub id: String,
    pub reason: String,
    pub only_if_changed: bool,
    /// The call that waits for it, where the reason is [`super::reason::TOOL`].
    pub tool_call_id: String,
    pub has_begun: bool,
}

/// A restore that is owed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restore {
    pub id: String,
    pub snapshot_id: String,
    /// Empty once they are erased.
    pub paths: Vec<Vec<u8>>,
    pub in_place: bool,
    /// The snapshot with the files that are replaced, once it is there.
    pub undo: Option<String>,
    /// What is replaced could not be saved, so nothing may be replaced.
    pub is_unsaved: bool,
    /// It takes another one back.
    pub undoes: Option<Undoes>,
}

/// What is taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undoes {
    pub restore_id: String,
    /// The snapshot that it gave back.
    pub snapshot_id: String,
}

/// A restore in place that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    pub restore_id: String,
    pub snapshot_id: String,
    /// What was saved before it.
    pub before: String,
    /// Empty once they are erased.
    pub paths: Vec<Vec<u8>>,
}

impl Restore {
    /// Whether a snapshot must stay until it is done.
    pub fn needs(&self, snapshot_id: &str) -> bool {
        let undone = self.undoes.as_ref().map(|undoes| &undoes.snapshot_id);
        let all = [Some(&self.snapshot_id), self.undo.as_ref(), undone];
        all.into_iter().flatten().any(|id| id == snapshot_id)
    }
}

/// A snapshot that can be restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Whatever the box's log holds up to here had been done when the first file was read.
    pub at: Option<Parent>,
    pub started_ms: i64,
    /// Kept whatever the rule says.
    pub is_pinned: bool,
}

impl State {
    /// The save to be done next.
    pub fn next_save(&self) -> Option<&Save> {
        self.saves.first()
    }

    /// The restore to be done next, if it waits for no save.
    pub fn next_restore(&self) -> Option<&Restore> {
        let restore = self.restores.first()?;
        let is_ready = !restore.in_place || restore.undo.is_some() || restore.is_unsaved;
        is_ready.then_some(restore)
    }

    /// The snapshots that are kept whatever the rule says.
    pub fn pinned(&self) -> impl Iterator<Item = &str> {
        let pinned = self.kept.iter().filter(|(_, kept)| kept.is_pinned);
        pinned.map(|(id, _)| id.as_str())
    }

    /// Whether anything is owed.
    pub fn owes(&self) -> bool {
        !self.saves.is_empty() || !self.restores.is_empty()
    }
}

impl Aggregate for State {
    type Command = Command;
    type Event = SnapshotEvent;
    type Rejection = Rejection;

    fn decide(&self, command: &Command) -> Result<Vec<SnapshotEvent>, Rejection> {
        decide::decide(self, command)
    }

    fn evolve(self, event: &SnapshotEvent) -> Result<Self, IllegalTransition> {
        evolve::evolve(self, event)
    }

    fn pick(payload: Payload) -> Option<SnapshotEvent> {
        SnapshotEvent::pick(payload)
    }
}
