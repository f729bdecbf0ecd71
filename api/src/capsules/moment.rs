//! Which snapshot a caller means.

use cocoonbox_commands::boxes;
use cocoonbox_events::{Fold, LogId, OffsetKey, Store, StreamName};
use cocoonbox_projections::{SnapshotRow, Views};
use cocoonbox_proto::control::v1::{Moment, moment};
use tonic::{Code, Status};

use super::failure::no_snapshot;
use crate::{replica, status, stream};

/// Of an id. Less may be anything.
const PREFIX_MIN: usize = 4;
/// Where the random part of an id begins: all snapshots of some years begin alike.
const ID_DIGITS: usize = 32;

/// Where to look.
pub(super) struct Finder<'f> {
    pub(super) store: &'f dyn Store,
    pub(super) views: &'f Views,
    pub(super) account: LogId,
    pub(super) user: &'f str,
    pub(super) box_id: &'f str,
}

impl Finder<'_> {
    /// Finds a snapshot of the box; the last one if nothing is said.
    pub(super) async fn find(&self, at: Option<&Moment>) -> Result<SnapshotRow, Status> {
        let rows = self.views.all_snapshots(self.user, self.box_id).await;
        let mut rows = rows.map_err(|error| status::internal(&error))?;
        let found = match at.and_then(|at| at.moment.as_ref()) {
            None => rows.pop(),
            Some(moment::Moment::SnapshotId(id)) => by_id(rows, id)?,
            Some(moment::Moment::AtMs(at)) => last(rows, |row| row.started_ms <= *at),
            Some(moment::Moment::OffsetKey(key)) => self.by_key(rows, key).await?,
        };
        found.ok_or_else(no_snapshot)
    }

    async fn by_key(
        &self,
        rows: Vec<SnapshotRow>,
        text: &str,
    ) -> Result<Option<SnapshotRow>, Status> {
        let key: OffsetKey = text
            .parse()
            .map_err(|_| status::bad_field("at", "not an offset key"))?;
        let account = self
            .store
            .current(self.account)
            .map_err(status::from_read)?;
        let current = self.store.current(key.log).map_err(status::from_read)?;
        if current == account {
            let pos = stream::position(self.store, account, text).await?;
            return Ok(last(rows, |row| row.pos <= pos));
        }
        let Some(box_log) = self.box_log().await? else {
            return Ok(None);
        };
        // Any key that is history of the box's log is one of the box.
        let pos = stream::position(self.store, box_log, text).await?;
        let known = replica::history(self.store, box_log).map_err(status::from_read)?;
        let is_before = |row: &SnapshotRow| {
            let part = known.iter().find(|(log, _)| log.to_string() == row.box_log);
            part.is_some_and(|(_, end)| row.box_pos <= *end && row.box_pos <= pos)
        };
        Ok(last(rows, is_before))
    }

    async fn box_log(&self) -> Result<Option<LogId>, Status> {
        let name = StreamName::new(format!("box/{}", self.box_id));
        let name = name.map_err(|error| status::bad_field("box_id", error.to_string()))?;
        let mut fold = Fold::<boxes::State>::new(self.account, name);
        let refreshed = fold.refresh(self.store).await;
        refreshed.map_err(|error| status::internal(&error))?;
        Ok(fold.state.box_log)
    }
}

/// The last row for which something holds; they are in the order of time.
fn last(rows: Vec<SnapshotRow>, holds: impl Fn(&SnapshotRow) -> bool) -> Option<SnapshotRow> {
    rows.into_iter().rev().find(holds)
}

fn by_id(rows: Vec<SnapshotRow>, id: &str) -> Result<Option<SnapshotRow>, Status> {
    let is_hex = id
        .bytes()
        .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if !is_hex || !(PREFIX_MIN..=ID_DIGITS).contains(&id.len()) {
        let what = format!("a snapshot's id is {PREFIX_MIN} to {ID_DIGITS} digits of 0-9 and a-f");
        return Err(status::bad_field("at.snapshot_id", what));
    }
    let mut found = rows.into_iter().filter(|row| row.id.starts_with(id));
    let first = found.next();
    if first.is_some() && found.next().is_some() {
        return Err(status::status(
            Code::InvalidArgument,
            "SNAPSHOT_AMBIGUOUS",
            format!("several snapshots begin with `{id}`; give more of it"),
        ));
    }
    Ok(first)
}
