//! A clock that went back: no log's times do, so the newest event is in the future then.

use cocoonbox_proto::control::v1::ConditionResponse;

use super::finding::Finding;

/// Clocks of a host and its boxes are apart by less.
const AHEAD_MS_MAX: i64 = 5_000;

pub(super) fn findings(condition: &ConditionResponse) -> Vec<Finding> {
    let newest = condition.logs.iter().map(|total| total.newest_at_ms).max();
    let ahead_ms = newest.unwrap_or(0) - condition.now_ms;
    if ahead_ms <= AHEAD_MS_MAX {
        return Vec::new();
    }
    let seconds = ahead_ms / 1_000;
    vec![
        Finding::wrong(
            "CLOCK",
            format!("the newest event is {seconds} s in the future"),
        )
        .because(
            "the clock was put back; events get the time of the newest one until it has caught up",
        )
        .advise("set the clock right (`timedatectl`) and keep it so with NTP"),
    ]
}

#[cfg(test)]
mod tests {
    use cocoonbox_proto::control::v1::LogTotals;

    use super::*;

    #[test]
    fn a_clock_that_went_back_is_found_and_one_that_is_a_little_off_is_not() {
        let at = |newest_at_ms| ConditionResponse {
            now_ms: 1_000_000,
            logs: vec![LogTotals {
                newest_at_ms,
                ..LogTotals::default()
            }],
            ..ConditionResponse::default()
        };
        assert_eq!(findings(&at(1_004_000)), []);
        assert_eq!(findings(&at(1_090_000))[0].code, "CLOCK");
        assert_eq!(findings(&ConditionResponse::default()), []);
    }
}
