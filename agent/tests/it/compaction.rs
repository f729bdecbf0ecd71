//! A conversation that fills its model's room is summed up, and goes on.

use cocoonbox_events::{AgentEvent, Payload};
use cocoonbox_proto::{
    agent::v1::{ConfigureRequest, SendRequest},
    log::v1::{Event, ModelChoice, ModelRole, ModelRoles, Wire, agent_turn_ended},
};

use crate::{
    people::ended,
    world::{World, payload, story},
};

pub(crate) const SCRIPT: &str = r#"
[[conversation]]
when = "Write the summary"
[[conversation.step]]
text = "GO ON NOW with tea."
[[conversation]]
when = "GO ON NOW"
[[conversation.step]]
text = "Finished."
[[conversation]]
when = "start"
[[conversation.step]]
tools = [{ name = "read", args = { path = "a" } }]
[[conversation.step]]
tools = [{ name = "read", args = { path = "b" } }]
[[conversation.step]]
text = "It all fit."
"#;

pub(crate) async fn small(world: &World) {
    let main = ModelChoice {
        wire: Wire::AnthropicMessages.into(),
        model: "scripted".into(),
        output_tokens_max: 2_000,
        context_tokens_max: 20_000,
        ..ModelChoice::default()
    };
    let models = ModelRoles {
        main: Some(main),
        ..ModelRoles::default()
    };
    let request = ConfigureRequest {
        models: Some(models),
        ..ConfigureRequest::default()
    };
    // It may die with the process, and is said again.
    world.agents().configure(request).await.ok();
}

pub(crate) fn fill(world: &World) {
    for name in ["a", "b"] {
        let line = format!("{}\n", name.repeat(99));
        std::fs::write(world.workspace().join(name), line.repeat(350)).expect("a file");
    }
}

fn check(events: &[Event]) {
    let told = story(events).join("\n");
    assert_eq!(ended(events), agent_turn_ended::Outcome::Done, "{told}");
    let compacted: Vec<_> = events
        .iter()
        .filter_map(|event| match payload(event) {
            Payload::Agent(AgentEvent::Compacted(compacted)) => Some(compacted),
            _ => None,
        })
        .collect();
    assert_eq!(compacted.len(), 1, "{told}");
    assert_eq!(compacted[0].summary, "GO ON NOW with tea.");
    let roles = events.iter().filter_map(|event| match payload(event) {
        Payload::Agent(AgentEvent::ModelCalled(called)) => Some(called.role()),
        _ => None,
    });
    assert!(roles.into_iter().any(|role| role == ModelRole::Summarize));
}

#[tokio::test]
async fn a_full_conversation_is_summed_up() {
    let world = World::new("anthropic", SCRIPT).await;
    fill(&world);
    small(&world).await;
    world.send("start").await;
    check(&world.until_kind("agent.turn_ended").await);
    let requests = world.model.requests();
    let last = requests.last().expect("a call").body.to_string();
    assert!(last.contains("GO ON NOW with tea.") && !last.contains("aaaaaaaa"));
    let summary = &requests[requests.len() - 2].body;
    let offered = summary["tools"].as_array();
    assert!(
        offered.is_none_or(Vec::is_empty),
        "a summary is written without tools"
    );
}

/// Appends of the whole story are fewer than this.
const APPENDS_MAX: u64 = 80;

#[tokio::test]
async fn killed_while_it_is_summed_up_it_goes_on() {
    for number in (6..APPENDS_MAX).step_by(2) {
        let mut world = World::dark("anthropic", SCRIPT).await;
        fill(&world);
        world.start_toolhost();
        let crash = [("COCOONBOX_CRASH_AT", number.to_string())];
        assert!(world.start_serve(&crash).await);
        small(&world).await;
        let request = SendRequest {
            prompt: "start".into(),
            client_nonce: "n1".into(),
            ..SendRequest::default()
        };
        world.agents().send(request).await.ok();
        let is_end = |event: &Event| event.kind == "agent.turn_ended";
        let crashed = world.serve_ended_or(is_end).await;
        if crashed {
            world.kill_serve().await;
            assert!(world.start_serve(&[]).await);
            small(&world).await;
            world.send("start").await;
        }
        check(&world.until(is_end).await);
        if !crashed {
            return;
        }
    }
    panic!("a story of over {APPENDS_MAX} appends");
}
