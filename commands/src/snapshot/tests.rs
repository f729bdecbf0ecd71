use cocoonbox_events::{Aggregate as _, ChainHash, LogId, Parent, SnapshotEvent};
use cocoonbox_proto::log::v1 as log;
use proptest::prelude::*;

use super::*;

fn at(pos: u64) -> Parent {
    Parent {
        log: LogId::from_slice(&[7; 16]).unwrap(),
        pos,
        chain: ChainHash([9; 32]),
    }
}

fn save(id: &str, reason: &'static str) -> Command {
    Command::RequestSave {
        save_id: id.to_owned(),
        reason,
        only_if_changed: ![reason::ASKED, reason::TOOL].contains(&reason),
        tool_call_id: if reason == reason::TOOL {
            format!("of {id}")
        } else {
            String::new()
        },
    }
}

fn begin(id: &str) -> Command {
    Command::Begin {
        save_id: id.to_owned(),
        at: at(5),
    }
}

fn commit(id: &str, snapshot: &str) -> Command {
    Command::Commit(log::SnapshotCommitted {
        save_id: id.to_owned(),
        snapshot_id: snapshot.to_owned(),
        ..log::SnapshotCommitted::default()
    })
}

fn restore(id: &str, snapshot: &str, path: &str) -> Command {
    Command::RequestRestore {
        restore_id: id.to_owned(),
        snapshot_id: snapshot.to_owned(),
        paths: vec![path.as_bytes().to_vec()],
        in_place: true,
    }
}

fn after(state: State, command: &Command) -> State {
    let events = state.decide(command).unwrap();
    events
        .iter()
        .fold(state, |state, event| state.evolve(event).unwrap())
}

fn told(commands: &[Command]) -> State {
    told_on(State::default(), commands)
}

fn told_on(state: State, commands: &[Command]) -> State {
    commands.iter().fold(state, after)
}

#[test]
fn saves_are_done_one_after_the_other() {
    let state = told(&[save("a", reason::ASKED), save("b", reason::ASKED)]);
    assert_eq!(
        state.decide(&begin("b")),
        Err(Rejection::NotNext { id: "b".into() })
    );
    let state = after(state, &begin("a"));
    // A process that takes over begins again.
    let state = after(state, &begin("a"));
    let state = after(state, &commit("a", "s1"));
    assert_eq!(
        state.decide(&commit("a", "s1")),
        Err(Rejection::NotOwed { id: "a".into() })
    );
    assert_eq!(state.next_save().unwrap().id, "b");
    assert!(state.kept.contains_key("s1"));
}

#[test]
fn what_nobody_asked_for_joins_a_save_that_has_not_begun() {
    let waiting = told(&[save("a", reason::ASKED)]);
    assert_eq!(waiting.decide(&save("t", reason::TURN)), Ok(vec![]));
    let begun = after(waiting, &begin("a"));
    let state = after(begun, &save("t", reason::TURN));
    assert_eq!(state.saves.len(), 2);
    assert_eq!(state.decide(&save("u", reason::HIBERNATE)), Ok(vec![]));
    // Who asks gets a save of their own.
    assert_eq!(after(state, &save("v", reason::ASKED)).saves.len(), 3);
}

#[test]
fn a_tool_call_has_a_save_of_its_own_that_names_it() {
    let waiting = told(&[save("a", reason::ASKED), save("t", reason::TOOL)]);
    assert_eq!(waiting.saves.len(), 2);
    // Asked again after a stream broke, it is the same one.
    assert_eq!(waiting.decide(&save("t", reason::TOOL)), Ok(vec![]));
    let state = told_on(waiting, &[begin("a"), commit("a", "s1"), begin("t")]);
    let events = state.decide(&commit("t", "s2")).unwrap();
    let SnapshotEvent::Committed(kept) = &events[0] else {
        panic!("{events:?}")
    };
    assert_eq!(
        (kept.reason.as_str(), kept.tool_call_id.as_str()),
        (reason::TOOL, "of t")
    );
    let nameless = Command::RequestSave {
        save_id: "x".into(),
        reason: reason::TOOL,
        only_if_changed: false,
        tool_call_id: String::new(),
    };
    let field = "tool_call_id";
    assert_eq!(state.decide(&nameless), Err(Rejection::Empty { field }));
}

#[test]
fn what_is_owed_is_bounded() {
    let full: Vec<_> = (0..OWED_MAX)
        .map(|n| save(&n.to_string(), reason::ASKED))
        .collect();
    let state = told(&full);
    let refused = state.decide(&save("more", reason::ASKED));
    assert_eq!(refused, Err(Rejection::TooMany));
}

#[test]
fn a_restore_in_place_waits_for_its_save() {
    let state = told(&[save("a", reason::ASKED), begin("a"), commit("a", "s1")]);
    let state = after(state, &restore("r", "s1", "/workspace/x"));
    assert_eq!(state.next_restore(), None);
    let saved = after(after(state.clone(), &begin("r")), &commit("r", "s2"));
    assert_eq!(saved.next_restore().unwrap().undo.as_deref(), Some("s2"));
    let fail = Command::Fail {
        save_id: "r".into(),
        reason: "DISK_FULL",
        detail: String::new(),
    };
    let failed = after(state, &fail);
    assert!(failed.next_restore().unwrap().is_unsaved);
}

#[test]
fn only_what_is_kept_is_restored_and_only_sound_paths() {
    let state = told(&[save("a", reason::ASKED), begin("a"), commit("a", "s1")]);
    let unknown = state.decide(&restore("r", "s9", "/x"));
    assert!(matches!(unknown, Err(Rejection::NoSuchSnapshot { .. })));
    for path in ["x", "/", "/a/../b", "/./a", "/a//b", "/a/", "/a\0b", ""] {
        let refused = state.decide(&restore("r", "s1", path));
        assert!(matches!(refused, Err(Rejection::BadPath(_))), "{path:?}");
    }
    let none = Command::RequestRestore {
        restore_id: "r".into(),
        snapshot_id: "s1".into(),
        paths: vec![],
        in_place: false,
    };
    assert_eq!(state.decide(&none), Err(BadPath::Count.into()));
}

#[test]
fn a_box_that_is_gone_keeps_and_owes_nothing() {
    let state = told(&[
        save("a", reason::ASKED),
        begin("a"),
        commit("a", "s1"),
        save("b", reason::ASKED),
        restore("r", "s1", "/x"),
    ]);
    let prune = Command::PruneAll {
        reason: "BOX_DELETED",
    };
    let gone = after(state, &prune);
    assert!(!gone.owes() && gone.kept.is_empty());
    assert_eq!(gone.decide(&prune), Ok(vec![]));
}

#[test]
fn a_restore_in_place_is_taken_back_once() {
    let undo = |id: &str, of: Option<&str>| Command::RequestUndo {
        restore_id: id.into(),
        of: of.map(str::to_owned),
    };
    let restored = |id: &str| {
        Command::Restored(log::SnapshotRestored {
            restore_id: id.into(),
            ..log::SnapshotRestored::default()
        })
    };
    let done = |state: State, id: &str, asked: &Command, before: &str| {
        told_on(
            state,
            &[asked.clone(), begin(id), commit(id, before), restored(id)],
        )
    };
    let state = told(&[save("a", reason::ASKED), begin("a"), commit("a", "s1")]);
    assert_eq!(
        state.decide(&undo("u", None)),
        Err(Rejection::NothingToUndo)
    );
    let state = done(state, "r1", &restore("r1", "s1", "/home/user/x"), "b1");
    let state = done(state, "r2", &restore("r2", "s1", "/home/user/y"), "b2");
    // The last one, and after it the one before.
    let asked = state.decide(&undo("u2", None)).unwrap();
    let SnapshotEvent::RestoreRequested(request) = &asked[1] else {
        panic!("{asked:?}")
    };
    assert_eq!(
        (
            &request.snapshot_id[..],
            &request.undone_snapshot_id[..],
            &request.undo_of[..]
        ),
        ("b2", "s1", "r2")
    );
    assert_eq!(request.paths, [b"/home/user/y".to_vec()]);
    let under_way = after(state.clone(), &undo("u2", None));
    for needed in ["b2", "s1"] {
        let forget = Command::Forget {
            snapshot_id: needed.into(),
        };
        assert!(
            matches!(under_way.decide(&forget), Err(Rejection::InUse { .. })),
            "{needed}"
        );
    }
    let twice = under_way.decide(&undo("u3", Some("r2")));
    assert!(matches!(twice, Err(Rejection::Undone { .. })));
    let state = done(state, "u2", &undo("u2", None), "b3");
    let twice = state.decide(&undo("u3", Some("r2")));
    assert!(matches!(twice, Err(Rejection::Undone { .. })));
    let state = done(state, "u1", &undo("u1", None), "b4");
    assert_eq!(
        state.decide(&undo("u", None)),
        Err(Rejection::NothingToUndo)
    );
    // One that failed on its way can be taken back; what was saved before it has to be there.
    let failed = Command::RestoreFailed {
        restore_id: "r3".into(),
        reason: "DISK_FULL",
        detail: String::new(),
    };
    let asked = restore("r3", "s1", "/home/user/z");
    let state = told_on(state, &[asked, begin("r3"), commit("r3", "b5"), failed]);
    assert_eq!(state.decide(&undo("u3", Some("r3"))).unwrap().len(), 2);
    let forget = Command::Forget {
        snapshot_id: "b5".into(),
    };
    let gone = after(state, &forget).decide(&undo("u3", None));
    assert!(matches!(gone, Err(Rejection::NoSuchSnapshot { .. })));
}

#[test]
fn pins_are_of_what_is_kept_and_survive_pruning() {
    let mut state = State::default();
    for id in ["s1", "s2", "s3"] {
        state = told_on(state, &[save(id, reason::ASKED), begin(id), commit(id, id)]);
    }
    let pin = |id: &str, is_pinned| Command::Pin {
        snapshot_id: id.into(),
        is_pinned,
    };
    let unknown = state.decide(&pin("s9", true));
    assert!(matches!(unknown, Err(Rejection::NoSuchSnapshot { .. })));
    let state = after(state, &pin("s1", true));
    assert_eq!(state.decide(&pin("s1", true)), Ok(vec![]));
    let prune = Command::Prune {
        rule: Rule::default(),
        now_ms: 1 << 50,
        held: std::collections::BTreeSet::new(),
    };
    let pruned = after(state.clone(), &prune);
    assert_eq!(pruned.kept.keys().collect::<Vec<_>>(), ["s1", "s3"]);
    assert_eq!(pruned.decide(&prune), Ok(vec![]));
    let unpinned = after(after(state, &pin("s1", false)), &prune);
    assert_eq!(unpinned.kept.keys().collect::<Vec<_>>(), ["s3"]);
}

proptest! {
    /// Whatever comes in whatever order: what is decided can be folded, and nothing is owed beyond the bound.
    #[test]
    fn whatever_is_decided_can_be_folded(steps in proptest::collection::vec((0..9_u8, 0..4_u8), 0..60)) {
        let mut state = State::default();
        for (what, which) in steps {
            let id = which.to_string();
            let command = match what {
                0 => save(&id, reason::ASKED),
                1 => save(&id, reason::TURN),
                2 => begin(&id),
                3 => commit(&id, &format!("s{id}")),
                4 => Command::Unchanged { save_id: id.clone(), snapshot_id: "s1".into(), at: at(3) },
                5 => Command::Fail { save_id: id, reason: "X", detail: String::new() },
                6 => restore(&id, "s1", "/a"),
                7 => Command::RestoreFailed { restore_id: id, reason: "X", detail: String::new() },
                _ => Command::PruneAll { reason: "BOX_DELETED" },
            };
            let events: Vec<SnapshotEvent> = state.decide(&command).unwrap_or_default();
            for event in &events {
                state = state.evolve(event).unwrap();
            }
            prop_assert!(state.saves.len() + state.restores.len() <= OWED_MAX + 1);
            prop_assert!(state.saves.iter().skip(1).all(|save| !save.has_begun));
        }
    }
}
