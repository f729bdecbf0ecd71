//! Whole turns over both wires.

use cocoonbox_events::{AgentEvent, Payload};
use cocoonbox_proto::log::v1::{
    AgentToolFinished, StopReason, agent_model_failed::Reason, agent_tool_finished::Outcome,
    agent_turn_ended, block,
};

use crate::world::{World, payload, read};

const PROJECT: &str = r#"
[[conversation]]

[[conversation.step]]
thinking = "First the file."
text = "Writing it."
tools = [
  { name = "write", args = { path = "a/hello.txt", content = "hello\nworld\n" } },
  { name = "shell", args = { command = "cat a/hello.txt; echo oops >&2; exit 3" } },
]

[[conversation.step]]
expect = "exit code 3"
tools = [
  { name = "read", args = { path = "a/hello.txt", offset = 2, limit = 1 } },
  { name = "ls", args = { path = "a" } },
  { name = "grep", args = { pattern = "w.rld" } },
  { name = "edit", args = { path = "a/hello.txt", old = "world", new = "butterfly 🦋" } },
]

[[conversation.step]]
text = "Done: {last}"
"#;

async fn whole_turn(wire: &str) {
    let world = World::new(wire, PROJECT).await;
    world.send("go").await;
    let events = world.until_kind("agent.turn_ended").await;
    let Payload::Agent(AgentEvent::TurnEnded(ended)) = payload(events.last().expect("an end"))
    else {
        panic!("another event")
    };
    let story = crate::world::story(&events).join("\n");
    assert_eq!(
        ended.outcome(),
        agent_turn_ended::Outcome::Done,
        "{}\n{story}",
        ended.detail
    );
    assert_eq!(
        read(&world.workspace().join("a/hello.txt")),
        "hello\nbutterfly 🦋\n"
    );
    let results = results(&events);
    assert_eq!(results.len(), 6);
    assert!(
        results[0].content.contains("wrote `a/hello.txt`: 2 lines"),
        "{results:?}"
    );
    assert_eq!(results[1].outcome(), Outcome::Error);
    assert!(
        results[1].content.starts_with("exit code 3\n"),
        "{results:?}"
    );
    assert!(results[1].content.contains("hello\nworld\n"), "{results:?}");
    assert!(results[1].content.contains("oops"), "{results:?}");
    assert!(!results[1].exec_id.is_empty());
    let content = |name: &str| {
        let found = results.iter().find(|result| result.content.contains(name));
        assert!(found.is_some(), "no `{name}` in {results:?}");
    };
    content("world\n");
    content("hello.txt  12 bytes");
    content("a/hello.txt:2: world");
    content("edited `a/hello.txt` at line 2");
    let streamed: String = events
        .iter()
        .filter_map(|event| match payload(event) {
            Payload::Agent(AgentEvent::OutputStreamed(chunk)) => Some(chunk.text),
            _ => None,
        })
        .collect();
    assert!(streamed.contains("Writing it."), "{streamed}");
}

pub(crate) fn results(events: &[cocoonbox_proto::log::v1::Event]) -> Vec<AgentToolFinished> {
    events
        .iter()
        .filter_map(|event| match payload(event) {
            Payload::Agent(AgentEvent::ToolFinished(finished)) => Some(finished),
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn a_turn_with_every_tool_over_anthropic() {
    whole_turn("anthropic").await;
}

#[tokio::test]
async fn a_turn_with_every_tool_over_openai() {
    whole_turn("openai").await;
}

pub(crate) const FLAKY: &str = r#"
[[conversation]]
[[conversation.step]]
text = "one two three four five six"
fail = { status = 429, retry_after = 1, times = 1 }
cut = { after_chunks = 2, times = 1 }
error_event = { after_chunks = 1, times = 1 }
garbage = { after_chunks = 1, times = 1 }
"#;

async fn flaky(wire: &str) {
    let world = World::new(wire, FLAKY).await;
    world.send("go").await;
    let events = world.until_kind("agent.turn_ended").await;
    let reasons: Vec<_> = events
        .iter()
        .filter_map(|event| match payload(event) {
            Payload::Agent(AgentEvent::ModelFailed(failed)) => {
                assert!(failed.retryable, "{failed:?}");
                Some((failed.reason(), failed.retry_after_ms))
            }
            _ => None,
        })
        .collect();
    assert_eq!(reasons[0], (Reason::RateLimited, 1_000));
    assert_eq!(reasons[1], (Reason::Cut, 0));
    assert!(
        matches!(reasons[2].0, Reason::Overloaded | Reason::ServerError),
        "{reasons:?}"
    );
    assert_eq!(reasons[3], (Reason::Garbled, 0));
    assert_eq!(reasons.len(), 4);
    let Payload::Agent(AgentEvent::TurnEnded(ended)) = payload(events.last().expect("an end"))
    else {
        panic!("another event")
    };
    assert_eq!(
        ended.outcome(),
        agent_turn_ended::Outcome::Done,
        "{}",
        ended.detail
    );
}

#[tokio::test]
async fn a_flaky_vendor_is_asked_again_over_anthropic() {
    flaky("anthropic").await;
}

#[tokio::test]
async fn a_flaky_vendor_is_asked_again_over_openai() {
    flaky("openai").await;
}

async fn ending(wire: &str, script: &str) -> (agent_turn_ended::Outcome, String) {
    let world = World::new(wire, script).await;
    world.send("go").await;
    let events = world.until_kind("agent.turn_ended").await;
    match payload(events.last().expect("an end")) {
        Payload::Agent(AgentEvent::TurnEnded(ended)) => (ended.outcome(), ended.detail),
        _ => panic!("another event"),
    }
}

#[tokio::test]
async fn a_refusal_ends_the_turn_as_one() {
    let script = "[[conversation]]\n[[conversation.step]]\nrefusal = \"No.\"\n";
    for wire in ["anthropic", "openai"] {
        let (outcome, _) = ending(wire, script).await;
        assert_eq!(outcome, agent_turn_ended::Outcome::Refused, "{wire}");
    }
}

#[tokio::test]
async fn what_is_not_retryable_ends_the_turn() {
    let script = "[[conversation]]\n[[conversation.step]]\ntext = \"x\"\nfail = { status = 400, times = 9 }\n";
    let (outcome, detail) = ending("anthropic", script).await;
    assert_eq!(outcome, agent_turn_ended::Outcome::Failed);
    assert!(detail.contains("REJECTED"), "{detail}");
}

#[tokio::test]
async fn malformed_arguments_are_told_to_the_model() {
    let script = r#"
[[conversation]]
[[conversation.step]]
tools = [
  { name = "shell", raw_args = "{\"command\": \"touch ran" },
  { name = "shell", args = { command = "touch ran", surprise = 1 } },
]
[[conversation.step]]
text = "I see."
"#;
    for wire in ["anthropic", "openai"] {
        let world = World::new(wire, script).await;
        world.send("go").await;
        let events = world.until_kind("agent.turn_ended").await;
        let results = results(&events);
        assert!(
            results[0].content.contains("nothing was run"),
            "{results:?}"
        );
        assert!(results[0].content.contains("not valid JSON"), "{results:?}");
        assert!(
            results[1].content.contains("cannot have `surprise`"),
            "{results:?}"
        );
        assert!(!world.workspace().join("ran").exists());
    }
}

#[tokio::test]
async fn a_reply_beyond_the_log_is_cut_and_says_so() {
    let script = format!(
        "chunk_chars = 50000\n[[conversation]]\n[[conversation.step]]\ntext = \"{}\"\n",
        "0123456789".repeat(30_000)
    );
    let world = World::new("anthropic", &script).await;
    world.send("go").await;
    let events = world.until_kind("agent.turn_ended").await;
    let replied = events.iter().find_map(|event| match payload(event) {
        Payload::Agent(AgentEvent::ModelReplied(replied)) => Some(replied),
        _ => None,
    });
    let replied = replied.expect("a reply");
    assert_eq!(replied.stop(), StopReason::MaxTokens);
    let Some(block::Block::Text(text)) = &replied.blocks[0].block else {
        panic!("no text")
    };
    assert!(text.text.ends_with("longer than the log takes]"));
}

#[tokio::test]
async fn a_background_job_goes_on_and_is_logged() {
    let script = r#"
[[conversation]]
[[conversation.step]]
tools = [{ name = "shell", args = { command = "for i in 1 2 3 4 5 6 7 8; do echo tick $i; sleep 0.3; done", background = true } }]
[[conversation.step]]
expect = "tick 1"
text = "It runs."
"#;
    let world = World::new("anthropic", script).await;
    world.send("go").await;
    let events = world.until_kind("exec.exited").await;
    let kinds: Vec<_> = events.iter().map(|event| event.kind.as_str()).collect();
    let ended = kinds
        .iter()
        .position(|kind| *kind == "agent.turn_ended")
        .expect("an end");
    assert!(
        ended < kinds.len() - 1,
        "the turn ends before the job: {kinds:?}"
    );
    let result = &results(&events)[0];
    assert!(
        result.content.contains("Runs in the background"),
        "{result:?}"
    );
    assert_eq!(result.outcome(), Outcome::Ok);
}

#[tokio::test]
async fn arguments_beyond_the_log_are_told_to_the_model() {
    let script = format!(
        "chunk_chars = 50000\n[[conversation]]\n[[conversation.step]]\n\
         tools = [{{ name = \"write\", args = {{ path = \"big\", content = \"{}\" }} }}]\n\
         [[conversation.step]]\nexpect = \"length limit\"\ntext = \"In parts, then.\"\n",
        "0123456789".repeat(30_000)
    );
    for wire in ["anthropic", "openai"] {
        let world = World::new(wire, &script).await;
        world.send("go").await;
        let events = world.until_kind("agent.turn_ended").await;
        let results = results(&events);
        assert_eq!(results.len(), 1, "{wire}");
        assert!(
            results[0].content.contains("Write less at once"),
            "{:?}",
            results[0]
        );
        assert!(!world.workspace().join("big").exists());
        let story = crate::world::story(&events).join("\n");
        let Payload::Agent(AgentEvent::TurnEnded(ended)) = payload(events.last().expect("an end"))
        else {
            panic!("another event")
        };
        assert_eq!(ended.outcome(), agent_turn_ended::Outcome::Done, "{story}");
    }
}
