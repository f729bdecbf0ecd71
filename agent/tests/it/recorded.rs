//! Conversations of every kind, each decided again from its log, and recorded for `replay`.
//!
//! With `COCOONBOX_RECORD=1` each log is written to `replay/testdata/turns` as it is checked.

use std::{path::Path, sync::Arc};

use cocoonbox_events::{AgentEvent, LogId, Payload, Store, StreamName};
use cocoonbox_proto::{
    agent::v1::{
        AgentRef, BranchRequest, ConfigureRequest, RespondRequest, SelectBranchRequest,
        WithdrawRequest,
    },
    log::v1::{Event, ModelChoice, ModelRoles, Verdict, Wire, agent_turn_ended::Outcome},
};
use cocoonbox_replay::{Source, export::Plan, rerun};

use crate::{
    blobs, children, compaction,
    people::{self, ended, say},
    turns,
    world::{World, payload, story},
};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../replay/testdata/turns");

/// Ends the process, decides everything again that it wrote, and records it under a name.
async fn decided_again(world: &mut World, name: &str) {
    let store = decide_again(world, name).await;
    if std::env::var_os("COCOONBOX_RECORD").is_none() {
        return;
    }
    let mut text = Vec::new();
    let plan = Plan::new(store.logs(), false);
    let written = plan.write(&store, &mut text, &mut |_| {}).await;
    written.expect("an export");
    let folder = Path::new(FOLDER);
    std::fs::create_dir_all(folder).expect("a folder");
    std::fs::write(folder.join(format!("{name}.jsonl")), text).expect("a write");
}

/// Ends the process and decides everything again that it wrote.
pub(crate) async fn decide_again(world: &mut World, name: &str) -> Arc<dyn Store> {
    world.kill_serve().await;
    let path = world.path("data").join("agent.db");
    let store = Source::open(&path, None).await.expect("a log").store;
    let mut streams = 0;
    for info in store.logs() {
        for stream in agents(&store, info.id, info.tail.pos).await {
            let run = rerun(&store, info.id, &stream).await;
            let run = run.expect("an agent");
            let is_same = run.is_same() && run.cut == 0;
            assert!(is_same, "{name}: {stream} {}", run.text());
            streams += 1;
        }
    }
    assert!(streams > 0, "{name}");
    store
}

async fn agents(store: &Arc<dyn Store>, log: LogId, tail: u64) -> Vec<StreamName> {
    let mut streams = Vec::new();
    let mut after = 0;
    while after < tail {
        let page = store.read(log, after, 500).await.expect("a page");
        for event in page.events {
            after = event.pos;
            if event.stream.as_str().starts_with("agent/") && !streams.contains(&event.stream) {
                streams.push(event.stream.clone());
            }
        }
    }
    streams
}

fn one(steps: &str) -> String {
    format!("[[conversation]]\n{steps}")
}

/// Plays a script to its end on a wire.
async fn played(wire: &str, script: &str, outcome: Outcome, name: &str) {
    let mut world = World::new(wire, script).await;
    world.send("go").await;
    let events = world.until(children::is_end_of_main).await;
    assert_eq!(ended(&events), outcome, "{name}");
    decided_again(&mut world, name).await;
}

async fn cancel(world: &World) {
    let main = AgentRef::default();
    world.agents().cancel(main).await.expect("accepted");
    let events = world.until(children::is_end_of_main).await;
    assert_eq!(ended(&events), Outcome::Cancelled);
}

/// A state that lasts until somebody ends it: its name, what leads there, and the event by which it is
/// known.
const STATES: [(&str, &str, &str); 6] = [
    (
        "speaking",
        "[[conversation.step]]\ntext = \"one two three four five six seven\"\n\
         stall = { after_chunks = 3, ms = 60000 }\n",
        "agent.output_streamed",
    ),
    (
        "silent",
        "[[conversation.step]]\ntext = \"x\"\nstall = { after_chunks = 0, ms = 3000 }\n",
        "agent.model_called",
    ),
    (
        "retrying",
        "[[conversation.step]]\ntext = \"x\"\nfail = { status = 429, retry_after = 2 }\n",
        "agent.model_failed",
    ),
    (
        "running",
        "[[conversation.step]]\n\
         tools = [{ name = \"shell\", args = { command = \"echo up; sleep 60\" } }, { name = \"ls\" }]\n\
         [[conversation.step]]\ntext = \"x\"\n",
        "exec.output_streamed",
    ),
    (
        "asking",
        "[[conversation.step]]\n\
         tools = [{ name = \"shell\", args = { command = \"touch ran\" } }]\n\
         [[conversation.step]]\ntext = \"x\"\n",
        "agent.approval_requested",
    ),
    (
        "questioning",
        "[[conversation.step]]\ntools = [{ name = \"ask_user\", args = { question = \"Why?\" } }]\n\
         [[conversation.step]]\ntext = \"x\"\n",
        "agent.question_asked",
    ),
];

async fn brought_to(state: (&str, &str, &str)) -> (World, Vec<Event>) {
    let (name, steps, kind) = state;
    let world = World::new("anthropic", &one(steps)).await;
    if name == "asking" {
        people::ask_before(&world, Verdict::Ask, 0).await;
    }
    world.send("go").await;
    let events = world.until_kind(kind).await;
    (world, events)
}

#[tokio::test]
async fn a_cancel_in_each_state() {
    for state in STATES {
        let (mut world, _) = brought_to(state).await;
        cancel(&world).await;
        decided_again(&mut world, &format!("cancel-{}", state.0)).await;
    }
}

#[tokio::test]
async fn a_crash_in_each_state() {
    for state in STATES {
        let (mut world, _) = brought_to(state).await;
        world.kill_serve().await;
        assert!(world.start_serve(&[]).await);
        match state.0 {
            "asking" => respond(&world, true).await,
            "questioning" => {
                let question_id = people::question(&world).await;
                let answered = people::answer(&world, &question_id, "So.").await;
                answered.expect("taken");
            }
            _ => {}
        }
        let events = world.until(children::is_end_of_main).await;
        let told = story(&events).join("\n");
        assert_eq!(ended(&events), Outcome::Done, "{}:\n{told}", state.0);
        decided_again(&mut world, &format!("crash-{}", state.0)).await;
    }
}

async fn respond(world: &World, allow: bool) {
    let events = world.until_kind("agent.approval_requested").await;
    let asked = payload(events.last().expect("a request"));
    let Payload::Agent(AgentEvent::ApprovalRequested(asked)) = asked else {
        panic!("another event")
    };
    let request = RespondRequest {
        approval_id: asked.approval_id,
        allow,
        comment: "as I said".into(),
        ..RespondRequest::default()
    };
    world.agents().respond(request).await.expect("taken");
}

#[tokio::test]
async fn what_a_person_denies() {
    let (mut world, _) = brought_to(STATES[4]).await;
    respond(&world, false).await;
    let events = world.until(children::is_end_of_main).await;
    assert_eq!(ended(&events), Outcome::Done);
    decided_again(&mut world, "approval-denied").await;
}

#[tokio::test]
async fn what_a_model_does_alone() {
    let parallel = "[[conversation.step]]\nthinking = \"Look.\"\ntext = \"Three at once.\"\n\
         tools = [{ name = \"ls\" }, { name = \"glob\", args = { pattern = \"*\" } }, \
         { name = \"read\", args = { path = \"absent\" } }, \
         { name = \"write\", args = { path = \"a\", content = \"b\" } }]\n\
         [[conversation.step]]\ntext = \"Done.\"\n";
    for (wire, name) in [
        ("anthropic", "parallel-tools"),
        ("openai", "parallel-tools-chat"),
        ("openai-responses", "parallel-tools-responses"),
    ] {
        played(wire, &one(parallel), Outcome::Done, name).await;
    }
    let refusal = "[[conversation.step]]\nrefusal = \"No.\"\n";
    played("anthropic", &one(refusal), Outcome::Refused, "refusal").await;
    played("openai", turns::FLAKY, Outcome::Done, "cut-stream").await;
    let malformed = "[[conversation.step]]\ntools = [\
         { name = \"shell\", raw_args = \"{\\\"command\\\": \\\"touch ran\" }, \
         { name = \"read\", raw_args = \"{'path': 'a',}\" }, \
         { name = \"ls\", args = { surprise = 1 } }]\n[[conversation.step]]\ntext = \"I see.\"\n";
    played(
        "anthropic",
        &one(malformed),
        Outcome::Done,
        "malformed-arguments",
    )
    .await;
    let budget = "[[conversation.step]]\ntext = \"Paid.\"\n\
         fail = { status = 402, reason = \"budget\", retry_after_ms = 300, times = 2 }\n";
    played("anthropic", &one(budget), Outcome::Done, "budget-stop").await;
    let looping = "[[conversation.step]]\ntools = [{ name = \"ls\" }]\n".repeat(30);
    played("anthropic", &one(&looping), Outcome::Loop, "looping").await;
    played("anthropic", children::TWO, Outcome::Done, "subagent").await;
}

#[tokio::test]
async fn a_conversation_that_is_summed_up() {
    let mut world = World::new("anthropic", compaction::SCRIPT).await;
    compaction::fill(&world);
    compaction::small(&world).await;
    world.send("start").await;
    world.until(children::is_end_of_main).await;
    decided_again(&mut world, "compaction").await;
}

#[tokio::test]
async fn output_beyond_what_is_told() {
    let script = "[[conversation.step]]\ntools = [{ name = \"skill\", args = { name = \"big\" } }]\n\
                  [[conversation.step]]\ntext = \"Long.\"\n";
    let mut world = World::new("anthropic", &one(script)).await;
    let folder = world.workspace().join(".skills/big");
    std::fs::create_dir_all(&folder).expect("a folder");
    for number in 0..300 {
        // Names are at most 255 bytes long.
        let name = format!("{number:04}{}", "n".repeat(220));
        std::fs::write(folder.join(name), "").expect("a file");
    }
    let skill = "---\nname: big\ndescription: Is big.\n---\nThe end.\n";
    std::fs::write(folder.join("SKILL.md"), skill).expect("a file");
    world.send("go").await;
    let events = world.until(children::is_end_of_main).await;
    assert!(!turns::results(&events)[0].blob.is_empty());
    decided_again(&mut world, "huge-output").await;
}

fn model(wire: Wire, name: &str) -> ModelChoice {
    ModelChoice {
        wire: wire.into(),
        model: name.into(),
        images: true,
        ..ModelChoice::default()
    }
}

async fn configure(world: &World, models: ModelRoles) {
    let request = ConfigureRequest {
        models: Some(models),
        ..ConfigureRequest::default()
    };
    world.agents().configure(request).await.expect("configured");
}

#[tokio::test]
async fn a_picture_and_another_model() {
    let seen = "[[conversation.step]]\ntext = \"I see.\"\n";
    let mut world = World::new("anthropic", &one(seen)).await;
    let main = Some(model(Wire::AnthropicMessages, "sees"));
    configure(
        &world,
        ModelRoles {
            main,
            ..ModelRoles::default()
        },
    )
    .await;
    blobs::look(&world, blobs::gif()).await.expect("accepted");
    world.until(children::is_end_of_main).await;
    decided_again(&mut world, "image").await;

    let script = "[[conversation]]\nmodel = \"first\"\n[[conversation.step]]\ntext = \"x\"\n\
                  fail = { status = 404, times = 9 }\n\
                  [[conversation]]\n[[conversation.step]]\ntext = \"The second.\"\n";
    let mut world = World::new("anthropic", script).await;
    let models = ModelRoles {
        main: Some(model(Wire::AnthropicMessages, "first")),
        fallbacks: vec![model(Wire::OpenaiResponses, "second")],
        ..ModelRoles::default()
    };
    configure(&world, models).await;
    world.send("go").await;
    let events = world.until(children::is_end_of_main).await;
    assert_eq!(ended(&events), Outcome::Done);
    decided_again(&mut world, "fallback").await;
}

#[tokio::test]
async fn second_thoughts_of_a_person() {
    let mut world = World::new("anthropic", people::LONG).await;
    let first = say(&world, "go", false).await;
    world.until_kind("exec.started").await;
    say(&world, "turn left", true).await;
    let prompt_id = say(&world, "something else", false).await;
    let withdraw = WithdrawRequest {
        prompt_id,
        ..WithdrawRequest::default()
    };
    world.agents().withdraw(withdraw).await.expect("taken back");
    std::fs::write(world.workspace().join("free"), "").expect("a write");
    world.until(children::is_end_of_main).await;
    let branch = BranchRequest {
        prompt_id: first,
        prompt: "anything".into(),
        ..BranchRequest::default()
    };
    world.agents().branch(branch).await.expect("branched");
    let mut ends = 0;
    world
        .until(|event| {
            ends += usize::from(event.kind == "agent.turn_ended");
            ends == 2
        })
        .await;
    let select = SelectBranchRequest::default();
    world
        .agents()
        .select_branch(select)
        .await
        .expect("selected");
    decided_again(&mut world, "second-thoughts").await;
}
