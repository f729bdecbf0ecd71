//! One holder at a time, by the database's clock.

use std::time::Duration;

use cocoonbox_events_postgres::{Database, Lease, Leases, Taken, lease::RAISE};

use crate::support::{fresh, options, within};

const LONG: Duration = Duration::from_mins(10);

async fn leases() -> Leases {
    let database = Database::connect(&options(&fresh())).await.unwrap();
    Leases::new(&database)
}

fn mine(taken: Taken) -> Lease {
    match taken {
        Taken::Mine(lease) => lease,
        Taken::Held(held) => panic!("held by {held:?}"),
    }
}

#[tokio::test]
async fn after_a_loss_every_fence_is_higher_than_any_before() {
    let leases = leases().await;
    let held = mine(leases.take("box/1", "a", "a:1", LONG).await.unwrap());
    assert!(leases.release(&held).await.unwrap());
    let ours = mine(leases.take("copy", "us", "", LONG).await.unwrap());

    for times in 1..=2 {
        leases.raise("us").await.unwrap();
        let raised = u64::try_from(RAISE).unwrap() * times;
        // One that was known, and one that this database has never heard of.
        let known = mine(leases.take("box/1", "b", "b:1", LONG).await.unwrap());
        assert!(known.fence > raised + held.fence, "{known:?}");
        assert!(leases.release(&known).await.unwrap());
        let new = format!("box/new {times}");
        let new = mine(leases.take(&new, "b", "b:1", LONG).await.unwrap());
        assert!(new.fence > raised, "{new:?}");
    }
    // Whoever raises them goes on holding what it has.
    assert_eq!(leases.find("floor").await.unwrap(), None);
    assert_eq!(leases.renew(&ours, LONG).await.unwrap().unwrap().fence, 1);
    assert!(leases.release(&ours).await.unwrap());
}

#[tokio::test]
async fn one_holds_it_and_fences_grow() {
    let leases = leases().await;
    assert_eq!(leases.find("box/1").await.unwrap(), None);
    let first = mine(leases.take("box/1", "a", "a:1", LONG).await.unwrap());
    assert_eq!((first.fence, first.remaining), (1, LONG));
    // Taken again by its holder it is only prolonged.
    let again = mine(leases.take("box/1", "a", "a:2", LONG).await.unwrap());
    assert_eq!((again.fence, again.address.as_str()), (1, "a:2"));
    match leases.take("box/1", "b", "b:1", LONG).await.unwrap() {
        Taken::Held(held) => {
            assert_eq!((held.holder.as_str(), held.fence), ("a", 1));
            assert!(held.remaining > LONG / 2 && held.remaining <= LONG);
        }
        Taken::Mine(lease) => panic!("{lease:?}"),
    }
    assert!(leases.renew(&again, LONG).await.unwrap().is_some());
    assert!(leases.release(&again).await.unwrap());
    assert!(!leases.release(&again).await.unwrap());
    assert_eq!(leases.renew(&again, LONG).await.unwrap(), None);
    let next = mine(leases.take("box/1", "b", "b:1", LONG).await.unwrap());
    assert_eq!(next.fence, 2);
    // An old fence gives nothing back and prolongs nothing.
    let stale = Lease {
        fence: 1,
        ..next.clone()
    };
    assert!(!leases.release(&stale).await.unwrap());
    assert_eq!(leases.renew(&stale, LONG).await.unwrap(), None);
    let other = mine(leases.take("box/0", "b", "b:1", LONG).await.unwrap());
    let held: Vec<_> = leases
        .list()
        .await
        .unwrap()
        .into_iter()
        .map(|l| l.name)
        .collect();
    assert_eq!(held, ["box/0", "box/1"]);
    assert_eq!(leases.renew_all("b", LONG).await.unwrap().len(), 2);
    assert!(leases.renew_all("a", LONG).await.unwrap().is_empty());
    assert!(leases.release(&other).await.unwrap());
}

#[tokio::test]
async fn one_that_ran_out_is_lost_even_to_its_holder() {
    let leases = leases().await;
    let short = mine(leases.take("x", "a", "a:1", Duration::ZERO).await.unwrap());
    assert_eq!(leases.find("x").await.unwrap(), None);
    assert_eq!(leases.renew(&short, LONG).await.unwrap(), None);
    assert!(leases.renew_all("a", LONG).await.unwrap().is_empty());
    // It may have been another's in between, for all its holder knows.
    let again = mine(leases.take("x", "a", "a:1", LONG).await.unwrap());
    assert_eq!(again.fence, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rivals_get_it_one_after_the_other() {
    let leases = leases().await;
    let rivals = (0..8).map(|n| {
        let leases = leases.clone();
        tokio::spawn(async move {
            let holder = n.to_string();
            loop {
                if let Taken::Mine(lease) = leases.take("x", &holder, "", LONG).await.unwrap() {
                    assert!(
                        leases.release(&lease).await.unwrap(),
                        "lost while it was held"
                    );
                    return lease.fence;
                }
            }
        })
    });
    let mut fences = Vec::new();
    for rival in rivals.collect::<Vec<_>>() {
        fences.push(within(rival).await.unwrap());
    }
    fences.sort_unstable();
    assert_eq!(fences, (1..=8).collect::<Vec<_>>());
}
