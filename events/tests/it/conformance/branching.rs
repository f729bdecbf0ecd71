use cocoonbox_events::{
    Append, AppendError, Checkpoint, Expect, LogId, NewLog, OffsetKey, Parent, ReadError, Recorded,
    ReplicaError, Store, chain::Verifier,
};
use uuid::Uuid;

use crate::support::{
    Fixture, append, committed, expecting, memory, new_log, opened, read_all, replayed, stream,
    text_of,
};

/// What an append to a closed log or of an unknown parent is answered with; the answer itself says
/// nothing.
fn refused<T: std::fmt::Debug, E: std::fmt::Debug>(answer: Result<T, E>) -> E {
    answer.unwrap_err()
}

/// A log with the events 1 to 4 on two streams.
async fn trunk(store: &dyn Store) -> (LogId, Vec<Recorded>) {
    let log = opened(store).await;
    for (name, text) in [
        ("agent/a", "1"),
        ("exec/b", "2"),
        ("agent/a", "3"),
        ("agent/a", "4"),
    ] {
        committed(store.append(log, append(&[(name, text)])).await);
    }
    (log, read_all(store, log, 0).await)
}

fn branch(log: LogId, at: &Recorded) -> NewLog {
    NewLog {
        parent: Some(Parent {
            log,
            pos: at.pos,
            chain: at.chain,
        }),
        ..new_log()
    }
}

fn texts(events: &[Recorded]) -> String {
    let texts = events.iter().filter_map(text_of);
    texts.collect::<Vec<_>>().join(" ")
}

pub(super) async fn a_branch_goes_on_where_it_parted(f: Fixture) {
    let store = &*f.store;
    let (log, events) = trunk(store).await;
    let new = branch(log, &events[1]);
    let tail = store.open(new.clone()).await.unwrap();
    assert_eq!((tail.log, tail.pos), (new.id, 2));
    assert_eq!(store.chain_at(new.id, 2).await.unwrap(), tail.chain);
    assert_eq!(store.chain_at(new.id, 1).await.unwrap(), events[0].chain);
    assert_eq!(*store.doorbell(new.id).unwrap().borrow(), 2);

    // Events behind the parting do not count here: `agent/a` is at 1, not at 3.
    let other = expecting(
        append(&[("agent/a", "no")]),
        &[("agent/a", Expect::Exactly(3))],
    );
    let conflict = refused(store.append(new.id, other).await);
    assert!(matches!(conflict, AppendError::Conflict { actual: 1, .. }));
    let third = expecting(
        append(&[("agent/a", "x"), ("exec/c", "y")]),
        &[("agent/a", Expect::Exactly(1))],
    );
    let range = committed(store.append(new.id, third).await);
    assert_eq!((range.first, range.last), (3, 4));

    let seen = read_all(store, new.id, 0).await;
    assert_eq!(texts(&seen), "1 2 x y");
    assert_eq!(seen[..2], events[..2]);
    assert!(seen[2..].iter().all(|event| event.log == new.id));
    assert_eq!(
        seen.iter().map(|event| event.seq).collect::<Vec<_>>(),
        [1, 1, 2, 1]
    );
    let mut verifier = Verifier::after(2, tail.chain);
    seen[2..]
        .iter()
        .for_each(|event| verifier.check(event).unwrap());

    let mut agent = Vec::new();
    loop {
        let after = agent.last().map_or(0, |event: &Recorded| event.seq);
        let page = store
            .read_stream(new.id, &stream("agent/a"), after, 9)
            .await
            .unwrap();
        if page.events.is_empty() {
            break;
        }
        agent.extend(page.events);
    }
    assert_eq!(texts(&agent), "1 x");

    // The trunk is as it was, and goes on.
    committed(store.append(log, append(&[("agent/a", "5")])).await);
    assert_eq!(texts(&read_all(store, log, 0).await), "1 2 3 4 5");
    let info = store.info(new.id).unwrap();
    assert_eq!((info.parent, info.moved_to), (new.parent, None));
    assert_eq!(store.open(new.clone()).await.unwrap().pos, 4);
}

pub(super) async fn a_branch_of_a_branch_is_one_history(f: Fixture) {
    let store = &*f.store;
    let (log, events) = trunk(store).await;
    let first = branch(log, &events[2]);
    store.open(first.clone()).await.unwrap();
    let kept: Append = append(&[("agent/a", "x")]);
    committed(store.append(first.id, kept.clone()).await);
    let left: Append = append(&[("agent/a", "y")]);
    committed(store.append(first.id, left.clone()).await);
    let x = read_all(store, first.id, 3).await.remove(0);

    // One that parts in the middle of the first, and one that parts before the first begins.
    let second = branch(first.id, &x);
    store.open(second.clone()).await.unwrap();
    committed(store.append(second.id, append(&[("agent/a", "z")])).await);
    assert_eq!(texts(&read_all(store, second.id, 0).await), "1 2 3 x z");
    let early = branch(first.id, &events[0]);
    store.open(early.clone()).await.unwrap();
    committed(store.append(early.id, append(&[("agent/a", "w")])).await);
    assert_eq!(texts(&read_all(store, early.id, 0).await), "1 w");
    assert_eq!(read_all(store, early.id, 0).await[1].seq, 2);

    // What happened before the parting happened here too; what was left behind did not.
    assert_eq!(
        replayed(store.append(second.id, kept.clone()).await).last,
        4
    );
    let known = store.happened(second.id, kept.command).await.unwrap();
    assert_eq!(known.map(|known| known.range.last), Some(4));
    assert!(
        store
            .happened(second.id, left.command)
            .await
            .unwrap()
            .is_none()
    );
    committed(store.append(second.id, left).await);
    assert!(
        store
            .happened(early.id, kept.command)
            .await
            .unwrap()
            .is_none()
    );
}

pub(super) async fn a_branch_needs_its_parent(f: Fixture) {
    let store = &*f.store;
    let (log, events) = trunk(store).await;
    let mut nowhere = branch(log, &events[1]);
    nowhere.parent.as_mut().unwrap().log = LogId(Uuid::now_v7());
    let none = refused(store.open(nowhere.clone()).await);
    assert!(matches!(none, AppendError::NoSuchLog { log } if log == nowhere.parent.unwrap().log));
    let mut elsewhere = branch(log, &events[1]);
    elsewhere.parent.as_mut().unwrap().pos = 3;
    let other = refused(store.open(elsewhere).await);
    assert!(matches!(other, AppendError::OtherHistory { pos: 3, .. }));
    let mut ahead = branch(log, &events[3]);
    ahead.parent.as_mut().unwrap().pos = 9;
    let other = refused(store.rewind(ahead).await);
    assert!(matches!(other, AppendError::OtherHistory { pos: 9, .. }));
    let stranger = NewLog {
        owner: "eve".into(),
        ..branch(log, &events[1])
    };
    assert!(matches!(
        refused(store.open(stranger).await),
        AppendError::OtherLog { .. }
    ));
    let orphan = refused(store.rewind(new_log()).await);
    assert!(matches!(orphan, AppendError::NoParent));
    committed(store.append(log, append(&[("agent/a", "5")])).await);
}

pub(super) async fn a_rewind_closes_what_it_leaves(f: Fixture) {
    let store = &*f.store;
    let (log, events) = trunk(store).await;
    let done = append(&[("agent/a", "5")]);
    committed(store.append(log, done.clone()).await);
    let new = branch(log, &events[1]);
    let tail = store.rewind(new.clone()).await.unwrap();
    assert_eq!(store.rewind(new.clone()).await.unwrap(), tail);
    assert_eq!(store.info(log).unwrap().moved_to, Some(new.id));
    assert_eq!(store.current(log).unwrap(), new.id);

    let late = refused(store.append(log, append(&[("agent/a", "late")])).await);
    assert!(matches!(late, AppendError::Moved { to, .. } if to == new.id));
    let rival = refused(store.rewind(branch(log, &events[2])).await);
    assert!(matches!(rival, AppendError::Moved { to, .. } if to == new.id));
    // Repeating what happened is not writing.
    assert_eq!(replayed(store.append(log, done).await).last, 5);
    store.replicate(log, events.clone()).await.unwrap();
    let source = memory();
    source
        .store
        .open(NewLog {
            id: log,
            ..new_log()
        })
        .await
        .unwrap();
    source
        .store
        .replicate(log, read_all(store, log, 0).await)
        .await
        .unwrap();
    committed(source.store.append(log, append(&[("agent/a", "6")])).await);
    let fresh = read_all(&*source.store, log, 5).await;
    let moved = refused(store.replicate(log, fresh).await);
    assert!(matches!(
        moved,
        ReplicaError::Store(AppendError::Moved { .. })
    ));

    committed(store.append(new.id, append(&[("agent/a", "x")])).await);
    assert_eq!(texts(&read_all(store, new.id, 0).await), "1 2 x");
    assert_eq!(texts(&read_all(store, log, 0).await), "1 2 3 4 5");
}

pub(super) async fn keys_of_ancestors_resume_or_say_where_they_part(f: Fixture) {
    let store = &*f.store;
    let (log, events) = trunk(store).await;
    let new = branch(log, &events[1]);
    store.rewind(new.clone()).await.unwrap();
    committed(
        store
            .append(new.id, append(&[("agent/a", "x"), ("agent/a", "y")]))
            .await,
    );
    for event in read_all(store, new.id, 0).await {
        assert_eq!(
            store.resume(new.id, &event.offset_key()).await.unwrap(),
            event.pos
        );
    }
    let start = OffsetKey::new(log, 0, store.chain_at(log, 0).await.unwrap());
    assert_eq!(store.resume(new.id, &start).await.unwrap(), 0);
    for event in &events[2..] {
        let moved = refused(store.resume(new.id, &event.offset_key()).await);
        assert!(matches!(moved, ReadError::Moved { to, common: 2 } if to == new.id));
        // Who looks at the old branch itself sees all of it.
        assert_eq!(
            store.resume(log, &event.offset_key()).await.unwrap(),
            event.pos
        );
    }
    let mut forged = events[1].offset_key();
    forged.chain[0] ^= 1;
    let diverged = refused(store.resume(new.id, &forged).await);
    assert!(matches!(diverged, ReadError::Diverged { pos: 2 }));
    let child = read_all(store, new.id, 2).await[0].offset_key();
    let other = refused(store.resume(log, &child).await);
    assert!(matches!(other, ReadError::OtherLog { .. }));
}

pub(super) async fn a_branch_is_replicated(f: Fixture) {
    let source = memory();
    let (log, events) = trunk(&*source.store).await;
    let new = branch(log, &events[1]);
    source.store.open(new.clone()).await.unwrap();
    let first = append(&[("agent/a", "x"), ("exec/b", "y")]);
    committed(source.store.append(new.id, first.clone()).await);
    let own = read_all(&*source.store, new.id, 2).await;

    let store = &*f.store;
    store
        .open(NewLog {
            id: log,
            ..new_log()
        })
        .await
        .unwrap();
    store.replicate(log, events.clone()).await.unwrap();
    store.rewind(new.clone()).await.unwrap();
    let gap = refused(store.replicate(new.id, own[1..].to_vec()).await);
    assert!(matches!(
        gap,
        ReplicaError::Gap {
            expected: 3,
            found: 4
        }
    ));
    store.replicate(new.id, own[..1].to_vec()).await.unwrap();
    let tail = store.replicate(new.id, own.clone()).await.unwrap();
    assert_eq!(tail, source.store.tail(new.id).unwrap());
    assert_eq!(
        read_all(store, new.id, 0).await,
        read_all(&*source.store, new.id, 0).await
    );
    assert_eq!(replayed(store.append(new.id, first).await).last, 4);
}

pub(super) async fn checkpoints_are_kept(f: Fixture) {
    let store = &*f.store;
    let (log, events) = trunk(store).await;
    let at = |event: &Recorded, note: &str| Checkpoint {
        size: event.pos,
        chain: event.chain,
        note: note.into(),
    };
    for event in [&events[3], &events[0]] {
        store
            .keep_checkpoint(log, at(event, "first"))
            .await
            .unwrap();
    }
    store
        .keep_checkpoint(log, at(&events[0], "second"))
        .await
        .unwrap();
    let all = store.checkpoints(log, 0, 9).await.unwrap();
    assert_eq!(all, [at(&events[0], "first"), at(&events[3], "first")]);
    assert_eq!(store.checkpoints(log, 0, 1).await.unwrap(), all[..1]);
    assert_eq!(store.checkpoints(log, 1, 9).await.unwrap(), all[1..]);
    for (size, chain) in [(2, events[2].chain), (9, events[3].chain)] {
        let note = String::new();
        let other = refused(
            store
                .keep_checkpoint(log, Checkpoint { size, chain, note })
                .await,
        );
        assert!(matches!(other, AppendError::OtherHistory { pos, .. } if pos == size));
    }
    // A branch answers for its own part only.
    let new = branch(log, &events[1]);
    store.open(new.clone()).await.unwrap();
    let inherited = refused(store.keep_checkpoint(new.id, at(&events[0], "")).await);
    assert!(matches!(inherited, AppendError::OtherHistory { .. }));
    assert!(store.checkpoints(new.id, 0, 9).await.unwrap().is_empty());
}
