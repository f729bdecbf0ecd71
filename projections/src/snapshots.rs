//! The saved moments of each box's files.

use cocoonbox_events::{
    ChainHash, LogId, LogInfo, LogKind, OffsetKey, Payload, Recorded, SnapshotEvent,
};
use cocoonbox_proto::{control::v1 as control, log::v1::SnapshotCommitted};
use serde::{Deserialize, Serialize};

use crate::{
    boxes::hex,
    projection::{ApplyError, Projection, Seen},
    row_key,
    rows::{self, Rows, View},
};

pub struct Snapshots;

/// A snapshot that can be restored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotRow {
    /// 32 hexadecimal digits, in the order of time.
    pub id: String,
    pub box_id: String,
    pub parent_id: String,
    pub reason: String,
    pub started_ms: i64,
    pub ended_ms: i64,
    pub files: u64,
    pub directories: u64,
    pub bytes: u64,
    pub files_changed: u64,
    pub bytes_added: u64,
    pub left_out: u64,
    pub not_saved: u64,
    pub unsettled: u64,
    /// Of the box's log: its id in hex, and up to where all had been done when the first file was read.
    pub box_log: String,
    pub box_pos: u64,
    pub box_offset_key: String,
    /// Of the event by which it is kept, and its position.
    pub offset_key: String,
    pub pos: u64,
    /// Kept whatever the rule says.
    pub pinned: bool,
    /// The call before which it was made, where the reason is `tool`.
    pub tool_call_id: String,
}

impl From<SnapshotRow> for control::Snapshot {
    fn from(row: SnapshotRow) -> Self {
        Self {
            id: row.id,
            box_id: row.box_id,
            parent_id: row.parent_id,
            reason: row.reason,
            started_ms: row.started_ms,
            ended_ms: row.ended_ms,
            files: row.files,
            directories: row.directories,
            bytes: row.bytes,
            files_changed: row.files_changed,
            bytes_added: row.bytes_added,
            left_out: row.left_out,
            not_saved: row.not_saved,
            unsettled: row.unsettled,
            box_offset_key: row.box_offset_key,
            offset_key: row.offset_key,
            pinned: row.pinned,
            tool_call_id: row.tool_call_id,
        }
    }
}

impl Projection for Snapshots {
    fn name(&self) -> &'static str {
        "snapshots"
    }

    fn version(&self) -> u32 {
        3
    }

    fn views(&self) -> &'static [View] {
        &[View::Snapshots]
    }

    fn wants(&self, kind: LogKind) -> bool {
        kind == LogKind::Account
    }

    fn gives_way(&self) -> bool {
        true
    }

    fn apply(
        &self,
        rows: &mut dyn Rows,
        event: &Recorded,
        log: &LogInfo,
    ) -> Result<(), ApplyError> {
        let Some(Seen {
            payload: Payload::Snapshot(payload),
            erased: false,
        }) = Seen::read(event)?
        else {
            return Ok(());
        };
        let box_id = event.stream.id();
        let key = |id: &str| row_key::key(&[&log.owner, box_id, id]);
        match payload {
            SnapshotEvent::Committed(committed) => {
                let key = key(&committed.snapshot_id);
                rows::put(rows, View::Snapshots, &key, &row(committed, event))?;
            }
            SnapshotEvent::Pruned(pruned) => {
                for id in &pruned.snapshot_ids {
                    rows.delete(View::Snapshots, &key(id))?;
                }
            }
            SnapshotEvent::Pinned(pinned) => pin(rows, &key(&pinned.snapshot_id), true)?,
            SnapshotEvent::Unpinned(unpinned) => pin(rows, &key(&unpinned.snapshot_id), false)?,
            // What is owed is asked of the log.
            SnapshotEvent::SaveRequested(_)
            | SnapshotEvent::SaveBegun(_)
            | SnapshotEvent::Unchanged(_)
            | SnapshotEvent::Failed(_)
            | SnapshotEvent::RestoreRequested(_)
            | SnapshotEvent::Restored(_)
            | SnapshotEvent::RestoreFailed(_) => {}
        }
        Ok(())
    }

    fn holds(&self, _: &dyn Rows, _: &Recorded, _: &LogInfo) -> Result<bool, rows::Error> {
        // Nothing that can be erased is in a row.
        Ok(false)
    }

    fn clear(&self, rows: &mut dyn Rows, log: &LogInfo) -> Result<(), rows::Error> {
        rows.delete_prefix(View::Snapshots, &row_key::prefix(&[&log.owner]))
    }
}

fn pin(rows: &mut dyn Rows, key: &str, pinned: bool) -> Result<(), rows::Error> {
    if let Some(row) = rows::get::<SnapshotRow>(rows, View::Snapshots, key)? {
        rows::put(rows, View::Snapshots, key, &SnapshotRow { pinned, ..row })?;
    }
    Ok(())
}

fn row(committed: SnapshotCommitted, event: &Recorded) -> SnapshotRow {
    let at = committed.at.unwrap_or_default();
    let log = LogId::from_slice(&at.log);
    let chain: Option<[u8; 32]> = at.chain.as_slice().try_into().ok();
    let box_key = log
        .zip(chain)
        .map(|(log, chain)| OffsetKey::new(log, at.pos, ChainHash(chain)).to_string());
    SnapshotRow {
        id: committed.snapshot_id,
        box_id: event.stream.id().to_owned(),
        parent_id: committed.parent_id,
        reason: committed.reason,
        started_ms: committed.started_ms,
        ended_ms: committed.ended_ms,
        files: committed.files,
        directories: committed.directories,
        bytes: committed.bytes,
        files_changed: committed.files_changed,
        bytes_added: committed.bytes_added,
        left_out: committed.left_out,
        not_saved: committed.not_saved,
        unsettled: committed.unsettled,
        box_log: hex(&at.log),
        box_pos: at.pos,
        box_offset_key: box_key.unwrap_or_default(),
        offset_key: event.offset_key().to_string(),
        pos: event.pos,
        pinned: false,
        tool_call_id: committed.tool_call_id,
    }
}
