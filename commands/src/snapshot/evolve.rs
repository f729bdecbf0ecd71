//! From events to what is known.

use std::collections::VecDeque;

use cocoonbox_events::{ChainHash, IllegalTransition, LogId, Parent, SnapshotEvent};
use cocoonbox_proto::log::v1::SnapshotMoment;

use super::{Given, Kept, Restore, Save, State, UNDOABLE_MAX, Undoes};

pub(super) fn evolve(mut state: State, event: &SnapshotEvent) -> Result<State, IllegalTransition> {
    let illegal = |what: &str| IllegalTransition {
        state: what.to_owned(),
        event: event.kind().name(),
    };
    match event {
        SnapshotEvent::SaveRequested(asked) => state.saves.push(Save {
            id: asked.save_id.clone(),
            reason: asked.reason.clone(),
            only_if_changed: asked.only_if_changed,
            tool_call_id: asked.tool_call_id.clone(),
            has_begun: false,
        }),
        SnapshotEvent::SaveBegun(begun) => {
            let save = state.saves.first_mut();
            let save = save.filter(|save| save.id == begun.save_id);
            save.ok_or_else(|| illegal("not the next save"))?.has_begun = true;
        }
        SnapshotEvent::Committed(committed) => {
            let at = committed.at.as_ref().and_then(position);
            let id = &committed.snapshot_id;
            state
                .saved(&committed.save_id, Some(id))
                .ok_or_else(|| illegal("not owed"))?;
            state.seen = at.or(state.seen);
            let kept = Kept {
                at,
                started_ms: committed.started_ms,
                is_pinned: false,
            };
            state.kept.insert(id.clone(), kept);
        }
        SnapshotEvent::Unchanged(unchanged) => {
            let ended = state.saved(&unchanged.save_id, Some(&unchanged.snapshot_id));
            ended.ok_or_else(|| illegal("not owed"))?;
            state.seen = unchanged.at.as_ref().and_then(position).or(state.seen);
        }
        SnapshotEvent::Failed(failed) => {
            state
                .saved(&failed.save_id, None)
                .ok_or_else(|| illegal("not owed"))?;
        }
        SnapshotEvent::Pruned(pruned) => {
            for id in &pruned.snapshot_ids {
                state.kept.remove(id);
            }
        }
        SnapshotEvent::Pinned(pinned) => state.pin(&pinned.snapshot_id, true),
        SnapshotEvent::Unpinned(unpinned) => state.pin(&unpinned.snapshot_id, false),
        SnapshotEvent::RestoreRequested(asked) => state.restores.push(Restore {
            id: asked.restore_id.clone(),
            snapshot_id: asked.snapshot_id.clone(),
            paths: asked.paths.clone(),
            in_place: asked.in_place,
            undo: None,
            is_unsaved: false,
            undoes: (!asked.undo_of.is_empty()).then(|| Undoes {
                restore_id: asked.undo_of.clone(),
                snapshot_id: asked.undone_snapshot_id.clone(),
            }),
        }),
        SnapshotEvent::Restored(restored) => {
            let done = state.given_back(&restored.restore_id);
            state.note(done.ok_or_else(|| illegal("not owed"))?);
        }
        SnapshotEvent::RestoreFailed(failed) => {
            let ended = state.given_back(&failed.restore_id);
            let ended = ended.ok_or_else(|| illegal("not owed"))?;
            // What it has done before it failed can be taken back, too.
            if ended.undoes.is_none() {
                state.note(ended);
            }
        }
    }
    Ok(state)
}

impl State {
    fn pin(&mut self, id: &str, is_pinned: bool) {
        if let Some(kept) = self.kept.get_mut(id) {
            kept.is_pinned = is_pinned;
        }
    }

    /// A save has ended, with a snapshot that holds the files or without.
    fn saved(&mut self, save_id: &str, snapshot: Option<&str>) -> Option<()> {
        let at = self.saves.iter().position(|save| save.id == save_id)?;
        self.saves.remove(at);
        // A restore in place waits for the save of its own name.
        let waiting = self.restores.iter_mut().find(|one| one.id == save_id);
        if let Some(restore) = waiting {
            restore.undo = snapshot.map(str::to_owned);
            restore.is_unsaved = snapshot.is_none();
        }
        Some(())
    }

    fn given_back(&mut self, restore_id: &str) -> Option<Restore> {
        let at = self.restores.iter().position(|one| one.id == restore_id)?;
        Some(self.restores.remove(at))
    }

    /// Keeps what is needed to take a restore back.
    fn note(&mut self, done: Restore) {
        match (done.undoes, done.undo) {
            (Some(undoes), _) => {
                self.given.retain(|one| one.restore_id != undoes.restore_id);
                bounded(&mut self.undone, undoes.restore_id);
            }
            (None, Some(before)) if done.in_place => {
                let given = Given {
                    restore_id: done.id,
                    snapshot_id: done.snapshot_id,
                    before,
                    paths: done.paths,
                };
                bounded(&mut self.given, given);
            }
            (None, _) => {}
        }
    }
}

fn bounded<T>(list: &mut VecDeque<T>, new: T) {
    if list.len() >= UNDOABLE_MAX {
        list.pop_front();
    }
    list.push_back(new);
}

fn position(moment: &SnapshotMoment) -> Option<Parent> {
    Some(Parent {
        log: LogId::from_slice(&moment.log)?,
        pos: moment.pos,
        chain: ChainHash(moment.chain.as_slice().try_into().ok()?),
    })
}
