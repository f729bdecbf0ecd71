//! A cancel ends a turn in every state. How soon is measured by `tools/bench`.

use crate::{
    turns::results,
    world::{World, eventually, mark, payload, processes_with},
};
use cocoonbox_events::{AgentEvent, Payload};
use cocoonbox_proto::{
    agent::v1::{AgentRef, CreateAgentRequest, RespondRequest, SendRequest},
    log::v1::{ApprovalPolicy, Event, agent_tool_finished::Outcome, agent_turn_ended},
};

async fn cancel_at(world: &World, agent_id: &str, found: impl FnMut(&Event) -> bool) -> Vec<Event> {
    world.until(found).await;
    world
        .agents()
        .cancel(AgentRef {
            agent_id: agent_id.into(),
        })
        .await
        .expect("accepted");
    let events = world.until_kind("agent.turn_ended").await;
    let Payload::Agent(AgentEvent::TurnEnded(ended)) = payload(events.last().expect("an end"))
    else {
        panic!("another event")
    };
    assert_eq!(
        ended.outcome(),
        agent_turn_ended::Outcome::Cancelled,
        "{}",
        ended.detail
    );
    events
}

#[tokio::test]
async fn while_the_model_speaks() {
    let script = format!(
        "chunk_delay_ms = 500\n[[conversation]]\n[[conversation.step]]\ntext = \"{}\"\n",
        "word ".repeat(1_000)
    );
    let world = World::new("anthropic", &script).await;
    world.send("go").await;
    let events = cancel_at(&world, "", |event| event.kind == "agent.output_streamed").await;
    assert!(
        !events
            .iter()
            .any(|event| event.kind == "agent.model_replied")
    );
    // It has minutes of words left to say.
    eventually("the stream is closed", || world.model.streams_open() == 0).await;
}

#[tokio::test]
async fn while_the_model_is_silent() {
    let script = "[[conversation]]\n[[conversation.step]]\ntext = \"x\"\n\
                  stall = { after_chunks = 0, ms = 600000 }\n";
    let world = World::new("openai", script).await;
    world.send("go").await;
    eventually("it is asked", || world.model.streams_open() == 1).await;
    cancel_at(&world, "", |event| event.kind == "agent.model_called").await;
    eventually("the stream is closed", || world.model.streams_open() == 0).await;
}

#[tokio::test]
async fn while_waiting_to_ask_again() {
    let script = "[[conversation]]\n[[conversation.step]]\ntext = \"x\"\n\
                  fail = { status = 429, retry_after = 60, times = 3 }\n";
    let world = World::new("anthropic", script).await;
    world.send("go").await;
    cancel_at(&world, "", |event| event.kind == "agent.model_failed").await;
}

#[tokio::test]
async fn while_a_tool_runs() {
    let mark = mark();
    let script = format!(
        "[[conversation]]\n[[conversation.step]]\n\
         tools = [{{ name = \"shell\", args = {{ command = \"echo up; sleep {mark}\" }} }},\n\
         {{ name = \"shell\", args = {{ command = \"touch ran\" }} }}]\n\
         [[conversation.step]]\ntext = \"x\"\n"
    );
    let world = World::new("anthropic", &script).await;
    world.send("go").await;
    let events = cancel_at(&world, "", |event| event.kind == "exec.output_streamed").await;
    let results = results(&events);
    assert_eq!(results.len(), 2);
    assert!(
        results
            .iter()
            .all(|result| result.outcome() == Outcome::Cancelled),
        "{results:?}"
    );
    assert!(!world.workspace().join("ran").exists());
    // Before the turn ends, and not at some time after it.
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
}

const ASKS: &str = "[[conversation]]\n[[conversation.step]]\n\
                    tools = [{ name = \"shell\", args = { command = \"touch ran\" } }]\n\
                    [[conversation.step]]\ntext = \"x\"\n";

async fn careful(world: &World) -> String {
    let request = CreateAgentRequest {
        name: "careful".into(),
        approval: ApprovalPolicy::AskBeforeEffects.into(),
        client_nonce: "a".into(),
        ..CreateAgentRequest::default()
    };
    let agent = world
        .agents()
        .create(request.clone())
        .await
        .expect("made")
        .into_inner();
    let again = world
        .agents()
        .create(request)
        .await
        .expect("made")
        .into_inner();
    assert_eq!(agent.id, again.id);
    let prompt = SendRequest {
        agent_id: agent.id.clone(),
        prompt: "go".into(),
        ..SendRequest::default()
    };
    world.agents().send(prompt).await.expect("accepted");
    agent.id
}

#[tokio::test]
async fn while_a_person_is_asked() {
    let world = World::new("anthropic", ASKS).await;
    let agent_id = careful(&world).await;
    cancel_at(&world, &agent_id, |event| {
        event.kind == "agent.approval_requested"
    })
    .await;
    assert!(!world.workspace().join("ran").exists());
}

#[tokio::test]
async fn a_person_says_yes_or_no() {
    for allow in [true, false] {
        let world = World::new("openai", ASKS).await;
        let agent_id = careful(&world).await;
        let events = world.until_kind("agent.approval_requested").await;
        let Payload::Agent(AgentEvent::ApprovalRequested(asked)) =
            payload(events.last().expect("a request"))
        else {
            panic!("another event")
        };
        let listed = world
            .agents()
            .list(cocoonbox_proto::agent::v1::ListAgentsRequest {})
            .await;
        assert_eq!(
            listed.expect("a list").into_inner().agents[0].state,
            "waiting"
        );
        let answer = RespondRequest {
            agent_id,
            approval_id: asked.approval_id,
            allow,
            comment: "as you like".into(),
            ..RespondRequest::default()
        };
        world.agents().respond(answer).await.expect("taken");
        let events = world.until_kind("agent.turn_ended").await;
        let outcome = results(&events)[0].outcome();
        let expected = if allow { Outcome::Ok } else { Outcome::Denied };
        assert_eq!(outcome, expected);
        assert_eq!(world.workspace().join("ran").exists(), allow);
    }
}
