//! The box log as clients follow it.

use cocoonbox_events::OffsetKey;
use cocoonbox_proto::{
    agent::v1::{EventsRequest, FollowRequest},
    log::v1::event_or_heartbeat::Item,
};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::{
    execs::{NO_MODEL, bash, run},
    world::World,
};

async fn from(world: &World, key: String) -> Result<Vec<u64>, Status> {
    let request = EventsRequest {
        from_offset: key,
        no_follow: true,
        ..EventsRequest::default()
    };
    let mut stream = world.session().events(request).await?.into_inner();
    let mut seen = Vec::new();
    while let Some(item) = stream.message().await? {
        if let Some(Item::Event(event)) = item.item {
            seen.push(event.offset_key.parse::<OffsetKey>().expect("a key").pos);
        }
    }
    Ok(seen)
}

#[tokio::test]
async fn every_key_resumes_right_behind_it() {
    let world = World::new("anthropic", NO_MODEL).await;
    run(&world, bash("echo a")).await;
    run(&world, bash("echo b")).await;
    let events = world.events().await;
    assert_eq!(events.len(), 6);
    for (before, event) in (1..).zip(&events) {
        let seen = from(&world, event.offset_key.clone())
            .await
            .expect("resumes");
        assert_eq!(seen, (before + 1..=6).collect::<Vec<u64>>());
    }
}

#[tokio::test]
async fn a_filter_passes_over_and_says_where_it_is() {
    let world = World::new("anthropic", NO_MODEL).await;
    run(&world, bash("true")).await;
    let request = EventsRequest {
        streams: vec!["agent/".into()],
        no_follow: true,
        ..EventsRequest::default()
    };
    let mut stream = world
        .session()
        .events(request)
        .await
        .expect("a stream")
        .into_inner();
    let item = stream
        .message()
        .await
        .expect("an item")
        .expect("not the end");
    let Some(Item::Heartbeat(heartbeat)) = item.item else {
        panic!("{item:?}")
    };
    assert_eq!(
        heartbeat
            .offset_key
            .parse::<OffsetKey>()
            .expect("a key")
            .pos,
        2
    );
    assert!(stream.message().await.expect("an end").is_none());
}

#[tokio::test]
async fn a_quiet_stream_beats() {
    let world = World::new("anthropic", NO_MODEL).await;
    let request = EventsRequest::default();
    let mut stream = world
        .session()
        .events(request)
        .await
        .expect("a stream")
        .into_inner();
    let item = tokio::time::timeout(crate::world::DEADLINE, stream.message()).await;
    let item = item
        .expect("in time")
        .expect("an item")
        .expect("not the end");
    assert!(matches!(item.item, Some(Item::Heartbeat(_))), "{item:?}");
}

#[tokio::test]
async fn a_key_that_is_not_of_this_history_is_refused() {
    let world = World::new("anthropic", NO_MODEL).await;
    run(&world, bash("true")).await;
    let events = world.events().await;
    let key: OffsetKey = events[1].offset_key.parse().expect("a key");
    let other_log = OffsetKey {
        log: "0197f2a0000070008000000000000009".parse().expect("an id"),
        ..key
    };
    let cases = [
        ("nonsense".to_owned(), Code::InvalidArgument, "BAD_FIELD"),
        (other_log.to_string(), Code::FailedPrecondition, "OTHER_LOG"),
        (
            OffsetKey { pos: 99, ..key }.to_string(),
            Code::OutOfRange,
            "AHEAD_OF_TAIL",
        ),
        (
            OffsetKey {
                chain: [0; 4],
                ..key
            }
            .to_string(),
            Code::Aborted,
            "DIVERGED",
        ),
    ];
    for (key, code, reason) in cases {
        let refused = from(&world, key).await.expect_err("refused");
        let info = refused.get_details_error_info().expect("a reason");
        assert_eq!((refused.code(), info.reason.as_str()), (code, reason));
    }
    let ahead = world
        .box_log()
        .follow(FollowRequest { after_pos: 99 })
        .await;
    assert_eq!(ahead.expect_err("refused").code(), Code::OutOfRange);
}
