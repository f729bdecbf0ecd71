//! Words that are found in conversations of several boxes.

use cocoonbox_events::{Clock as _, LogId, LogKind};
use cocoonbox_projections::{Query, Search, Searched};
use cocoonbox_proto::agent::v1::transcript_item::Kind;
use proptest::prelude::*;

use crate::world::{USER, World, prompt};

fn search(logs: &[LogId], words: &str) -> Search {
    Search {
        logs: logs.to_vec(),
        query: Query::parse(words).unwrap(),
        before_ms: i64::MAX,
        kinds: Vec::new(),
        hits_max: 10,
    }
}

fn texts(found: &Searched) -> Vec<&str> {
    found
        .hits
        .iter()
        .map(|hit| hit.item.text.as_str())
        .collect()
}

fn later(world: &World, ms: i64) {
    world.clock.set(world.clock.now_us() + ms * 1_000);
}

async fn two_boxes(world: &World) -> [LogId; 2] {
    [
        world.open(LogKind::Box, USER).await,
        world.open(LogKind::Box, USER).await,
    ]
}

#[tokio::test]
async fn the_newest_come_first_whatever_box_and_agent_they_are_of() {
    let mut world = World::new();
    let [one, two] = two_boxes(&world).await;
    for (log, agent, text) in [
        (one, "a1", "first apple"),
        (two, "a1", "second Apple"),
        (one, "a2", "third pear"),
        (one, "a2", "fourth APPLE"),
        (two, "a3", "fifth apple"),
    ] {
        later(&world, 1_000);
        world.write_agent(log, agent, prompt(text)).await;
    }
    assert!(world.settle().await.is_equal());
    let found = world
        .views
        .search(search(&[one, two], "apple"))
        .await
        .unwrap();
    assert_eq!(
        texts(&found),
        ["fifth apple", "fourth APPLE", "second Apple", "first apple"]
    );
    assert_eq!(found.searched_to_ms, None);
    assert_eq!(
        (found.hits[0].log, found.hits[0].agent_id.as_str()),
        (two, "a3")
    );
    let found = world.views.search(search(&[one], "apple")).await.unwrap();
    assert_eq!(texts(&found), ["fourth APPLE", "first apple"]);
    let none = Search {
        kinds: vec![Kind::Reply.into()],
        ..search(&[one, two], "apple")
    };
    assert!(world.views.search(none).await.unwrap().hits.is_empty());
    world.stop().await;
}

#[tokio::test]
async fn what_was_erased_is_not_found() {
    let mut world = World::new();
    let [log, _] = two_boxes(&world).await;
    let key = world.write_agent(log, "a1", prompt("my secret")).await;
    world.seen(&key).await;
    assert_eq!(
        world
            .views
            .search(search(&[log], "secret"))
            .await
            .unwrap()
            .hits
            .len(),
        1
    );
    let key = world.erase(log, &[key.pos]).await;
    world.seen(&key).await;
    assert!(
        world
            .views
            .search(search(&[log], "secret"))
            .await
            .unwrap()
            .hits
            .is_empty()
    );
    world.stop().await;
}

/// What is written of a conversation: which box, which agent, after how long, and whether the word is in it.
fn said() -> impl Strategy<Value = Vec<(bool, bool, u8, bool)>> {
    prop::collection::vec(
        (any::<bool>(), any::<bool>(), 0_u8..3, any::<bool>()),
        0..40,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn pages_have_every_hit_once_and_in_order(said in said(), hits_max in 1_usize..6) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build().unwrap();
        runtime.block_on(async {
            let mut world = World::new();
            let logs = two_boxes(&world).await;
            let mut expected = 0;
            for (at, (log, agent, after_ms, has_it)) in said.iter().enumerate() {
                later(&world, i64::from(*after_ms));
                let agent = if *agent { "a1" } else { "a2" };
                let text = if *has_it { format!("needle {at}") } else { format!("hay {at}") };
                expected += usize::from(*has_it);
                world.write_agent(logs[usize::from(*log)], agent, prompt(&text)).await;
            }
            assert!(world.settle().await.is_equal());
            let (mut all, mut before_ms) = (Vec::new(), i64::MAX);
            loop {
                let asked = Search { before_ms, hits_max, ..search(&logs, "needle") };
                let found = world.views.search(asked).await.unwrap();
                let times: Vec<i64> = found.hits.iter().map(|hit| hit.item.at_ms).collect();
                assert!(times.is_sorted_by(|a, b| a >= b));
                assert!(times.first().is_none_or(|first| *first < before_ms));
                all.extend(found.hits.into_iter().map(|hit| hit.item.text));
                match found.searched_to_ms {
                    Some(at_ms) => {
                        assert!(at_ms < before_ms, "no step back from {before_ms}");
                        before_ms = at_ms;
                    }
                    None => break,
                }
            }
            assert_eq!(all.len(), expected);
            all.sort();
            all.dedup();
            assert_eq!(all.len(), expected);
            world.stop().await;
        });
    }
}
