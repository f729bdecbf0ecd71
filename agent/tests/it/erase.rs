//! What the box's own log holds is erased by the box, whatever happens in between.

use cocoonbox_proto::{
    agent::v1::{EraseRequest, SendRequest},
    log::v1::Event,
};
use tonic::Code;

use crate::world::World;

/// Planted in a prompt, a reply, a tool's arguments and its output.
const PLANTED: [&str; 4] = ["heron-prompt", "heron-reply", "heron-args", "heron-output"];
const SCRIPT: &str = r#"
[[conversation]]
[[conversation.step]]
text = "heron-reply is what I say."
tools = [{ name = "shell", args = { command = ": heron-args; echo heron-$(echo output)" } }]
[[conversation.step]]
text = "There."
[[conversation.step]]
text = "And on."
"#;

async fn prompt(world: &World, text: &str, nonce: &str) {
    let request = SendRequest {
        prompt: text.to_owned(),
        client_nonce: nonce.to_owned(),
        ..SendRequest::default()
    };
    world.agents().send(request).await.expect("accepted");
}

/// Positions of everything that holds something planted, however often.
fn planted(events: &[Event]) -> Vec<u64> {
    let holds = |event: &Event| {
        PLANTED
            .iter()
            .any(|word| contains(&event.payload, word.as_bytes()))
    };
    let indexes = events.iter().zip(1..).filter(|(event, _)| holds(event));
    indexes.map(|(_, pos)| pos).collect()
}

fn contains(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|window| window == word)
}

/// The first word that any file of the log still holds.
fn found_on_disk(world: &World) -> Option<String> {
    for entry in std::fs::read_dir(world.path("data")).expect("a folder") {
        let path = entry.expect("an entry").path();
        let bytes = std::fs::read(&path).expect("a file");
        if let Some(word) = PLANTED
            .iter()
            .find(|word| contains(&bytes, word.as_bytes()))
        {
            return Some(format!("`{word}` in {}", path.display()));
        }
    }
    None
}

#[tokio::test]
async fn what_is_erased_is_nowhere_and_the_agent_goes_on() {
    let world = World::new("anthropic", SCRIPT).await;
    prompt(&world, "Remember heron-prompt.", "n1").await;
    let events = world.until_kind("agent.turn_ended").await;
    let positions = planted(&events);
    assert!(positions.len() >= 5, "planted at {positions:?}");
    assert!(found_on_disk(&world).is_some());
    // The facts of the turn stay, whoever asks.
    let all: Vec<u64> = (1..=events.len() as u64).collect();
    let request = EraseRequest {
        positions: all,
        reason: "a slip".into(),
        ..EraseRequest::default()
    };
    let tail = world.box_log().erase(request.clone()).await;
    let tail = tail.expect("erased").into_inner();
    assert_eq!(tail.pos, events.len() as u64 + 2);
    assert_eq!(found_on_disk(&world), None);
    let after = world.events().await;
    assert!(planted(&after).is_empty());
    for (before, after) in events.iter().zip(&after) {
        assert_eq!(
            (&before.kind, &before.offset_key),
            (&after.kind, &after.offset_key)
        );
        if before.kind == "agent.turn_started" {
            assert_eq!(before.payload, after.payload);
        }
    }
    let again = world.box_log().erase(request).await;
    assert_eq!(again.expect("nothing to do").into_inner().pos, tail.pos);

    // The loop that holds the conversation in memory tells the model nothing of it either.
    prompt(&world, "Go on.", "n2").await;
    let mut ends = 0;
    world
        .until(|event| {
            ends += u32::from(event.kind == "agent.turn_ended");
            ends == 2
        })
        .await;
    // The first that holds the new prompt: the scripted model does not know its own words any more, and
    // says them again.
    let requests = world.model.requests();
    let mut bodies = requests.iter().map(|request| request.body.to_string());
    let told = bodies.find(|body| body.contains("Go on."));
    let told = told.expect("a request");
    assert!(told.contains("[erased]"), "{told}");
    for word in PLANTED {
        assert!(!told.contains(word), "the model was told `{word}`");
    }
}

#[tokio::test]
async fn an_erasure_that_is_cut_is_finished_by_the_next_process() {
    // Aborted just after the request is written, just before and just after it is called done.
    for (variable, appends) in [
        ("COCOONBOX_CRASH_AFTER", 1_u64),
        ("COCOONBOX_CRASH_AT", 2),
        ("COCOONBOX_CRASH_AFTER", 2),
    ] {
        let mut world = World::new("anthropic", SCRIPT).await;
        prompt(&world, "Remember heron-prompt.", "n1").await;
        let events = world.until_kind("agent.turn_ended").await;
        world.kill_serve().await;
        // Counted from the start of the process, which has nothing else to write.
        assert!(world.start_serve(&[(variable, appends.to_string())]).await);
        let request = EraseRequest {
            positions: planted(&events),
            ..EraseRequest::default()
        };
        let cut = world.box_log().erase(request).await;
        assert!(cut.is_err(), "{variable}={appends} did not crash");
        assert!(world.serve_ended().await);
        assert!(world.start_serve(&[]).await);
        assert_eq!(found_on_disk(&world), None, "{variable}={appends}");
        let kinds: Vec<_> = world
            .events()
            .await
            .into_iter()
            .map(|event| event.kind)
            .collect();
        let about: Vec<_> = kinds
            .iter()
            .filter(|kind| kind.starts_with("log."))
            .collect();
        assert_eq!(about, ["log.erasure_requested", "log.erasure_done"]);
    }
}

#[tokio::test]
async fn a_request_is_bounded() {
    let world = World::new("anthropic", SCRIPT).await;
    let request = EraseRequest {
        positions: (1..=1_001).collect(),
        ..EraseRequest::default()
    };
    let refused = world.box_log().erase(request).await.expect_err("too many");
    assert_eq!(refused.code(), Code::InvalidArgument);
}
