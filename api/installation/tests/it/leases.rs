//! Leases in a database, by its clock.

use std::time::Duration;

use cocoonbox_installation::{Holder, Leases, Purpose, Taken};

use crate::world::database;

const LONG: Duration = Duration::from_mins(1);
const SHORT: Duration = Duration::from_millis(30);

fn process(id: &str) -> Holder {
    Holder {
        id: id.into(),
        address: format!("{id}:8750"),
        place: "here".into(),
    }
}

async fn fence(leases: &dyn Leases, holder: &Holder, time_to_live: Duration) -> Option<u64> {
    match leases.take("box/b1", holder, time_to_live).await.unwrap() {
        Taken::Granted { fence } => Some(fence),
        Taken::Held(lease) => {
            assert_ne!(lease.holder, *holder);
            None
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_at_a_time_and_each_with_a_higher_fence() {
    let data = tempfile::tempdir().unwrap();
    let url = cocoonbox_postgres::shared().database().unwrap();
    let one = database(&url, data.path(), Purpose::Use).await;
    let leases: &dyn Leases = &*one.leases;
    assert!(leases.are_shared());
    let (a, b) = (process("a"), process("b"));
    let first = fence(leases, &a, LONG).await.unwrap();
    assert_eq!(
        fence(leases, &a, LONG).await,
        Some(first),
        "it has it already"
    );
    assert_eq!(fence(leases, &b, LONG).await, None);
    let found = leases.find("box/b1").await.unwrap().unwrap();
    assert_eq!(
        (found.holder, found.fence, found.is_live),
        (a.clone(), first, true)
    );
    assert_eq!(leases.live().await.unwrap().len(), 1);

    // Given back, it stays known: for its place.
    leases.release("box/b1", &a, first).await.unwrap();
    let found = leases.find("box/b1").await.unwrap().unwrap();
    assert_eq!((found.holder, found.is_live), (a.clone(), false));
    assert!(leases.live().await.unwrap().is_empty());
    let second = fence(leases, &b, SHORT).await.unwrap();
    assert!(second > first);

    // It runs out by itself; what its holder does then comes too late.
    let third = loop {
        if let Some(fence) = fence(leases, &a, LONG).await {
            break fence;
        }
    };
    assert!(third > second);
    assert!(leases.renew(&b, LONG).await.unwrap().is_empty());
    leases.release("box/b1", &b, second).await.unwrap();
    let kept = leases.renew(&a, LONG).await.unwrap();
    assert_eq!(
        kept.iter().map(|lease| lease.fence).collect::<Vec<_>>(),
        [third]
    );
    assert_eq!(leases.find("box/b2").await.unwrap(), None);
}
