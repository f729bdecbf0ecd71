//! Clocks that jump, events of other builds, and names and batches at their limits.

use cocoonbox_events::{
    AppendError, ChainHash, Checkpoint, DecodeError, Follower, LogId, NewLog, Parent, PayloadHash,
    Recorded, StreamName,
    chain::{Link, Verifier},
    record::Body,
};

use crate::support::{
    Fixture, append, committed, memory, new_log, opened, read_all, stream, text_of, verified,
};

/// About 31 years.
const AGES_US: i64 = 1_000_000_000_000_000;

pub(super) async fn clocks_may_jump_by_years(f: Fixture) {
    let log = opened(&*f.store).await;
    let jumps = [AGES_US, 5, 2 * AGES_US, -AGES_US, 0, i64::MAX, AGES_US];
    for now_us in jumps {
        f.clock.set(now_us);
        let range = committed(f.store.append(log, append(&[("agent/a", "x")])).await);
        let note = "note".to_owned();
        let checkpoint = Checkpoint {
            size: range.last,
            chain: range.chain,
            note,
        };
        f.store.keep_checkpoint(log, checkpoint).await.unwrap();
        // Opened in the past of the log that it goes on from.
        let parent = Some(Parent {
            log,
            pos: range.last,
            chain: range.chain,
        });
        let branch = NewLog {
            parent,
            ..new_log()
        };
        f.store.open(branch.clone()).await.unwrap();
        committed(f.store.append(branch.id, append(&[("agent/a", "y")])).await);
    }
    let events = verified(&*f.store, log).await;
    assert_eq!(events.len(), jumps.len());
    assert!(events.is_sorted_by_key(|event| event.recorded_us));
    let kept = f.store.checkpoints(log, 0, 99).await.unwrap();
    assert_eq!(kept.len(), jumps.len());
    for info in f.store.logs() {
        let mut events = read_all(&*f.store, info.id, 0).await;
        // A branch's own: its parent's come first, with the times that they had.
        events.retain(|event| event.log == info.id);
        assert!(events.is_sorted_by_key(|event| event.recorded_us));
    }
}

/// An event as another build may write it.
fn of_another_build(log: LogId, before: (u64, ChainHash), kind: u32, version: u32) -> Recorded {
    let body = Body {
        salt: [7; 16],
        payload: vec![0xff; 9].into(),
    };
    let mut event = Recorded {
        log,
        pos: before.0 + 1,
        stream: stream("agent/a"),
        seq: before.0 + 1,
        kind,
        version,
        recorded_us: AGES_US,
        header: vec![0xff, 0xff].into(),
        payload_hash: PayloadHash::of(&body.salt, &body.payload),
        body: Some(body),
        chain: before.1,
    };
    event.chain = before.1.next(&Link::from(&event));
    event
}

pub(super) async fn events_of_other_builds_are_kept_as_they_are(f: Fixture) {
    let new = new_log();
    let log = f.store.open(new.clone()).await.unwrap().log;
    let range = committed(f.store.append(log, append(&[("agent/a", "1")])).await);
    let mut before = (range.last, range.chain);
    let mut sent = Vec::new();
    for (kind, version) in [(9_999, 1), (101, 99), (u32::MAX, u32::MAX), (0, 0)] {
        let event = of_another_build(log, before, kind, version);
        before = (event.pos, event.chain);
        sent.push(event);
    }
    f.store.replicate(log, sent.clone()).await.unwrap();
    let on = committed(f.store.append(log, append(&[("agent/a", "2")])).await);
    assert_eq!(on.first, 6);

    let events = verified(&*f.store, log).await;
    assert_eq!(events[1..5], sent);
    let mut follower = Follower::new(f.store.clone(), log, 1).unwrap();
    assert_eq!(follower.next().await.unwrap().events[..4], sent);
    let page = f.store.read_stream(log, &stream("agent/a"), 1, 4).await;
    assert_eq!(page.unwrap().events, sent);
    // Only who wants to know what they say is told that this build does not.
    let unknown = events[1].payload();
    assert!(matches!(
        unknown,
        Err(DecodeError::UnknownKind { number: 9_999 })
    ));
    let newer = events[2].payload();
    assert!(matches!(
        newer,
        Err(DecodeError::NewerVersion { version: 99, .. })
    ));
    assert_eq!(text_of(&events[5]).unwrap(), "2");

    let copy = memory();
    copy.store.open(new).await.unwrap();
    copy.store.replicate(log, events.clone()).await.unwrap();
    assert_eq!(verified(&*copy.store, log).await, events);
    f.store.erase(log, &[2]).await.unwrap();
    assert_eq!(verified(&*f.store, log).await[1].body, None);
}

pub(super) async fn names_and_batches_end_at_their_limits(f: Fixture) {
    let log = opened(&*f.store).await;
    let longest = "a".repeat(200);
    committed(f.store.append(log, append(&[(&longest, "x")])).await);
    let event = verified(&*f.store, log).await.remove(0);
    let page = f.store.read_stream(log, &event.stream, 0, 9).await.unwrap();
    assert_eq!(page.events, std::slice::from_ref(&event));
    for bytes in [201, 10 * 1024] {
        let long = "a".repeat(bytes);
        let error = StreamName::new(&long).unwrap_err().to_string();
        assert!(error.len() < 200, "{error}");
        let mut wire = event.to_wire();
        wire.stream = long;
        assert_eq!(Recorded::from_wire(log, wire), None);
    }

    // Every event has a header of this size, and two bytes of length before a text of this size.
    let header = event.header.len();
    let of = |bytes: usize| {
        let sizes = [200_000, 200_000, 200_000, 200_000, 200_000];
        let texts = sizes.map(|size| "x".repeat(size));
        let rest = bytes - sizes.iter().map(|size| size + 4 + header).sum::<usize>();
        let last = "x".repeat(rest - header - 4);
        let mut events: Vec<_> = texts
            .iter()
            .map(|text| ("agent/a", text.as_str()))
            .collect();
        events.push(("agent/a", &last));
        append(&events)
    };
    let whole = 1024 * 1024;
    let refused = f.store.append(log, of(whole + 1)).await;
    assert!(
        matches!(refused, Err(AppendError::TooLarge { .. })),
        "{refused:?}"
    );
    assert_eq!(committed(f.store.append(log, of(whole)).await).last, 7);
    let mut verifier = Verifier::after(0, f.store.chain_at(log, 0).await.unwrap());
    for event in read_all(&*f.store, log, 0).await {
        verifier.check(&event).unwrap();
    }
}
