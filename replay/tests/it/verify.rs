use std::sync::Arc;

use bytes::Bytes;
use cocoonbox_commands::boxes;
use cocoonbox_events::{
    AgentEvent, BoxEvent, ChainHash, ExecEvent, LogEvent, PayloadHash, Recorded, Store, chain::Link,
};
use cocoonbox_proto::log::v1::{self as log, actor};
use cocoonbox_replay::{AllReport, Break, verify, verify_all};

use crate::{
    tampered::Tampered,
    world::{World, account, actor, box_log, log as log_id, stream},
};

/// What an edit makes of the box log: the first bad position.
async fn first_break(store: &Arc<dyn Store>) -> Break {
    let report = verify(store, box_log()).await.unwrap();
    let found = report.first_break.unwrap();
    assert_eq!(report.events, found.pos - 1, "what is before it is good");
    found
}

fn says(report: &AllReport) -> Vec<(u64, &str)> {
    report
        .findings
        .iter()
        .map(|found| (found.pos, found.what.as_str()))
        .collect()
}

#[tokio::test]
async fn a_whole_world_is_good() {
    let world = World::whole().await;
    let report = verify_all(&world.store).await.unwrap();
    assert!(report.is_good(), "{report:?}");
    assert_eq!(
        (report.logs.len(), report.anchors, report.folded),
        (3, 1, 5)
    );
    let of_box = report
        .logs
        .iter()
        .find(|report| report.log == box_log())
        .unwrap();
    assert_eq!(of_box.events, world.store.tail(box_log()).unwrap().pos);
    assert_eq!(of_box.streams, 2);
    assert_eq!(report.to_json()["good"], true);
}

#[tokio::test]
async fn erased_payloads_are_counted_and_good() {
    let mut world = World::whole().await;
    let chunks: Vec<u64> = all(&world, box_log())
        .await
        .iter()
        .filter(|event| event.kind == cocoonbox_events::Kind::AgentOutputStreamed.number())
        .map(|event| event.pos)
        .collect();
    world.store.erase(box_log(), &chunks[..1]).await.unwrap();
    // An erasure is an event, or it is damage.
    let report = verify(&world.store, box_log()).await.unwrap();
    let found: Vec<_> = report.findings.iter().collect();
    assert_eq!((found.len(), found[0].pos), (1, chunks[0]), "{report:?}");
    let asked = LogEvent::ErasureRequested(log::LogErasureRequested {
        positions: chunks[..1].to_vec(),
        ..log::LogErasureRequested::default()
    });
    world.forge(box_log(), "log/erasure", asked).await;
    let report = verify_all(&world.store).await.unwrap();
    assert!(report.is_good(), "{report:?}");
    assert_eq!(report.logs.iter().map(|log| log.erased).sum::<u64>(), 1);
}

#[tokio::test]
async fn each_way_to_tamper_is_found_where_it_was_done() {
    let world = World::whole().await;
    let below = &world.memory;
    let store = Tampered::at(below, box_log(), 4, |event| {
        let body = event.body.as_mut().unwrap();
        body.payload = Bytes::from_static(b"\x0a\x01x");
    });
    let found = first_break(&store).await;
    assert_eq!(
        (found.pos, found.what.as_str()),
        (4, "payload at position 4 is not what its hash says")
    );

    let store = Tampered::at(below, box_log(), 5, |event| {
        let body = event.body.as_mut().unwrap();
        body.payload = Bytes::from_static(b"\x0a\x01x");
        event.payload_hash = PayloadHash::of(&body.salt, &body.payload);
    });
    assert_eq!(
        first_break(&store).await.pos,
        5,
        "with a hash that fits, the chain does not"
    );

    let store = Tampered::at(below, box_log(), 3, |event| event.recorded_us -= 60_000_000);
    assert_eq!(
        first_break(&store).await.what,
        "time at position 3 goes back"
    );

    let store = Tampered::at(below, box_log(), 2, |event| {
        event.stream = stream("agent/other");
    });
    assert_eq!(first_break(&store).await.pos, 2);

    let store = Tampered::edited(below, box_log(), |events| drop(events.remove(5)));
    assert_eq!(first_break(&store).await.what, "position 7 where 6 follows");

    let store = Tampered::edited(below, box_log(), |events| events.truncate(7));
    let found = first_break(&store).await;
    assert_eq!(found.pos, 8);
    assert!(
        found.what.starts_with("the log ends here"),
        "{}",
        found.what
    );

    let store = Tampered::at(below, box_log(), 6, |event| event.log = log_id(9));
    assert_eq!(first_break(&store).await.pos, 6);
}

#[tokio::test]
async fn a_history_written_anew_with_all_links_ends_in_another_one() {
    let world = World::whole().await;
    let last = world.store.tail(box_log()).unwrap().pos;
    let genesis = world.store.chain_at(box_log(), 0).await.unwrap();
    let store = Tampered::edited(&world.memory, box_log(), move |events| {
        rewrite(genesis, events);
    });
    let found = verify(&store, box_log())
        .await
        .unwrap()
        .first_break
        .unwrap();
    assert_eq!(
        found.pos, last,
        "only what is held elsewhere tells: here the tail"
    );
}

/// Changes event 2 and makes every link behind it fit.
fn rewrite(genesis: ChainHash, events: &mut [Recorded]) {
    let mut chain = genesis;
    for event in events {
        if event.pos == 2 {
            let body = event.body.as_mut().unwrap();
            body.payload = Bytes::new();
            event.payload_hash = PayloadHash::of(&body.salt, &body.payload);
        }
        chain = chain.next(&Link::from(&*event));
        event.chain = chain;
    }
}

#[tokio::test]
async fn a_gap_in_a_stream_is_found_even_if_the_chain_fits() {
    let world = World::whole().await;
    let genesis = world.store.chain_at(box_log(), 0).await.unwrap();
    let store = Tampered::edited(&world.memory, box_log(), move |events| {
        events[3].seq += 1;
        rewrite(genesis, events);
    });
    let found = first_break(&store).await;
    assert_eq!(
        (found.pos, found.what.as_str()),
        (4, "stream `agent/main` goes on with seq 5 after 3")
    );
}

#[tokio::test]
async fn events_that_cannot_follow_are_found_by_folding() {
    let mut world = World::whole().await;
    let ended = ExecEvent::Exited(log::ExecExited::default());
    world.forge(box_log(), "exec/e1", ended.clone()).await;
    let pos = world.forge(box_log(), "exec/e2", ended).await;
    let stray = AgentEvent::TurnEnded(log::AgentTurnEnded {
        turn_id: "t".into(),
        ..Default::default()
    });
    let second = world.forge(box_log(), "agent/main", stray).await;
    let report = verify_all(&world.store).await.unwrap();
    assert!(
        report
            .logs
            .iter()
            .all(cocoonbox_replay::VerifyReport::is_good),
        "the chain is whole"
    );
    assert_eq!(
        says(&report),
        [
            (pos - 1, "event 16 of stream `exec/e1` follows its end"),
            (
                pos,
                "event 17 (`exec.exited`) of stream `exec/e2` cannot follow in state `absent`"
            ),
            (
                second,
                "event 18 (`agent.turn_ended`) of stream `agent/main` cannot follow in state `idle`"
            ),
        ]
    );
}

#[tokio::test]
async fn anchors_that_do_not_fit_name_their_place() {
    let mut world = World::whole().await;
    let by = actor(actor::Kind::System, "lifecycle");
    let tail = world.store.tail(box_log()).unwrap().pos;
    let anchor = |pos, n| boxes::Command::Anchor {
        box_log: box_log(),
        pos,
        chain: ChainHash([n; 32]),
    };
    world.boxes(anchor(tail + 5, 7), by, None).await;
    let unknown = BoxEvent::LogAnchored(log::BoxLogAnchored {
        box_log: log_id(9).as_bytes().to_vec(),
        pos: 1,
        chain: vec![1; 32],
    });
    world.forge(account(), "box/b2", unknown).await;
    let forged = BoxEvent::LogAnchored(log::BoxLogAnchored {
        box_log: box_log().as_bytes().to_vec(),
        pos: 2,
        chain: vec![1; 32],
    });
    world.forge(account(), "box/b2", forged).await;
    let report = verify_all(&world.store).await.unwrap();
    let found = says(&report);
    assert_eq!(report.anchors, 4);
    let has = |pos: u64, what: &str| {
        found
            .iter()
            .any(|(at, says)| *at == pos && says.contains(what))
    };
    assert!(has(7, "before the anchor at"), "{found:?}");
    assert!(has(8, "is not here"), "{found:?}");
    assert!(has(9, "the anchor says 0101"), "{found:?}");
    assert!(!report.is_good());
}

async fn all(world: &World, log: cocoonbox_events::LogId) -> Vec<Recorded> {
    world.store.read(log, 0, 1_000).await.unwrap().events
}
