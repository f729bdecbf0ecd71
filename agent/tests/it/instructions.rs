//! What an agent is told before the conversation: the box's files, skills and memory.

use cocoonbox_events::{AgentEvent, Payload};
use cocoonbox_proto::log::v1::{AgentInstructed, Event};

use crate::{
    people::{done, sent_last},
    turns::results,
    world::{World, payload, read},
};

fn instructed(events: &[Event]) -> Vec<AgentInstructed> {
    let told = events.iter().filter_map(|event| match payload(event) {
        Payload::Agent(AgentEvent::Instructed(told)) => Some(told),
        _ => None,
    });
    told.collect()
}

fn put(world: &World, path: &str, text: &str) {
    let path = world.workspace().join(path);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    std::fs::write(path, text).expect("a file");
}

const SKILLED: &str = r#"
[[conversation]]
when = "go"
[[conversation.step]]
tools = [
  { name = "skill", args = { name = "tea" } },
  { name = "memory", args = { action = "add", text = "The owner likes tea." } },
]
[[conversation.step]]
text = "Poured."
[[conversation]]
when = "again"
[[conversation.step]]
text = "Again."
"#;

#[tokio::test]
async fn files_skills_and_memory_are_told_and_recorded() {
    let world = World::new("anthropic", SKILLED).await;
    put(&world, "AGENTS.md", "Always use the blue cup.\n");
    let skill = "---\nname: tea\ndescription: Makes tea.\n---\nBoil the water first.\n";
    put(&world, ".skills/tea/SKILL.md", skill);
    put(&world, ".skills/tea/leaves.txt", "green");
    world.send("go").await;
    let events = done(&world).await;
    let told = instructed(&events);
    assert_eq!(told.len(), 1, "once in a turn");
    let system = &told[0].system;
    for part in ["`box1`", "Always use the blue cup.", "- tea: Makes tea."] {
        assert!(system.contains(part), "no `{part}` in:\n{system}");
    }
    assert!(!system.contains("Boil the water"));
    assert!(told[0].tools.iter().any(|name| name == "skill"));
    let results = results(&events);
    assert!(results[0].content.contains("Boil the water first."));
    assert!(results[0].content.contains("leaves.txt"));
    let memory = world.workspace().join(".cocoonbox/memory.md");
    assert_eq!(read(&memory), "- The owner likes tea.\n");
    let sent = sent_last(&world);
    assert!(sent.contains("Always use the blue cup."));

    // Told anew, since the memory has changed; and not again, since nothing has.
    for (count, nonce) in [(2, "again 1"), (2, "again 2")] {
        let request = cocoonbox_proto::agent::v1::SendRequest {
            prompt: "again".into(),
            client_nonce: nonce.into(),
            ..Default::default()
        };
        let accepted = world.agents().send(request).await.expect("accepted");
        let prompt_id = accepted.into_inner().prompt_id;
        let mut is_ours = false;
        let events = world
            .until(|event| {
                if let Payload::Agent(AgentEvent::TurnStarted(started)) = payload(event) {
                    is_ours = started.prompt_ids.contains(&prompt_id);
                }
                is_ours && event.kind == "agent.turn_ended"
            })
            .await;
        let told = instructed(&events);
        assert_eq!(told.len(), count, "{nonce}");
        assert!(told[1].system.contains("The owner likes tea."));
    }
}

#[tokio::test]
async fn a_turn_goes_on_without_a_toolhost_and_says_so() {
    let script = "[[conversation]]\n[[conversation.step]]\ntext = \"Alone.\"\n";
    let mut world = World::dark("openai", script).await;
    assert!(world.start_serve(&[]).await);
    world.send("go").await;
    let events = done(&world).await;
    assert!(instructed(&events)[0].system.contains("could not be read"));
}
