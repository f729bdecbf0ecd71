//! Pictures in prompts, and output that is too long to be told.

use cocoonbox_events::{AgentEvent, Payload};
use cocoonbox_proto::{
    agent::v1::{ConfigureRequest, NewImage, ReadBlobRequest, SendRequest},
    log::v1::{Event, ModelChoice, ModelRoles, Wire},
};
use tonic::{Code, Status};

use crate::{
    people::{done, sent_last},
    turns::results,
    world::{World, payload},
};

/// A GIF's head is all that anybody here looks at.
pub(crate) fn gif() -> Vec<u8> {
    let mut data = b"GIF89a\x1e\x00\x14\x00".to_vec();
    data.extend([0; 16]);
    data
}

async fn read(world: &World, name: &str, offset: u64) -> Result<(String, Vec<u8>), Status> {
    let request = ReadBlobRequest {
        name: name.to_owned(),
        offset,
    };
    let mut parts = world.agents().read_blob(request).await?.into_inner();
    let (mut media_type, mut data) = (String::new(), Vec::new());
    while let Some(part) = parts.message().await? {
        media_type = part.media_type;
        data.extend(part.data);
    }
    Ok((media_type, data))
}

pub(crate) async fn look(world: &World, data: Vec<u8>) -> Result<(), Status> {
    let image = NewImage {
        data,
        media_type: String::new(),
    };
    let request = SendRequest {
        prompt: "look".into(),
        client_nonce: "n".into(),
        images: vec![image],
        ..SendRequest::default()
    };
    world.agents().send(request).await.map(drop)
}

const SEES: &str = "[[conversation]]\n[[conversation.step]]\ntext = \"I see.\"\n";

#[tokio::test]
async fn a_picture_is_shown_to_models_that_see() {
    for (wire, images) in [("anthropic", true), ("openai", true), ("anthropic", false)] {
        let world = World::new(wire, SEES).await;
        let main = ModelChoice {
            wire: match wire {
                "anthropic" => Wire::AnthropicMessages,
                _ => Wire::OpenaiChat,
            }
            .into(),
            model: "scripted".into(),
            images,
            ..ModelChoice::default()
        };
        let models = ModelRoles {
            main: Some(main),
            ..ModelRoles::default()
        };
        let configure = ConfigureRequest {
            models: Some(models),
            ..ConfigureRequest::default()
        };
        world.agents().configure(configure).await.expect("taken");
        look(&world, gif()).await.expect("accepted");
        look(&world, gif()).await.expect("the same prompt");
        let events = done(&world).await;
        let stored = events.iter().filter(|event| event.kind == "blob.stored");
        assert_eq!(stored.count(), 1, "the same bytes are there once");
        let image = images_of(&events).remove(0);
        assert_eq!((image.width_px, image.height_px), (30, 20));
        assert_eq!(
            read(&world, &image.blob, 0).await.expect("a blob"),
            ("image/gif".to_owned(), gif())
        );
        let told = sent_last(&world);
        assert_eq!(told.contains("R0lGODlhHgAUA"), images, "{told}");
        assert_eq!(told.contains("not shown"), !images, "{told}");
    }
}

fn images_of(events: &[Event]) -> Vec<cocoonbox_proto::log::v1::Image> {
    let images = events.iter().filter_map(|event| match payload(event) {
        Payload::Agent(AgentEvent::PromptReceived(prompt)) => Some(prompt.images),
        _ => None,
    });
    images.flatten().collect()
}

#[tokio::test]
async fn what_is_no_picture_is_refused() {
    let world = World::new("anthropic", SEES).await;
    for data in [b"<svg/>".to_vec(), Vec::new(), vec![0; 5 << 20]] {
        let status = look(&world, data).await.expect_err("refused");
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    }
    for name in ["", "../x", &"a".repeat(64)] {
        read(&world, name, 0).await.expect_err("no such blob");
    }
}

#[tokio::test]
async fn long_output_is_kept_whole_and_paged() {
    // Each line has 10 bytes.
    let script = r#"
[[conversation]]
when = "go"
[[conversation.step]]
tools = [{ name = "skill", args = { name = "big" } }]
[[conversation.step]]
expect = "bytes left out; the tool `output` reads them: blob "
text = "Long."
"#;
    let world = World::new("anthropic", script).await;
    let folder = world.workspace().join(".skills/big");
    std::fs::create_dir_all(&folder).expect("a folder");
    // The list of files beside a skill makes it long.
    for number in 0..900 {
        let name = format!("{number:04}{}", "n".repeat(100));
        std::fs::write(folder.join(name), "").expect("a file");
    }
    let skill = "---\nname: big\ndescription: Is big.\n---\nThe end.\n";
    std::fs::write(folder.join("SKILL.md"), skill).expect("a file");
    world.send("go").await;
    let events = done(&world).await;
    let result = results(&events).remove(0);
    assert!(!result.blob.is_empty(), "{}", result.content);
    assert!(result.content.len() < 60 * 1024);
    let (media_type, whole) = read(&world, &result.blob, 0).await.expect("a blob");
    assert!(media_type.starts_with("text/plain"));
    let whole = String::from_utf8(whole).expect("text");
    assert!(whole.contains("0500nnn") && whole.ends_with("The end.\n"));
    let (_, rest) = read(&world, &result.blob, 50_000).await.expect("a blob");
    assert_eq!(rest, &whole.as_bytes()[50_000..]);
    let behind = read(&world, &result.blob, 50_000_000).await;
    assert_eq!(behind.expect_err("behind").code(), Code::InvalidArgument);
}
