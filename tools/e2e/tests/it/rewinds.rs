//! Boxes whose disks go back, get lost or are copied: they work, and every old key is answered.

use std::{path::PathBuf, process::Command};

use cocoonbox_e2e::{
    Events, Installation, TheBox, User, programs::Programs, reason, run, until::soon,
};
use cocoonbox_events::OffsetKey;
use cocoonbox_proto::{
    agent::v1::transcript_item::Kind,
    control::v1::{Box as BoxMessage, ForkRequest, GetBoxRequest},
    log::v1::Event,
};
use tonic::{Code, Status};
use tonic_types::StatusExt;

fn disks(installation: &Installation, the_box: &TheBox) -> PathBuf {
    installation.data().join("boxes").join(&the_box.id)
}

fn copy(from: &PathBuf, to: &PathBuf) {
    drop(std::fs::remove_dir_all(to));
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(copied.expect("cp runs").success());
}

async fn prompts(the_box: &TheBox) -> Vec<String> {
    let items = the_box.transcript().await.into_iter();
    let prompts = items.filter(|item| item.kind() == Kind::Prompt);
    prompts.map(|item| item.text).collect()
}

async fn get(user: &User, box_id: &str) -> BoxMessage {
    let request = GetBoxRequest {
        box_id: box_id.to_owned(),
        ..Default::default()
    };
    let found = user.boxes().get(request).await;
    found.expect("the box is there").into_inner()
}

fn pos(event: &Event) -> u64 {
    event.offset_key.parse::<OffsetKey>().expect("a key").pos
}

/// Checks that a key was refused since the history was rewound, and returns the one to go on with.
fn rewound(status: &Status) -> String {
    assert_eq!(status.code(), Code::FailedPrecondition, "{status:?}");
    assert_eq!(reason(status), "HISTORY_REWOUND");
    let details = status.get_error_details();
    let info = details.error_info().expect("details");
    info.metadata["offset_key"].clone()
}

#[test]
fn a_box_on_an_older_disk_goes_on_from_there() {
    run(async {
        let installation = Installation::start().await;
        let user = installation.user("ann").await;
        let the_box = TheBox::up(&installation, &user, "main").await;
        the_box.send("one").await;
        the_box.sh("echo kept > /workspace/kept").await;
        the_box.hibernate().await;
        let (disks, aside) = (
            disks(&installation, &the_box),
            installation.data().join("aside"),
        );
        copy(&disks, &aside);
        the_box.wake().await;
        the_box.send("two").await;
        the_box.sh("echo undone > /workspace/undone").await;
        the_box.hibernate().await;
        let before = the_box.events("", &[]).all().await.expect("readable");
        let last = before.last().expect("events").offset_key.clone();
        let mut live = the_box.events(&last, &[]);
        // Open before it happens.
        let heard = live.item().await.expect("a heartbeat");
        assert!(heard.item.is_some());
        copy(&aside, &disks);
        the_box.wake().await;

        assert_eq!(prompts(&the_box).await, ["one"]);
        assert_eq!(the_box.sh("cat /workspace/*").await, "kept\n");
        let notice = get(&user, &the_box.id).await.notice;
        assert!(notice.contains("older disk"), "{notice}");
        let ended = soon("the end of the open stream", async {
            loop {
                if let Err(status) = live.item().await {
                    return status;
                }
            }
        });
        let resume = rewound(&ended.await);
        let common = resume.parse::<OffsetKey>().expect("a key").pos;

        the_box.send("three").await;
        assert_eq!(prompts(&the_box).await, ["one", "three"]);
        let now = the_box.events("", &[]).all().await.expect("readable");
        assert!(now.iter().map(pos).eq(1..=now.len() as u64), "a gap");
        for (at, event) in before.iter().enumerate() {
            let answer = the_box.events(&event.offset_key, &[]).all().await;
            if pos(event) <= common {
                let rest = answer.expect("what both have resumes");
                assert_eq!(rest, now[at + 1..]);
            } else {
                assert_eq!(rewound(&answer.expect_err("it was undone")), resume);
            }
        }
        let rest = the_box.events(&resume, &[]).all().await.expect("goes on");
        assert_eq!(pos(&rest[0]), common + 1);
        // Nothing happens again without cause.
        the_box.hibernate().await;
        the_box.wake().await;
        assert_eq!(prompts(&the_box).await, ["one", "three"]);
        let told = Events::of_account(&user, "", &["box/"]).all().await;
        let told = told.expect("readable");
        let rewinds = told.iter().filter(|event| event.kind == "box.log_rewound");
        assert_eq!(rewinds.count(), 1);
        // And it can go back twice.
        the_box.hibernate().await;
        copy(&aside, &disks);
        the_box.wake().await;
        assert_eq!(prompts(&the_box).await, ["one"]);
        the_box.send("four").await;
        assert_eq!(prompts(&the_box).await, ["one", "four"]);
        std::fs::remove_dir_all(&aside).expect("removable");
    });
}

#[test]
fn a_box_whose_log_is_lost_gets_it_back() {
    run(async {
        let installation = Installation::start().await;
        let user = installation.user("ann").await;
        let the_box = TheBox::up(&installation, &user, "main").await;
        let lose = || {
            let agent = disks(&installation, &the_box).join("agent");
            for file in std::fs::read_dir(&agent).expect("a folder").flatten() {
                if file.file_name().to_string_lossy().starts_with("agent.db") {
                    std::fs::remove_file(file.path()).expect("removable");
                }
            }
        };
        the_box.send("one").await;
        the_box.hibernate().await;
        lose();
        the_box.wake().await;
        assert_eq!(prompts(&the_box).await, ["one"]);
        // Everything had been copied: it is the same log.
        assert_eq!(get(&user, &the_box.id).await.notice, "");
        the_box.send("two").await;
        let before = the_box.events("", &[]).all().await.expect("readable");

        // Now it is stopped in the middle of what it does, and nobody knows what it wrote last.
        the_box.init().kill();
        soon("the loss is noticed", async {
            while !get(&user, &the_box.id).await.failure.contains("ended") {
                tokio::time::sleep(cocoonbox_e2e::until::STEP).await;
            }
        })
        .await;
        lose();
        the_box.wake().await;
        assert_eq!(prompts(&the_box).await, ["one", "two"]);
        let notice = get(&user, &the_box.id).await.notice;
        assert!(notice.contains("disk lost"), "{notice}");
        the_box.send("three").await;
        assert_eq!(prompts(&the_box).await, ["one", "two", "three"]);
        let now = the_box.events("", &[]).all().await.expect("readable");
        // Nothing that anyone saw was undone: every key goes on.
        assert_eq!(now[..before.len()], before);
        for (at, event) in before.iter().enumerate().step_by(3) {
            let rest = the_box.events(&event.offset_key, &[]).all().await;
            assert_eq!(rest.expect("resumes"), now[at + 1..]);
        }
    });
}

#[test]
fn control_logs_go_on_in_branches_after_a_restore() {
    run(async {
        let installation = Installation::start().await;
        let user = installation.user("ann").await;
        let the_box = TheBox::up(&installation, &user, "main").await;
        the_box.send("one").await;
        let before = Events::of_account(&user, "", &[]).all().await;
        let before = before.expect("readable");
        let log = get(&user, &the_box.id).await.log_id;
        installation.stop();
        let program = Programs::get().api.with_file_name("cocoonbox");
        let rewound = Command::new(program)
            .args([
                "log",
                "rewind",
                "--reason",
                "restored a backup",
                "--data-dir",
            ])
            .arg(installation.data())
            .output()
            .expect("it can be run");
        let said = String::from_utf8_lossy(&rewound.stderr).into_owned();
        assert!(rewound.status.success(), "{said}");
        installation.restart().await;

        the_box.send("two").await;
        assert_eq!(prompts(&the_box).await, ["one", "two"]);
        assert_eq!(get(&user, &the_box.id).await.log_id, log);
        the_box.hibernate().await;
        the_box.wake().await;
        let now = Events::of_account(&user, "", &[]).all().await;
        let now = now.expect("readable");
        // What happened since the first look may be in the old log too.
        let branched = now.iter().position(|event| event.kind == "log.rewound");
        let (old, new) = now.split_at(branched.expect("it says why"));
        assert!(old.starts_with(&before));
        assert!(now.iter().map(pos).eq(1..=now.len() as u64), "a gap");
        let log_of = |event: &Event| event.offset_key.parse::<OffsetKey>().expect("a key").log;
        assert!(old.iter().all(|event| log_of(event) == log_of(&old[0])));
        assert!(new.iter().all(|event| log_of(event) == log_of(&new[0])));
        assert_ne!(log_of(&old[0]), log_of(&new[0]));
        for (at, event) in now.iter().enumerate() {
            let rest = Events::of_account(&user, &event.offset_key, &[])
                .all()
                .await;
            assert!(rest.expect("resumes").starts_with(&now[at + 1..]));
        }
    });
}

#[test]
fn a_fork_has_the_files_and_the_history() {
    run(async {
        let installation = Installation::start().await;
        let user = installation.user("ann").await;
        let source = TheBox::up(&installation, &user, "main").await;
        source.send("one").await;
        source
            .sh("echo shared > /workspace/file; echo home > ~/file")
            .await;
        let fork = |at: &str, name: &str| ForkRequest {
            box_id: source.id.clone(),
            at: at.to_owned(),
            name: name.to_owned(),
            ..ForkRequest::default()
        };
        let awake = user.boxes().fork(fork("", "copy")).await;
        assert_eq!(reason(&awake.expect_err("it runs")), "BOX_NOT_HIBERNATED");
        source.hibernate().await;
        let events = source.events("", &[]).all().await.expect("readable");
        let past = user.boxes().fork(fork(&events[0].offset_key, "copy")).await;
        let past = past.expect_err("no save is that old");
        assert_eq!(
            (past.code(), reason(&past)),
            (Code::NotFound, "NO_SNAPSHOT_BEFORE".into())
        );
        let taken = user.boxes().fork(fork("", "main")).await;
        assert_eq!(reason(&taken.expect_err("a name")), "BOX_NAME_TAKEN");
        let eve = installation.user("eve").await;
        let stolen = eve.boxes().fork(fork("", "copy")).await;
        assert_eq!(reason(&stolen.expect_err("not hers")), "NO_SUCH_BOX");

        let last = events.last().expect("events").offset_key.clone();
        let asked = user.boxes().fork(fork(&last, "copy")).await;
        let asked = asked.expect("the present can be forked").into_inner();
        let ended = user.watch(&asked.operation_id).await.expect("watched");
        assert!(ended.is_done(), "{ended:?}");
        let copy = TheBox::up(&installation, &user, "copy").await;
        assert_eq!(copy.id, asked.id);
        assert_eq!(prompts(&copy).await, ["one"]);
        assert_eq!(
            copy.sh("cat /workspace/file ~/file").await,
            "shared\nhome\n"
        );
        // Each goes its own way.
        source.wake().await;
        copy.sh("echo copy > /workspace/file").await;
        copy.send("in the copy").await;
        source.send("in the source").await;
        assert_eq!(prompts(&copy).await, ["one", "in the copy"]);
        assert_eq!(prompts(&source).await, ["one", "in the source"]);
        assert_eq!(source.sh("cat /workspace/file").await, "shared\n");
        // Keys of the source resume in the copy up to where they part.
        let rest = copy.events(&events[2].offset_key, &[]).all().await;
        let rest = rest.expect("history of both");
        assert_eq!(rest[..events.len() - 3], events[3..]);
        let ahead = source.events("", &[]).all().await.expect("readable");
        let ahead = &ahead.last().expect("events").offset_key;
        rewound(
            &copy
                .events(ahead, &[])
                .all()
                .await
                .expect_err("not its own"),
        );
        copy.hibernate().await;
        copy.wake().await;
        assert_eq!(prompts(&copy).await, ["one", "in the copy"]);
        assert_eq!(get(&user, &copy.id).await.notice, "");
    });
}
