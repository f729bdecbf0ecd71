//! The process dies at every append of a turn, before it and after it, and the turn goes on.

use std::collections::BTreeMap;

use cocoonbox_events::{AgentEvent, Payload};
use cocoonbox_proto::log::v1::{agent_tool_finished::Outcome, agent_turn_ended};

use crate::{
    recorded::decide_again,
    world::{World, payload, read, story},
};

const SCRIPT: &str = r#"
[[conversation]]
[[conversation.step]]
text = "Two lines."
tools = [
  { name = "shell", args = { command = "echo one >> lines" } },
  { name = "shell", args = { command = "echo two >> lines" } },
]
[[conversation.step]]
tools = [{ name = "read", args = { path = "lines" } }, { name = "ls" }]
[[conversation.step]]
text = "There they are."
"#;

/// Appends of the whole turn are fewer than this; past the last one nothing crashes any more.
const APPENDS_MAX: u64 = 80;

async fn crash_everywhere(variable: &str) {
    for number in 1..APPENDS_MAX {
        let mut world = World::dark("anthropic", SCRIPT).await;
        world.start_toolhost();
        assert!(world.start_serve(&[(variable, number.to_string())]).await);
        // The prompt may die with the process: the caller repeats it with its nonce.
        let request = cocoonbox_proto::agent::v1::SendRequest {
            prompt: "go".to_owned(),
            client_nonce: "n1".to_owned(),
            ..Default::default()
        };
        world.agents().send(request).await.ok();
        let crashed = world.serve_ended_or_turn().await;
        if crashed {
            world.kill_serve().await;
            assert!(world.start_serve(&[]).await);
            world.send("go").await;
        }
        check(&world, number).await;
        decide_again(&mut world, &number.to_string()).await;
        if !crashed {
            assert!(number > 15, "only {number} appends in a turn with tools");
            return;
        }
    }
    panic!("a turn of over {APPENDS_MAX} appends");
}

async fn check(world: &World, number: u64) {
    let events = world.until_kind("agent.turn_ended").await;
    let told = story(&events).join("\n");
    let Payload::Agent(AgentEvent::TurnEnded(ended)) = payload(events.last().expect("an end"))
    else {
        panic!("another event")
    };
    assert_eq!(
        ended.outcome(),
        agent_turn_ended::Outcome::Done,
        "{number}: {}\n{told}",
        ended.detail
    );
    let mut results = BTreeMap::<String, Vec<Outcome>>::new();
    let mut prompts = 0;
    for event in &events {
        match payload(event) {
            Payload::Agent(AgentEvent::ToolCalled(called)) => {
                results.entry(called.tool_call_id).or_default();
            }
            Payload::Agent(AgentEvent::ToolFinished(finished)) => {
                let outcome = finished.outcome();
                results
                    .entry(finished.tool_call_id)
                    .or_default()
                    .push(outcome);
            }
            Payload::Agent(AgentEvent::PromptReceived(_)) => prompts += 1,
            _ => {}
        }
    }
    assert_eq!(prompts, 1, "{number}:\n{told}");
    assert_eq!(results.len(), 4, "{number}:\n{told}");
    let mut interrupted = 0;
    for (call, outcomes) in &results {
        assert_eq!(outcomes.len(), 1, "{number}: `{call}` {outcomes:?}\n{told}");
        // Both say that it did not run to its end, and the second that it did not run at all.
        interrupted += usize::from(matches!(outcomes[0], Outcome::Interrupted | Outcome::Error));
    }
    assert!(interrupted <= 1, "{number}:\n{told}");
    let path = world.workspace().join("lines");
    let lines = if path.exists() {
        read(&path)
    } else {
        String::new()
    };
    for line in ["one", "two"] {
        let times = lines.lines().filter(|found| *found == line).count();
        assert!(times <= 1, "{number}: `{line}` ran {times} times\n{told}");
        assert!(
            times == 1 || interrupted == 1,
            "{number}: `{line}` did not run\n{told}"
        );
    }
}

impl World {
    /// True once the process died, false once the turn has ended.
    async fn serve_ended_or_turn(&mut self) -> bool {
        self.serve_ended_or(|event| event.kind == "agent.turn_ended")
            .await
    }

    /// True once the process died, false once an event is there.
    pub(crate) async fn serve_ended_or(
        &mut self,
        is_last: impl Fn(&cocoonbox_proto::log::v1::Event) -> bool,
    ) -> bool {
        let deadline = tokio::time::Instant::now() + crate::world::DEADLINE;
        loop {
            assert!(
                tokio::time::Instant::now() < deadline,
                "neither died nor done"
            );
            if !self.serve_is_running() {
                return true;
            }
            let request = cocoonbox_proto::agent::v1::EventsRequest {
                no_follow: true,
                ..Default::default()
            };
            if let Ok(stream) = self.session().events(request).await {
                let mut stream = stream.into_inner();
                while let Ok(Some(item)) = stream.message().await {
                    use cocoonbox_proto::log::v1::event_or_heartbeat::Item;
                    if let Some(Item::Event(event)) = item.item
                        && is_last(&event)
                    {
                        // What follows the end (nothing) could still crash: not in this script.
                        return !self.serve_is_running();
                    }
                }
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test]
async fn killed_before_every_append_the_turn_goes_on() {
    crash_everywhere("COCOONBOX_CRASH_AT").await;
}

#[tokio::test]
async fn killed_after_every_append_the_turn_goes_on() {
    crash_everywhere("COCOONBOX_CRASH_AFTER").await;
}
