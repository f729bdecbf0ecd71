//! Events that no honest writer makes, as they come from a box or another build.

use bytes::Bytes;
use cocoonbox_events::{
    AgentEvent, BoxEvent, ChainHash, Kind, LogId, LogKind, PayloadHash, Recorded, StreamName,
    chain::Link, record::Body,
};
use cocoonbox_proto::log::v1::{AgentPromptReceived, BoxRenamed};

use crate::world::{USER, World};

fn forged(log: LogId, before: (u64, ChainHash), seq: u64, kind: u32, payload: &[u8]) -> Recorded {
    let body = Body {
        salt: [7; 16],
        payload: Bytes::copy_from_slice(payload),
    };
    let payload_hash = PayloadHash::of(&body.salt, &body.payload);
    let mut event = Recorded {
        log,
        pos: before.0 + 1,
        stream: StreamName::new("agent/a1").unwrap(),
        seq,
        kind,
        version: 1,
        recorded_us: 1_700_000_000_000_000,
        header: Bytes::new(),
        body: Some(body),
        payload_hash,
        chain: before.1,
    };
    event.chain = before.1.next(&Link::from(&event));
    event
}

async fn replicate(world: &World, log: LogId, kinds: &[(u32, Vec<u8>)]) {
    let tail = world.store.tail(log).unwrap();
    let mut before = (tail.pos, tail.chain);
    let mut events = Vec::new();
    for (kind, payload) in kinds {
        let event = forged(log, before, before.0 + 1, *kind, payload);
        before = (event.pos, event.chain);
        events.push(event);
    }
    world.store.replicate(log, events).await.unwrap();
}

fn prompt(text: &str) -> (u32, Vec<u8>) {
    use cocoonbox_events::Payload;
    let event = AgentEvent::PromptReceived(AgentPromptReceived {
        prompt_id: String::new(),
        text: text.to_owned(),
        ..AgentPromptReceived::default()
    });
    let (kind, bytes) = Payload::from(event).encode();
    (kind.number(), bytes)
}

#[tokio::test]
async fn poison_stops_one_projection_in_one_log_and_nothing_else() {
    let mut world = World::new();
    let account = world.account().await;
    let bad = world.open(LogKind::Box, USER).await;
    let good = world.open(LogKind::Box, USER).await;
    let garbage = (Kind::AgentPromptReceived.number(), vec![0xff; 9]);
    replicate(&world, bad, &[prompt("one"), garbage, prompt("three")]).await;

    world.until(|views| !views.degraded().is_empty()).await;
    let degraded = world.views.degraded();
    assert_eq!(degraded.len(), 1);
    assert_eq!(
        (degraded[0].projection, degraded[0].log, degraded[0].pos),
        ("transcript", bad, 2)
    );
    assert!(
        degraded[0].error.contains("agent.prompt_received"),
        "{}",
        degraded[0].error
    );
    // What came before it is there, and the event was not skipped.
    let rows = world
        .views
        .transcript(bad, "a1", None, 100)
        .await
        .unwrap()
        .items;
    assert_eq!(
        rows.iter().map(|row| &*row.text).collect::<Vec<_>>(),
        ["one"]
    );
    let at = world
        .views
        .checkpoint("transcript", bad)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(at.pos, 1);

    // Other logs and other projections go on.
    replicate(&world, good, &[prompt("hello")]).await;
    let renamed = BoxRenamed {
        name: "x".to_owned(),
    };
    let key = world
        .write_box(account, "b1", BoxEvent::Renamed(renamed))
        .await;
    world.seen(&key).await;
    let tail = world.store.tail(good).unwrap();
    world
        .seen(&cocoonbox_events::OffsetKey::new(
            good, tail.pos, tail.chain,
        ))
        .await;
    assert_eq!(
        world
            .views
            .transcript(good, "a1", None, 9)
            .await
            .unwrap()
            .items
            .len(),
        1
    );

    // After a restart it stands where it stood.
    world.stop().await;
    world.start();
    world.until(|views| !views.degraded().is_empty()).await;
    assert_eq!(world.views.degraded(), degraded);
    // The compare goes up to the checkpoint, which is before the event.
    let report = cocoonbox_projections::rebuild_and_compare(&*world.store, &world.views).await;
    assert!(report.unwrap().is_equal());
    world.stop().await;
}

#[tokio::test]
async fn unknown_kinds_pass_and_odd_sequences_are_borne() {
    let world = World::new();
    let log = world.open(LogKind::Box, USER).await;
    // Every agent kind with an empty payload, twice, in the order of the registry and backwards.
    let mut kinds: Vec<(u32, Vec<u8>)> = vec![(9_999, b"whatever".to_vec())];
    let agent = Kind::ALL
        .iter()
        .filter(|kind| kind.name().starts_with("agent."));
    let agent: Vec<u32> = agent.map(|kind| kind.number()).collect();
    kinds.extend(agent.iter().map(|number| (*number, Vec::new())));
    kinds.extend(agent.iter().rev().map(|number| (*number, Vec::new())));
    kinds.push(prompt("still here"));
    replicate(&world, log, &kinds).await;
    assert!(world.settle().await.is_equal());
    assert_eq!(world.views.degraded(), []);
    let rows = world
        .views
        .transcript(log, "a1", None, 1_000)
        .await
        .unwrap()
        .items;
    assert_eq!(rows.last().unwrap().text, "still here");
}
