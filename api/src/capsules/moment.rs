//! Which snapshot a caller means.

use cocoonbox_commands::boxes;
use cocoonbox_events::{
    AgentEvent, Fold, Kind, LogId, OffsetKey, Payload, Recorded, Store, StreamName,
    limits::PAGE_EVENTS_MAX,
};
use cocoonbox_projections::{SnapshotRow, Views};
use cocoonbox_proto::control::v1::{Moment, moment};
use tonic::{Code, Status};

use super::failure::{no_snapshot, no_snapshot_before};
use crate::{replica, status, stream};

/// Of an id. Less may be anything.
const PREFIX_MIN: usize = 4;
/// Where the random part of an id begins: all snapshots of some years begin alike.
const ID_DIGITS: usize = 32;

/// Where to look.
pub(crate) struct Finder<'f> {
    pub(crate) store: &'f dyn Store,
    pub(crate) views: &'f Views,
    pub(crate) account: LogId,
    pub(crate) user: &'f str,
    pub(crate) box_id: &'f str,
}

/// A moment of a box: a snapshot, and how far its log was.
pub(crate) struct Found {
    pub(crate) snapshot_id: String,
    /// In the history of the box's log: at or behind what the snapshot knows.
    pub(crate) pos: u64,
}

impl Finder<'_> {
    /// Finds a snapshot of the box; the last one if nothing is said.
    pub(super) async fn find(&self, at: Option<&Moment>) -> Result<SnapshotRow, Status> {
        let mut rows = self.rows().await?;
        let found = match at.and_then(|at| at.moment.as_ref()) {
            None => rows.pop(),
            Some(moment::Moment::SnapshotId(id)) => by_id(rows, id)?,
            Some(moment::Moment::AtMs(at)) => last(rows, |row| row.started_ms <= *at),
            Some(moment::Moment::OffsetKey(key)) => match self.in_account(key).await? {
                Some(event) => last(rows, |row| row.pos <= event.pos),
                None => match self.box_log().await? {
                    None => None,
                    Some(log) => {
                        let pos = stream::position(self.store, log, key).await?;
                        let history = self.history(log)?;
                        last(rows, |row| is_by(row, &history, pos))
                    }
                },
            },
            Some(moment::Moment::BeforeToolCall(id)) => match self.box_log().await? {
                None => None,
                Some(log) => {
                    let pos = self.before_call(log, id).await?;
                    let history = self.history(log)?;
                    before(rows, id, &history, pos)
                }
            },
        };
        found.ok_or_else(no_snapshot)
    }

    /// Finds a moment for a box to be made of: how far its conversation goes, and the last files before that.
    pub(crate) async fn moment(&self, at: &Moment, log: LogId) -> Result<Found, Status> {
        let history = self.history(log)?;
        let rows = self.rows().await?;
        // What the snapshot knows, as far as that is history today: a disk that was put back undid the rest.
        let known = |row: &SnapshotRow| {
            let part = history
                .iter()
                .find(|(log, _)| log.to_string() == row.box_log);
            part.map_or(0, |(_, end)| row.box_pos.min(*end))
        };
        let (row, pos) = match at.moment.as_ref() {
            None => {
                let end = history.last().map_or(0, |(_, end)| *end);
                (last(rows, |_| true), end)
            }
            Some(moment::Moment::SnapshotId(id)) => {
                let row = by_id(rows, id)?.ok_or_else(no_snapshot)?;
                let pos = known(&row);
                (Some(row), pos)
            }
            Some(moment::Moment::AtMs(at)) => {
                let pos = self.by_time(log, at.saturating_mul(1_000)).await?;
                let is_by = |row: &SnapshotRow| row.started_ms <= *at && is_by(row, &history, pos);
                (last(rows, is_by), pos)
            }
            Some(moment::Moment::OffsetKey(key)) => match self.in_account(key).await? {
                Some(event) => {
                    let pos = self.by_time(log, event.recorded_us).await?;
                    let row = last(rows, |row| row.pos <= event.pos);
                    let pos = row.as_ref().map_or(pos, |row| pos.max(known(row)));
                    (row, pos)
                }
                None => {
                    let pos = stream::position(self.store, log, key).await?;
                    (last(rows, |row| is_by(row, &history, pos)), pos)
                }
            },
            Some(moment::Moment::BeforeToolCall(id)) => {
                let pos = self.before_call(log, id).await?;
                (before(rows, id, &history, pos), pos)
            }
        };
        let row = row.ok_or_else(no_snapshot_before)?;
        Ok(Found {
            snapshot_id: row.id,
            pos,
        })
    }

    async fn rows(&self) -> Result<Vec<SnapshotRow>, Status> {
        let rows = self.views.all_snapshots(self.user, self.box_id).await;
        rows.map_err(|error| status::internal(&error))
    }

    /// The logs whose events are history of the box's, each with how far they are.
    fn history(&self, log: LogId) -> Result<Vec<(LogId, u64)>, Status> {
        replica::history(self.store, log).map_err(status::from_read)
    }

    /// The event of a key, if the key is one of the account log.
    async fn in_account(&self, text: &str) -> Result<Option<Recorded>, Status> {
        let key: OffsetKey = text
            .parse()
            .map_err(|_| status::bad_field("at", "not an offset key"))?;
        let account = self
            .store
            .current(self.account)
            .map_err(status::from_read)?;
        let current = self.store.current(key.log).map_err(status::from_read)?;
        if current != account {
            return Ok(None);
        }
        let pos = stream::position(self.store, account, text).await?;
        let page = self.store.read(account, pos.saturating_sub(1), 1).await;
        let event = page.map_err(status::from_read)?.events.into_iter().next();
        event
            .map(Some)
            .ok_or_else(|| status::bad_field("at", "the key is of no event"))
    }

    /// The last position whose event was written by a time. A box whose clock jumps finds what it deserves.
    async fn by_time(&self, log: LogId, at_us: i64) -> Result<u64, Status> {
        let end = self.store.tail(log).map_err(status::from_read)?.pos;
        // Written by then at `low`, later at `high`.
        let (mut low, mut high) = (0, end + 1);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let page = self.store.read(log, middle - 1, 1).await;
            let page = page.map_err(status::from_read)?;
            if page
                .events
                .first()
                .is_some_and(|event| event.recorded_us <= at_us)
            {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// The position before the event that says that a tool was called. Looked for from the end: it is one of the
    /// last more often than not.
    async fn before_call(&self, log: LogId, id: &str) -> Result<u64, Status> {
        let mut end = self.store.tail(log).map_err(status::from_read)?.pos;
        let step = u64::try_from(PAGE_EVENTS_MAX).unwrap_or(1);
        while end > 0 {
            let start = end.saturating_sub(step);
            let mut after = start;
            // A page may end early, where its bytes are enough.
            while after < end {
                let page = self.store.read(log, after, PAGE_EVENTS_MAX).await;
                let page = page.map_err(status::from_read)?;
                let Some(last) = page.events.last() else {
                    break;
                };
                after = last.pos;
                if let Some(event) = page.events.iter().find(|event| is_call(event, id)) {
                    return Ok(event.pos.saturating_sub(1));
                }
            }
            end = start;
        }
        Err(status::with(
            Code::NotFound,
            "NO_SUCH_TOOL_CALL",
            "no agent of the box called a tool with this id",
            &[("tool_call_id", id)],
        ))
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

/// Whether a snapshot knows nothing behind a position of the box's log.
fn is_by(row: &SnapshotRow, history: &[(LogId, u64)], pos: u64) -> bool {
    let part = history
        .iter()
        .find(|(log, _)| log.to_string() == row.box_log);
    part.is_some_and(|(_, end)| row.box_pos <= *end && row.box_pos <= pos)
}

/// The snapshot that was made for a tool call, else the last one that knows nothing of it. A save that somebody asked
/// for while the call was on its way here may be newer and know its files: the copy of the box's log lags behind.
fn before(
    rows: Vec<SnapshotRow>,
    tool_call_id: &str,
    history: &[(LogId, u64)],
    pos: u64,
) -> Option<SnapshotRow> {
    let is_own = |row: &SnapshotRow| row.tool_call_id == tool_call_id && is_by(row, history, pos);
    let own = rows.iter().rev().find(|row| is_own(row)).cloned();
    own.or_else(|| last(rows, |row| is_by(row, history, pos)))
}

fn is_call(event: &Recorded, id: &str) -> bool {
    if Kind::from_number(event.kind) != Some(Kind::AgentToolCalled) {
        return false;
    }
    matches!(
        event.payload(),
        Ok(Some(Payload::Agent(AgentEvent::ToolCalled(call)))) if call.tool_call_id == id
    )
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
