use cocoonbox_events::{Aggregate as _, Payload, erasure};
use cocoonbox_proto::log::v1::{
    RoutineDefinition, agent_turn_ended, routine_missed, routine_paused::Reason,
    routine_run_ended::Outcome,
};
use proptest::prelude::*;

use super::*;

const DUE: i64 = 1_795_996_800_000_000;
const PROMPT: &str = "what is new?";
const NEXT: i64 = DUE + 86_400_000_000;

fn definition() -> RoutineDefinition {
    RoutineDefinition {
        box_id: "b1".into(),
        name: "morning".into(),
        cron: "0 9 * * *".into(),
        zone: "Europe/Berlin".into(),
        at_us: 0,
        run_ms_max: RUN_MS_DEFAULT,
    }
}

fn create() -> Command {
    Command::Create {
        routine_id: "r1".into(),
        agent_id: "a1".into(),
        definition: Box::new(definition()),
        prompt: PROMPT.into(),
        next_us: DUE,
    }
}

fn start(run_id: &str, due_us: i64) -> Command {
    Command::Start {
        run_id: run_id.into(),
        due_us,
        next_us: NEXT,
        until_us: due_us + 600_000_000,
        wakes: true,
    }
}

fn end(run_id: &str, outcome: Outcome) -> Command {
    Command::End {
        run_id: run_id.into(),
        outcome,
        turn: agent_turn_ended::Outcome::Unspecified,
        reason: String::new(),
    }
}

fn run(state: State, command: &Command) -> Result<State, Rejection> {
    let events = state.decide(command)?;
    Ok(events
        .iter()
        .fold(state, |state, event| state.evolve(event).unwrap()))
}

fn all(state: State, commands: &[Command]) -> State {
    let step = |state, command| run(state, command).unwrap();
    commands.iter().fold(state, step)
}

fn created() -> State {
    run(State::default(), &create()).unwrap()
}

#[test]
fn a_due_time_is_used_once_by_whoever_is_first() {
    let running = run(created(), &start("one", DUE)).unwrap();
    assert_eq!(running.due_us(), Some(NEXT));
    // The same run again, as the other process of a fleet would have it, is nothing; another one is refused.
    assert_eq!(running.decide(&start("one", DUE)), Ok(Vec::new()));
    assert_eq!(running.decide(&start("two", DUE)), Err(Rejection::NotDue));
    let run_id = "one".to_owned();
    assert_eq!(
        running.decide(&start("two", NEXT)),
        Err(Rejection::Running { run_id })
    );
}

#[test]
fn a_run_is_owed_until_its_end() {
    let prompted = Command::Prompted {
        run_id: "one".into(),
        prompt_id: "p".into(),
        offset_key: "k".into(),
    };
    let state = all(created(), &[start("one", DUE), prompted.clone()]);
    let owed = state.run.clone().unwrap();
    assert_eq!(owed.prompted.unwrap().prompt_id, "p");
    assert_eq!(state.decide(&prompted), Ok(Vec::new()));
    let ended = run(state, &end("one", Outcome::Done)).unwrap();
    assert_eq!((ended.run.clone(), ended.runs), (None, 1));
    assert_eq!(ended.decide(&end("one", Outcome::Failed)), Ok(Vec::new()));
}

#[test]
fn five_runs_in_a_row_that_come_to_nothing_pause_it() {
    let mut state = created();
    for n in 0..FAILURES_MAX {
        assert_eq!(state.paused, None, "{n}");
        let due = state.due_us().unwrap();
        let id = format!("run {n}");
        state = all(state, &[start(&id, due), end(&id, Outcome::Unreached)]);
    }
    assert_eq!(
        (state.paused, state.due_us()),
        (Some(Reason::Failing), None)
    );
    let resumed = run(state, &Command::Resume { next_us: NEXT }).unwrap();
    assert_eq!((resumed.failures, resumed.due_us()), (0, Some(NEXT)));
}

#[test]
fn one_good_run_forgives() {
    let mut state = created();
    for n in 0..2 * FAILURES_MAX {
        let due = state.due_us().unwrap();
        let outcome = if n % 2 == 0 {
            Outcome::Failed
        } else {
            Outcome::Done
        };
        let id = format!("run {n}");
        state = all(state, &[start(&id, due), end(&id, outcome)]);
    }
    assert_eq!(state.paused, None);
}

#[test]
fn a_paused_one_is_not_due_and_runs_for_a_person() {
    let pause = Command::Pause {
        reason: Reason::Asked,
    };
    let state = run(created(), &pause).unwrap();
    assert_eq!(state.due_us(), None);
    assert_eq!(state.decide(&start("one", DUE)), Err(Rejection::NotDue));
    let asked = run(state, &start("one", 0)).unwrap();
    assert!(asked.run.is_some());
}

#[test]
fn what_is_missed_moves_on() {
    let miss = Command::Miss {
        due_us: DUE,
        next_us: NEXT,
        reason: routine_missed::Reason::Late,
    };
    let state = run(created(), &miss).unwrap();
    assert_eq!(state.due_us(), Some(NEXT));
    assert_eq!(state.decide(&miss), Err(Rejection::NotDue));
}

#[test]
fn one_whose_prompt_was_erased_pauses_in_place_of_running() {
    let asked = State::default().decide(&create()).unwrap().remove(1);
    let Some(Payload::Routine(husk)) = erasure::husk(&Payload::Routine(asked)) else {
        panic!("no husk");
    };
    let state = created().evolve(&husk).unwrap();
    assert!(state.is_erased());
    let paused = run(state, &start("one", DUE)).unwrap();
    assert_eq!(
        (paused.run.clone(), paused.paused),
        (None, Some(Reason::Erased))
    );
    let resume = Command::Resume { next_us: NEXT };
    assert_eq!(paused.decide(&resume), Err(Rejection::Erased));
    assert_eq!(paused.decide(&start("two", 0)), Err(Rejection::Erased));
    let change = Command::Change {
        definition: Box::new(definition()),
        prompt: PROMPT.into(),
        next_us: NEXT,
    };
    let again = all(paused, &[change, resume]);
    assert_eq!(again.due_us(), Some(NEXT));
}

#[test]
fn a_deleted_one_ends_its_run_and_nothing_else() {
    let state = all(created(), &[start("one", DUE), Command::Delete]);
    assert_eq!(state.due_us(), None);
    assert_eq!(state.decide(&start("two", 0)), Err(Rejection::Deleted));
    assert_eq!(state.decide(&Command::Delete), Ok(Vec::new()));
    let ended = run(state, &end("one", Outcome::Done)).unwrap();
    assert_eq!((ended.life, ended.run), (Life::Deleted, None));
}

#[test]
fn a_definition_says_when_in_one_way() {
    let refused = |change: fn(&mut RoutineDefinition)| {
        let mut bad = definition();
        change(&mut bad);
        check(&bad, PROMPT).unwrap_err()
    };
    assert_eq!(refused(|bad| bad.at_us = DUE), Rejection::BadTime);
    assert_eq!(refused(|bad| bad.cron.clear()), Rejection::BadTime);
    assert_eq!(
        refused(|bad| bad.cron = "x".repeat(129)),
        Rejection::BadTime
    );
    assert_eq!(check(&definition(), ""), Err(Rejection::BadPrompt));
    let long = "x".repeat(PROMPT_BYTES_MAX + 1);
    assert_eq!(check(&definition(), &long), Err(Rejection::BadPrompt));
    assert_eq!(refused(|bad| bad.run_ms_max = 999), Rejection::BadLimit);
    assert!(matches!(
        refused(|bad| bad.name = " x".into()),
        Rejection::BadName(_)
    ));
    let once = RoutineDefinition {
        cron: String::new(),
        at_us: DUE,
        ..definition()
    };
    assert_eq!(check(&once, PROMPT), Ok(()));
}

fn command() -> impl Strategy<Value = Command> {
    let id = "[ab]";
    let time = 0..4_i64;
    prop_oneof![
        Just(create()),
        time.clone().prop_map(|next_us| Command::Change {
            definition: Box::new(definition()),
            prompt: PROMPT.into(),
            next_us,
        }),
        Just(Command::Pause {
            reason: Reason::Asked
        }),
        time.clone().prop_map(|next_us| Command::Resume { next_us }),
        (id, time.clone(), time.clone()).prop_map(|(run_id, due_us, next_us)| Command::Start {
            run_id,
            due_us,
            next_us,
            until_us: 9,
            wakes: false,
        }),
        (time.clone(), time).prop_map(|(due_us, next_us)| Command::Miss {
            due_us,
            next_us,
            reason: routine_missed::Reason::Busy,
        }),
        id.prop_map(|run_id| Command::Prompted {
            run_id,
            prompt_id: "p".into(),
            offset_key: "k".into(),
        }),
        (id, 1..8_i32).prop_map(|(run_id, outcome)| Command::End {
            run_id,
            outcome: outcome.try_into().unwrap(),
            turn: agent_turn_ended::Outcome::Failed,
            reason: "r".into(),
        }),
        Just(Command::Delete),
    ]
}

proptest! {
    /// Whatever is asked, what is decided can follow; a repeated command changes nothing that a refusal would not.
    #[test]
    fn every_decision_can_follow(commands in proptest::collection::vec(command(), 0..40)) {
        let mut state = State::default();
        for command in commands {
            let Ok(events) = state.decide(&command) else { continue };
            for event in &events {
                state = state.evolve(event).unwrap();
            }
            if let Command::Start { .. } | Command::Prompted { .. } | Command::End { .. } = command {
                let again = state.decide(&command).unwrap_or_default();
                prop_assert_eq!(again, Vec::new());
            }
        }
    }
}
