//! What a box remembers: anchors, rewinds, forks; and what can never follow.

use cocoonbox_commands::boxes::{Command, Debt, Origin, Phase, Rejection, State};
use cocoonbox_events::{Aggregate, BoxEvent, ChainHash, Parent};
use cocoonbox_proto::log::v1::{ModelChoice, ModelRoles, Wire};
use proptest::prelude::*;

use super::{
    HIBERNATED, delete, ensure, exhausted, failed, hibernate, is_up, log, lost, running, starting,
    tell,
};
use crate::machine::Machine;

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
        2 => any::<(bool, bool)>().prop_map(|(memory_kept, quiesced)| Command::Hibernated {
            memory_kept,
            quiesced,
        }),
        1 => wake.clone().prop_map(|wake| lost(&wake)),
        1 => (wake, 1..4_u64).prop_map(|(wake, killed)| exhausted(&wake, killed)),
        1 => (0..3_i64).prop_map(|until_ms| Command::KeepAwake { until_ms }),
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

fn rewound(old: u8, new: u8, common: u64) -> Command {
    Command::LogRewound {
        new_log: log(new),
        parent: Parent {
            log: log(old),
            pos: common,
            chain: ChainHash([old; 32]),
        },
        left_pos: common + 3,
        reason: "OLDER_DISK".into(),
    }
}

#[test]
fn a_rewound_log_goes_on_in_its_branch() {
    let mut machine = Machine::<State>::new();
    let anchor = |n: u8, pos| Command::Anchor {
        box_log: log(n),
        pos,
        chain: ChainHash([n; 32]),
    };
    tell(
        &mut machine,
        &[ensure("e"), starting("w"), running("w"), anchor(1, 9)],
    );
    tell(&mut machine, &[rewound(1, 2, 5)]);
    let state = &machine.state;
    assert_eq!(state.box_log, Some(log(2)));
    assert_eq!(
        state.parent.map(|parent| (parent.log, parent.pos)),
        Some((log(1), 5))
    );
    assert_eq!((state.anchored, state.anchored_chain), (5, None));
    // Told twice, told of what was left, told in another way.
    assert_eq!(state.decide(&rewound(1, 2, 5)), Ok(Vec::new()));
    let left = Err(Rejection::OtherLog { asked: log(1) });
    assert_eq!(state.decide(&rewound(1, 3, 5)), left);
    assert_eq!(state.decide(&anchor(1, 12)), left);
    assert_eq!(state.decide(&rewound(1, 2, 4)), left);
    tell(&mut machine, &[anchor(2, 6), rewound(2, 3, 6)]);
    assert_eq!(machine.state.anchored, 6);
    tell(&mut machine, &[delete("d")]);
    assert_eq!(
        machine.state.decide(&rewound(3, 4, 6)),
        Err(Rejection::BeingDeleted)
    );
    machine.check_fold();
}

fn models(name: &str) -> ModelRoles {
    ModelRoles {
        main: Some(ModelChoice {
            wire: Wire::OpenaiChat.into(),
            model: name.into(),
            ..ModelChoice::default()
        }),
        ..ModelRoles::default()
    }
}

#[test]
fn models_are_set_in_any_phase_but_the_last() {
    let mut machine = Machine::<State>::new();
    let set = |models: ModelRoles| Command::SetModels { models };
    let decide = |machine: &Machine<State>, name| machine.state.decide(&set(models(name)));
    assert_eq!(decide(&machine, "a"), Err(Rejection::NotFound));
    tell(&mut machine, &[ensure("e"), set(models("a"))]);
    assert_eq!(machine.state.models, models("a"));
    assert_eq!(decide(&machine, "a"), Ok(vec![]), "as they are");
    assert!(matches!(decide(&machine, ""), Err(Rejection::BadModels(_))));
    tell(&mut machine, &[set(ModelRoles::default())]);
    assert_eq!(machine.state.models, ModelRoles::default());
    assert_eq!(machine.state.current_operation(), Some("e"));
    tell(&mut machine, &[delete("d")]);
    assert_eq!(decide(&machine, "a"), Err(Rejection::BeingDeleted));
    machine.check_fold();
}

#[test]
fn a_fork_remembers_where_it_is_from() {
    let mut machine = Machine::<State>::new();
    let fork = |operation: &str| Command::Fork {
        box_id: "b".into(),
        flavor: 1,
        name: "copy".into(),
        box_log: log(2),
        user_id: "u".into(),
        origin: Box::new(Origin {
            box_id: "a".into(),
            at: Parent {
                log: log(1),
                pos: 7,
                chain: ChainHash([1; 32]),
            },
            snapshot_id: Some("s1".into()),
        }),
        models: models("m"),
        operation_id: operation.into(),
    };
    tell(&mut machine, &[fork("f")]);
    assert_eq!(machine.state.models, models("m"));
    let origin = machine.state.origin.clone().unwrap();
    assert_eq!((origin.box_id.as_str(), origin.at.pos), ("a", 7));
    assert_eq!(origin.snapshot_id.as_deref(), Some("s1"));
    assert_eq!(machine.state.parent, Some(origin.at));
    assert_eq!(machine.state.current_operation(), Some("f"));
    assert_eq!(machine.state.decide(&fork("g")), Err(Rejection::Exists));
    machine.check_fold();
}

#[test]
fn only_a_quiesced_box_counts_as_quiesced() {
    let mut machine = Machine::<State>::new();
    let slept = Command::Hibernated {
        memory_kept: false,
        quiesced: true,
    };
    tell(
        &mut machine,
        &[
            ensure("e"),
            starting("w"),
            running("w"),
            hibernate("h"),
            slept,
        ],
    );
    assert!(machine.state.quiesced);
    tell(&mut machine, &[ensure("f"), starting("x")]);
    assert!(machine.state.quiesced);
    tell(&mut machine, &[running("x")]);
    assert!(!machine.state.quiesced);
    tell(&mut machine, &[lost("x")]);
    assert!(!machine.state.quiesced);
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
                    BoxEvent::Created(_) | BoxEvent::Renamed(_) | BoxEvent::ModelsSet(_)
                    | BoxEvent::MemoryExhausted(_) | BoxEvent::KeptAwake(_)
                    | BoxEvent::Starting(_)
                    | BoxEvent::MachineLost(_) | BoxEvent::LogAnchored(_)
                    | BoxEvent::LogRewound(_) => {}
                }
            }
            prop_assert_eq!(machine.state.owed().is_some(), !open.is_empty());
            prop_assert_eq!(machine.state.current_operation(), open.last().map(String::as_str));
        }
    }
}
