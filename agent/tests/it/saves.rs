//! A call that may destroy files waits until they are saved, and is not made if they cannot be.

use cocoonbox_events::{AgentEvent, Payload};
use cocoonbox_proto::{
    agent::v1::{
        AgentRef, SaveAnswer, SaveAsk, SaveSetting,
        save_answer::{Answer, NotSaved, Saved},
    },
    log::v1::{AgentToolFinished, agent_tool_finished::Outcome},
};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::{
    recorded::decide_again,
    turns::results,
    world::{DEADLINE, World, payload, read, story},
};

const DESTROYS: &str = r#"
[[conversation]]
[[conversation.step]]
text = "First one that destroys nothing, then one that does."
tools = [
  { name = "write", args = { path = "kept/a", content = "x" } },
  { name = "shell", args = { command = "rm -rf kept; echo gone >> lines" } },
]
[[conversation.step]]
text = "Done: {last}"
"#;

/// The api, as far as saves go.
struct Api {
    answers: mpsc::Sender<SaveAnswer>,
    asks: Streaming<SaveAsk>,
}

impl Api {
    async fn of(world: &World, saves_first: bool) -> Self {
        let (answers, sent) = mpsc::channel(8);
        let first = SaveAnswer {
            answer: Some(Answer::Setting(SaveSetting { saves_first })),
        };
        answers.send(first).await.expect("there is room");
        let stream = world.saves().serve(ReceiverStream::new(sent)).await;
        let asks = stream.expect("a stream").into_inner();
        Self { answers, asks }
    }

    async fn asked(&mut self) -> SaveAsk {
        let ask = timeout(DEADLINE, self.asks.message()).await;
        let ask = ask.expect("in time").expect("a message");
        ask.expect("the stream goes on")
    }

    async fn say(&self, answer: Answer) {
        let answer = SaveAnswer {
            answer: Some(answer),
        };
        self.answers.send(answer).await.expect("somebody listens");
    }

    async fn saved(&self, ask: &SaveAsk) {
        let saved = Saved {
            ask_id: ask.ask_id.clone(),
            snapshot_id: "s".into(),
        };
        self.say(Answer::Saved(saved)).await;
    }

    async fn not_saved(&self, ask: &SaveAsk, is_impossible: bool) {
        let not = NotSaved {
            ask_id: ask.ask_id.clone(),
            reason: "QUOTA_EXCEEDED".into(),
            detail: "all of it is used".into(),
            is_impossible,
        };
        self.say(Answer::NotSaved(not)).await;
    }
}

async fn world() -> World {
    let mut world = World::dark("anthropic", DESTROYS).await;
    world.saves_first = true;
    world.start_toolhost();
    assert!(world.start_serve(&[]).await);
    world
}

fn lines(world: &World) -> String {
    let path = world.workspace().join("lines");
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Ends the turn, and returns the result of the call that destroys.
async fn ended(world: &World) -> AgentToolFinished {
    let events = world.until_kind("agent.turn_ended").await;
    let told = story(&events).join("\n");
    let results = results(&events);
    assert_eq!(results.len(), 2, "{told}");
    results.into_iter().next_back().expect("two")
}

async fn tools_called(world: &World) -> usize {
    let events = world.events().await;
    let called = events
        .iter()
        .filter(|event| event.kind == "agent.tool_called");
    called.count()
}

#[tokio::test]
async fn the_call_is_made_when_the_files_are_saved_and_not_before() {
    let mut world = world().await;
    let mut api = Api::of(&world, true).await;
    world.send("go").await;
    let ask = api.asked().await;
    // What came before it is done, and the call itself is not even written.
    assert_eq!(read(&world.workspace().join("kept/a")), "x");
    assert_eq!(tools_called(&world).await, 1);
    api.saved(&ask).await;
    let result = ended(&world).await;
    assert_eq!(result.outcome(), Outcome::Ok, "{}", result.content);
    assert_eq!(result.tool_call_id, ask.tool_call_id);
    assert!(!world.workspace().join("kept").exists());
    assert_eq!(lines(&world), "gone\n");
    decide_again(&mut world, "saved first").await;
}

#[tokio::test]
async fn a_call_whose_files_cannot_be_saved_is_not_made_and_says_why() {
    let mut world = world().await;
    let mut api = Api::of(&world, true).await;
    world.send("go").await;
    let ask = api.asked().await;
    api.not_saved(&ask, false).await;
    let result = ended(&world).await;
    assert_eq!(result.outcome(), Outcome::Error);
    assert!(
        result.content.starts_with("not run: ")
            && result.content.contains("QUOTA_EXCEEDED: all of it is used"),
        "{}",
        result.content
    );
    assert_eq!(tools_called(&world).await, 1);
    assert_eq!(read(&world.workspace().join("kept/a")), "x");
    assert_eq!(lines(&world), "");
    decide_again(&mut world, "not saved first").await;
}

#[tokio::test]
async fn nothing_waits_where_a_box_cannot_be_saved_or_need_not() {
    let one = world().await;
    let mut api = Api::of(&one, true).await;
    one.send("go").await;
    let ask = api.asked().await;
    api.not_saved(&ask, true).await;
    assert_eq!(ended(&one).await.outcome(), Outcome::Ok);
    // Switched off while it waits.
    let two = world().await;
    two.send("go").await;
    let _api = Api::of(&two, false).await;
    assert_eq!(ended(&two).await.outcome(), Outcome::Ok);
    assert_eq!(lines(&two), "gone\n");
}

#[tokio::test]
async fn it_is_asked_again_when_the_api_was_gone_and_made_once_when_the_agent_was_killed() {
    let mut world = world().await;
    world.send("go").await;
    let mut first = Api::of(&world, true).await;
    let ask = first.asked().await;
    drop(first);
    let mut second = Api::of(&world, true).await;
    assert_eq!(second.asked().await, ask, "the same ask is one save");
    // Killed while it waits: nothing of the call is in the log, so nothing of it is in doubt.
    world.kill_serve().await;
    assert!(world.start_serve(&[]).await);
    let mut third = Api::of(&world, true).await;
    let again = third.asked().await;
    assert_eq!(again.tool_call_id, ask.tool_call_id);
    assert_ne!(again.ask_id, ask.ask_id, "files may have changed meanwhile");
    third.saved(&again).await;
    let result = ended(&world).await;
    assert_eq!(result.outcome(), Outcome::Ok, "{}", result.content);
    assert_eq!(lines(&world), "gone\n");
    decide_again(&mut world, "killed while it was saved").await;
}

#[tokio::test]
async fn a_cancel_does_not_wait_for_a_save() {
    let world = world().await;
    let mut api = Api::of(&world, true).await;
    world.send("go").await;
    let ask = api.asked().await;
    let main = AgentRef {
        agent_id: String::new(),
    };
    world.agents().cancel(main).await.expect("accepted");
    let result = ended(&world).await;
    assert_eq!(result.outcome(), Outcome::Cancelled);
    assert_eq!(lines(&world), "");
    // A word that comes too late.
    api.saved(&ask).await;
    assert_eq!(tools_called(&world).await, 1);
    let events = world.events().await;
    let last = events.last().map(payload);
    assert!(matches!(
        last,
        Some(Payload::Agent(AgentEvent::TurnEnded(_)))
    ));
}
