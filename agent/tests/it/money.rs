//! What the gateway meters a call by, and what happens when it says that the money is used up.

use std::time::Duration;

use cocoonbox_commands::agent::tools;
use cocoonbox_events::{AgentEvent, Payload};
use cocoonbox_model::Recorded;
use cocoonbox_proto::{
    agent::v1::{AgentRef, ConfigureRequest, ListAgentsRequest},
    log::v1::{Event, ModelChoice, ModelRoles, Wire, agent_model_failed::Reason, agent_turn_ended},
};
use tokio::time::Instant;

use crate::{
    compaction,
    people::ended,
    world::{World, payload, story},
};

fn header<'a>(call: &'a Recorded, name: &str) -> &'a str {
    let found = call.headers.iter().find(|(header, _)| header == name);
    found.map_or("", |(_, value)| value)
}

/// Who called, in which role, in the order of the calls.
fn callers(world: &World) -> Vec<(String, String)> {
    let calls = world.model.requests();
    let caller = |call: &Recorded| {
        let said = |name| header(call, name).to_owned();
        assert!(!said("x-cocoonbox-call").is_empty());
        (said("x-cocoonbox-agent"), said("x-cocoonbox-role"))
    };
    calls.iter().map(caller).collect()
}

const HELPED: &str = r#"
[[conversation]]
when = "go"
[[conversation.step]]
tools = [{ name = "task", args = { description = "look", prompt = "HELP look", role = "computer" } }]
[[conversation.step]]
text = "Seen."
[[conversation]]
when = "HELP"
[[conversation.step]]
text = "It is there."
"#;

#[tokio::test]
async fn the_gateway_is_told_which_agent_calls_in_which_role() {
    for (wire, limit) in [
        ("anthropic", "max_tokens"),
        ("openai", "max_completion_tokens"),
        ("openai-responses", "max_output_tokens"),
    ] {
        let world = World::new(wire, HELPED).await;
        world.send("go").await;
        let is_end =
            |event: &Event| event.kind == "agent.turn_ended" && event.stream == "agent/main";
        let events = world.until(is_end).await;
        assert_eq!(ended(&events), agent_turn_ended::Outcome::Done);
        let callers = callers(&world);
        let main = ("main".to_owned(), "main".to_owned());
        assert_eq!((&callers[0], &callers[2]), (&main, &main), "{wire}");
        let (agent_id, role) = &callers[1];
        assert!(agent_id.starts_with("main."), "{agent_id}");
        assert_eq!(role, "computer", "{wire}");
        for call in world.model.requests() {
            // What the gateway reserves.
            assert_eq!(call.body[limit], 4_096, "{wire}");
            let usage = &call.body["stream_options"]["include_usage"];
            assert_eq!(usage.as_bool(), (wire == "openai").then_some(true));
        }
    }
}

#[tokio::test]
async fn a_summary_is_metered_as_one() {
    let world = World::new("anthropic", compaction::SCRIPT).await;
    compaction::fill(&world);
    compaction::small(&world).await;
    world.send("start").await;
    world.until_kind("agent.turn_ended").await;
    let roles: Vec<_> = callers(&world).into_iter().map(|(_, role)| role).collect();
    assert_eq!(roles, ["main", "main", "summarize", "main"]);
}

#[tokio::test]
async fn what_every_tool_risks_is_said() {
    let world = World::new("anthropic", HELPED).await;
    let folder = world.workspace().join(".cocoonbox");
    std::fs::create_dir_all(&folder).expect("a folder");
    // So that the tool about servers is offered, too.
    let servers = r#"{ "mcpServers": { "none": { "command": "/none" } } }"#;
    std::fs::write(folder.join("mcp.json"), servers).expect("a write");
    world.send("go").await;
    let is_end = |event: &Event| event.kind == "agent.turn_ended" && event.stream == "agent/main";
    let events = world.until(is_end).await;
    let told = events.iter().filter_map(|event| match payload(event) {
        Payload::Agent(AgentEvent::Instructed(told)) => Some(told.tools),
        _ => None,
    });
    let offered: Vec<String> = told.flatten().collect();
    for name in [
        "shell",
        "terminal",
        "memory",
        "task",
        "mcp_servers",
        "web_fetch",
    ] {
        assert!(
            offered.iter().any(|one| one == name),
            "no `{name}`: {offered:?}"
        );
    }
    let is_unknown = |name: &&String| !tools::is_known(name);
    let unknown: Vec<_> = offered.iter().filter(is_unknown).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

fn no_money(retry_after_ms: u64) -> String {
    format!(
        "[[conversation]]\n[[conversation.step]]\ntext = \"Paid.\"\n\
         fail = {{ status = 402, reason = \"budget\", retry_after_ms = {retry_after_ms}, times = 2 }}\n"
    )
}

async fn mood(world: &World) -> String {
    let list = world.agents().list(ListAgentsRequest {}).await;
    let agents = list.expect("a list").into_inner().agents;
    let main = agents.into_iter().find(|agent| agent.id == "main");
    main.expect("the agent").state
}

fn failures(events: &[Event]) -> Vec<(Reason, u64)> {
    let failures = events.iter().filter_map(|event| match payload(event) {
        Payload::Agent(AgentEvent::ModelFailed(failed)) => {
            Some((failed.reason(), failed.retry_after_ms))
        }
        _ => None,
    });
    failures.collect()
}

#[tokio::test]
async fn a_turn_without_money_waits_and_goes_on() {
    for wire in ["anthropic", "openai", "openai-responses"] {
        let world = World::new(wire, &no_money(700)).await;
        let begun = Instant::now();
        world.send("go").await;
        let events = world.until_kind("agent.turn_ended").await;
        let told = story(&events).join("\n");
        assert_eq!(ended(&events), agent_turn_ended::Outcome::Done, "{told}");
        assert_eq!(failures(&events), [(Reason::Budget, 700); 2], "{told}");
        assert!(begun.elapsed() >= Duration::from_millis(1_400));
        assert_eq!(mood(&world).await, "idle");
    }
}

#[tokio::test]
async fn a_turn_that_waits_for_money_says_so_and_is_cancelled_at_once() {
    let mut world = World::new("openai", &no_money(3_600_000)).await;
    world.send("go").await;
    world.until_kind("agent.model_failed").await;
    assert_eq!(mood(&world).await, "waiting for budget");
    // It still does when the box has slept, and asks nobody meanwhile.
    world.kill_serve().await;
    assert!(world.start_serve(&[]).await);
    assert_eq!(mood(&world).await, "waiting for budget");
    assert_eq!(world.model.requests().len(), 1);
    let begun = Instant::now();
    let main = AgentRef::default();
    world.agents().cancel(main).await.expect("accepted");
    let events = world.until_kind("agent.turn_ended").await;
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(ended(&events), agent_turn_ended::Outcome::Cancelled);
    assert_eq!(mood(&world).await, "idle");
}

#[tokio::test]
async fn another_model_answers_where_the_first_never_will() {
    let script = "[[conversation]]\nmodel = \"first\"\n[[conversation.step]]\ntext = \"x\"\n\
                  fail = { status = 404, times = 9 }\n\
                  [[conversation]]\nmodel = \"second\"\n[[conversation.step]]\ntext = \"The second.\"\n";
    let world = World::new("anthropic", script).await;
    let choice = |wire: Wire, model: &str| ModelChoice {
        wire: wire.into(),
        model: model.into(),
        ..ModelChoice::default()
    };
    let models = ModelRoles {
        main: Some(choice(Wire::AnthropicMessages, "first")),
        fallbacks: vec![choice(Wire::OpenaiResponses, "second")],
        ..ModelRoles::default()
    };
    let configure = ConfigureRequest {
        models: Some(models),
        ..ConfigureRequest::default()
    };
    world.agents().configure(configure).await.expect("taken");
    world.send("go").await;
    let events = world.until_kind("agent.turn_ended").await;
    let told = story(&events).join("\n");
    assert_eq!(ended(&events), agent_turn_ended::Outcome::Done, "{told}");
    let calls = world.model.requests();
    let asked: Vec<_> = calls
        .iter()
        .map(|call| (call.body["model"].as_str(), call.path.as_str(), call.status))
        .collect();
    assert_eq!(asked[0].0, Some("first"));
    assert!(
        asked[0].1.ends_with("/messages") && asked[0].2 == 404,
        "{asked:?}"
    );
    assert_eq!(asked[1].0, Some("second"));
    assert!(
        asked[1].1.ends_with("/responses") && asked[1].2 == 200,
        "{asked:?}"
    );
    assert_eq!(asked.len(), 2);
}
