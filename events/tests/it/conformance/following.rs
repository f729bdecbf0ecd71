use std::sync::Arc;

use cocoonbox_events::{Follower, LogId, Store};

use crate::support::{Fixture, append, committed, opened, verified};

pub(super) async fn doorbells_ring_after_the_append(f: Fixture) {
    let mut any = f.store.any_doorbell();
    let (log, other) = (opened(&*f.store).await, opened(&*f.store).await);
    let (mut bell, quiet) = (
        f.store.doorbell(log).unwrap(),
        f.store.doorbell(other).unwrap(),
    );
    any.mark_unchanged();
    committed(
        f.store
            .append(log, append(&[("agent/a", "1"), ("agent/a", "2")]))
            .await,
    );
    bell.changed().await.unwrap();
    assert_eq!(*bell.borrow_and_update(), 2);
    assert!(any.has_changed().unwrap());
    assert!(!quiet.has_changed().unwrap());
    // Nothing moves by a command that happened before.
    let again = append(&[("agent/a", "3")]);
    committed(f.store.append(log, again.clone()).await);
    bell.mark_unchanged();
    f.store.append(log, again).await.unwrap();
    assert!(!bell.has_changed().unwrap());
}

const EVENTS: u64 = 1_500;

async fn write(store: Arc<dyn Store>, log: LogId) {
    let mut written = 0;
    while written < EVENTS {
        let size = (1 + written % 7).min(EVENTS - written);
        let events = vec![("agent/a", "x"); usize::try_from(size).unwrap()];
        written = committed(store.append(log, append(&events)).await).last;
    }
}

pub(super) async fn followers_see_exactly_the_suffix(f: Fixture) {
    let log = opened(&*f.store).await;
    // One that never reads costs nothing and holds nothing up.
    let _idle = Follower::new(f.store.clone(), log, 0).unwrap();
    let followers = (0..12).map(|n| {
        let start = n * 97;
        let store = f.store.clone();
        tokio::spawn(async move {
            let mut follower = Follower::new(store, log, start).unwrap();
            let mut seen = Vec::new();
            while follower.position() < EVENTS {
                let page = follower.next().await.unwrap();
                assert!(!page.events.is_empty());
                seen.extend(page.events);
                if n % 3 == 0 {
                    tokio::task::yield_now().await;
                }
            }
            (start, seen)
        })
    });
    let followers: Vec<_> = followers.collect();
    let writer = tokio::spawn(write(f.store.clone(), log));
    let mut seen = Vec::new();
    for follower in followers {
        seen.push(follower.await.unwrap());
    }
    writer.await.unwrap();
    let events = verified(&*f.store, log).await;
    for (start, suffix) in seen {
        let expected = &events[usize::try_from(start).unwrap()..];
        assert!(expected == &suffix[..], "the suffix behind {start} differs");
    }
}

pub(super) async fn a_follower_may_be_cancelled(f: Fixture) {
    let log = opened(&*f.store).await;
    let mut follower = Follower::new(f.store.clone(), log, 0).unwrap();
    for n in 1..=20 {
        // Dropped while it waits, or while it reads: the cursor stays where the last page ended.
        tokio::select! {
            biased;
            _ = follower.next() => panic!("there is nothing yet"),
            () = tokio::task::yield_now() => {}
        }
        committed(f.store.append(log, append(&[("agent/a", "x")])).await);
        let page = follower.next().await.unwrap();
        assert_eq!(page.events.iter().map(|e| e.pos).collect::<Vec<_>>(), [n]);
    }
}
