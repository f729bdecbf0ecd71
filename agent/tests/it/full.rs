//! The disk that the log is on is full: what is asked is refused and says why, what has happened waits to be told, and
//! nothing is lost or done twice.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use cocoonbox_events::{AgentEvent, Payload};
use cocoonbox_proto::{
    agent::v1::{CreateAgentRequest, SendRequest},
    log::v1::agent_turn_ended,
};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::world::{World, eventually, payload, read};

const SCRIPT: &str = r#"
[[conversation]]
[[conversation.step]]
tools = [{ name = "shell", args = { command = """
touch begun; until [ -e go ]; do sleep 0.01; done; echo ran >> ran; head -c 1500000 /dev/urandom | base64""" } }]
[[conversation.step]]
text = "Done."
"#;

/// Of a whole file system of its own for the log: enough for the turn, and little to fill.
const DISK: &str = "size=24m";

/// The folder of the agent's log, mounted.
struct Disk(PathBuf);

impl Disk {
    fn of(world: &World) -> Self {
        let path = world.path("data");
        let mount = ["-t", "tmpfs", "-o", DISK, "tmpfs"];
        let mounted = Command::new("mount").args(mount).arg(&path).status();
        assert!(mounted.expect("mount is there").success(), "root can mount");
        Self(path)
    }

    fn make_room(&self) {
        fs::remove_file(self.0.join("fill")).expect("the fill is there");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // The process that has the log open may be there still.
        Command::new("umount").arg("-l").arg(&self.0).status().ok();
    }
}

/// Takes every byte that is free.
fn fill(disk: &Path) {
    let filled = fs::File::open("/dev/zero").and_then(|mut zeros| {
        let mut fill = fs::File::options()
            .create(true)
            .append(true)
            .open(disk.join("fill"))?;
        std::io::copy(&mut zeros, &mut fill)
    });
    let error = filled.expect_err("the disk has an end");
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
}

async fn send(world: &World, nonce: &str) -> Result<String, Status> {
    let request = SendRequest {
        prompt: "and then?".to_owned(),
        client_nonce: nonce.to_owned(),
        ..SendRequest::default()
    };
    let sent = world.agents().send(request).await?;
    Ok(sent.into_inner().offset_key)
}

#[tokio::test]
async fn a_full_disk_holds_a_turn_up_and_loses_nothing() {
    let mut world = World::dark("anthropic", SCRIPT).await;
    let disk = Disk::of(&world);
    world.start_toolhost();
    assert!(world.start_serve(&[]).await);
    let serve = world.serve_pid();
    world.send("go").await;
    let begun = world.workspace().join("begun");
    eventually("the tool runs", || begun.exists()).await;

    fill(&disk.0);
    let refused = send(&world, "n2")
        .await
        .expect_err("there is no room for it");
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    let why = refused.get_details_error_info().expect("a reason");
    assert_eq!(why.reason, "DISK_FULL");
    // The store makes room by moving what it has from one of its files to the other. So the rest is taken as well,
    // until nothing at all can be written, while the tool goes on and says more than there is room for.
    let path = disk.0.clone();
    let filled = tokio_util::sync::CancellationToken::new();
    let filling = tokio::task::spawn_blocking({
        let filled = filled.clone();
        move || {
            while !filled.is_cancelled() {
                fill(&path);
            }
        }
    });
    fs::write(world.workspace().join("go"), "").expect("a write");
    let ran = world.workspace().join("ran");
    eventually("the tool goes on", || ran.exists()).await;
    let mut number = 0;
    loop {
        number += 1;
        let request = CreateAgentRequest {
            name: format!("another-{number}"),
            ..CreateAgentRequest::default()
        };
        if world.agents().create(request).await.is_err() {
            break;
        }
    }
    filled.cancel();
    filling.await.expect("a filled disk");
    let told = world.events().await;
    let last = &told.last().expect("events").kind;
    assert_ne!(last, "agent.turn_ended", "what is there can still be read");
    assert!(world.serve_is_running(), "a full disk ends no process");

    disk.make_room();
    let events = world.until_kind("agent.turn_ended").await;
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
    assert_eq!(read(&world.workspace().join("ran")), "ran\n", "once");
    assert_eq!(world.serve_pid(), serve);
    let nonces = events
        .iter()
        .filter(|event| event.kind == "agent.prompt_received");
    assert_eq!(nonces.count(), 1, "what was refused is not there");
}
