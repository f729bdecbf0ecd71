use cocoonbox_events::{OffsetKey, ReadError};

use crate::support::{
    Fixture, append, committed, opened, read_all, replayed, stream, text_of, verified,
};

pub(super) async fn pages_are_bounded_by_count(f: Fixture) {
    let log = opened(&*f.store).await;
    let many: Vec<_> = (0..256).map(|_| ("agent/a", "x")).collect();
    for _ in 0..5 {
        committed(f.store.append(log, append(&many)).await);
    }
    let page = f.store.read(log, 0, 7).await.unwrap();
    assert_eq!(
        page.events.iter().map(|e| e.pos).collect::<Vec<_>>(),
        (1..=7).collect::<Vec<_>>()
    );
    let page = f.store.read(log, 1_278, 7).await.unwrap();
    assert_eq!(
        page.events.iter().map(|e| e.pos).collect::<Vec<_>>(),
        [1_279, 1_280]
    );
    assert_eq!(
        f.store.read(log, 0, usize::MAX).await.unwrap().events.len(),
        1_000
    );
    // A limit of nothing would be an empty page, which means the tail.
    assert_eq!(f.store.read(log, 0, 0).await.unwrap().events.len(), 1);
    for after in [1_280, 1_281, u64::MAX] {
        assert!(f.store.read(log, after, 7).await.unwrap().events.is_empty());
    }
    assert_eq!(verified(&*f.store, log).await.len(), 1_280);
}

pub(super) async fn pages_are_bounded_by_bytes(f: Fixture) {
    let log = opened(&*f.store).await;
    let large = "x".repeat(200 * 1024);
    for _ in 0..12 {
        committed(f.store.append(log, append(&[("agent/a", &large)])).await);
    }
    let page = f.store.read(log, 0, usize::MAX).await.unwrap();
    assert_eq!(page.events.len(), 5);
    let page = f
        .store
        .read_stream(log, &stream("agent/a"), 3, usize::MAX)
        .await
        .unwrap();
    assert_eq!(page.events.len(), 5);
    assert_eq!(read_all(&*f.store, log, 0).await.len(), 12);
}

pub(super) async fn streams_are_read_by_seq(f: Fixture) {
    let (log, other) = (opened(&*f.store).await, opened(&*f.store).await);
    for n in 0..10 {
        let text = n.to_string();
        let name = if n % 2 == 0 {
            "agent/even"
        } else {
            "agent/odd"
        };
        committed(f.store.append(log, append(&[(name, &text)])).await);
        committed(
            f.store
                .append(other, append(&[("agent/even", "other")]))
                .await,
        );
    }
    let page = f
        .store
        .read_stream(log, &stream("agent/even"), 1, 3)
        .await
        .unwrap();
    let read: Vec<_> = page
        .events
        .iter()
        .map(|e| (e.seq, text_of(e).unwrap()))
        .collect();
    assert_eq!(read, [(2, "2".into()), (3, "4".into()), (4, "6".into())]);
    assert!(page.events.iter().all(|event| event.log == log));
    for (name, after) in [
        ("agent/even", 5),
        ("agent/even", u64::MAX),
        ("agent/none", 0),
    ] {
        let page = f
            .store
            .read_stream(log, &stream(name), after, 9)
            .await
            .unwrap();
        assert!(page.events.is_empty());
    }
}

pub(super) async fn keys_resume_or_say_why_not(f: Fixture) {
    let log = opened(&*f.store).await;
    committed(
        f.store
            .append(log, append(&[("agent/a", "1"), ("agent/a", "2")]))
            .await,
    );
    let genesis = f.store.chain_at(log, 0).await.unwrap();
    assert_eq!(
        f.store
            .resume(log, &OffsetKey::new(log, 0, genesis))
            .await
            .unwrap(),
        0
    );
    for event in verified(&*f.store, log).await {
        let key = event.offset_key();
        assert_eq!(f.store.resume(log, &key).await.unwrap(), event.pos);
        let mut other = key;
        other.chain[3] ^= 1;
        let refused = f.store.resume(log, &other).await;
        assert!(matches!(refused, Err(ReadError::Diverged { pos }) if pos == event.pos));
    }
    let ahead = OffsetKey::new(log, 3, genesis);
    let refused = f.store.resume(log, &ahead).await;
    assert!(matches!(
        refused,
        Err(ReadError::AheadOfTail { pos: 3, tail: 2 })
    ));
}

pub(super) async fn chains_are_given_by_position(f: Fixture) {
    let log = opened(&*f.store).await;
    let empty = f.store.tail(log).unwrap();
    assert_eq!(f.store.chain_at(log, 0).await.unwrap(), empty.chain);
    committed(
        f.store
            .append(log, append(&[("agent/a", "1"), ("agent/a", "2")]))
            .await,
    );
    for event in verified(&*f.store, log).await {
        assert_eq!(f.store.chain_at(log, event.pos).await.unwrap(), event.chain);
    }
    let refused = f.store.chain_at(log, 3).await;
    assert!(matches!(
        refused,
        Err(ReadError::AheadOfTail { pos: 3, tail: 2 })
    ));
}

pub(super) async fn erased_payloads_are_gone_and_the_chain_verifies(f: Fixture) {
    let log = opened(&*f.store).await;
    let events = [
        ("agent/a", "keep"),
        ("agent/a", "secret"),
        ("agent/a", "keep"),
    ];
    committed(f.store.append(log, append(&events)).await);
    // Erased already, not there yet, never there: all fine.
    f.store.erase(log, &[2]).await.unwrap();
    f.store.erase(log, &[2, 0, 4, u64::MAX]).await.unwrap();
    committed(f.store.append(log, append(&[("agent/a", "keep")])).await);

    let events = verified(&*f.store, log).await;
    let texts: Vec<_> = events.iter().map(text_of).collect();
    let keep = || Some("keep".to_owned());
    assert_eq!(texts, [keep(), None, keep(), keep()]);
    let page = f
        .store
        .read_stream(log, &stream("agent/a"), 1, 1)
        .await
        .unwrap();
    assert_eq!((page.events[0].seq, &page.events[0].body), (2, &None));
}

/// What a command asked for, hashed without a salt, tells whoever can guess it.
pub(super) async fn digests_of_erased_commands_are_gone(f: Fixture) {
    let log = opened(&*f.store).await;
    let (gone, kept) = (
        append(&[("agent/a", "1"), ("agent/a", "2")]),
        append(&[("agent/a", "3")]),
    );
    committed(f.store.append(log, gone.clone()).await);
    committed(f.store.append(log, kept.clone()).await);
    // One event of it is enough. Another log's command of the same id stays.
    let other = opened(&*f.store).await;
    committed(f.store.append(other, gone.clone()).await);
    for _ in 0..2 {
        f.store.erase(log, &[2, 99]).await.unwrap();
    }
    let digest = async |log, command| {
        let happened = f.store.happened(log, command).await.unwrap();
        happened.unwrap().digest
    };
    assert_eq!(digest(log, gone.command).await, None);
    assert_eq!(digest(log, kept.command).await, Some(kept.digest));
    assert_eq!(digest(other, gone.command).await, Some(gone.digest));
    // It still happened: nothing is written twice.
    let range = replayed(f.store.append(log, gone).await);
    assert_eq!((range.first, range.last), (1, 2));
    assert_eq!(verified(&*f.store, log).await.len(), 3);
}
