use cocoonbox_events::{
    ChainHash, LogId, NewLog, PayloadHash, Recorded, ReplicaError,
    chain::{Break, Link},
};
use uuid::Uuid;

use crate::support::{
    Fixture, append, committed, memory, new_log, replayed, stream, text_of, verified,
};

/// A log of `count` events written elsewhere, and the same log opened here.
async fn written(f: &Fixture, count: usize) -> (Fixture, LogId, Vec<Recorded>) {
    let (source, new) = (memory(), new_log());
    source.store.open(new.clone()).await.unwrap();
    f.store.open(new.clone()).await.unwrap();
    for n in 0..count {
        let text = n.to_string();
        let name = ["agent/a", "exec/b"][n % 2];
        committed(source.store.append(new.id, append(&[(name, &text)])).await);
    }
    let events = verified(&*source.store, new.id).await;
    (source, new.id, events)
}

pub(super) async fn a_copy_is_equal(f: Fixture) {
    let (source, log, events) = written(&f, 10).await;
    let empty = f.store.replicate(log, Vec::new()).await.unwrap();
    assert_eq!(empty.pos, 0);
    f.store.replicate(log, events[..4].to_vec()).await.unwrap();
    let tail = f.store.replicate(log, events[4..].to_vec()).await.unwrap();
    assert_eq!(tail, source.store.tail(log).unwrap());
    assert_eq!(verified(&*f.store, log).await, events);
    // The copy can be written on from where it ends.
    let range = committed(f.store.append(log, append(&[("agent/a", "on")])).await);
    assert_eq!(range.first, 11);
    assert_eq!(verified(&*f.store, log).await[10].seq, 6);
}

pub(super) async fn a_batch_may_come_twice(f: Fixture) {
    let (_, log, events) = written(&f, 10).await;
    f.store.replicate(log, events[..6].to_vec()).await.unwrap();
    assert_eq!(
        f.store
            .replicate(log, events[..6].to_vec())
            .await
            .unwrap()
            .pos,
        6
    );
    assert_eq!(
        f.store
            .replicate(log, events[2..4].to_vec())
            .await
            .unwrap()
            .pos,
        6
    );
    assert_eq!(
        f.store
            .replicate(log, events[3..].to_vec())
            .await
            .unwrap()
            .pos,
        10
    );
    let both = (f.store.clone(), f.store.clone());
    let again = (events.clone(), events.clone());
    let (left, right) = tokio::join!(
        both.0.replicate(log, again.0),
        both.1.replicate(log, again.1)
    );
    assert_eq!((left.unwrap().pos, right.unwrap().pos), (10, 10));
    assert_eq!(verified(&*f.store, log).await, events);
}

pub(super) async fn a_gap_is_refused(f: Fixture) {
    let (_, log, events) = written(&f, 6).await;
    let refused = f.store.replicate(log, events[1..].to_vec()).await;
    assert!(matches!(
        refused,
        Err(ReplicaError::Gap {
            expected: 1,
            found: 2
        })
    ));
    let mut holed = events.clone();
    holed.remove(3);
    let refused = f.store.replicate(log, holed).await;
    let broken = Break::Position {
        expected: 4,
        found: 5,
    };
    assert!(matches!(refused, Err(ReplicaError::Broken(found)) if found == broken));
    let mut reversed = events.clone();
    reversed.reverse();
    assert!(f.store.replicate(log, reversed).await.is_err());
    let other = LogId(Uuid::now_v7());
    let refused = f.store.replicate(other, events).await;
    assert!(matches!(refused, Err(ReplicaError::NoSuchLog { .. })));
    assert_eq!(f.store.tail(log).unwrap().pos, 0);
}

pub(super) async fn another_history_is_refused(f: Fixture) {
    let (_, log, events) = written(&f, 4).await;
    f.store.replicate(log, events.clone()).await.unwrap();
    // The same log, rewound to position 2 elsewhere and written on without saying so.
    let rewound = memory();
    let new = NewLog {
        id: log,
        ..new_log()
    };
    rewound.store.open(new).await.unwrap();
    rewound
        .store
        .replicate(log, events[..2].to_vec())
        .await
        .unwrap();
    for text in ["x", "y", "z"] {
        committed(
            rewound
                .store
                .append(log, append(&[("agent/a", text)]))
                .await,
        );
    }
    let other = verified(&*rewound.store, log).await;
    let refused = f.store.replicate(log, other.clone()).await;
    assert!(matches!(refused, Err(ReplicaError::Diverged { pos: 3 })));
    let refused = f.store.replicate(log, other[4..].to_vec()).await;
    assert!(matches!(
        refused,
        Err(ReplicaError::Broken(Break::Chain { pos: 5 }))
    ));
    assert_eq!(verified(&*f.store, log).await, events);
}

/// Each field changed by as little as can be.
fn tampered(event: &Recorded) -> Vec<(&'static str, Recorded)> {
    let with = |change: &dyn Fn(&mut Recorded)| {
        let mut event = event.clone();
        change(&mut event);
        event
    };
    let flip = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        bytes[0] ^= 1;
        bytes.into()
    };
    vec![
        ("log", with(&|e| e.log = LogId(Uuid::now_v7()))),
        ("pos", with(&|e| e.pos += 1)),
        ("stream", with(&|e| e.stream = stream("agent/z"))),
        ("seq", with(&|e| e.seq += 1)),
        ("kind", with(&|e| e.kind ^= 1)),
        ("version", with(&|e| e.version += 1)),
        ("time", with(&|e| e.recorded_us += 1)),
        ("header", with(&|e| e.header = flip(&e.header))),
        ("salt", with(&|e| e.body.as_mut().unwrap().salt[0] ^= 1)),
        (
            "payload",
            with(&|e| {
                let body = e.body.as_mut().unwrap();
                body.payload = flip(&body.payload);
            }),
        ),
        ("payload hash", with(&|e| e.payload_hash.0[0] ^= 1)),
        ("chain", with(&|e| e.chain.0[0] ^= 1)),
    ]
}

pub(super) async fn a_tampered_field_is_refused(f: Fixture) {
    let (_, log, events) = written(&f, 5).await;
    f.store.replicate(log, events[..3].to_vec()).await.unwrap();
    for at in [1, 3, 4] {
        for (field, event) in tampered(&events[at]) {
            let mut batch = events.clone();
            batch[at] = event;
            let refused = f.store.replicate(log, batch).await;
            assert!(refused.is_err(), "{field} of event {at} was taken in");
        }
    }
    assert_eq!(f.store.tail(log).unwrap().pos, 3);
    f.store.replicate(log, events.clone()).await.unwrap();
    assert_eq!(verified(&*f.store, log).await, events);
}

/// Signs an event as a forger would who holds the log.
fn forged(before: ChainHash, mut event: Recorded) -> Recorded {
    event.chain = before.next(&Link::from(&event));
    event
}

pub(super) async fn a_wrong_seq_is_refused(f: Fixture) {
    let (_, log, events) = written(&f, 4).await;
    f.store.replicate(log, events[..2].to_vec()).await.unwrap();
    let skipping = forged(
        events[1].chain,
        Recorded {
            seq: 3,
            ..events[2].clone()
        },
    );
    let refused = f.store.replicate(log, vec![skipping]).await;
    match refused {
        Err(ReplicaError::StreamSeq {
            stream,
            expected,
            found,
        }) => {
            assert_eq!((stream.as_str(), expected, found), ("agent/a", 2, 3));
        }
        other => panic!("{other:?}"),
    }
    let past = Recorded {
        recorded_us: 1,
        ..events[2].clone()
    };
    let refused = f
        .store
        .replicate(log, vec![forged(events[1].chain, past)])
        .await;
    assert!(matches!(
        refused,
        Err(ReplicaError::Broken(Break::Time { pos: 3 }))
    ));
    let mut vast = events[2].clone();
    let body = vast.body.as_mut().unwrap();
    body.payload = vec![0; 256 * 1024 + 1].into();
    vast.payload_hash = PayloadHash::of(&body.salt, &body.payload);
    let refused = f
        .store
        .replicate(log, vec![forged(events[1].chain, vast)])
        .await;
    assert!(matches!(refused, Err(ReplicaError::Store(_))));
    f.store.replicate(log, events.clone()).await.unwrap();
    assert_eq!(verified(&*f.store, log).await, events);
}

pub(super) async fn erased_events_replicate(f: Fixture) {
    let (_, log, mut events) = written(&f, 4).await;
    events[1].body = None;
    f.store.replicate(log, events.clone()).await.unwrap();
    assert_eq!(verified(&*f.store, log).await, events);
    // Erased here since: a second copy with the payload does not bring it back.
    let whole = events.clone();
    f.store.erase(log, &[1]).await.unwrap();
    f.store.replicate(log, whole).await.unwrap();
    let texts: Vec<_> = verified(&*f.store, log).await.iter().map(text_of).collect();
    assert_eq!(texts, [None, None, Some("2".into()), Some("3".into())]);
}

pub(super) async fn a_copy_remembers_commands(f: Fixture) {
    let (source, new) = (memory(), new_log());
    source.store.open(new.clone()).await.unwrap();
    f.store.open(new.clone()).await.unwrap();
    let once = append(&[("agent/a", "1"), ("agent/a", "2"), ("agent/a", "3")]);
    let range = committed(source.store.append(new.id, once.clone()).await);
    let events = verified(&*source.store, new.id).await;
    // In two batches: the command's range grows with them.
    f.store
        .replicate(new.id, events[..1].to_vec())
        .await
        .unwrap();
    f.store.replicate(new.id, events).await.unwrap();
    assert_eq!(replayed(f.store.append(new.id, once.clone()).await), range);
    let happened = f
        .store
        .happened(new.id, once.command)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((happened.digest, happened.range), (None, range));
}
