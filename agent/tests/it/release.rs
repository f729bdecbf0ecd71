//! A box writes nothing before it is told which log it writes.

use cocoonbox_events::{ChainHash, Ids as _, LogId, SystemIds};
use cocoonbox_proto::agent::v1::{
    Branch, FollowRequest, HelloRequest, LinkRequest, QuiesceRequest, RestoreRequest, SendRequest,
    StandingRequest, StandingResponse,
};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::{
    execs::{NO_MODEL, bash, start},
    world::World,
};

fn reason(status: &Status) -> String {
    let details = status.get_error_details();
    details
        .error_info()
        .map(|info| info.reason.clone())
        .unwrap_or_default()
}

async fn standing(world: &World) -> StandingResponse {
    let answer = world.box_log().standing(StandingRequest {}).await;
    answer.expect("an answer").into_inner()
}

async fn link(world: &World, log_id: &[u8], pos: u64) -> ChainHash {
    let log_id = log_id.to_vec();
    let answer = world.box_log().link(LinkRequest { log_id, pos }).await;
    ChainHash::from_slice(&answer.expect("a link").into_inner().chain).expect("32 bytes")
}

/// A branch of the box's first log, behind `pos`.
async fn branch(world: &World, pos: u64) -> Branch {
    let parent = world.lineage[0].log_id.clone();
    Branch {
        log_id: LogId(SystemIds.draw()).as_bytes().to_vec(),
        parent_chain: link(world, &parent, pos).await.0.to_vec(),
        parent_log: parent,
        parent_pos: pos,
    }
}

async fn run(world: &World, line: &str) {
    let mut stream = start(world, bash(line)).await.expect("started");
    while stream.message().await.expect("a frame").is_some() {}
}

#[tokio::test]
async fn a_paused_box_answers_what_it_has_and_nothing_else() {
    let mut world = World::dark("anthropic", NO_MODEL).await;
    world.start_toolhost();
    assert!(world.start_paused(&[]).await);
    let hello = world.session().hello(HelloRequest {}).await.expect("there");
    assert!(!hello.get_ref().released);
    assert_eq!(hello.get_ref().offset_key, "");
    let refused = world.agents().send(SendRequest::default()).await;
    let refused = refused.expect_err("paused");
    assert_eq!(
        (refused.code(), reason(&refused)),
        (Code::Unavailable, "BOX_NOT_RELEASED".into())
    );
    for refused in [
        world
            .box_log()
            .follow(FollowRequest { after_pos: 0 })
            .await
            .map(drop),
        world.box_log().quiesce(QuiesceRequest {}).await.map(drop),
    ] {
        assert_eq!(reason(&refused.expect_err("paused")), "BOX_NOT_RELEASED");
    }
    assert!(standing(&world).await.logs.is_empty());
    world.release().await.expect("released");
    world.release().await.expect("the same again");
    run(&world, "true").await;
    let standing = standing(&world).await;
    assert_eq!(standing.released, world.lineage[0].log_id);
    assert_eq!(standing.logs.len(), 1);
}

#[tokio::test]
async fn a_box_that_writes_another_log_starts_again() {
    let mut world = World::new("anthropic", NO_MODEL).await;
    run(&world, "echo one").await;
    let tail = standing(&world).await.logs[0].tail.clone().expect("a tail");
    let second = branch(&world, tail.pos - 1).await;
    world.lineage.push(second.clone());
    let elsewhere = world.release().await.expect_err("it writes the first log");
    assert_eq!(reason(&elsewhere), "RESTARTING");
    assert!(world.serve_ended().await);
    assert!(world.start_serve(&[]).await);
    run(&world, "echo two").await;
    let standing = standing(&world).await;
    assert_eq!(standing.released, second.log_id);
    // What was left of the command that the branch cut in two is ended first.
    let events = world.events().await;
    assert_eq!(
        events[usize::try_from(tail.pos).expect("small") - 1].kind,
        "exec.exited"
    );
    world.kill_serve().await;
    assert!(world.start_serve(&[]).await);
    assert_eq!(world.events().await[..events.len()], events);
}

#[tokio::test]
async fn a_lineage_that_the_disk_has_not_is_refused() {
    let mut world = World::new("anthropic", NO_MODEL).await;
    run(&world, "echo one").await;
    let mut second = branch(&world, 1).await;
    second.parent_pos = 99;
    world.kill_serve().await;
    world.lineage.push(second);
    assert!(world.start_paused(&[]).await);
    let lost = world.release().await.expect_err("it has not got that much");
    assert_eq!(
        (lost.code(), reason(&lost)),
        (Code::FailedPrecondition, "LOST".into())
    );
    world.lineage.remove(0);
    let torn = world.release().await.expect_err("it begins in the middle");
    assert_eq!(reason(&torn), "BAD_LINEAGE");
    assert!(standing(&world).await.released.is_empty());
}

#[tokio::test]
async fn what_was_lost_is_given_back_once() {
    let mut world = World::new("anthropic", NO_MODEL).await;
    run(&world, "echo one").await;
    let before = world.events().await;
    let mut follow = world.box_log().follow(FollowRequest { after_pos: 0 }).await;
    let follow = follow.as_mut().expect("a stream").get_mut();
    let mut events = Vec::new();
    while events.len() < before.len() {
        let batch = follow.message().await.expect("a batch").expect("more");
        events.extend(batch.events);
    }
    let restore = |events: &[_]| RestoreRequest {
        branch: Some(world.lineage[0].clone()),
        events: events.to_vec(),
    };
    let (first, all) = (restore(&events[..1]), restore(&events));
    let late = world
        .box_log()
        .restore(all.clone())
        .await
        .expect_err("it writes it");
    assert_eq!(reason(&late), "RELEASED");
    world.kill_serve().await;
    for file in std::fs::read_dir(world.path("data"))
        .expect("a folder")
        .flatten()
    {
        std::fs::remove_file(file.path()).expect("removable");
    }
    assert!(world.start_paused(&[]).await);
    world.box_log().restore(first).await.expect("taken");
    // Killed in the middle, it says that it has not got everything.
    world.kill_serve().await;
    assert!(world.start_paused(&[]).await);
    assert!(standing(&world).await.restoring);
    let mut forged = all.clone();
    forged.events[1].payload.push(0);
    let refused = world.box_log().restore(forged).await.expect_err("forged");
    assert_eq!(reason(&refused), "NOT_RESTORED");
    world.box_log().restore(all).await.expect("taken");
    world.release().await.expect("released");
    assert!(!standing(&world).await.restoring);
    assert_eq!(world.events().await, before);
}
