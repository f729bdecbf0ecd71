//! The questions.

use cocoonbox_events::{LogId, OffsetKey};
use cocoonbox_proto::agent::v1::transcript_item::Kind;
use serde::de::DeserializeOwned;

use crate::{
    AgentRow, AuditRow, AwakeRow, BoxRow, DesktopRow, ItemRow, OperationEventRow, OperationRow,
    RoutineRow, SinceRow, SnapshotRow, UsageTotals, row_key,
    rows::{self, View},
    views::{Views, ViewsError},
};

/// What speaks to a person is among so many last items, or comes soon.
const SPEAKS_WITHIN: usize = 16;

/// Rows with the token that the next ones follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paged<T> {
    pub items: Vec<T>,
    /// Give it back as `after`; `None` if there was nothing more.
    pub next: Option<String>,
}

impl Views {
    /// Returns the boxes of a user in order of their ids.
    pub async fn boxes(&self, user: &str) -> Result<Vec<BoxRow>, ViewsError> {
        self.all_of(View::Boxes, row_key::prefix(&[user])).await
    }

    /// Returns one box of a user.
    pub async fn box_(&self, user: &str, id: &str) -> Result<Option<BoxRow>, ViewsError> {
        let key = row_key::key(&[user, id]);
        self.read(move |rows| rows::get(rows, View::Boxes, &key))
            .await
    }

    /// Returns a box with the id of the user it belongs to. A box that two accounts claim is nobody's.
    pub async fn box_owner(&self, id: &str) -> Result<Option<(String, BoxRow)>, ViewsError> {
        let id = id.to_owned();
        self.read(move |rows| {
            let claims = rows::scan_all::<String>(rows, View::BoxOwners, &row_key::prefix(&[&id]))?;
            let [(_, owner)] = claims.as_slice() else {
                return Ok(None);
            };
            let row = rows::get(rows, View::Boxes, &row_key::key(&[owner, &id]))?;
            Ok(row.map(|row| (owner.clone(), row)))
        })
        .await
    }

    /// Returns one operation of a user.
    pub async fn operation(
        &self,
        user: &str,
        id: &str,
    ) -> Result<Option<OperationRow>, ViewsError> {
        let key = row_key::key(&[user, id]);
        self.read(move |rows| rows::get(rows, View::Operations, &key))
            .await
    }

    /// Returns the steps of an operation behind a position of the account log.
    pub async fn operation_events(
        &self,
        user: &str,
        id: &str,
        after_pos: u64,
        limit: usize,
    ) -> Result<Vec<OperationEventRow>, ViewsError> {
        let prefix = row_key::prefix(&[user, id]);
        let after = format!("{prefix}{}", row_key::pos(after_pos));
        self.read(move |rows| {
            let found = rows::scan(rows, View::OperationEvents, &prefix, Some(&after), limit)?;
            Ok(found.into_iter().map(|(_, row)| row).collect())
        })
        .await
    }

    /// Returns the agents of a box in order of their ids, as its current branch has them.
    pub async fn agents(&self, box_log: LogId) -> Result<Vec<AgentRow>, ViewsError> {
        let box_log = self.current(box_log);
        self.all_of(View::Agents, row_key::prefix(&[&row_key::log(box_log)]))
            .await
    }

    /// Returns one agent of a box, as its current branch has it.
    pub async fn agent(&self, box_log: LogId, agent: &str) -> Result<Option<AgentRow>, ViewsError> {
        let box_log = self.current(box_log);
        let key = row_key::key(&[&row_key::log(box_log), agent]);
        self.read(move |rows| rows::get(rows, View::Agents, &key))
            .await
    }

    /// Returns how far the desktop of a box is, as its current branch has it.
    pub async fn desktop(&self, box_log: LogId) -> Result<Option<DesktopRow>, ViewsError> {
        let key = row_key::key(&[&row_key::log(self.current(box_log))]);
        self.read(move |rows| rows::get(rows, View::Desktops, &key))
            .await
    }

    /// Returns items of an agent's transcript, oldest first, behind the token `after`, as the box's current
    /// branch has them.
    pub async fn transcript(
        &self,
        box_log: LogId,
        agent: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Paged<ItemRow>, ViewsError> {
        let prefix = row_key::prefix(&[&row_key::log(self.current(box_log)), agent]);
        self.page(View::Transcript, prefix, after, limit).await
    }

    /// Returns items of an agent's transcript, newest first, older than the token `before`, as the box's
    /// current branch has them.
    pub async fn transcript_back(
        &self,
        box_log: LogId,
        agent: &str,
        before: Option<&str>,
        limit: usize,
    ) -> Result<Paged<ItemRow>, ViewsError> {
        let prefix = row_key::prefix(&[&row_key::log(self.current(box_log)), agent]);
        self.page_back(View::Transcript, prefix, before, limit)
            .await
    }

    /// When an agent of a box last ended a turn or asked a person something, in milliseconds since the
    /// epoch, and how many of them wait for an answer.
    pub async fn attention(&self, box_log: LogId) -> Result<(i64, u32), ViewsError> {
        let log = row_key::prefix(&[&row_key::log(self.current(box_log))]);
        self.read(move |rows| {
            let agents: Vec<(String, AgentRow)> = rows::scan_all(rows, View::Agents, &log)?;
            let (mut spoke_at_ms, mut waiting) = (0, 0);
            for (key, agent) in agents {
                let asked = agent.more();
                waiting += u32::from(!(asked.approvals.is_empty() && asked.questions.is_empty()));
                let prefix = format!("{key}/");
                let last: Vec<(String, ItemRow)> =
                    rows::scan_back(rows, View::Transcript, &prefix, None, SPEAKS_WITHIN)?;
                let spoke = last.iter().find(|(_, item)| speaks(item));
                spoke_at_ms = spoke_at_ms.max(spoke.map_or(0, |(_, item)| item.at_ms));
            }
            Ok((spoke_at_ms, waiting))
        })
        .await
    }

    /// Returns snapshots of a user's box, oldest first, behind the id `after`.
    pub async fn snapshots(
        &self,
        user: &str,
        box_id: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Paged<SnapshotRow>, ViewsError> {
        let prefix = row_key::prefix(&[user, box_id]);
        self.page(View::Snapshots, prefix, after, limit).await
    }

    /// Returns every snapshot of a user's box, oldest first.
    pub async fn all_snapshots(
        &self,
        user: &str,
        box_id: &str,
    ) -> Result<Vec<SnapshotRow>, ViewsError> {
        let prefix = row_key::prefix(&[user, box_id]);
        self.all_of(View::Snapshots, prefix).await
    }

    /// Returns lines of a user's audit, oldest first, behind the token `after`.
    pub async fn audit(
        &self,
        user: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Paged<AuditRow>, ViewsError> {
        let prefix = row_key::prefix(&[user]);
        let page = self.page(View::Audit, prefix, after, limit).await?;
        Ok(self.with_undone(page))
    }

    /// Returns lines of a user's audit, newest first, older than the token `before`.
    pub async fn audit_back(
        &self,
        user: &str,
        before: Option<&str>,
        limit: usize,
    ) -> Result<Paged<AuditRow>, ViewsError> {
        let prefix = row_key::prefix(&[user]);
        let page = self.page_back(View::Audit, prefix, before, limit).await?;
        Ok(self.with_undone(page))
    }

    fn with_undone(&self, mut page: Paged<AuditRow>) -> Paged<AuditRow> {
        for row in &mut page.items {
            let key: Option<OffsetKey> = row.offset_key.parse().ok();
            row.undone = key.is_some_and(|key| self.is_undone(key.log, key.pos));
        }
        page
    }

    /// Returns the routines of a user in order of their ids, deleted ones among them.
    pub async fn routines(&self, user: &str) -> Result<Vec<RoutineRow>, ViewsError> {
        self.all_of(View::Routines, row_key::prefix(&[user])).await
    }

    /// Returns for how long a user's boxes were awake, in order of day and box, and those that are, with since when.
    pub async fn awake(&self, user: &str) -> Result<(Vec<AwakeRow>, Vec<SinceRow>), ViewsError> {
        let prefix = row_key::prefix(&[user]);
        self.read(move |rows| {
            let days = rows::scan_all(rows, View::Awake, &prefix)?;
            let since = rows::scan_all(rows, View::AwakeSince, &prefix)?;
            let days = days.into_iter().map(|(_, row)| row).collect();
            Ok((days, since.into_iter().map(|(_, row)| row).collect()))
        })
        .await
    }

    /// Returns what a user's boxes used, in order of day, box, agent, role, vendor and model.
    pub async fn usage(&self, user: &str) -> Result<Vec<UsageTotals>, ViewsError> {
        self.all_of(View::Usage, row_key::prefix(&[user])).await
    }

    async fn all_of<T: DeserializeOwned + Send + 'static>(
        &self,
        view: View,
        prefix: String,
    ) -> Result<Vec<T>, ViewsError> {
        self.read(move |rows| {
            let found = rows::scan_all(rows, view, &prefix)?;
            Ok(found.into_iter().map(|(_, row)| row).collect())
        })
        .await
    }

    /// A token is the part of a key behind the prefix. It comes from a client: whatever it holds, the
    /// scan stays under the prefix.
    async fn page<T: DeserializeOwned + Send + 'static>(
        &self,
        view: View,
        prefix: String,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Paged<T>, ViewsError> {
        let after = after.map(|token| format!("{prefix}{token}"));
        let limit = limit.clamp(1, rows::SCAN_ROWS_MAX);
        self.read(move |rows| {
            let found = rows::scan(rows, view, &prefix, after.as_deref(), limit)?;
            Ok(paged(found, &prefix, limit))
        })
        .await
    }

    /// The same the other way round: the token is the part of a key before which to go on.
    async fn page_back<T: DeserializeOwned + Send + 'static>(
        &self,
        view: View,
        prefix: String,
        before: Option<&str>,
        limit: usize,
    ) -> Result<Paged<T>, ViewsError> {
        let before = before.map(|token| format!("{prefix}{token}"));
        let limit = limit.clamp(1, rows::SCAN_ROWS_MAX);
        self.read(move |rows| {
            let found = rows::scan_back(rows, view, &prefix, before.as_deref(), limit)?;
            Ok(paged(found, &prefix, limit))
        })
        .await
    }
}

fn speaks(item: &ItemRow) -> bool {
    [Kind::TurnEnded, Kind::Approval, Kind::Question]
        .iter()
        .any(|kind| item.kind == i32::from(*kind))
}

fn paged<T>(found: Vec<(String, T)>, prefix: &str, limit: usize) -> Paged<T> {
    let next = found
        .last()
        .filter(|_| found.len() == limit)
        .and_then(|(key, _)| key.strip_prefix(prefix))
        .map(str::to_owned);
    Paged {
        items: found.into_iter().map(|(_, row)| row).collect(),
        next,
    }
}
