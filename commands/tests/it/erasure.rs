//! What is owed after an erasure was asked for, and what other aggregates make of one.

use cocoonbox_commands::{
    directory,
    erasure::{boxed, own},
    exec,
};
use cocoonbox_events::{
    Aggregate, ExecEvent, LogId, Payload,
    erasure::{self, POSITIONS_MAX, REASON_BYTES_MAX},
};
use cocoonbox_proto::log::v1::{
    ExecExited, ExecStarted, Husk, OutputSummary, exec_exited::Reason, exec_output_streamed::Source,
};
use proptest::prelude::*;

use crate::machine::Machine;

fn request(positions: &[u64]) -> own::Command {
    own::Command::Request {
        positions: positions.to_vec(),
        reason: "a slip".into(),
        husks: positions
            .iter()
            .map(|pos| Husk {
                pos: *pos,
                ..Husk::default()
            })
            .collect(),
    }
}

fn done(positions: &[u64]) -> own::Command {
    let positions = positions.to_vec();
    own::Command::Done { positions }
}

#[test]
fn what_is_asked_for_is_owed_until_it_is_done() {
    let mut log = Machine::<own::State>::new();
    log.send(&request(&[3, 5])).unwrap();
    assert_eq!(log.state.owed(), [3, 5]);
    let again = log.send(&request(&[5, 7])).unwrap();
    let [cocoonbox_events::LogEvent::ErasureRequested(asked)] = &again[..] else {
        panic!("{again:?}")
    };
    assert_eq!((&asked.positions[..], asked.husks.len()), (&[7][..], 1));
    assert_eq!(log.send(&request(&[3, 7])), Ok(vec![]));
    log.send(&done(&[3, 7])).unwrap();
    assert_eq!(log.state.owed(), [5]);
    assert_eq!(log.send(&done(&[3])), Ok(vec![]));
    assert_eq!(
        log.send(&done(&[5, 9])),
        Err(own::Rejection::NotRequested { pos: 9 })
    );
    log.send(&done(&[5])).unwrap();
    assert!(log.state.owed().is_empty());
    log.check_fold();
}

#[test]
fn requests_are_bounded() {
    let log = own::State::default();
    let many: Vec<u64> = (1..=POSITIONS_MAX as u64 + 1).collect();
    assert!(matches!(
        log.decide(&request(&many)),
        Err(own::Rejection::TooMany { .. })
    ));
    for reason in ["x".repeat(REASON_BYTES_MAX + 1), "two\nlines".into()] {
        let own::Command::Request {
            positions, husks, ..
        } = request(&[1])
        else {
            unreachable!()
        };
        let asked = own::Command::Request {
            positions,
            reason,
            husks,
        };
        assert!(matches!(
            log.decide(&asked),
            Err(own::Rejection::BadReason { .. })
        ));
    }
}

fn of_box(request_id: &str) -> boxed::Command {
    boxed::Command::Request {
        request_id: request_id.into(),
        box_id: "b1".into(),
        box_log: LogId::from_slice(&[7; 16]).unwrap(),
        positions: vec![4],
        reason: String::new(),
    }
}

#[test]
fn a_box_that_sleeps_owes_what_the_replica_has_done() {
    let mut account = Machine::<boxed::State>::new();
    account.send(&of_box("r1")).unwrap();
    assert_eq!(account.send(&of_box("r1")), Ok(vec![]));
    account.send(&of_box("r2")).unwrap();
    let id = |id: &str| id.to_owned();
    account
        .send(&boxed::Command::ReplicaErased {
            request_id: id("r1"),
        })
        .unwrap();
    let owed: Vec<_> = account.state.owed().map(|owed| owed.in_replica).collect();
    assert_eq!(owed, [true, false]);
    account
        .send(&boxed::Command::BoxErased {
            request_id: id("r1"),
        })
        .unwrap();
    account
        .send(&boxed::Command::ReplicaErased {
            request_id: id("r2"),
        })
        .unwrap();
    account
        .send(&boxed::Command::BoxGone {
            request_id: id("r2"),
        })
        .unwrap();
    assert_eq!(account.state.owed().count(), 0);
    let stray = boxed::Command::BoxErased {
        request_id: id("r3"),
    };
    assert!(matches!(
        account.send(&stray),
        Err(boxed::Rejection::NotFound { .. })
    ));
    account.check_fold();
}

fn add(id: &str, name: &str, admin: bool) -> directory::Command {
    directory::Command::AddUser {
        user_id: id.into(),
        name: name.into(),
        account_log: LogId::from_slice(&[1; 16]).unwrap(),
        admin,
    }
}

fn delete(id: &str, force: bool) -> directory::Command {
    directory::Command::RequestDeletion {
        user_id: id.into(),
        force,
    }
}

#[test]
fn the_last_admin_stays_unless_forced() {
    let mut all = Machine::<directory::State>::new();
    for (id, admin) in [("u1", true), ("u2", true), ("u3", false)] {
        all.send(&add(id, &format!("name-{id}"), admin)).unwrap();
    }
    all.send(&delete("u1", false)).unwrap();
    assert_eq!(all.send(&delete("u1", false)), Ok(vec![]));
    // The one who leaves does not count.
    let refused = all.send(&delete("u2", false));
    assert_eq!(refused, Err(directory::Rejection::LastAdmin));
    all.send(&delete("u3", false)).unwrap();
    all.send(&delete("u2", true)).unwrap();
    let unknown = all.send(&delete("u9", true));
    assert!(matches!(
        unknown,
        Err(directory::Rejection::NoSuchUser { .. })
    ));
    assert!(all.state.users().all(|user| user.leaving));
}

#[test]
fn a_directory_folds_over_names_that_are_erased() {
    let mut all = Machine::<directory::State>::new();
    all.send(&add("u1", "ann", false)).unwrap();
    all.send(&add("u2", "bob", false)).unwrap();
    all.send(&delete("u1", false)).unwrap();
    let remove = directory::Command::RemoveUser {
        user_id: "u1".into(),
    };
    all.send(&remove).unwrap();
    all.send(&add("u3", "ann", false)).unwrap();
    let mut erased = directory::State::default();
    for event in &all.history {
        let payload: Payload = event.clone().into();
        // The names of u1 and, long after, of the other two.
        let left = erasure::husk(&payload).unwrap_or(payload);
        let event = directory::State::pick(left).unwrap();
        erased = erased.evolve(&event).unwrap();
    }
    let ids = |state: &directory::State| -> Vec<String> {
        state.users().map(|user| user.user_id.clone()).collect()
    };
    assert_eq!(ids(&erased), ids(&all.state));
    assert!(erased.by_name("ann").is_none() && erased.by_name("").is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The outputs of an exec are as long as they were, and it has ended as it has.
    #[test]
    fn an_exec_is_as_long_as_it_was(
        chunks in prop::collection::vec((any::<bool>(), 0..20_usize, 0..5_u64), 0..12),
        chosen in prop::collection::vec(any::<bool>(), 1..16),
    ) {
        let mut it = Machine::<exec::State>::new();
        it.send(&exec::Command::Start(ExecStarted {
            exec_id: "e1".into(),
            argv: vec!["cat".into(), "secret.txt".into()],
            cwd: "/workspace".into(),
            ..ExecStarted::default()
        }))
        .unwrap();
        for (is_stdout, bytes, skipped) in chunks {
            let source = if is_stdout { Source::Stdout } else { Source::Stderr };
            let offset = it.state.bytes(source) + skipped;
            it.send(&exec::Command::Output { source, offset, data: vec![b'x'; bytes], skipped }).unwrap();
        }
        it.send(&exec::Command::Exit(ExecExited {
            reason: Reason::Exited.into(),
            code: 3,
            stdout: Some(OutputSummary { total_bytes: 9, head: b"xxxxxxxxx".to_vec(), ..OutputSummary::default() }),
            ..ExecExited::default()
        }))
        .unwrap();
        let mut erased = exec::State::default();
        for (event, chosen) in it.history.iter().zip(chosen.iter().cycle()) {
            let payload: Payload = event.clone().into();
            let left = if *chosen { erasure::husk(&payload).unwrap() } else { payload };
            erased = erased.evolve(&ExecEvent::pick(left).unwrap()).unwrap();
        }
        prop_assert_eq!(erased.stdout_bytes, it.state.stdout_bytes);
        prop_assert_eq!(erased.stderr_bytes, it.state.stderr_bytes);
        let end = |state: &exec::State| {
            let exited = state.exited.clone().unwrap();
            (exited.reason, exited.code, exited.stdout.unwrap().total_bytes)
        };
        prop_assert_eq!(end(&erased), end(&it.state));
        prop_assert_eq!(erased.started.unwrap().exec_id, "e1");
    }
}
