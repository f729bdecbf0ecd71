//! From commands to events.

use cocoonbox_events::{Parent, SnapshotEvent};
use cocoonbox_proto::log::v1 as log;

use super::{
    Command, OWED_MAX, Rejection, Restore, Save, State, path::check_paths, reason, retention,
};
use crate::bounded;

/// Ids in one event, and events of one pruning: the next one goes on.
const PRUNED_MAX: usize = 1_000;
const PARTS_MAX: usize = 10;
/// Somebody asked that it be deleted.
const FORGOTTEN: &str = "FORGOTTEN";

type Decision = Result<Vec<SnapshotEvent>, Rejection>;

pub(super) fn decide(state: &State, command: &Command) -> Decision {
    match command {
        Command::RequestSave {
            save_id,
            reason,
            only_if_changed,
            tool_call_id,
        } => {
            not_empty("save_id", save_id)?;
            if *reason == reason::TOOL {
                not_empty("tool_call_id", tool_call_id)?;
            }
            // Who waits gets one of their own, by which the timeline names them.
            let is_own = [reason::ASKED, reason::TOOL].contains(reason);
            let joins =
                |save: &Save| !save.has_begun && (*only_if_changed || !save.only_if_changed);
            let is_owed = state.saves.iter().any(|save| save.id == *save_id);
            if is_owed || !is_own && state.saves.iter().any(joins) {
                return Ok(Vec::new());
            }
            has_room(state)?;
            let asked = log::SnapshotSaveRequested {
                save_id: save_id.clone(),
                reason: (*reason).to_owned(),
                only_if_changed: *only_if_changed,
                tool_call_id: tool_call_id.clone(),
            };
            Ok(vec![SnapshotEvent::SaveRequested(asked)])
        }
        Command::RequestRestore {
            restore_id,
            snapshot_id,
            paths,
            in_place,
        } => {
            not_empty("restore_id", restore_id)?;
            if owed(state, restore_id).is_ok() {
                return Ok(Vec::new());
            }
            check_paths(paths)?;
            kept(state, snapshot_id)?;
            has_room(state)?;
            let requested = SnapshotEvent::RestoreRequested(log::SnapshotRestoreRequested {
                restore_id: restore_id.clone(),
                snapshot_id: snapshot_id.clone(),
                paths: paths.clone(),
                in_place: *in_place,
                ..log::SnapshotRestoreRequested::default()
            });
            let save = in_place.then(|| save_before(restore_id));
            Ok(save.into_iter().chain([requested]).collect())
        }
        Command::RequestUndo { restore_id, of } => request_undo(state, restore_id, of.as_deref()),
        Command::Begin { save_id, at } => {
            let save = next(state, save_id)?;
            let begun = log::SnapshotSaveBegun {
                save_id: save.id.clone(),
                at: Some(moment(at)),
            };
            Ok(vec![SnapshotEvent::SaveBegun(begun)])
        }
        Command::Commit(committed) => {
            let save = next(state, &committed.save_id)?;
            not_empty("snapshot_id", &committed.snapshot_id)?;
            let committed = log::SnapshotCommitted {
                reason: save.reason.clone(),
                tool_call_id: save.tool_call_id.clone(),
                ..committed.clone()
            };
            Ok(vec![SnapshotEvent::Committed(committed)])
        }
        Command::Unchanged {
            save_id,
            snapshot_id,
            at,
        } => {
            next(state, save_id)?;
            kept(state, snapshot_id)?;
            Ok(vec![SnapshotEvent::Unchanged(log::SnapshotUnchanged {
                save_id: save_id.clone(),
                snapshot_id: snapshot_id.clone(),
                at: Some(moment(at)),
            })])
        }
        Command::Fail {
            save_id,
            reason,
            detail,
        } => {
            next(state, save_id)?;
            Ok(vec![failed(save_id, reason, detail)])
        }
        Command::Restored(restored) => {
            owed(state, &restored.restore_id)?;
            Ok(vec![SnapshotEvent::Restored(restored.clone())])
        }
        Command::RestoreFailed {
            restore_id,
            reason,
            detail,
        } => {
            owed(state, restore_id)?;
            Ok(vec![restore_failed(restore_id, reason, detail)])
        }
        Command::Pin {
            snapshot_id,
            is_pinned,
        } => {
            let found = state.kept.get(snapshot_id);
            let snapshot_id = snapshot_id.clone();
            match found {
                None => Err(Rejection::NoSuchSnapshot { snapshot_id }),
                Some(kept) if kept.is_pinned == *is_pinned => Ok(Vec::new()),
                Some(_) if *is_pinned => {
                    let pinned = log::SnapshotPinned { snapshot_id };
                    Ok(vec![SnapshotEvent::Pinned(pinned)])
                }
                Some(_) => {
                    let unpinned = log::SnapshotUnpinned { snapshot_id };
                    Ok(vec![SnapshotEvent::Unpinned(unpinned)])
                }
            }
        }
        Command::Forget { snapshot_id } => {
            let found = state.kept.get(snapshot_id);
            let snapshot_id = snapshot_id.clone();
            let is_used = |restore: &Restore| restore.needs(&snapshot_id);
            match found {
                None => Err(Rejection::NoSuchSnapshot { snapshot_id }),
                Some(kept) if kept.is_pinned => Err(Rejection::Pinned { snapshot_id }),
                Some(_) if state.restores.iter().any(is_used) => {
                    Err(Rejection::InUse { snapshot_id })
                }
                Some(_) => Ok(vec![SnapshotEvent::Pruned(log::SnapshotPruned {
                    snapshot_ids: vec![snapshot_id],
                    reason: FORGOTTEN.to_owned(),
                })]),
            }
        }
        Command::Prune { rule, now_ms, held } => {
            let dropped = retention::dropped(state, rule, *now_ms, held);
            let parts = dropped.chunks(PRUNED_MAX).take(PARTS_MAX);
            let pruned = parts.map(|ids| {
                SnapshotEvent::Pruned(log::SnapshotPruned {
                    snapshot_ids: ids.to_vec(),
                    reason: retention::REASON.to_owned(),
                })
            });
            Ok(pruned.collect())
        }
        Command::PruneAll { reason } => Ok(prune_all(state, reason)),
    }
}

fn request_undo(state: &State, restore_id: &str, of: Option<&str>) -> Decision {
    not_empty("restore_id", restore_id)?;
    if owed(state, restore_id).is_ok() {
        return Ok(Vec::new());
    }
    let is_undone = |id: &str| {
        let is_owed = |one: &Restore| one.undoes.as_ref().is_some_and(|it| it.restore_id == id);
        state.undone.iter().any(|undone| undone == id) || state.restores.iter().any(is_owed)
    };
    let mut given = state.given.iter().rev();
    let found = match of {
        Some(id) if is_undone(id) => {
            let restore_id = id.to_owned();
            return Err(Rejection::Undone { restore_id });
        }
        Some(id) => given.find(|one| one.restore_id == id),
        None => given.find(|one| !is_undone(&one.restore_id)),
    };
    let found = found.ok_or(Rejection::NothingToUndo)?;
    if found.paths.is_empty() {
        let restore_id = found.restore_id.clone();
        return Err(Rejection::PathsErased { restore_id });
    }
    kept(state, &found.before)?;
    kept(state, &found.snapshot_id)?;
    has_room(state)?;
    let requested = SnapshotEvent::RestoreRequested(log::SnapshotRestoreRequested {
        restore_id: restore_id.to_owned(),
        snapshot_id: found.before.clone(),
        paths: found.paths.clone(),
        in_place: true,
        undo_of: found.restore_id.clone(),
        undone_snapshot_id: found.snapshot_id.clone(),
    });
    Ok(vec![save_before(restore_id), requested])
}

fn prune_all(state: &State, reason: &str) -> Vec<SnapshotEvent> {
    let saves = state.saves.iter().map(|save| failed(&save.id, reason, ""));
    let restores = state.restores.iter();
    let restores = restores.map(|restore| restore_failed(&restore.id, reason, ""));
    let mut events: Vec<_> = saves.chain(restores).collect();
    if !state.kept.is_empty() {
        events.push(SnapshotEvent::Pruned(log::SnapshotPruned {
            snapshot_ids: state.kept.keys().cloned().collect(),
            reason: reason.to_owned(),
        }));
    }
    events
}

/// The save of this id, if it is the one to be done.
fn next<'s>(state: &'s State, save_id: &str) -> Result<&'s Save, Rejection> {
    let id = || save_id.to_owned();
    let found = state.saves.iter().position(|save| save.id == save_id);
    match found {
        Some(0) => Ok(&state.saves[0]),
        Some(_) => Err(Rejection::NotNext { id: id() }),
        None => Err(Rejection::NotOwed { id: id() }),
    }
}

fn owed(state: &State, restore_id: &str) -> Result<(), Rejection> {
    let is_owed = state.restores.iter().any(|one| one.id == restore_id);
    let id = restore_id.to_owned();
    is_owed.then_some(()).ok_or(Rejection::NotOwed { id })
}

fn kept(state: &State, snapshot_id: &str) -> Result<(), Rejection> {
    let is_kept = state.kept.contains_key(snapshot_id);
    let snapshot_id = snapshot_id.to_owned();
    is_kept
        .then_some(())
        .ok_or(Rejection::NoSuchSnapshot { snapshot_id })
}

fn has_room(state: &State) -> Result<(), Rejection> {
    if state.saves.len() + state.restores.len() < OWED_MAX {
        Ok(())
    } else {
        Err(Rejection::TooMany)
    }
}

fn not_empty(field: &'static str, value: &str) -> Result<(), Rejection> {
    if value.is_empty() {
        Err(Rejection::Empty { field })
    } else {
        Ok(())
    }
}

/// One that may say "unchanged": what matters is that the files of today are in some snapshot.
fn save_before(restore_id: &str) -> SnapshotEvent {
    SnapshotEvent::SaveRequested(log::SnapshotSaveRequested {
        save_id: restore_id.to_owned(),
        reason: reason::RESTORE.to_owned(),
        only_if_changed: true,
        tool_call_id: String::new(),
    })
}

fn failed(save_id: &str, reason: &str, detail: &str) -> SnapshotEvent {
    SnapshotEvent::Failed(log::SnapshotFailed {
        save_id: save_id.to_owned(),
        reason: reason.to_owned(),
        detail: bounded::detail(detail),
    })
}

fn restore_failed(restore_id: &str, reason: &str, detail: &str) -> SnapshotEvent {
    SnapshotEvent::RestoreFailed(log::SnapshotRestoreFailed {
        restore_id: restore_id.to_owned(),
        reason: reason.to_owned(),
        detail: bounded::detail(detail),
    })
}

/// A position of the box's log as it is written.
pub(super) fn moment(at: &Parent) -> log::SnapshotMoment {
    log::SnapshotMoment {
        log: at.log.as_bytes().to_vec(),
        pos: at.pos,
        chain: at.chain.0.to_vec(),
    }
}
