use cocoonbox_events::{Aggregate as _, ControlEvent};
use cocoonbox_proto::log::v1::control_released::Reason;
use proptest::prelude::*;

use super::*;

const SECOND: i64 = 1_000_000;
/// 2026-11-30, 00:00 UTC.
const START: i64 = 1_795_996_800_000_000;

fn take(lease_id: &str, user_id: &str, steal: bool, now_us: i64) -> Command {
    Command::Take {
        lease_id: lease_id.into(),
        user_id: user_id.into(),
        label: "viewer".into(),
        idle_ms: IDLE_MS_DEFAULT,
        steal,
        now_us,
    }
}

fn renew(lease_id: &str, now_us: i64) -> Command {
    Command::Renew {
        lease_id: lease_id.into(),
        now_us,
    }
}

fn release(lease_id: Option<&str>, now_us: i64) -> Command {
    Command::Release {
        lease_id: lease_id.map(Into::into),
        reason: Reason::HandedBack,
        note: "logged in".into(),
        now_us,
    }
}

fn run(state: State, command: &Command) -> Result<State, Rejection> {
    let events = state.decide(command)?;
    Ok(events
        .iter()
        .fold(state, |state, event| state.evolve(event).unwrap()))
}

fn held() -> State {
    run(State::default(), &take("a", "ada", false, START)).unwrap()
}

#[test]
fn the_second_is_told_who_and_until_when() {
    let refused = run(held(), &take("b", "bob", false, START + SECOND)).unwrap_err();
    let Rejection::Held(lease) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!((lease.user_id.as_str(), lease.fence), ("ada", 1));
    assert_eq!(lease.until_us, START + 60 * SECOND);
}

#[test]
fn another_lease_of_the_same_person_is_the_second_too() {
    let refused = run(held(), &take("b", "ada", false, START + SECOND));
    assert!(matches!(refused, Err(Rejection::Held(_))));
}

#[test]
fn who_steals_ends_the_first_and_has_a_higher_fence() {
    let stolen = run(held(), &take("b", "bob", true, START + SECOND)).unwrap();
    let lease = stolen.lease.clone().unwrap();
    assert_eq!((lease.user_id.as_str(), lease.fence), ("bob", 2));
    assert_eq!(stolen.last.clone().unwrap().reason, Some(Reason::Stolen));
    assert_eq!(
        run(stolen, &renew("a", START + 2 * SECOND)),
        Err(Rejection::Over)
    );
}

#[test]
fn anothers_lease_id_opens_nothing() {
    for steal in [false, true] {
        let refused = run(held(), &take("a", "bob", steal, START + SECOND));
        assert!(matches!(refused, Err(Rejection::Held(_))), "{refused:?}");
    }
}

#[test]
fn a_repeated_take_changes_nothing_and_a_late_one_takes_nothing() {
    let again = take("a", "ada", false, START + SECOND);
    assert_eq!(held().decide(&again).unwrap(), Vec::new());
    let over = run(held(), &release(Some("a"), START + SECOND)).unwrap();
    assert_eq!(over.decide(&again), Err(Rejection::Over));
    let late = take("a", "ada", false, START + 61 * SECOND);
    assert_eq!(held().decide(&late), Err(Rejection::Over));
}

#[test]
fn input_renews_every_ten_seconds() {
    let at = |seconds: i64| held().decide(&renew("a", START + seconds * SECOND));
    assert_eq!(at(9).unwrap(), Vec::new());
    assert!(matches!(at(10).unwrap()[..], [ControlEvent::Renewed(_)]));
    assert_eq!(at(60), Err(Rejection::Over));
    let renewed = run(held(), &renew("a", START + 59 * SECOND)).unwrap();
    assert!(renewed.held(START + 118 * SECOND).is_some());
    assert!(renewed.held(START + 119 * SECOND).is_none());
}

#[test]
fn a_lease_that_ran_out_is_said_to_have_before_the_next_begins() {
    let events = held()
        .decide(&take("b", "bob", false, START + 60 * SECOND))
        .unwrap();
    assert!(
        matches!(
            events[..],
            [ControlEvent::Expired(_), ControlEvent::Taken(_)]
        ),
        "{events:?}"
    );
    let expire = |seconds: i64| Command::Expire {
        now_us: START + seconds * SECOND,
    };
    assert_eq!(held().decide(&expire(59)).unwrap(), Vec::new());
    assert_eq!(held().decide(&expire(60)).unwrap().len(), 1);
    // Whoever hands it back then hears that it is over, not that it was theirs until now.
    let late = held().decide(&release(None, START + 60 * SECOND)).unwrap();
    assert!(matches!(late[..], [ControlEvent::Expired(_)]), "{late:?}");
}

#[test]
fn giving_back_is_for_ones_own_lease_or_for_any() {
    let other = held().decide(&release(Some("b"), START + SECOND)).unwrap();
    assert_eq!(other, Vec::new());
    let own = run(held(), &release(None, START + SECOND)).unwrap();
    assert_eq!(own.lease, None);
    assert_eq!(own.last.clone().unwrap().note, "logged in");
    assert_eq!(
        own.decide(&release(None, START + SECOND)).unwrap(),
        Vec::new()
    );
}

#[test]
fn what_does_not_fit_is_refused() {
    let bad = |change: &dyn Fn(&mut Command)| {
        let mut command = take("a", "ada", false, START);
        change(&mut command);
        State::default().decide(&command).unwrap_err()
    };
    let with_id = |text: &str| {
        let text = text.to_owned();
        bad(&move |command| {
            if let Command::Take { lease_id, .. } = command {
                lease_id.clone_from(&text);
            }
        })
    };
    assert_eq!(with_id(""), Rejection::BadLeaseId);
    assert_eq!(with_id("a\nb"), Rejection::BadLeaseId);
    assert_eq!(with_id(&"a".repeat(65)), Rejection::BadLeaseId);
    for idle in [0, IDLE_MS_MIN - 1, IDLE_MS_MAX + 1, u64::MAX] {
        let refused = bad(&|command| {
            if let Command::Take { idle_ms, .. } = command {
                *idle_ms = idle;
            }
        });
        assert_eq!(refused, Rejection::BadIdle, "{idle}");
    }
    let long = Command::Release {
        lease_id: None,
        reason: Reason::HandedBack,
        note: "n".repeat(NOTE_BYTES_MAX + 1),
        now_us: START,
    };
    assert_eq!(held().decide(&long), Err(Rejection::LongNote));
}

#[derive(Clone, Debug)]
enum Step {
    Take { who: u8, nth: u8, steal: bool },
    Renew { who: u8, nth: u8 },
    Release { who: u8, nth: u8 },
    Expire,
    Wait { seconds: u8 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (who, nth) = (0..3_u8, 0..3_u8);
    let step = prop_oneof![
        3 => (who.clone(), nth.clone(), any::<bool>())
            .prop_map(|(who, nth, steal)| Step::Take { who, nth, steal }),
        2 => (who.clone(), nth.clone()).prop_map(|(who, nth)| Step::Renew { who, nth }),
        1 => (who, nth).prop_map(|(who, nth)| Step::Release { who, nth }),
        1 => Just(Step::Expire),
        3 => (0..40_u8).prop_map(|seconds| Step::Wait { seconds }),
    ];
    prop::collection::vec(step, 0..60)
}

proptest! {
    /// Whatever is asked in whatever order: one holder at a time, fences rise, nobody is refused what is free,
    /// and nobody's lease ends early but by their own word or by stealing.
    #[test]
    fn there_is_one_holder(steps in steps()) {
        let mut state = State::default();
        let mut now = START;
        for step in steps {
            let (user, lease) = match &step {
                Step::Take { who, nth, .. } | Step::Renew { who, nth } | Step::Release { who, nth } => {
                    (format!("user{who}"), format!("lease{who}-{nth}"))
                }
                Step::Expire | Step::Wait { .. } => (String::new(), String::new()),
            };
            let command = match &step {
                Step::Take { steal, .. } => take(&lease, &user, *steal, now),
                Step::Renew { .. } => renew(&lease, now),
                Step::Release { .. } => release(Some(&lease), now),
                Step::Expire => Command::Expire { now_us: now },
                Step::Wait { seconds } => {
                    now += i64::from(*seconds) * SECOND;
                    continue;
                }
            };
            let before = state.clone();
            let decided = run(state, &command);
            match (&decided, &step) {
                (Ok(after), Step::Take { steal, .. }) => {
                    let holder = after.held(now).unwrap();
                    prop_assert_eq!((&holder.user_id, &holder.lease_id), (&user, &lease));
                    prop_assert!(holder.until_us >= now);
                    match before.held(now) {
                        Some(held) if held.lease_id == lease => prop_assert_eq!(after, &before),
                        Some(_) => prop_assert!(*steal),
                        None => prop_assert!(after.fence > before.fence),
                    }
                }
                (Err(Rejection::Held(by)), _) => {
                    prop_assert_eq!(Some(&**by), before.held(now));
                }
                (Err(Rejection::Over), Step::Take { .. }) => {
                    let ended = before.last.as_ref().map(|last| &last.lease);
                    let known = [ended, before.lease.as_ref()];
                    prop_assert!(known.into_iter().flatten().any(|one| one.lease_id == lease));
                }
                (Err(rejection), Step::Take { .. }) => prop_assert!(false, "{rejection}"),
                (Ok(after), _) => {
                    let survives = before.held(now).is_none_or(|held| {
                        let is_released = matches!(step, Step::Release { .. }) && held.lease_id == lease;
                        is_released || after.held(now).is_some_and(|now| now.fence == held.fence)
                    });
                    prop_assert!(survives, "{step:?} ended {:?}", before.lease);
                }
                (Err(_), _) => {}
            }
            state = decided.unwrap_or(before.clone());
            prop_assert!(state.fence >= before.fence);
        }
    }
}
