use cocoonbox_commands::boxes::{Command, Debt, Phase, Rejection, State};
use cocoonbox_events::{Aggregate, BoxEvent, ChainHash, LogId};
use proptest::prelude::*;

use crate::machine::Machine;

fn log(n: u8) -> LogId {
    LogId::from_slice(&[n; 16]).unwrap()
}

fn ensure(operation: &str) -> Command {
    Command::Ensure {
        box_id: "b".into(),
        flavor: 1,
        name: "main".into(),
        box_log: log(1),
        user_id: "u".into(),
        operation_id: operation.into(),
    }
}

fn hibernate(operation: &str) -> Command {
    Command::Hibernate {
        operation_id: operation.into(),
        reason: "asked".into(),
    }
}

fn delete(operation: &str) -> Command {
    Command::Delete {
        operation_id: operation.into(),
    }
}

fn starting(wake: &str) -> Command {
    Command::Starting {
        wake_id: wake.into(),
        image: "core-1".into(),
    }
}

fn running(wake: &str) -> Command {
    Command::Running {
        wake_id: wake.into(),
        agent_version: "0.1".into(),
    }
}

fn lost(wake: &str) -> Command {
    Command::MachineLost {
        wake_id: wake.into(),
        detail: "gone".into(),
    }
}

fn failed() -> Command {
    Command::Failed {
        reason: "NO_SPACE".into(),
        detail: "full".into(),
    }
}

const HIBERNATED: Command = Command::Hibernated { memory_kept: false };

fn kinds(events: &[BoxEvent]) -> Vec<&'static str> {
    events.iter().map(|event| event.kind().name()).collect()
}

/// Sends each and returns the kinds of everything that was written.
fn tell(machine: &mut Machine<State>, commands: &[Command]) -> Vec<&'static str> {
    commands
        .iter()
        .flat_map(|command| kinds(&machine.send(command).unwrap()))
        .collect()
}

fn is_up() -> Machine<State> {
    let mut machine = Machine::new();
    tell(&mut machine, &[ensure("o1"), starting("w1"), running("w1")]);
    machine
}

fn is_stale(answer: Result<Vec<BoxEvent>, Rejection>) -> bool {
    matches!(answer, Err(Rejection::Stale { .. }))
}

#[test]
fn a_life() {
    let mut machine = Machine::new();
    let commands = [
        ensure("o1"),
        starting("w1"),
        running("w1"),
        ensure("o2"),
        hibernate("o3"),
        HIBERNATED,
        hibernate("o4"),
        ensure("o5"),
        starting("w2"),
        running("w2"),
        lost("w2"),
        ensure("o6"),
        starting("w3"),
        failed(),
        ensure("o7"),
        starting("w4"),
        running("w4"),
        delete("o8"),
        delete("o9"),
        Command::Deleted,
        Command::Deleted,
    ];
    let written = tell(&mut machine, &commands);
    assert_eq!(
        written,
        [
            "box.created",
            "box.ensure_requested",
            "box.starting",
            "box.running",
            "box.hibernate_requested",
            "box.hibernated",
            "box.wake_requested",
            "box.starting",
            "box.running",
            "box.machine_lost",
            "box.wake_requested",
            "box.starting",
            "box.failed",
            "box.ensure_requested",
            "box.starting",
            "box.running",
            "box.delete_requested",
            "box.deleted",
        ]
    );
    assert_eq!(machine.state.phase, Phase::Deleted);
    assert_eq!(machine.send(&ensure("o10")), Err(Rejection::Deleted));
    machine.check_fold();
}

#[test]
fn each_phase_says_what_is_owed() {
    let mut machine = Machine::<State>::new();
    assert_eq!(machine.state.owed(), None);
    tell(&mut machine, &[ensure("o1")]);
    assert_eq!(
        machine.state.owed(),
        Some(Debt::Start {
            operation: "o1".into(),
            wake: None
        })
    );
    tell(&mut machine, &[starting("w1")]);
    assert_eq!(
        machine.state.owed(),
        Some(Debt::Start {
            operation: "o1".into(),
            wake: Some("w1".into())
        })
    );
    tell(&mut machine, &[running("w1")]);
    assert_eq!(
        (machine.state.owed(), machine.state.current_operation()),
        (None, None)
    );
    tell(&mut machine, &[hibernate("o2")]);
    assert_eq!(
        machine.state.owed(),
        Some(Debt::Stop {
            operation: "o2".into(),
            wake: Some("w1".into())
        })
    );
    tell(&mut machine, &[delete("o3")]);
    assert_eq!(
        machine.state.owed(),
        Some(Debt::Remove {
            operation: "o3".into()
        })
    );
    assert_eq!(machine.state.wake(), Some("w1"));
}

#[test]
fn a_wake_during_a_hibernation_waits_for_it() {
    let mut machine = is_up();
    assert_eq!(
        tell(
            &mut machine,
            &[hibernate("h"), ensure("w"), ensure("again")]
        ),
        ["box.hibernate_requested", "box.wake_requested"]
    );
    assert_eq!(machine.state.current_operation(), Some("w"));
    tell(&mut machine, &[HIBERNATED]);
    assert_eq!(
        machine.state.phase,
        Phase::Starting {
            operation: "w".into(),
            wake: None
        }
    );
}

#[test]
fn a_hibernation_takes_back_the_wake_that_waits() {
    let mut machine = is_up();
    let written = tell(
        &mut machine,
        &[hibernate("h"), ensure("w"), hibernate("h2"), HIBERNATED],
    );
    assert_eq!(written.len(), 4);
    assert_eq!(machine.state.phase, Phase::Hibernated);
}

#[test]
fn a_hibernation_abandons_a_start() {
    let mut machine = Machine::<State>::new();
    tell(&mut machine, &[ensure("o"), starting("w"), hibernate("h")]);
    assert!(is_stale(machine.send(&running("w"))));
    assert!(is_stale(machine.send(&starting("w2"))));
    tell(&mut machine, &[HIBERNATED]);
    assert_eq!(machine.state.phase, Phase::Hibernated);
}

#[test]
fn a_failed_hibernation_ends_both_operations() {
    let mut machine = is_up();
    tell(&mut machine, &[hibernate("h"), ensure("w")]);
    let events = machine.send(&failed()).unwrap();
    let ended: Vec<_> = events
        .iter()
        .map(|event| match event {
            BoxEvent::Failed(failed) => failed.operation_id.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(ended, ["w", "h"]);
    assert!(matches!(&machine.state.phase, Phase::Failed { operation, .. } if operation == "h"));
    assert_eq!(
        machine.send(&hibernate("x")),
        Err(Rejection::NotRunning { phase: "failed" })
    );
}

#[test]
fn reports_of_another_life_are_stale() {
    let mut machine = is_up();
    for report in [
        running("w0"),
        lost("w0"),
        HIBERNATED,
        failed(),
        Command::Deleted,
        starting("w1"),
    ] {
        assert!(is_stale(machine.send(&report)), "{report:?}");
    }
    assert_eq!(machine.send(&running("w1")), Ok(vec![]), "said already");
    tell(&mut machine, &[lost("w1")]);
    assert!(is_stale(machine.send(&lost("w1"))));
    tell(&mut machine, &[ensure("o2")]);
    assert!(
        is_stale(machine.send(&starting("w1"))),
        "a wake id is used once"
    );
    assert!(is_stale(machine.send(&running("w1"))));
    assert_eq!(
        tell(&mut machine, &[starting("w2"), starting("w2")]),
        ["box.starting"]
    );
    assert_eq!(
        tell(&mut machine, &[starting("w3")]),
        ["box.starting"],
        "another attempt"
    );
    assert!(is_stale(machine.send(&running("w2"))));
}

#[test]
fn nobody_but_ensure_makes_a_box() {
    let mut machine = Machine::<State>::new();
    for command in [
        hibernate("o"),
        delete("o"),
        Command::Rename { name: "x".into() },
    ] {
        assert_eq!(machine.send(&command), Err(Rejection::NotFound));
    }
    tell(&mut machine, &[ensure("o")]);
    let mut other = ensure("o2");
    if let Command::Ensure { box_id, .. } = &mut other {
        *box_id = "c".into();
    }
    assert!(matches!(
        machine.send(&other),
        Err(Rejection::OtherBox { .. })
    ));
}

#[test]
fn anchors_only_go_on() {
    let mut machine = is_up();
    let anchor = |pos, n| Command::Anchor {
        box_log: log(1),
        pos,
        chain: ChainHash([n; 32]),
    };
    assert_eq!(
        tell(&mut machine, &[anchor(5, 1), anchor(5, 1), anchor(3, 9)]),
        ["box.log_anchored"]
    );
    assert_eq!(
        machine.send(&anchor(5, 2)),
        Err(Rejection::AnchorDiverged { pos: 5 })
    );
    assert_eq!(tell(&mut machine, &[anchor(9, 2)]).len(), 1);
    assert_eq!(machine.state.anchored, 9);
    let foreign = Command::Anchor {
        box_log: log(2),
        pos: 10,
        chain: ChainHash([1; 32]),
    };
    assert_eq!(
        machine.send(&foreign),
        Err(Rejection::OtherLog { asked: log(2) })
    );
}

#[test]
fn events_of_another_operation_are_illegal() {
    let mut machine = Machine::<State>::new();
    tell(
        &mut machine,
        &[
            ensure("o"),
            starting("w"),
            running("w"),
            hibernate("h"),
            ensure("v"),
        ],
    );
    tell(
        &mut machine,
        &[HIBERNATED, failed(), delete("d"), Command::Deleted],
    );
    let mut state = State::default();
    for event in &machine.history {
        let mut other = event.clone();
        let strange = || "other".to_owned();
        match &mut other {
            BoxEvent::Starting(e) => e.operation_id = strange(),
            BoxEvent::Running(e) => e.operation_id = strange(),
            BoxEvent::Hibernated(e) => e.operation_id = strange(),
            BoxEvent::Failed(e) => e.operation_id = strange(),
            BoxEvent::Deleted(e) => e.operation_id = strange(),
            _ => {}
        }
        if other != *event {
            let illegal = state.clone().evolve(&other).unwrap_err();
            assert_eq!(illegal.event, event.kind().name());
        }
        state = state.evolve(event).unwrap();
        assert!(state.clone().evolve(event).is_err(), "{event:?} twice");
    }
}

fn any_command() -> impl Strategy<Value = Command> {
    let wake = (0..6_u8).prop_map(|n| format!("w{n}"));
    prop_oneof![
        3 => Just(ensure("?")),
        3 => Just(hibernate("?")),
        1 => Just(delete("?")),
        1 => (0..3_u8).prop_map(|n| Command::Rename { name: format!("n{n}") }),
        4 => wake.clone().prop_map(|wake| starting(&wake)),
        4 => wake.clone().prop_map(|wake| running(&wake)),
        2 => any::<bool>().prop_map(|memory_kept| Command::Hibernated { memory_kept }),
        1 => wake.prop_map(|wake| lost(&wake)),
        1 => Just(failed()),
        1 => Just(Command::Deleted),
        1 => (1..9_u64).prop_map(|pos| Command::Anchor {
            box_log: log(1), pos, chain: ChainHash([1; 32])
        }),
    ]
}

/// Each request with an operation id of its own.
fn with_operation(mut command: Command, n: usize) -> Command {
    if let Command::Ensure { operation_id, .. }
    | Command::Hibernate { operation_id, .. }
    | Command::Delete { operation_id } = &mut command
    {
        *operation_id = format!("o{n}");
    }
    command
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_commands(commands in prop::collection::vec(any_command(), 0..60)) {
        let mut machine = Machine::<State>::new();
        for (n, command) in commands.into_iter().enumerate() {
            let command = with_operation(command, n);
            let before = machine.state.clone();
            let answer = machine.send(&command);
            let after = &machine.state;
            // Whatever is under way is owed, and the other way round.
            prop_assert_eq!(after.owed().is_some(), after.current_operation().is_some());
            match &answer {
                Err(_) => prop_assert_eq!(&before, after),
                // Saying it again changes nothing, whatever it was.
                Ok(events) => {
                    let again = after.decide(&with_operation(command.clone(), n + 1000));
                    let settled = matches!(&again, Ok(more) if more.is_empty())
                        || matches!(&again, Err(Rejection::Stale { .. }));
                    prop_assert!(settled, "{:?} then {:?}", events, again);
                }
            }
            prop_assert!(after.anchored >= before.anchored);
            if before.phase == Phase::Deleted {
                prop_assert_eq!(&after.phase, &Phase::Deleted);
            }
        }
        machine.check_fold();
        // From wherever it is, a reactor that pays brings it to rest, and a delete ends it.
        for round in 0..2 {
            for step in 0..8 {
                let wake = format!("r{round}{step}");
                match machine.state.owed() {
                    None => break,
                    Some(Debt::Start { .. }) => {
                        machine.send(&starting(&wake)).unwrap();
                        machine.send(&running(&wake)).unwrap();
                    }
                    Some(Debt::Stop { .. }) => drop(machine.send(&HIBERNATED).unwrap()),
                    Some(Debt::Remove { .. }) => drop(machine.send(&Command::Deleted).unwrap()),
                }
            }
            prop_assert_eq!(machine.state.owed(), None);
            if machine.state.exists() {
                machine.send(&delete("end")).unwrap();
            }
        }
        prop_assert!(!machine.state.exists() || machine.state.phase == Phase::Deleted);
    }

    /// Every operation that was asked for is ended by an event of its own or by a later request.
    #[test]
    fn operations_end(commands in prop::collection::vec(any_command(), 0..60)) {
        let mut machine = Machine::<State>::new();
        let mut open: Vec<String> = Vec::new();
        for (n, command) in commands.into_iter().enumerate() {
            let Ok(events) = machine.send(&with_operation(command, n)) else { continue };
            for event in events {
                match event {
                    BoxEvent::EnsureRequested(e) => open = vec![e.operation_id],
                    // Waits for the hibernation, which still gets its own ending.
                    BoxEvent::WakeRequested(e) => open.push(e.operation_id),
                    BoxEvent::HibernateRequested(e) => open = vec![e.operation_id],
                    BoxEvent::DeleteRequested(e) => open = vec![e.operation_id],
                    BoxEvent::Running(e) => open.retain(|id| *id != e.operation_id),
                    BoxEvent::Hibernated(e) => open.retain(|id| *id != e.operation_id),
                    BoxEvent::Failed(e) => open.retain(|id| *id != e.operation_id),
                    BoxEvent::Deleted(e) => open.retain(|id| *id != e.operation_id),
                    BoxEvent::Created(_) | BoxEvent::Renamed(_) | BoxEvent::Starting(_)
                    | BoxEvent::MachineLost(_) | BoxEvent::LogAnchored(_) => {}
                }
            }
            prop_assert_eq!(machine.state.owed().is_some(), !open.is_empty());
            prop_assert_eq!(machine.state.current_operation(), open.last().map(String::as_str));
        }
    }
}
