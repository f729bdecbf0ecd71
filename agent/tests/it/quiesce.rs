//! A box that is being stopped finishes what it writes and starts nothing.

use cocoonbox_events::{ExecEvent, LogId, Payload, Recorded, chain::Verifier};
use cocoonbox_proto::{
    agent::v1::{FollowRequest, HelloRequest, QuiesceRequest, SendRequest, exec_response::Frame},
    log::v1::exec_exited::Reason,
};
use tonic::Code;
use tonic_types::StatusExt;

use crate::{
    execs::{NO_MODEL, bash, start},
    world::{World, payload},
};

#[tokio::test]
async fn quiesce_ends_execs_refuses_calls_and_keeps_the_chain() {
    let mut world = World::new("anthropic", NO_MODEL).await;
    let mut follow = world
        .box_log()
        .follow(FollowRequest { after_pos: 0 })
        .await
        .expect("a stream")
        .into_inner();
    let mut stream = start(&world, bash("echo up; sleep 60"))
        .await
        .expect("started");
    while stream
        .message()
        .await
        .expect("a frame")
        .expect("not the end")
        .frame
        .is_none()
    {}
    world.until_kind("exec.output_streamed").await;
    let tail = world
        .box_log()
        .quiesce(QuiesceRequest {})
        .await
        .expect("quiet")
        .into_inner();
    let refused = world
        .session()
        .hello(HelloRequest {})
        .await
        .expect_err("refused");
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(
        refused
            .get_details_retry_info()
            .expect("a delay")
            .retry_delay
            .is_some()
    );
    let prompt = SendRequest {
        prompt: "go".into(),
        ..SendRequest::default()
    };
    let refused = world.agents().send(prompt).await.expect_err("refused");
    assert_eq!(refused.code(), Code::Unavailable);
    // The stream that was open brings the replica to the tail.
    let log = LogId::from_slice(&tail.log_id).expect("an id");
    let genesis = cocoonbox_events::ChainHash::genesis(log, None);
    let mut verifier = Verifier::after(0, genesis);
    let mut last = None;
    while verifier.pos() < tail.pos {
        let batch = follow
            .message()
            .await
            .expect("a batch")
            .expect("not the end");
        for event in batch.events {
            let event = Recorded::from_wire(log, event).expect("well-formed");
            verifier.check(&event).expect("verifies");
            last = Some(event);
        }
    }
    assert_eq!(verifier.chain().0.to_vec(), tail.chain);
    let last = last.expect("an event").payload().expect("readable");
    let Some(Payload::Exec(ExecEvent::Exited(exited))) = last else {
        panic!("{last:?}")
    };
    assert_eq!(exited.reason(), Reason::Interrupted);
    let again = world
        .box_log()
        .quiesce(QuiesceRequest {})
        .await
        .expect("quiet")
        .into_inner();
    assert_eq!(again.pos, tail.pos);
    // The next process goes on from there.
    world.kill_serve().await;
    assert!(world.start_serve(&[]).await);
    assert_eq!(world.events().await.len() as u64, tail.pos);
}

#[tokio::test]
async fn a_turn_under_way_goes_on_in_the_next_process() {
    let script = "chunk_delay_ms = 30\n[[conversation]]\n[[conversation.step]]\n\
                  text = \"one two three four five six seven eight nine ten eleven twelve\"\n";
    let mut world = World::new("anthropic", script).await;
    world.send("go").await;
    world.until_kind("agent.output_streamed").await;
    let tail = world
        .box_log()
        .quiesce(QuiesceRequest {})
        .await
        .expect("quiet")
        .into_inner();
    world.kill_serve().await;
    assert!(world.start_serve(&[]).await);
    let events = world.until_kind("agent.turn_ended").await;
    let failed = &events[usize::try_from(tail.pos).expect("small")];
    assert_eq!(failed.kind, "agent.model_failed");
    let Payload::Agent(cocoonbox_events::AgentEvent::ModelFailed(failed)) = payload(failed) else {
        panic!("another event")
    };
    use cocoonbox_proto::log::v1::agent_model_failed::Reason;
    assert_eq!(failed.reason(), Reason::AgentRestarted);
}

#[tokio::test]
async fn a_terminated_process_ends_its_execs_its_followers_and_its_log() {
    let mut world = World::new("anthropic", NO_MODEL).await;
    let request = FollowRequest { after_pos: 0 };
    let mut follow = world
        .box_log()
        .follow(request)
        .await
        .expect("a stream")
        .into_inner();
    let mut stream = start(&world, bash("echo up; sleep 60"))
        .await
        .expect("started");
    world.until_kind("exec.output_streamed").await;
    let begun = tokio::time::Instant::now();
    let pid = world.serve_pid().to_string();
    std::process::Command::new("kill")
        .arg(pid)
        .status()
        .expect("kill");
    let mut exited = None;
    while let Some(response) = stream.message().await.expect("a whole stream") {
        if let Some(Frame::Exited(end)) = response.frame {
            exited = Some(end);
        }
    }
    assert_eq!(exited.expect("an end").reason(), Reason::Interrupted);
    let mut pos = 0;
    while let Some(batch) = follow.message().await.expect("a whole stream") {
        pos = batch.events.last().expect("an event").pos;
    }
    assert_eq!(pos, 3, "started, output, exited");
    assert!(world.serve_ended().await);
    let took = begun.elapsed();
    assert!(
        took < std::time::Duration::from_secs(2),
        "{took:?} although nobody listens any more"
    );
}
