//! The time capsule: a box's files are kept, looked into and given back, whatever is killed or deleted meanwhile.

use std::path::PathBuf;

use cocoonbox_e2e::{
    Installation, Setup, TheBox, User, reason, run,
    until::{soon, until},
};
use cocoonbox_proto::control::v1::{
    BrowseSnapshotRequest, DeleteUserRequest, DiffRequest, Difference, FileEntry, Moment,
    ReadFileRequest, SaveRequest, Snapshot, difference::Change, moment, save_progress::Step,
};
use tonic::{Code, Status};

const WRITES: &str = r#"
[[conversation]]
[[conversation.step]]
text = "I write."
tools = [{ name = "shell", args = { command = "echo by the agent > /workspace/agent.txt" } }]
[[conversation.step]]
text = "Done."
"#;

fn request(the_box: &TheBox) -> SaveRequest {
    SaveRequest {
        box_id: the_box.id.clone(),
        ..SaveRequest::default()
    }
}

async fn save(the_box: &TheBox) -> Snapshot {
    let saved = the_box.user.save(request(the_box));
    let saved = soon("a save", saved).await.expect("a box can be saved");
    assert!(!saved.unchanged);
    saved.snapshot.expect("a save has a snapshot")
}

#[expect(clippy::unnecessary_wraps, reason = "as the calls take it")]
fn at(id: &str) -> Option<Moment> {
    Some(said(moment::Moment::SnapshotId(id.to_owned())))
}

fn said(moment: moment::Moment) -> Moment {
    Moment {
        moment: Some(moment),
    }
}

async fn browse(
    the_box: &TheBox,
    at: Option<Moment>,
    path: &str,
) -> Result<Vec<FileEntry>, Status> {
    let request = BrowseSnapshotRequest {
        box_id: the_box.id.clone(),
        at,
        path: path.as_bytes().to_vec(),
        ..BrowseSnapshotRequest::default()
    };
    let answer = the_box.user.capsule().browse_snapshot(request).await?;
    Ok(answer.into_inner().entries)
}

async fn read(the_box: &TheBox, at: Option<Moment>, path: &str) -> Result<Vec<u8>, Status> {
    let request = ReadFileRequest {
        box_id: the_box.id.clone(),
        at,
        path: path.as_bytes().to_vec(),
        offset: 0,
    };
    let mut parts = the_box
        .user
        .capsule()
        .read_file(request)
        .await?
        .into_inner();
    let mut bytes = Vec::new();
    while let Some(part) = parts.message().await? {
        bytes.extend(part.data);
    }
    Ok(bytes)
}

async fn diff(the_box: &TheBox, before: &str, after: &str) -> Vec<Difference> {
    let request = DiffRequest {
        box_id: the_box.id.clone(),
        before: at(before),
        after: at(after),
        path: b"/workspace".to_vec(),
    };
    let answer = the_box.user.capsule().diff(request).await;
    let mut pages = answer.expect("snapshots can be compared").into_inner();
    let mut all = Vec::new();
    while let Some(page) = pages.message().await.expect("a page") {
        all.extend(page.differences);
    }
    all
}

/// Refused with a code, and with a reason that a program can act on.
fn is_refused<T: std::fmt::Debug>(result: &Result<T, Status>, code: Code) {
    let status = result.as_ref().expect_err("refused");
    assert_eq!(status.code(), code, "{status:?}");
    assert!(!reason(status).is_empty(), "{status:?}");
}

fn store(installation: &Installation, user: &User) -> PathBuf {
    installation.data().join("capsules").join(&user.id)
}

/// No save but those that are asked for.
fn quiet() -> Setup {
    Setup::plain().config("[capsule]\nevery_minutes = 0\nafter_turns = false\nasleep = false\n")
}

#[test]
fn files_are_kept_looked_into_and_given_back_awake_and_asleep() {
    run(async {
        let installation = quiet().start().await;
        let user = installation.user("ann").await;
        let the_box = TheBox::up(&installation, &user, "main").await;
        let none = browse(&the_box, None, "").await;
        is_refused(&none, Code::NotFound);
        the_box
            .sh(
                "cd /workspace; echo one > a; mkdir -p d/e; echo deep > d/e/f; ln -s a link; \
                 mkdir .cache; echo left > .cache/out; mkfifo pipe",
            )
            .await;
        let first = save(&the_box).await;
        assert_eq!(first.reason, "asked");
        assert!(first.not_saved >= 1, "the pipe: {first:?}");
        assert!(first.left_out >= 1 && first.bytes_added > 0, "{first:?}");
        the_box
            .sh("cd /workspace; echo two > a; rm d/e/f; echo new > n")
            .await;
        let second = save(&the_box).await;
        assert_eq!(second.parent_id, first.id);
        let newest: Vec<_> = the_box
            .snapshots()
            .await
            .expect("listed")
            .into_iter()
            .map(|one| one.id)
            .collect();
        assert_eq!(newest, [second.id.clone(), first.id.clone()]);
        let again = SaveRequest {
            only_if_changed: true,
            ..request(&the_box)
        };
        let again = user.save(again).await.expect("looked at again");
        assert!(again.unchanged && again.snapshot.is_some_and(|same| same.id == second.id));

        the_box.hibernate().await;
        let names: Vec<_> = browse(&the_box, at(&first.id), "/workspace")
            .await
            .expect("asleep");
        let names: Vec<_> = names
            .iter()
            .map(|one| String::from_utf8_lossy(&one.name).into_owned())
            .collect();
        assert_eq!(names, ["a", "d", "link"]);
        assert_eq!(
            read(&the_box, at(&first.id[..20]), "/workspace/a")
                .await
                .expect("read"),
            b"one\n"
        );
        assert_eq!(
            read(&the_box, None, "/workspace/a").await.expect("read"),
            b"two\n"
        );
        // The last save that knew nothing of the second one's moment, and the last by its time.
        let by_key = Some(said(moment::Moment::OffsetKey(
            first.box_offset_key.clone(),
        )));
        assert_eq!(
            read(&the_box, by_key, "/workspace/a").await.expect("read"),
            b"one\n"
        );
        let by_time = Some(said(moment::Moment::AtMs(second.started_ms - 1)));
        assert_eq!(
            read(&the_box, by_time, "/workspace/a").await.expect("read"),
            b"one\n"
        );
        let mut changes: Vec<_> = diff(&the_box, &first.id, &second.id)
            .await
            .into_iter()
            .map(|one| {
                (
                    String::from_utf8_lossy(&one.path).into_owned(),
                    one.change(),
                )
            })
            .filter(|(_, change)| *change != Change::Meta)
            .collect();
        changes.sort();
        let of = |path: &str, change| (format!("/workspace/{path}"), change);
        let wanted = [
            of("a", Change::Content),
            of("d/e/f", Change::Removed),
            of("n", Change::Added),
        ];
        assert_eq!(changes, wanted);

        // Beside, while it sleeps.
        let done = the_box
            .restore(at(&first.id), &["/workspace/d"], false)
            .await
            .expect("restored");
        assert_eq!((done.files, done.problems), (1, 0), "{done:?}");
        the_box.wake().await;
        let seen = the_box
            .sh(&format!(
                "cat {}/workspace/d/e/f; stat -c %U {0}",
                done.target
            ))
            .await;
        assert_eq!(seen, "deep\nuser\n");
        // In place, while it runs; what was there is kept, and undone by one call.
        the_box.sh("echo three > /workspace/a").await;
        let done = the_box
            .restore(at(&first.id), &["/workspace/a"], true)
            .await
            .expect("restored");
        assert_eq!((done.files, done.replaced), (1, 1), "{done:?}");
        let kept = format!("cat /workspace/a {}/a", done.kept[0]);
        assert_eq!(the_box.sh(&kept).await, "one\nthree\n");
        let undo = at(&done.undo_snapshot_id);
        the_box
            .restore(undo, &["/workspace/a"], true)
            .await
            .expect("undone");
        assert_eq!(the_box.sh("cat /workspace/a").await, "three\n");
    });
}

#[test]
fn bad_paths_and_moments_are_refused_and_change_nothing() {
    run(async {
        let installation = quiet().start().await;
        let user = installation.user("ann").await;
        let the_box = TheBox::up(&installation, &user, "main").await;
        the_box.sh("echo one > /workspace/a").await;
        let first = save(&the_box).await;
        for path in [
            "/workspace/../etc/passwd",
            "workspace/a",
            "/workspace//a",
            "/",
        ] {
            let refused = the_box.restore(None, &[path], true).await;
            is_refused(&refused, Code::InvalidArgument);
            is_refused(&read(&the_box, None, path).await, Code::InvalidArgument);
        }
        for path in ["/etc/passwd", "/workspace/none", "/home/user/../.."] {
            let refused = the_box
                .restore(None, &[path], false)
                .await
                .expect_err("refused");
            let codes = [Code::NotFound, Code::InvalidArgument];
            assert!(codes.contains(&refused.code()), "{refused:?}");
        }
        let none = the_box.restore(None, &[], false).await;
        is_refused(&none, Code::InvalidArgument);
        for moment in ["zz", "00", &"f".repeat(33)] {
            let refused = read(&the_box, at(moment), "/workspace/a").await;
            is_refused(&refused, Code::InvalidArgument);
        }
        is_refused(
            &browse(&the_box, at(&"f".repeat(32)), "").await,
            Code::NotFound,
        );
        let folder = read(&the_box, None, "/workspace")
            .await
            .expect_err("a folder");
        assert_eq!(reason(&folder), "OTHER_KIND");
        // A link in the way leads nowhere.
        the_box.sh("ln -s /etc ~/Restored").await;
        let refused = the_box
            .restore(at(&first.id), &["/workspace/a"], false)
            .await;
        assert!(refused.is_err(), "{refused:?}");
        assert_eq!(the_box.sh("rm ~/Restored; cat /workspace/a").await, "one\n");
    });
}

#[test]
fn a_save_that_is_killed_lists_nothing_and_is_gone_on_with() {
    run(async {
        let installation = quiet().start().await;
        let user = installation.user("ann").await;
        let the_box = TheBox::up(&installation, &user, "main").await;
        the_box
            .sh("head -c 120M /dev/urandom > /workspace/big; sha256sum /workspace/big")
            .await;
        let call = SaveRequest {
            command_id: uuid::Uuid::new_v4().to_string(),
            ..request(&the_box)
        };
        let mut steps = user
            .capsule()
            .save(call.clone())
            .await
            .expect("asked")
            .into_inner();
        let packs = store(&installation, &user).join("data");
        until("a pack of the save", || async {
            let packs = std::fs::read_dir(&packs).map_or(0, Iterator::count);
            (packs > 0).then_some(())
        })
        .await;
        installation.kill9();
        while let Ok(Some(message)) = steps.message().await {
            assert!(
                !matches!(message.step, Some(Step::Saved(_))),
                "it was killed too late"
            );
        }
        assert!(!store(&installation, &user).join("snapshots").exists());
        installation.restart().await;
        // It is owed, and may be done by now; whatever is listed is whole.
        for one in the_box.snapshots().await.expect("listed") {
            let entries = browse(&the_box, at(&one.id), "/workspace").await;
            assert!(
                entries
                    .expect("whole")
                    .iter()
                    .any(|one| one.size == 120 << 20)
            );
        }
        let saved = soon("the save", user.save(call))
            .await
            .expect("gone on with");
        let id = saved.snapshot.expect("kept").id;
        assert_eq!(the_box.snapshots().await.expect("listed").len(), 1);
        let bytes = read(&the_box, at(&id), "/workspace/big")
            .await
            .expect("read");
        let own = std::fs::read(
            installation
                .data()
                .join("boxes")
                .join(&the_box.id)
                .join("workspace/big"),
        );
        assert!(own.expect("the file") == bytes, "other bytes");
    });
}

#[test]
fn saves_at_once_are_done_one_after_the_other() {
    run(async {
        let installation = quiet().start().await;
        let user = installation.user("ann").await;
        let the_box = TheBox::up(&installation, &user, "main").await;
        the_box.sh("echo one > /workspace/a").await;
        let saves = (0..4).map(|_| user.save(request(&the_box)));
        let saved = soon("all saves", futures::future::join_all(saves)).await;
        let mut ids: Vec<_> = saved
            .into_iter()
            .map(|saved| saved.expect("saved").snapshot.expect("kept").id)
            .collect();
        ids.sort();
        ids.reverse();
        let listed: Vec<_> = the_box
            .snapshots()
            .await
            .expect("listed")
            .into_iter()
            .map(|one| one.id)
            .collect();
        assert_eq!(ids, listed);
    });
}

#[test]
fn boxes_are_saved_after_turns_and_when_they_sleep() {
    run(async {
        let installation = Setup::scripted(WRITES).start().await;
        let user = installation.user("ann").await;
        let the_box = TheBox::up(&installation, &user, "main").await;
        the_box.send("Write.").await.assert_done();
        let turn = until("a save after the turn", || async {
            let listed = the_box.snapshots().await.expect("listed");
            listed.into_iter().find(|one| one.reason == "turn")
        })
        .await;
        let written = read(&the_box, at(&turn.id), "/workspace/agent.txt").await;
        assert_eq!(written.expect("saved"), b"by the agent\n");
        the_box.sh("echo by me > /workspace/me").await;
        the_box.hibernate().await;
        let asleep = until("a save of the sleeping box", || async {
            let listed = the_box.snapshots().await.expect("listed");
            listed.into_iter().find(|one| one.reason == "hibernate")
        })
        .await;
        let written = read(&the_box, at(&asleep.id), "/workspace/me").await;
        assert_eq!(written.expect("saved"), b"by me\n");
    });
}

#[test]
fn nothing_is_left_of_a_box_or_a_user_that_is_deleted() {
    run(async {
        let installation = quiet().start().await;
        let admin = installation.admin();
        let user = admin.create("eve", installation.channel()).await;
        let (gone, left) = (
            TheBox::up(&installation, &user, "gone").await,
            TheBox::up(&installation, &user, "left").await,
        );
        for the_box in [&gone, &left] {
            the_box.sh("echo words > /workspace/a").await;
            save(the_box).await;
        }
        let records = || {
            std::fs::read_dir(store(&installation, &user).join("snapshots"))
                .map_or(0, Iterator::count)
        };
        assert_eq!(records(), 2);
        user.delete(&gone.id).await;
        until("the record of the deleted box to go", || async {
            (records() == 1).then_some(())
        })
        .await;
        is_refused(&gone.snapshots().await, Code::NotFound);
        assert_eq!(
            read(&left, None, "/workspace/a").await.expect("read"),
            b"words\n"
        );
        let request = DeleteUserRequest {
            user_id: user.id.clone(),
            confirm_name: user.name.clone(),
            force: false,
        };
        let deleted = admin.users().delete(request).await;
        assert!(deleted.expect("deleted").into_inner().deleted);
        assert!(!store(&installation, &user).exists());
    });
}
