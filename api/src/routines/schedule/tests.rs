use proptest::prelude::*;

use super::*;

fn us(text: &str) -> i64 {
    text.parse::<Timestamp>().unwrap().as_microsecond()
}

fn text(us: i64) -> String {
    Timestamp::from_microsecond(us).unwrap().to_string()
}

fn next(cron: &str, zone: &str, after: &str) -> String {
    let schedule = Schedule::new(cron, zone).unwrap();
    text(schedule.next_us(us(after)).unwrap())
}

#[test]
fn local_times_are_meant() {
    let nine = |after| next("0 9 * * 1-5", "Europe/Berlin", after);
    assert_eq!(nine("2026-12-01T07:59:59Z"), "2026-12-01T08:00:00Z");
    // Not the moment itself again.
    assert_eq!(nine("2026-12-01T08:00:00Z"), "2026-12-02T08:00:00Z");
    // Friday to Monday; and an hour earlier in summer.
    assert_eq!(nine("2026-12-04T08:00:00Z"), "2026-12-07T08:00:00Z");
    assert_eq!(nine("2026-07-01T00:00:00Z"), "2026-07-01T07:00:00Z");
    assert_eq!(
        next("*/15 * * * *", "", "2026-12-01T08:01:00Z"),
        "2026-12-01T08:15:00Z"
    );
}

/// Clocks in Berlin go from 2:00 to 3:00 on 29 March 2026, at 1:00 UTC.
#[test]
fn a_time_that_is_left_out_is_the_end_of_the_gap() {
    let half_past_two = |after| next("30 2 * * *", "Europe/Berlin", after);
    assert_eq!(
        half_past_two("2026-03-28T12:00:00Z"),
        "2026-03-29T01:00:00Z"
    );
    assert_eq!(
        half_past_two("2026-03-29T01:00:00Z"),
        "2026-03-30T00:30:00Z"
    );
    // All that the gap swallows is one moment, and the rest of the hour goes on behind it.
    let often = |after| next("*/20 * * * *", "Europe/Berlin", after);
    assert_eq!(often("2026-03-29T00:40:00Z"), "2026-03-29T01:00:00Z");
    assert_eq!(often("2026-03-29T01:00:00Z"), "2026-03-29T01:20:00Z");
}

/// They go back from 3:00 to 2:00 on 25 October 2026, at 1:00 UTC.
#[test]
fn a_time_that_comes_twice_is_taken_once() {
    let half_past_two = |after| next("30 2 * * *", "Europe/Berlin", after);
    assert_eq!(
        half_past_two("2026-10-24T12:00:00Z"),
        "2026-10-25T00:30:00Z"
    );
    assert_eq!(
        half_past_two("2026-10-25T00:30:00Z"),
        "2026-10-26T01:30:00Z"
    );
    assert_eq!(
        half_past_two("2026-10-25T00:45:00Z"),
        "2026-10-26T01:30:00Z"
    );
    assert_eq!(
        half_past_two("2026-10-25T01:15:00Z"),
        "2026-10-26T01:30:00Z"
    );
}

/// Samoa went from 29 to 31 December 2011.
#[test]
fn a_day_that_is_left_out_is_its_end() {
    let daily = |after| next("0 12 * * *", "Pacific/Apia", after);
    assert_eq!(daily("2011-12-29T22:00:00Z"), "2011-12-30T10:00:00Z");
    assert_eq!(daily("2011-12-30T10:00:00Z"), "2011-12-30T22:00:00Z");
}

#[test]
fn what_is_no_schedule_is_told_as_such() {
    for cron in [
        "",
        "* * * *",
        "* * * * * *",
        "61 * * * *",
        "a b c d e",
        "0 9 * * 1-5 UTC",
    ] {
        let refused = Schedule::new(cron, "").unwrap_err();
        assert!(matches!(refused, BadSchedule::Cron(_)), "{cron}: {refused}");
    }
    let zone = Schedule::new("* * * * *", "Europe/Atlantis").unwrap_err();
    assert_eq!(zone, BadSchedule::Zone);
    let path = Schedule::new("* * * * *", "../../etc/passwd").unwrap_err();
    assert_eq!(path, BadSchedule::Zone);
    let never = Schedule::new("0 0 30 2 *", "").unwrap();
    assert_eq!(never.next_us(0), Err(BadSchedule::Never));
    let once = RoutineDefinition {
        at_us: 5,
        ..RoutineDefinition::default()
    };
    assert_eq!(first_us(&once, 4), Ok(5));
    assert_eq!(first_us(&once, 5), Err(BadSchedule::Past));
    assert_eq!(next_us(&once, 5), 0);
}

proptest! {
    /// Whatever the text, there is an answer, and it is a line of bounded length.
    #[test]
    fn any_text_is_read_or_refused(cron in "\\PC{0,40}", zone in "\\PC{0,20}") {
        if let Err(BadSchedule::Cron(why)) = Schedule::new(&cron, &zone) {
            prop_assert!(!why.contains('\n'), "{}", why);
        }
    }

    /// What is due is behind, a full minute, and nothing that matches lies between.
    #[test]
    fn nothing_is_left_out(
        minute in 0..60_u8,
        step in 1..60_u8,
        hour in prop_oneof![Just("*".to_owned()), (0..24_u8).prop_map(|hour| hour.to_string())],
        zone in prop_oneof![Just("UTC"), Just("Europe/Berlin"), Just("America/St_Johns"), Just("Asia/Kathmandu")],
        after_s in 1_700_000_000..1_900_000_000_i64,
    ) {
        let cron = format!("{minute}/{step} {hour} * * *");
        let Ok(schedule) = Schedule::new(&cron, zone) else { return Ok(()) };
        let after = after_s * 1_000_000;
        let next = schedule.next_us(after).unwrap();
        prop_assert!(next > after);
        prop_assert_eq!(next % 60_000_000, 0);
        let earlier = schedule.next_us(next - 1).unwrap();
        prop_assert_eq!(earlier, next);
        let halfway = after + (next - after) / 2;
        prop_assert_eq!(schedule.next_us(halfway).unwrap(), next);
    }
}
