//! Several replicas on one database.

use std::{sync::Arc, time::Duration};

use cocoonbox_events::{
    AppendError, Appended, ChainHash, Expect, Follower, LogId, NewLog, NoKeys, OffsetKey, Parent,
    PayloadHash, ReadError, Recorded, Store, SystemClock, SystemIds, chain::Link,
};
use cocoonbox_events_postgres::{Database, Options, PgStore};

use crate::support::{
    append, committed, expecting, fresh, new_log, opened, options, replayed, replica, stream,
    text_of, verified, within,
};

async fn polling(url: &str) -> Arc<PgStore> {
    let options = Options {
        notify: false,
        ..options(url)
    };
    let database = Database::connect(&options).await.unwrap();
    let (keys, clock, ids) = (Arc::new(NoKeys), Arc::new(SystemClock), Arc::new(SystemIds));
    Arc::new(PgStore::open(&database, keys, clock, ids).await.unwrap())
}

/// Waits until this replica knows that a log has come so far.
async fn reaches(store: &PgStore, log: LogId, pos: u64) {
    let mut any = store.any_doorbell();
    within(async {
        while store.tail(log).map_or(0, |tail| tail.pos) < pos {
            any.changed().await.unwrap();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_write_one_log() {
    const ROUNDS: usize = 25;
    let url = fresh();
    let stores = [replica(&url).await, replica(&url).await];
    let log = opened(&*stores[0]).await;
    let writers = (0..8).map(|writer| {
        let (mine, others) = (stores[writer % 2].clone(), stores[(writer + 1) % 2].clone());
        tokio::spawn(async move {
            let mut ranges = Vec::new();
            for round in 0..ROUNDS {
                // Everybody wants to be next in one stream; who is not looks and tries again.
                let text = format!("{writer}.{round}");
                let range = loop {
                    let page = mine.read_stream(log, &stream("agent/all"), 0, 1_000).await;
                    let head = page.unwrap().events.len() as u64;
                    let name = format!("agent/{writer}");
                    let both = append(&[("agent/all", &text), (&name, &text)]);
                    let both = expecting(both, &[("agent/all", Expect::Exactly(head))]);
                    // The same command to both replicas at once.
                    let (here, there) = tokio::join!(
                        mine.append(log, both.clone()),
                        others.append(log, both.clone())
                    );
                    match (here, there) {
                        (Ok(here), Ok(there)) => {
                            assert_eq!(here.range(), there.range());
                            let is_new = |a: &Appended| matches!(a, Appended::Committed(..));
                            assert!(is_new(&here) != is_new(&there), "once, not twice");
                            break here.range();
                        }
                        (Err(AppendError::Conflict { .. }), Err(AppendError::Conflict { .. })) => {}
                        other => panic!("{other:?}"),
                    }
                };
                ranges.push((range, text));
            }
            ranges
        })
    });
    let mut ranges = Vec::new();
    for writer in writers.collect::<Vec<_>>() {
        ranges.extend(within(writer).await.unwrap());
    }
    let pos = (8 * ROUNDS * 2) as u64;
    for store in &stores {
        reaches(store, log, pos).await;
        let events = verified(&**store, log).await;
        assert_eq!(events.len() as u64, pos);
        for (range, text) in &ranges {
            assert_eq!(range.last, range.first + 1);
            let index = usize::try_from(range.first).unwrap() - 1;
            assert_eq!(text_of(&events[index]).as_ref(), Some(text));
            assert_eq!(events[index + 1].chain, range.chain);
        }
    }
}

#[tokio::test]
async fn followers_hear_of_another_replicas_events() {
    let url = fresh();
    let (writer, ringing, asking) = (
        replica(&url).await,
        replica(&url).await,
        polling(&url).await,
    );
    assert!(asking.health().heard_ago.is_none());
    let log = opened(&*writer).await;
    for store in [ringing, asking] {
        // Not known yet without a look: what waits for an answer looks.
        store.read(log, 0, 1).await.unwrap();
        let start = store.tail(log).unwrap().pos;
        let mut follower = Follower::new(store.clone(), log, start).unwrap();
        for n in 1..=3 {
            let range = committed(writer.append(log, append(&[("agent/a", "x")])).await);
            let page = within(follower.next()).await.unwrap();
            assert_eq!(page.events[0].chain, range.chain, "{n}");
            assert_eq!(store.tail(log).unwrap(), writer.tail(log).unwrap());
        }
        assert!(store.health().polled_ago < Duration::from_secs(30));
        assert_eq!(store.health().failed_polls, 0);
    }
}

#[tokio::test]
async fn what_another_replica_did_counts_at_once() {
    let url = fresh();
    let (one, two) = (polling(&url).await, polling(&url).await);
    let new = new_log();
    one.open(new.clone()).await.unwrap();
    let once = append(&[("agent/a", "1")]);
    let range = committed(one.append(new.id, once.clone()).await);
    // Nothing was rung for and nothing polled: each of these asks the database.
    assert!(matches!(two.tail(new.id), Err(ReadError::NoSuchLog { .. })));
    let key = OffsetKey::new(new.id, 1, range.chain);
    assert_eq!(two.resume(new.id, &key).await.unwrap(), 1);
    assert_eq!(replayed(two.append(new.id, once.clone()).await), range);
    let second = committed(one.append(new.id, append(&[("agent/a", "2")])).await);
    let key = OffsetKey::new(new.id, 2, second.chain);
    assert_eq!(two.resume(new.id, &key).await.unwrap(), 2);
    let third = committed(one.append(new.id, append(&[("agent/a", "3")])).await);
    let happened = two.happened(new.id, once.command).await.unwrap();
    assert_eq!(happened.unwrap().range, range);
    let page = two
        .read_stream(new.id, &stream("agent/a"), 2, 9)
        .await
        .unwrap();
    assert_eq!(page.events[0].chain, third.chain);
    let conflict = expecting(
        append(&[("agent/a", "no")]),
        &[("agent/a", Expect::Exactly(2))],
    );
    let refused = two.append(new.id, conflict).await;
    assert!(matches!(
        refused,
        Err(AppendError::Conflict { actual: 3, .. })
    ));
    assert_eq!(two.open(new.clone()).await.unwrap().log, new.id);
    let other = NewLog {
        owner: "eve".into(),
        ..new
    };
    let third = polling(&url).await;
    let refused = third.open(other).await;
    assert!(matches!(refused, Err(AppendError::OtherLog { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_is_closed_while_another_replica_writes_it() {
    let url = fresh();
    let (one, two) = (replica(&url).await, replica(&url).await);
    let new = new_log();
    one.open(new.clone()).await.unwrap();
    let first = committed(one.append(new.id, append(&[("agent/a", "1")])).await);
    let writing = {
        let one = one.clone();
        tokio::spawn(async move {
            let mut written = 1;
            loop {
                match one
                    .append(new.id, append(&[("agent/a", "left behind")]))
                    .await
                {
                    Ok(appended) => written = appended.range().last,
                    Err(AppendError::Moved { log, to }) => return (written, log, to),
                    Err(other) => panic!("{other:?}"),
                }
            }
        })
    };
    reaches(&two, new.id, 5).await;
    let branch = NewLog {
        id: new_log().id,
        parent: Some(Parent {
            log: new.id,
            pos: 1,
            chain: first.chain,
        }),
        ..new.clone()
    };
    let tail = two.rewind(branch.clone()).await.unwrap();
    assert_eq!((tail.log, tail.pos), (branch.id, 1));
    let (written, log, to) = within(writing).await.unwrap();
    assert_eq!((log, to), (new.id, branch.id));
    // What was acked before the end is still there, and is the last of it.
    assert_eq!(
        one.read(new.id, 0, 9_999).await.unwrap().events.len() as u64,
        written
    );
    reaches(&two, new.id, written).await;
    assert!(written >= 5);
    // The replica that wrote learns where it goes on, and both write there.
    assert_eq!(one.current(new.id).unwrap(), branch.id);
    for store in [&one, &two] {
        let on = append(&[("agent/a", "on")]);
        committed(store.append(branch.id, on).await);
    }
    reaches(&one, branch.id, 3).await;
    let history = one
        .read_stream(branch.id, &stream("agent/a"), 0, 9)
        .await
        .unwrap();
    assert_eq!(history.events.len(), 1, "a page never spans two logs");
    let own = one
        .read_stream(branch.id, &stream("agent/a"), 1, 9)
        .await
        .unwrap();
    let seqs: Vec<_> = own.events.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, [2, 3]);
    let lost = one.read(new.id, 3, 1).await.unwrap().events[0].offset_key();
    let moved = one.resume(branch.id, &lost).await;
    assert!(
        matches!(moved, Err(ReadError::Moved { common: 1, .. })),
        "{moved:?}"
    );
    // A rewind to somewhere else comes too late, from whichever replica.
    let other = NewLog {
        id: new_log().id,
        ..branch.clone()
    };
    let refused = one.rewind(other).await;
    assert!(matches!(refused, Err(AppendError::Moved { to, .. }) if to == branch.id));
    assert_eq!(one.rewind(branch).await.unwrap().pos, 3);
}

#[tokio::test]
async fn anybody_may_ring_and_nothing_is_believed() {
    let url = fresh();
    let store = replica(&url).await;
    let log = opened(&*store).await;
    let range = committed(store.append(log, append(&[("agent/a", "1")])).await);
    let strange = LogId(uuid::Uuid::now_v7());
    for payload in [
        String::new(),
        ",,:,:::".into(),
        format!("{log}:999999"),
        format!("{log}:-1,{log}:99999999999999999999999"),
        format!("{strange}:7"),
        "beat:x".into(),
        "x".repeat(7_900),
    ] {
        let sql = format!("NOTIFY cocoonbox, '{payload}'");
        cocoonbox_postgres::shared().run_sql(&url, &sql).unwrap();
    }
    // It still hears, so it has heard those.
    let other = replica(&url).await;
    committed(other.append(log, append(&[("agent/a", "2")])).await);
    reaches(&store, log, 2).await;
    assert_eq!(store.chain_at(log, 1).await.unwrap(), range.chain);
    assert_eq!(store.tail(log).unwrap(), other.tail(log).unwrap());
    assert_eq!(store.health().listener_losses, 0);
}

#[tokio::test]
async fn a_lost_listener_is_seen_and_comes_back() {
    let url = fresh();
    let (one, two) = (replica(&url).await, replica(&url).await);
    let log = opened(&*one).await;
    let mut any = two.any_doorbell();
    within(async {
        while !two.health().is_listening || two.tail(log).is_err() {
            any.changed().await.unwrap();
        }
    })
    .await;
    let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
               WHERE datname = current_database() AND query LIKE 'LISTEN%'";
    let ended = cocoonbox_postgres::shared().run_sql(&url, sql).unwrap();
    assert_eq!(ended.trim(), "2");
    within(async {
        while two.health().listener_losses == 0 || !two.health().is_listening {
            tokio::task::yield_now().await;
        }
    })
    .await;
    committed(one.append(log, append(&[("agent/a", "1")])).await);
    reaches(&two, log, 1).await;
}

/// Signs an event as its box would.
fn linked(before: ChainHash, mut event: Recorded) -> Recorded {
    event.chain = before.next(&Link::from(&event));
    event
}

#[tokio::test]
async fn kinds_of_a_newer_build_are_kept_as_they_are() {
    let url = fresh();
    let store = replica(&url).await;
    let log = opened(&*store).await;
    let genesis = store.chain_at(log, 0).await.unwrap();
    let body = cocoonbox_events::record::Body {
        salt: [3; 16],
        payload: vec![0xff; 300].into(),
    };
    let event = Recorded {
        log,
        pos: 1,
        stream: stream("later/x"),
        seq: 1,
        kind: u32::MAX,
        version: u32::MAX,
        recorded_us: i64::MAX,
        header: vec![0xff; 40].into(),
        payload_hash: PayloadHash::of(&body.salt, &body.payload),
        body: Some(body),
        chain: genesis,
    };
    let event = linked(genesis, event);
    store.replicate(log, vec![event.clone()]).await.unwrap();
    assert_eq!(verified(&*store, log).await, [event]);
    // Time never goes back, not even from the end of it.
    committed(store.append(log, append(&[("agent/a", "on")])).await);
    assert_eq!(verified(&*store, log).await[1].recorded_us, i64::MAX);
}

#[tokio::test]
async fn a_stream_name_of_ten_kilobytes_is_damage() {
    let url = fresh();
    let store = replica(&url).await;
    let log = opened(&*store).await;
    committed(
        store
            .append(log, append(&[("agent/a", "1"), ("agent/b", "2")]))
            .await,
    );
    let sql = "UPDATE cocoonbox.stream SET name = 'b' || repeat('x', 10240) WHERE name = 'agent/b'";
    let cluster = cocoonbox_postgres::shared();
    // An index row would be too long already, if the name did not compress.
    cluster.run_sql(&url, sql).unwrap();
    let read = store.read(log, 0, 9).await;
    let is_it = matches!(
        read,
        Err(ReadError::Damaged {
            pos: 2,
            what: "stream name"
        })
    );
    assert!(is_it, "{read:?}");
    assert_eq!(store.read(log, 0, 1).await.unwrap().events.len(), 1);
}
