use cocoonbox_events::Aggregate as _;
use cocoonbox_proto::log::v1 as log;
use proptest::prelude::*;

use super::*;
use crate::snapshot::Rule;

fn request(id: &str) -> Command {
    Command::RequestSweep {
        sweep_id: id.to_owned(),
        reason: reason::SCHEDULE,
    }
}

fn plan(id: &str) -> Command {
    Command::Plan(log::CapsuleSweepPlanned {
        sweep_id: id.to_owned(),
        ..log::CapsuleSweepPlanned::default()
    })
}

fn swept(id: &str) -> Command {
    Command::Swept(log::CapsuleSwept {
        sweep_id: id.to_owned(),
        bytes: 7,
        ended_ms: 5,
        ..log::CapsuleSwept::default()
    })
}

fn checked(slice: u32, damaged: u64) -> Command {
    Command::Checked(log::CapsuleChecked {
        slice,
        of: SLICES,
        damaged,
        ended_ms: 9,
        ..log::CapsuleChecked::default()
    })
}

fn after(state: State, command: &Command) -> State {
    let events = state.decide(command).unwrap();
    events
        .iter()
        .fold(state, |state, event| state.evolve(event).unwrap())
}

#[test]
fn one_sweep_is_owed_at_a_time_and_ends_once() {
    let state = after(State::default(), &request("a"));
    assert_eq!(state.decide(&request("b")), Ok(vec![]));
    let state = after(state, &plan("a"));
    // A process that takes over plans again.
    let state = after(state, &plan("a"));
    assert!(state.owed.as_ref().unwrap().is_planned);
    let late = Err(Rejection::NotOwed { id: "b".into() });
    assert_eq!(state.decide(&swept("b")), late);
    let state = after(state, &swept("a"));
    assert_eq!(
        (state.owed.as_ref(), state.bytes, state.swept_ms),
        (None, 7, 5)
    );
    assert!(state.decide(&swept("a")).is_err());
    assert_eq!(after(state, &request("b")).owed.unwrap().id, "b");
}

#[test]
fn a_rule_is_one_that_can_be_counted_with() {
    let long = Rule {
        weekly_days: u32::MAX,
        ..Rule::default()
    };
    let state = State::default();
    assert_eq!(
        state.decide(&Command::SetRule(long)),
        Err(Rejection::BadRule)
    );
    assert_eq!(state.decide(&Command::SetRule(Rule::default())), Ok(vec![]));
    let short = Rule {
        all_hours: 1,
        ..Rule::default()
    };
    assert_eq!(after(state, &Command::SetRule(short)).rule, short);
}

#[test]
fn parts_are_checked_in_turn() {
    let mut state = State::default();
    for slice in 0..SLICES {
        assert!(state.decide(&checked((slice + 1) % SLICES, 0)).is_err());
        state = after(state, &checked(slice, u64::from(slice == 2)));
    }
    assert_eq!((state.next_slice, state.checked_ms), (0, 9));
    assert_eq!(state.damaged.iter().sum::<u64>(), 1);
}

proptest! {
    /// Whatever comes in whatever order: what is decided can be folded.
    #[test]
    fn whatever_is_decided_can_be_folded(steps in proptest::collection::vec((0..5_u8, 0..3_u32), 0..60)) {
        let mut state = State::default();
        for (what, which) in steps {
            let id = which.to_string();
            let command = match what {
                0 => request(&id),
                1 => plan(&id),
                2 => swept(&id),
                3 => Command::Fail { sweep_id: id, reason: "X", ended_ms: 1 },
                _ => checked(which, 0),
            };
            for event in state.decide(&command).unwrap_or_default() {
                state = state.evolve(&event).unwrap();
            }
        }
    }
}

#[test]
fn each_device_that_is_given_the_key_is_noted() {
    let export = |token_id: &str| Command::ExportKey {
        token_id: token_id.into(),
    };
    let state = State::default();
    for _ in 0..2 {
        assert_eq!(state.decide(&export("t1")).unwrap().len(), 1);
    }
    let field = "token_id";
    assert_eq!(state.decide(&export("")), Err(Rejection::Empty { field }));
}
