//! For how long each box was awake on each day: what a box costs whether its agent works or not.

use cocoonbox_events::{BoxEvent, LogInfo, LogKind, Payload, Recorded, day};
use serde::{Deserialize, Serialize};

use crate::{
    projection::{ApplyError, Projection, Seen},
    row_key,
    rows::{self, Rows, View},
};

/// A box that is awake for longer than ten years is not one.
const DAYS_MAX: usize = 3_653;

pub struct Awake;

/// How long one box was awake on one day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwakeRow {
    /// yyyy-mm-dd, UTC.
    pub day: String,
    pub box_id: String,
    pub awake_us: i64,
}

/// A box that is awake.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinceRow {
    pub box_id: String,
    /// Microseconds since the epoch.
    pub since_us: i64,
}

impl Projection for Awake {
    fn name(&self) -> &'static str {
        "awake"
    }

    fn version(&self) -> u32 {
        1
    }

    fn views(&self) -> &'static [View] {
        &[View::Awake, View::AwakeSince]
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
            payload: Payload::Box(payload),
            ..
        }) = Seen::read(event)?
        else {
            return Ok(());
        };
        let box_id = event.stream.id();
        let key = row_key::key(&[&log.owner, box_id]);
        let since: Option<SinceRow> = rows::get(rows, View::AwakeSince, &key)?;
        match (payload, since) {
            (BoxEvent::Running(_), None) => {
                let row = SinceRow {
                    box_id: box_id.to_owned(),
                    since_us: event.recorded_us,
                };
                rows::put(rows, View::AwakeSince, &key, &row)?;
            }
            (
                BoxEvent::Hibernated(_)
                | BoxEvent::MachineLost(_)
                | BoxEvent::Failed(_)
                | BoxEvent::Deleted(_),
                Some(since),
            ) => {
                rows.delete(View::AwakeSince, &key)?;
                for (day, awake_us) in days(since.since_us, event.recorded_us) {
                    let key = row_key::key(&[&log.owner, &day, box_id]);
                    let mut row: AwakeRow =
                        rows::get(rows, View::Awake, &key)?.unwrap_or_else(|| AwakeRow {
                            day,
                            box_id: box_id.to_owned(),
                            awake_us: 0,
                        });
                    row.awake_us = row.awake_us.saturating_add(awake_us);
                    rows::put(rows, View::Awake, &key, &row)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn holds(&self, _: &dyn Rows, _: &Recorded, _: &LogInfo) -> Result<bool, rows::Error> {
        // Nothing that can be erased is in a row.
        Ok(false)
    }

    fn clear(&self, rows: &mut dyn Rows, log: &LogInfo) -> Result<(), rows::Error> {
        let own = row_key::prefix(&[&log.owner]);
        rows.delete_prefix(View::Awake, &own)?;
        rows.delete_prefix(View::AwakeSince, &own)
    }
}

/// Cuts a span of time at midnight, UTC. A clock that was set back makes a span of nothing, and one that jumped far
/// ahead no more days than ten years have.
pub fn days(from_us: i64, to_us: i64) -> Vec<(String, i64)> {
    let mut cut = Vec::new();
    let mut from = from_us;
    while from < to_us && cut.len() < DAYS_MAX {
        let (name, ends_us) = day(from);
        let end = ends_us.min(to_us);
        cut.push((name, end - from));
        from = end;
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_US: i64 = 86_400_000_000;
    /// Midnight before 1 December 2026.
    const START: i64 = 20_788 * DAY_US;

    #[test]
    fn a_span_is_cut_at_midnight() {
        let cut = days(START + DAY_US - 5, START + 2 * DAY_US + 7);
        let of = |name: &str, us| (name.to_owned(), us);
        assert_eq!(
            cut,
            [
                of("2026-12-01", 5),
                of("2026-12-02", DAY_US),
                of("2026-12-03", 7)
            ]
        );
        assert_eq!(days(START, START), []);
        assert_eq!(days(START, START - 1), []);
        assert_eq!(days(START, i64::MAX).len(), DAYS_MAX);
    }
}
