//! For how long boxes were awake.

use std::collections::BTreeMap;

use cocoonbox_projections::{AwakeRow as Known, SinceRow, awake::days};
use cocoonbox_proto::control::v1::AwakeRow;

use super::Report;

/// Puts together what is known of a user's boxes: days that are over, and what is awake up to now.
pub fn awake(
    user_id: &str,
    (known, since): (Vec<Known>, Vec<SinceRow>),
    now_us: i64,
    report: &Report,
) -> Vec<AwakeRow> {
    let mut sums: BTreeMap<(String, String), i64> = BTreeMap::new();
    let open = since.iter().flat_map(|one| {
        let of_day = days(one.since_us, now_us).into_iter();
        of_day.map(|(day, us)| (day, one.box_id.clone(), us))
    });
    let ended = known
        .into_iter()
        .map(|row| (row.day, row.box_id, row.awake_us));
    for (day, box_id, us) in ended.chain(open) {
        if report.spans(&day) {
            let sum = sums.entry((day, box_id)).or_default();
            *sum = sum.saturating_add(us);
        }
    }
    let row = |((day, box_id), us): ((String, String), i64)| AwakeRow {
        day,
        box_id,
        user_id: user_id.to_owned(),
        awake_ms: u64::try_from(us / 1_000).unwrap_or(0),
    };
    sums.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_awake_counts_up_to_now_beside_what_was() {
        let known = Known {
            day: "1970-01-01".into(),
            box_id: "b1".into(),
            awake_us: 1_000_000,
        };
        let since = |box_id: &str, since_us| SinceRow {
            box_id: box_id.into(),
            since_us,
        };
        let rows = |from: &str| {
            let report = Report::new(&[], from, "").unwrap();
            let of_user = (
                vec![known.clone()],
                vec![since("b1", 4_000_000), since("b2", 0)],
            );
            let rows = awake("u", of_user, 86_400_000_000 + 5_000, &report);
            let told = rows
                .into_iter()
                .map(|row| (row.day, row.box_id, row.awake_ms));
            told.collect::<Vec<_>>()
        };
        let row = |day: &str, id: &str, ms| (day.to_owned(), id.to_owned(), ms);
        let second = [row("1970-01-02", "b1", 5), row("1970-01-02", "b2", 5)];
        assert_eq!(rows("1970-01-02"), second);
        let first = [
            row("1970-01-01", "b1", 86_397_000),
            row("1970-01-01", "b2", 86_400_000),
        ];
        assert_eq!(rows(""), [first, second].concat());
    }
}
