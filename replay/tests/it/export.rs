//! Exports answer as the store that they were made of, and say where somebody changed them.

use std::sync::Arc;

use cocoonbox_events::{
    ChainHash, LogId, LogKind, NewLog, PayloadHash, Recorded, Store, StreamName, record::Body,
};
use cocoonbox_replay::{
    By, diff_stores,
    export::{ExportLine, ExportStore, LineError, OpenError, Plan, decode_line, encode_line},
    rerun, state, verify, verify_all,
};
use proptest::prelude::*;

use crate::{
    exported::Exported,
    world::{World, account, box_log, log, stream},
};

/// Everything that the two answer is the same, whatever the size of the page.
async fn assert_alike(a: &Arc<dyn Store>, b: &Arc<dyn Store>) {
    let ids = |store: &Arc<dyn Store>| store.logs().iter().map(|info| info.id).collect::<Vec<_>>();
    assert_eq!(ids(a), ids(b));
    for info in a.logs() {
        let log = info.id;
        assert_eq!(b.info(log).unwrap(), info);
        for after in 0..=info.tail.pos {
            for limit in [1, 3, 1_000] {
                let (left, right) = (
                    a.read(log, after, limit).await,
                    b.read(log, after, limit).await,
                );
                assert_eq!(
                    left.unwrap().events,
                    right.unwrap().events,
                    "{log} {after} {limit}"
                );
            }
            assert_eq!(
                a.chain_at(log, after).await.unwrap(),
                b.chain_at(log, after).await.unwrap(),
                "{log} {after}"
            );
        }
        assert!(b.chain_at(log, info.tail.pos + 1).await.is_err());
        let mut streams: Vec<StreamName> = Vec::new();
        for event in a.read(log, 0, 1_000).await.unwrap().events {
            streams.push(event.stream);
        }
        streams.dedup();
        for name in streams {
            for (after, limit) in [(0, 1_000), (0, 2), (2, 2), (3, 1), (99, 1)] {
                let left = a.read_stream(log, &name, after, limit).await.unwrap();
                let right = b.read_stream(log, &name, after, limit).await.unwrap();
                assert_eq!(left.events, right.events, "{name} {after} {limit}");
            }
        }
    }
}

#[tokio::test]
async fn an_export_answers_as_its_store() {
    let world = World::whole().await;
    let exported = Exported::of_world(&world).await;
    let store = exported.store().await;
    assert_alike(&world.store, &store).await;
    assert!(verify_all(&store).await.unwrap().is_good());
    assert!(
        rerun(&store, box_log(), &stream("agent/main"))
            .await
            .unwrap()
            .is_same()
    );
    let at = state(&store, account(), &stream("box/b1"), Some(4))
        .await
        .unwrap();
    assert_eq!(at.to_json()["state"]["phase"], "starting");
    let found = diff_stores(&world.store, &store, By::Bytes, &mut |_| {})
        .await
        .unwrap();
    assert!(
        found.iter().all(cocoonbox_replay::LogDiff::is_same),
        "{found:?}"
    );
}

/// A fork that goes on, and a rewind.
async fn branched() -> World {
    let mut world = World::whole().await;
    for (branch, at, is_rewind) in [(4_u8, 9, false), (5, 12, true)] {
        let chain = world.store.chain_at(box_log(), at).await.unwrap();
        let new = NewLog {
            id: log(branch),
            kind: LogKind::Box,
            owner: "u1".into(),
            parent: Some(cocoonbox_events::Parent {
                log: box_log(),
                pos: at,
                chain,
            }),
        };
        if is_rewind {
            world.rewind_box(new).await;
        } else {
            world.store.open(new).await.unwrap();
        }
        let created = cocoonbox_proto::log::v1::AgentRenamed {
            name: format!("branch {branch}"),
        };
        let event = cocoonbox_events::AgentEvent::Renamed(created);
        world.forge(log(branch), "agent/main", event.clone()).await;
        world.forge(log(branch), "agent/other", event).await;
    }
    world
}

#[tokio::test]
async fn branches_keep_what_they_inherit() {
    let world = branched().await;
    let exported = Exported::of_world(&world).await;
    assert_alike(&world.store, &exported.store().await).await;
    let verdict = exported.verify(&[]);
    assert_eq!(verdict.code, 0, "{}", verdict.text);
    // Without its parent a branch still verifies, and what it inherits is said to be missing.
    let alone = Plan::new([world.store.info(log(4)).unwrap()], false);
    let mut text = Vec::new();
    alone
        .write(&world.store, &mut text, &mut |_| {})
        .await
        .unwrap();
    let alone = Exported::from_text(&text);
    assert_eq!(alone.verify(&[]).code, 0);
    let store = alone.store().await;
    assert!(store.read(log(4), 9, 10).await.unwrap().events.len() == 2);
    assert!(store.read(log(4), 3, 10).await.is_err());
}

#[tokio::test]
async fn a_folder_has_a_file_for_each_log() {
    let world = branched().await;
    let folder = tempfile::tempdir().unwrap();
    let plan = Plan::new(world.store.logs(), false);
    for info in plan.logs() {
        let mut text = Vec::new();
        plan.write_one(&world.store, info, &mut text, &mut |_| {})
            .await
            .unwrap();
        std::fs::write(folder.path().join(format!("{}.jsonl", info.id)), text).unwrap();
    }
    let store: Arc<dyn Store> = Arc::new(ExportStore::open(folder.path()).await.unwrap());
    assert_alike(&world.store, &store).await;
    let verifier = Exported::from_text(b"");
    let verdict =
        crate::exported::run_verifier(verifier.path().parent().unwrap(), folder.path(), &[]);
    assert_eq!(verdict.code, 0, "{}", verdict.text);
    std::fs::remove_file(folder.path().join(format!("{}.jsonl", box_log()))).unwrap();
    assert!(matches!(
        ExportStore::open(folder.path()).await,
        Err(OpenError::Missing { log }) if log == box_log()
    ));
}

#[tokio::test]
async fn a_redacted_export_verifies_and_says_nothing() {
    let world = World::whole().await;
    let exported = Exported::of(&world.store, true).await;
    let text = exported.text();
    for planted in [
        "Größe",
        &hex::encode("Größe"),
        "let me look",
        "\"salt\"",
        "\"says\"",
    ] {
        assert!(!text.contains(planted), "{planted}");
    }
    let store = exported.store().await;
    for info in store.logs() {
        let report = verify(&store, info.id).await.unwrap();
        assert!(report.is_good());
        assert_eq!(report.erased, report.events);
    }
    let verdict = exported.verify(&[]);
    assert_eq!(verdict.code, 0, "{}", verdict.text);
}

#[tokio::test]
async fn every_field_of_a_line_counts() {
    let world = World::whole().await;
    let exported = Exported::of_world(&world).await;
    let lines = exported.lines();
    let at = lines
        .iter()
        .position(|line| matches!(line, ExportLine::Event(event) if event.log == box_log() && event.pos == 5))
        .unwrap();
    type Change = fn(&mut Recorded);
    let changes: [(&str, Change); 9] = [
        ("pos", |event| event.pos = 6),
        ("stream", |event| event.stream = stream("agent/mainx")),
        ("seq", |event| event.seq += 1),
        ("kind", |event| event.kind += 1),
        ("version", |event| event.version += 1),
        ("recorded_us", |event| event.recorded_us += 1),
        ("header", |event| {
            let mut header = event.header.to_vec();
            header[5] ^= 1;
            event.header = header.into();
        }),
        ("payload", |event| {
            let body = event.body.as_mut().unwrap();
            body.salt[0] ^= 1;
        }),
        ("chain", |event| event.chain.0[31] ^= 1),
    ];
    for (field, change) in changes {
        let mut lines = lines.clone();
        let ExportLine::Event(event) = &mut lines[at] else {
            unreachable!()
        };
        change(event);
        let tampered = Exported::from_lines(&lines, false);
        let report = verify(&tampered.store().await, box_log()).await.unwrap();
        assert_eq!(report.first_break.unwrap().pos, 5, "{field}");
        let verdict = tampered.verify(&[]);
        assert_eq!(verdict.code, 1, "{field}: {}", verdict.text);
        assert!(
            verdict.text.contains("BROKEN at 5: "),
            "{field}: {}",
            verdict.text
        );
    }
}

#[tokio::test]
async fn lines_that_are_cut_are_damaged_where_they_are() {
    let world = World::whole().await;
    let exported = Exported::of_world(&world).await;
    let text = exported.text();
    let cut: Vec<String> = text
        .lines()
        .map(|line| {
            let is_it = line.contains(&format!("\"log\":\"{}\",\"pos\":7,", box_log()));
            line[..if is_it { line.len() / 2 } else { line.len() }].to_owned() + "\n"
        })
        .collect();
    let cut = Exported::from_text(cut.concat().as_bytes());
    let store = cut.store().await;
    assert_eq!(store.read(box_log(), 4, 100).await.unwrap().events.len(), 2);
    let report = verify(&store, box_log()).await.unwrap();
    assert_eq!(report.first_break.unwrap().pos, 7);
    let verdict = cut.verify(&[]);
    assert!(verdict.text.contains("BROKEN at 7: "), "{}", verdict.text);
}

#[tokio::test]
async fn what_is_no_export_says_why() {
    let open = async |text: &str| {
        let file = Exported::from_text(text.as_bytes());
        ExportStore::open(&file.path()).await.err().unwrap()
    };
    assert!(matches!(open("").await, OpenError::NoHeader { .. }));
    assert!(matches!(
        open("{\"a\":1}\n").await,
        OpenError::NoHeader { .. }
    ));
    assert!(matches!(
        open("{\"header\":{\"format\":1,\"redacted\":false,\"logs\":[]}}\n{\"event\":{}}\n").await,
        OpenError::Stray { line: 2, .. }
    ));
    let newer = decode_line(b"{\"header\":{\"format\":2,\"redacted\":false,\"logs\":[]}}");
    assert_eq!(newer, Err(LineError::Newer { found: 2 }));
    let world = World::whole().await;
    let mut lines = Exported::of_world(&world).await.lines();
    let again = lines.clone();
    lines.extend(again.into_iter().skip(1));
    let twice = Exported::from_lines(&lines, false);
    assert!(matches!(
        ExportStore::open(&twice.path()).await,
        Err(OpenError::Twice { .. })
    ));
}

fn bytes32() -> impl Strategy<Value = [u8; 32]> {
    any::<[u8; 32]>()
}

prop_compose! {
    fn event()(
        id in any::<u128>(), pos in 1..u64::MAX, name in "[a-z]{1,9}/[A-Za-z0-9._-]{0,20}",
        seq in 1..u64::MAX, kind in 0..200_u32, version in any::<u32>(), recorded_us in any::<i64>(),
        header in prop::collection::vec(any::<u8>(), 0..200),
        body in prop::option::of((any::<[u8; 16]>(), prop::collection::vec(any::<u8>(), 0..300))),
        hash in bytes32(), chain in bytes32(),
    ) -> Recorded {
        Recorded {
            log: LogId(uuid::Uuid::from_u128(id)), pos, stream: stream(&name), seq, kind, version, recorded_us,
            header: header.into(), body: body.map(|(salt, payload)| Body { salt, payload: payload.into() }),
            payload_hash: PayloadHash(hash), chain: ChainHash(chain),
        }
    }
}

proptest! {
    #[test]
    fn any_event_comes_back(event in event()) {
        let line = ExportLine::Event(Box::new(event.clone()));
        let text = encode_line(&line, false).unwrap();
        prop_assert_eq!(decode_line(&text).unwrap(), line);
        let redacted = decode_line(&encode_line(&ExportLine::Event(Box::new(event.clone())), true).unwrap());
        let expected = Recorded { body: None, ..event };
        prop_assert_eq!(redacted.unwrap(), ExportLine::Event(Box::new(expected)));
    }

    #[test]
    fn garbage_is_an_error_and_no_panic(
        event in event(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>(),
    ) {
        let mut text = encode_line(&ExportLine::Event(Box::new(event)), false).unwrap();
        let at = at.index(text.len());
        text[at] = byte;
        drop(decode_line(&text));
        prop_assert!(decode_line(&text[..cut.index(text.len())]).is_err());
    }
}
