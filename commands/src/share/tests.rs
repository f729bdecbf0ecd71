use cocoonbox_events::{Aggregate as _, Payload, ShareEvent, erasure};
use proptest::prelude::*;

use super::*;
use crate::name::BadName;

const SECOND: i64 = 1_000_000;
/// 2026-11-30, 00:00 UTC.
const START: i64 = 1_795_996_800_000_000;

fn create(share_id: &str, expires_us: Option<i64>, now_us: i64) -> Command {
    Command::Create {
        share_id: share_id.into(),
        secret_id: format!("{share_id}.1"),
        label: "for the team".into(),
        for_user: None,
        expires_us,
        now_us,
    }
}

fn open(share_id: &str, user_id: &str, now_us: i64) -> Command {
    Command::Open {
        share_id: share_id.into(),
        user_id: user_id.into(),
        label: String::new(),
        now_us,
    }
}

fn regenerate(share_id: &str, secret_id: &str, now_us: i64) -> Command {
    Command::Regenerate {
        share_id: share_id.into(),
        secret_id: secret_id.into(),
        now_us,
    }
}

fn revoke(share_id: &str, now_us: i64) -> Command {
    Command::Revoke {
        share_id: share_id.into(),
        now_us,
    }
}

fn evolved(state: State, events: &[ShareEvent]) -> State {
    let after = |state: State, event| state.evolve(event).unwrap();
    events.iter().fold(state, after)
}

fn run(state: State, command: &Command) -> Result<State, Rejection> {
    let events = state.decide(command)?;
    Ok(evolved(state, &events))
}

fn shared() -> State {
    run(State::default(), &create("s1", None, START)).unwrap()
}

fn ended(share_id: &str) -> Rejection {
    Rejection::Ended {
        share_id: share_id.into(),
    }
}

#[test]
fn the_bounds_hold() {
    let bad_label = Command::Create {
        share_id: "s1".into(),
        secret_id: "s1.1".into(),
        label: "two\nlines".into(),
        for_user: None,
        expires_us: None,
        now_us: START,
    };
    let refused = run(State::default(), &bad_label).unwrap_err();
    assert_eq!(refused, Rejection::BadLabel(BadName::Label));
    let expiring = |at| run(State::default(), &create("s1", Some(at), START));
    for bad in [0, START, START + EXPIRES_US_MAX + 1] {
        assert_eq!(expiring(bad).unwrap_err(), Rejection::BadExpiry, "{bad}");
    }
    for good in [START + 1, START + EXPIRES_US_MAX] {
        assert!(expiring(good).is_ok(), "{good}");
    }
    let exists = run(shared(), &create("s1", None, START)).unwrap_err();
    assert_eq!(
        exists,
        Rejection::Exists {
            share_id: "s1".into()
        }
    );
}

#[test]
fn there_are_twenty_at_once_and_those_that_run_out_make_room() {
    let mut state = State::default();
    for n in 0..LIVE_MAX {
        let expires_us = (n == 0).then_some(START + SECOND);
        state = run(state, &create(&format!("s{n}"), expires_us, START)).unwrap();
    }
    let more = create("more", None, START);
    assert_eq!(run(state.clone(), &more), Err(Rejection::TooMany));
    let later = run(state.clone(), &create("more", None, START + SECOND)).unwrap();
    assert_eq!(later.share("s0").unwrap().end, Some(End::Expired));
    assert_eq!(later.live().count(), LIVE_MAX);
    let fewer = run(state, &revoke("s7", START)).unwrap();
    assert!(run(fewer, &more).is_ok());
}

#[test]
fn openings_are_written_down_once_a_minute() {
    let mut state = shared();
    for second in 0..130 {
        let who = if second % 2 == 0 { "ada" } else { "" };
        state = run(state, &open("s1", who, START + second * SECOND)).unwrap();
    }
    let share = state.share("s1").unwrap();
    assert_eq!((share.opened, share.openings.len()), (3, 3));
    // A clock that was set back does not make it more.
    let events = state.decide(&open("s1", "", START)).unwrap();
    assert_eq!(events, []);
    for minute in 3..100 {
        state = run(state, &open("s1", "", START + minute * OPENED_US)).unwrap();
    }
    let share = state.share("s1").unwrap();
    assert_eq!((share.opened, share.openings.len()), (100, OPENINGS_MAX));
    assert_eq!(share.openings.back().unwrap().at_us, START + 99 * OPENED_US);
}

#[test]
fn another_secret_takes_the_place_of_the_one_before() {
    let state = run(shared(), &regenerate("s1", "s1.2", START)).unwrap();
    assert_eq!(state.share("s1").unwrap().secret_id, "s1.2");
    let unknown = run(state, &regenerate("s2", "s2.2", START)).unwrap_err();
    assert_eq!(
        unknown,
        Rejection::NotFound {
            share_id: "s2".into()
        }
    );
}

#[test]
fn what_has_ended_opens_nothing_and_stays_ended() {
    let revoked = run(shared(), &revoke("s1", START)).unwrap();
    let over_us = START + 10 * SECOND;
    let running = run(State::default(), &create("s1", Some(over_us), START)).unwrap();
    assert!(running.share("s1").unwrap().opens(over_us - 1));
    let expired = run(running.clone(), &Command::Expire { now_us: over_us }).unwrap();
    assert_eq!(expired.share("s1").unwrap().end, Some(End::Expired));
    // Not written down yet, it has ended all the same.
    for state in [revoked, expired, running.clone()] {
        assert!(!state.share("s1").unwrap().opens(over_us));
        for command in [open("s1", "", over_us), regenerate("s1", "x", over_us)] {
            assert_eq!(run(state.clone(), &command), Err(ended("s1")));
        }
        let again = run(state.clone(), &revoke("s1", over_us)).unwrap();
        assert!(again.share("s1").unwrap().end.is_some());
    }
    // Nobody ended what ended by itself.
    let late = run(running, &revoke("s1", over_us)).unwrap();
    assert_eq!(late.share("s1").unwrap().end, Some(End::Expired));
}

#[test]
fn the_oldest_ended_ones_are_forgotten() {
    let mut state = State::default();
    for n in 0..ENDED_MAX + 5 {
        let share_id = format!("s{n}");
        state = run(state, &create(&share_id, None, START)).unwrap();
        state = run(state, &revoke(&share_id, START)).unwrap();
    }
    assert_eq!(state.shares().count(), ENDED_MAX);
    assert!(state.share("s4").is_none() && state.share("s5").is_some());
}

#[test]
fn what_cannot_follow_is_refused() {
    let secret = |event: ShareEvent| shared().evolve(&event).unwrap_err().state;
    let other = ShareEvent::Regenerated(cocoonbox_proto::log::v1::ShareRegenerated {
        share_id: "s1".into(),
        secret_id: "s1.3".into(),
        old_secret_id: "s1.2".into(),
    });
    assert_eq!(secret(other), "share `s1` is live");
    let unknown = ShareEvent::Revoked(cocoonbox_proto::log::v1::ShareRevoked {
        share_id: "s2".into(),
        secret_id: "s2.1".into(),
    });
    assert_eq!(secret(unknown), "no share `s2`");
}

fn any_command() -> impl Strategy<Value = Command> {
    let share_id = (0..4_u8).prop_map(|n| format!("s{n}"));
    (share_id, 0..5_u8, 0..400_i64, prop::option::of(1..300_i64)).prop_map(
        |(share_id, sort, second, lasts)| {
            let now_us = START + second * SECOND;
            match sort {
                0 => create(&share_id, lasts.map(|s| now_us + s * SECOND), now_us),
                1 => open(&share_id, "ada", now_us),
                2 => regenerate(&share_id, &format!("{share_id}.{second}"), now_us),
                3 => revoke(&share_id, now_us),
                _ => Command::Expire { now_us },
            }
        },
    )
}

proptest! {
    /// Whatever is decided can be folded, with and without the content of what was erased, and comes to the same
    /// but for the labels.
    #[test]
    fn what_is_decided_follows(commands in prop::collection::vec(any_command(), 0..60)) {
        let (mut state, mut erased) = (State::default(), State::default());
        for command in commands {
            let Ok(events) = state.decide(&command) else { continue };
            for event in events {
                let payload = Payload::from(event.clone());
                let husk = erasure::husk(&payload).unwrap_or(payload);
                state = state.evolve(&event).unwrap();
                erased = erased.evolve(&State::pick(husk).unwrap()).unwrap();
            }
            prop_assert!(state.live().count() <= LIVE_MAX);
        }
        let mut plain = state;
        for share in plain.shares.values_mut() {
            share.label.clear();
        }
        prop_assert_eq!(plain, erased);
    }
}
