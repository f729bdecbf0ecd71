//! Subagents: their own conversation, their parent's cancel, and crashes in the middle.

use cocoonbox_events::{AgentEvent, Payload};
use cocoonbox_proto::{
    agent::v1::{AgentRef, ListAgentsRequest, RespondRequest, SendRequest},
    log::v1::{Event, Verdict, agent_tool_finished::Outcome, agent_turn_ended},
};

use crate::{
    people::{ask_before, ended},
    turns::results,
    world::{World, eventually, mark, payload, processes_with, story},
};

pub(crate) const TWO: &str = r#"
[[conversation]]
when = "go"
[[conversation.step]]
tools = [
  { name = "task", args = { description = "count", prompt = "HELP count the files" } },
  { name = "task", args = { description = "name", prompt = "HELP name the box" } },
]
[[conversation.step]]
expect = "It is called box."
text = "Both are back: {last}"
[[conversation]]
when = "HELP count"
[[conversation.step]]
tools = [{ name = "shell", args = { command = "echo counted >> counted; ls" } }]
[[conversation.step]]
text = "There are three files."
[[conversation]]
when = "HELP name"
[[conversation.step]]
text = "It is called box."
"#;

pub(crate) fn is_end_of_main(event: &Event) -> bool {
    event.kind == "agent.turn_ended" && event.stream == "agent/main"
}

fn of_main(events: &[Event]) -> Vec<Event> {
    let of = events.iter().filter(|event| event.stream == "agent/main");
    of.cloned().collect()
}

#[tokio::test]
async fn helpers_work_beside_each_other_and_report() {
    for wire in ["anthropic", "openai"] {
        let world = World::new(wire, TWO).await;
        world.send("go").await;
        let events = world.until(is_end_of_main).await;
        let told = story(&events).join("\n");
        assert_eq!(ended(&events), agent_turn_ended::Outcome::Done, "{told}");
        // They end in any order.
        let results = results(&of_main(&events)).into_iter();
        let mut contents: Vec<_> = results.map(|result| result.content).collect();
        contents.sort();
        let expected = ["It is called box.", "There are three files."];
        assert_eq!(contents, expected, "{told}");
        let created: Vec<_> = events
            .iter()
            .filter_map(|event| match payload(event) {
                Payload::Agent(AgentEvent::Created(created)) => Some(created),
                _ => None,
            })
            .filter(|created| created.parent_agent_id == "main")
            .collect();
        assert_eq!(created.len(), 2, "{told}");
        assert!(created.iter().all(|one| one.tokens_max > 0));
        // A helper is not offered helpers.
        let calls = world.model.requests();
        let is_of_child = |body: &serde_json::Value| {
            let first = body["messages"]
                .as_array()
                .and_then(|all| all.iter().find(|message| message["role"] == "user"));
            first.is_some_and(|first| first.to_string().contains("HELP name"))
        };
        let child = calls.iter().find(|call| is_of_child(&call.body));
        let child = child.expect("a call of the helper").body["tools"].to_string();
        assert!(!child.contains("\"task\"") && child.contains("\"shell\""));
    }
}

#[tokio::test]
async fn a_cancel_ends_the_helpers_too() {
    let mark = mark();
    let script = format!(
        "[[conversation]]\nwhen = \"go\"\n[[conversation.step]]\n\
         tools = [{{ name = \"task\", args = {{ description = \"wait\", prompt = \"HELP wait\" }} }}]\n\
         [[conversation]]\nwhen = \"HELP\"\n[[conversation.step]]\n\
         tools = [{{ name = \"shell\", args = {{ command = \"sleep {mark}\" }} }}]\n"
    );
    let world = World::new("anthropic", &script).await;
    world.send("go").await;
    world.until_kind("exec.started").await;
    eventually("the command runs", || !processes_with(&mark).is_empty()).await;
    let main = AgentRef::default();
    world.agents().cancel(main).await.expect("accepted");
    // The answer to the call says that all of them are told: it waits for no loop.
    let cancels = |events: &[Event]| {
        let of = events.iter();
        of.filter(|event| event.kind == "agent.cancel_requested")
            .count()
    };
    assert_eq!(cancels(&world.events().await), 2);
    let events = world.until(is_end_of_main).await;
    assert_eq!(ended(&events), agent_turn_ended::Outcome::Cancelled);
    let outcomes: Vec<_> = events
        .iter()
        .filter_map(|event| match payload(event) {
            Payload::Agent(AgentEvent::TurnEnded(ended)) => Some(ended.outcome()),
            _ => None,
        })
        .collect();
    assert_eq!(outcomes, [agent_turn_ended::Outcome::Cancelled; 2]);
    eventually("the command is gone", || processes_with(&mark).is_empty()).await;
}

#[tokio::test]
async fn what_a_helper_asks_is_answered_at_its_parent() {
    let script = r#"
[[conversation]]
when = "go"
[[conversation.step]]
tools = [{ name = "task", args = { description = "touch", prompt = "HELP touch" } }]
[[conversation.step]]
text = "Fine."
[[conversation]]
when = "HELP"
[[conversation.step]]
tools = [{ name = "shell", args = { command = "touch ran" } }]
[[conversation.step]]
text = "Touched."
"#;
    let world = World::new("anthropic", script).await;
    ask_before(&world, Verdict::Ask, 0).await;
    world.send("go").await;
    world.until_kind("agent.approval_requested").await;
    let list = world.agents().list(ListAgentsRequest {}).await;
    let agents = list.expect("a list").into_inner().agents;
    let main = agents.iter().find(|agent| agent.id == "main");
    let main = main.expect("the agent");
    assert_eq!(main.state, "waiting");
    assert_eq!(main.approvals.len(), 1);
    assert!(main.approvals[0].agent_id.starts_with("main."));
    let request = RespondRequest {
        approval_id: main.approvals[0].approval_id.clone(),
        allow: true,
        ..RespondRequest::default()
    };
    world.agents().respond(request).await.expect("taken");
    let events = world.until(is_end_of_main).await;
    assert_eq!(ended(&events), agent_turn_ended::Outcome::Done);
    assert!(world.workspace().join("ran").exists());
}

/// Appends of the whole story are fewer than this.
const APPENDS_MAX: u64 = 120;

/// Every third, so that the test stays short; the turn alone is killed at every one elsewhere.
#[tokio::test]
async fn killed_in_the_middle_both_go_on() {
    for number in (4..APPENDS_MAX).step_by(3) {
        let mut world = World::dark("anthropic", TWO).await;
        world.start_toolhost();
        let crash = [("COCOONBOX_CRASH_AFTER", number.to_string())];
        assert!(world.start_serve(&crash).await);
        let request = SendRequest {
            prompt: "go".into(),
            client_nonce: "n1".into(),
            ..SendRequest::default()
        };
        world.agents().send(request).await.ok();
        let crashed = world.serve_ended_or(is_end_of_main).await;
        if crashed {
            world.kill_serve().await;
            assert!(world.start_serve(&[]).await);
            world.send("go").await;
        }
        let events = world.until(is_end_of_main).await;
        let told = story(&events).join("\n");
        assert_eq!(
            ended(&events),
            agent_turn_ended::Outcome::Done,
            "{number}:\n{told}"
        );
        let created = events.iter().filter(|one| one.kind == "agent.created");
        assert_eq!(created.count(), 3, "{number}:\n{told}");
        let results = results(&of_main(&events));
        assert!(
            results.iter().all(|result| result.outcome() == Outcome::Ok),
            "{number}: {results:?}\n{told}"
        );
        let counted = std::fs::read_to_string(world.workspace().join("counted"));
        assert!(counted.unwrap_or_default().lines().count() <= 1, "{number}");
        if !crashed {
            return;
        }
    }
    panic!("a story of over {APPENDS_MAX} appends");
}
