mod history;

use cocoonbox_commands::boxes::{Command, Debt, Phase, Rejection, State};
use cocoonbox_events::{BoxEvent, LogId};

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

fn exhausted(wake: &str, killed: u64) -> Command {
    Command::MemoryExhausted {
        wake_id: wake.into(),
        killed,
    }
}

fn failed() -> Command {
    Command::Failed {
        reason: "NO_SPACE".into(),
        detail: "full".into(),
    }
}

const HIBERNATED: Command = Command::Hibernated {
    memory_kept: false,
    quiesced: false,
};

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
fn a_box_is_kept_awake_until_somebody_says_otherwise() {
    let mut machine = is_up();
    let keep = |until_ms| Command::KeepAwake { until_ms };
    let told = tell(&mut machine, &[keep(0), keep(5), keep(5), keep(0)]);
    assert_eq!(told, ["box.kept_awake", "box.kept_awake"]);
    let refused = machine.send(&keep(-1));
    assert_eq!(refused, Err(Rejection::BadTime { until_ms: -1 }));
    tell(&mut machine, &[keep(7), delete("o9")]);
    assert_eq!(machine.state.awake_until_ms, 7);
    assert_eq!(machine.send(&keep(8)), Err(Rejection::BeingDeleted));
}

#[test]
fn a_full_memory_is_told_once_and_again_when_it_killed_more() {
    let mut machine = is_up();
    let told = tell(
        &mut machine,
        &[
            exhausted("w1", 0),
            exhausted("w1", 2),
            exhausted("w1", 2),
            exhausted("w1", 3),
        ],
    );
    assert_eq!(told, ["box.memory_exhausted", "box.memory_exhausted"]);
    assert_eq!(machine.state.memory_kills, 3);
    assert!(is_stale(machine.send(&exhausted("w0", 9))));
    tell(
        &mut machine,
        &[lost("w1"), ensure("o2"), starting("w2"), running("w2")],
    );
    assert_eq!(machine.state.memory_kills, 0, "another machine's memory");
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
