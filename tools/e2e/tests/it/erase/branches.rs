//! What several logs have as history goes from all of them, and what was left behind goes too.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use cocoonbox_e2e::{Events, Installation, TheBox, User, programs::Programs, run};
use cocoonbox_events::LogKind;
use cocoonbox_proto::{control::v1::ForkRequest, log::v1::Event};

use super::{erase, found, holds, readable};

const WORDS: [&str; 2] = ["lynx-kept", "lynx-lost"];

fn copy(from: &Path, to: &Path) {
    drop(std::fs::remove_dir_all(to));
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(copied.expect("cp runs").success());
}

fn disks(installation: &Installation, the_box: &TheBox) -> PathBuf {
    installation.data().join("boxes").join(&the_box.id)
}

async fn events(the_box: &TheBox) -> Vec<Event> {
    the_box.events("", &[]).all().await.expect("readable")
}

/// The prompt that holds a word.
fn key_of(events: &[Event], word: &str) -> String {
    let found = events.iter().find(|event| {
        event.kind == "agent.prompt_received" && holds(&event.payload, word).is_some()
    });
    found.expect("it was sent").offset_key.clone()
}

async fn erased(user: &User, key: &str) {
    let done = user.erasure().erase(erase(key)).await;
    let done = done.expect("erased").into_inner();
    assert_eq!(done.erased.len(), 1, "{done:?}");
    assert!(done.complete, "something still holds it: {done:?}");
}

/// Nothing gives the words away any more, and what is left still proves itself.
async fn is_nowhere(installation: &Installation) {
    let data = installation.data().to_owned();
    installation.stop();
    let left = found(&data, &WORDS);
    assert!(left.is_empty(), "{left:#?}");
    let given_away = readable(&data.join("log.db"), &data, &WORDS).await;
    let none: [(LogKind, &str); 0] = [];
    assert_eq!(given_away, none);
    let program = Programs::get().api.with_file_name("cocoonbox");
    let verified = Command::new(program)
        .args(["replay", "verify", "--data-dir"])
        .arg(&data)
        .output()
        .expect("it can be run");
    let said = String::from_utf8_lossy(&verified.stdout).into_owned();
    assert!(verified.status.success(), "{said}");
    installation.restart().await;
}

#[test]
fn a_rewound_box_erases_what_it_kept_and_what_it_lost() {
    run(async {
        let installation = Installation::start().await;
        let user = installation.user("ann").await;
        let the_box = TheBox::up(&installation, &user, "main").await;
        the_box.send("lynx-kept").await.assert_done();
        the_box.hibernate().await;
        let aside = tempfile::tempdir().expect("a folder");
        let aside = aside.path().join("disks");
        let disks = disks(&installation, &the_box);
        copy(&disks, &aside);
        the_box.wake().await;
        the_box.send("lynx-lost").await.assert_done();
        the_box.hibernate().await;
        let before = events(&the_box).await;
        copy(&aside, &disks);
        the_box.wake().await;
        the_box.send("and on").await.assert_done();

        for word in WORDS {
            erased(&user, &key_of(&before, word)).await;
        }
        let now = events(&the_box).await;
        assert!(
            now.iter()
                .all(|event| holds(&event.payload, "lynx").is_none()),
            "a stream still tells of it"
        );
        // What stands on it is folded again at each start.
        the_box.hibernate().await;
        the_box.wake().await;
        the_box.send("still there").await.assert_done();
        the_box.hibernate().await;
        is_nowhere(&installation).await;
    });
}

#[test]
fn what_a_fork_inherited_goes_from_both() {
    run(async {
        let installation = Installation::start().await;
        let user = installation.user("ann").await;
        let source = TheBox::up(&installation, &user, "main").await;
        source.send("lynx-kept").await.assert_done();
        source.hibernate().await;
        let key = key_of(&events(&source).await, "lynx-kept");
        let fork = ForkRequest {
            box_id: source.id.clone(),
            name: "copy".into(),
            ..Default::default()
        };
        let asked = user.boxes().fork(fork).await.expect("forked").into_inner();
        let ended = user.watch(&asked.operation_id).await.expect("watched");
        assert!(ended.is_done(), "{ended:?}");
        let twin = TheBox::up(&installation, &user, "copy").await;
        source.wake().await;

        erased(&user, &key).await;
        for the_box in [&source, &twin] {
            let events = events(the_box).await;
            let told = events
                .iter()
                .any(|event| holds(&event.payload, "lynx").is_some());
            assert!(!told, "a stream still tells of it");
            the_box.hibernate().await;
            the_box.wake().await;
            the_box.send("still there").await.assert_done();
            the_box.hibernate().await;
        }
        let paid = Events::of_account(&user, "", &["erasure/"]).all().await;
        let paid = paid.expect("readable");
        let paid = paid
            .iter()
            .filter(|event| event.kind == "erasure.box_erased");
        assert_eq!(paid.count(), 2);
        is_nowhere(&installation).await;
    });
}
