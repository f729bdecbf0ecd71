//! Saved files in a bucket: kept, looked into, forked, given up and erased as those in a folder, also around a server that goes
//! away.

use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt as _, path::Path};

use cocoonbox_e2e::{
    Events, Installation, Setup, TheBox, User, events::payload_if, reason, run, until::soon,
};
use cocoonbox_proto::{
    control::v1::{
        DeleteUserRequest, ForkRequest, Moment, PruneRequest, ReadFileRequest, Retention,
        SetRetentionRequest, moment::Moment as At, prune_progress::Step,
    },
    log::v1::SnapshotFailed,
};
use cocoonbox_s3::{ACCESS_KEY, SECRET_KEY, Server};
use tonic::{Code, Status};

/// An installation that keeps what it saves in a server's bucket.
async fn up(server: &Server, keys: &Path) -> Installation {
    let text = format!("aws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n");
    fs::write(keys, text).expect("written");
    fs::set_permissions(keys, fs::Permissions::from_mode(0o600)).expect("set");
    let config = format!(
        "[capsule]\nstore = \"{}\"\ncredentials_file = \"{}\"\nevery_minutes = 0\nafter_turns = false\n\
         asleep = false\nsweep_hours = 0\n",
        server.address("of/us"),
        keys.display(),
    );
    let setup = Setup::plain().config(&config);
    setup.expect_error("does not answer").start().await
}

async fn read(the_box: &TheBox, snapshot: &str, path: &str) -> Result<Vec<u8>, Status> {
    let request = ReadFileRequest {
        box_id: the_box.id.clone(),
        at: at(snapshot),
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

#[expect(clippy::unnecessary_wraps, reason = "as the calls take it")]
fn at(id: &str) -> Option<Moment> {
    let moment = Some(At::SnapshotId(id.to_owned()));
    Some(Moment { moment })
}

/// Objects below a user's prefix.
fn objects(server: &Server, user: &User) -> BTreeSet<String> {
    fn look(folder: &Path, found: &mut BTreeSet<String>) {
        let Ok(entries) = fs::read_dir(folder) else {
            return;
        };
        for entry in entries.flatten() {
            if entry.path().is_dir() {
                look(&entry.path(), found);
            } else {
                found.insert(entry.path().display().to_string());
            }
        }
    }
    let mut found = BTreeSet::new();
    look(&server.bucket().join("of/us").join(&user.id), &mut found);
    found
}

#[test]
fn files_in_a_bucket_are_kept_forked_given_back_and_erased() {
    run(async {
        let server = Server::start().expect("a server");
        let folder = tempfile::tempdir().expect("a folder");
        let installation = up(&server, &folder.path().join("keys")).await;
        // She goes before the end.
        let ann = installation.admin();
        let ann = ann.create("ann", installation.channel()).await;
        let bob = installation.user("bob").await;
        let the_box = TheBox::up(&installation, &ann, "main").await;
        let of_bob = TheBox::up(&installation, &bob, "main").await;
        the_box
            .sh("cd /workspace; echo one > a; head -c 30M /dev/urandom > big")
            .await;
        let sum = the_box.sh("sha256sum < /workspace/big").await;
        let first = the_box.save().await;
        the_box.sh("cd /workspace; echo two > a; rm big").await;
        let second = the_box.save().await;
        of_bob.sh("echo of bob > /workspace/b").await;
        let kept = of_bob.save().await;
        assert!(!installation.data().join("capsules").exists());

        // Whoever comes after a crash finds all of it.
        installation.kill9();
        installation.restart().await;
        let one = read(&the_box, &first.id, "/workspace/a").await;
        assert_eq!(one.expect("read"), b"one\n");
        let restored = the_box.restore(at(&first.id), &["/workspace/big"], true);
        soon("a restore", restored).await.expect("given back");
        assert_eq!(the_box.sh("sha256sum < /workspace/big").await, sum);
        let request = ForkRequest {
            box_id: the_box.id.clone(),
            name: "then".into(),
            moment: at(&first.id),
            ..ForkRequest::default()
        };
        let asked = ann
            .boxes()
            .fork(request)
            .await
            .expect("forked")
            .into_inner();
        let ended = ann.watch(&asked.operation_id).await.expect("watched");
        assert!(ended.is_done(), "{ended:?}");
        let then = TheBox::of(&installation, &ann, asked.id);
        assert_eq!(then.sh("sha256sum < /workspace/big").await, sum);

        // What no snapshot needs is given up; the rest is read as before.
        let retention = SetRetentionRequest {
            retention: Some(Retention::default()),
            command_id: String::new(),
        };
        ann.capsule().set_retention(retention).await.expect("set");
        let pruning = async {
            let steps = ann.capsule().prune(PruneRequest::default()).await;
            let mut steps = steps.expect("begun").into_inner();
            while let Some(message) = steps.message().await.expect("a step") {
                if let Some(Step::Swept(swept)) = message.step {
                    return swept;
                }
            }
            panic!("cut off");
        };
        let swept = soon("a pruning", pruning).await;
        assert!(swept.bytes > 29_000_000, "{swept:?}");
        let gone = read(&the_box, &first.id, "/workspace/a").await;
        assert_eq!(gone.expect_err("dropped").code(), Code::NotFound);
        let two = read(&the_box, &second.id, "/workspace/a").await;
        assert_eq!(two.expect("read"), b"two\n");

        // A user who goes takes theirs along, and nobody else's.
        assert!(!objects(&server, &ann).is_empty());
        let before = objects(&server, &bob);
        let request = DeleteUserRequest {
            user_id: ann.id.clone(),
            confirm_name: "ann".into(),
            force: false,
        };
        let deleted = ann.users().delete(request).await.expect("deleted");
        assert!(deleted.into_inner().deleted);
        assert_eq!(objects(&server, &ann), BTreeSet::new());
        assert_eq!(objects(&server, &bob), before);
        let of_bob = read(&of_bob, &kept.id, "/workspace/b").await;
        assert_eq!(of_bob.expect("read"), b"of bob\n");
        assert!(!installation.api_log().contains(SECRET_KEY), "it is logged");
    });
}

#[test]
fn a_server_that_is_away_fails_saves_and_hurts_nobody() {
    run(async {
        let mut server = Server::start().expect("a server");
        let folder = tempfile::tempdir().expect("a folder");
        let installation = up(&server, &folder.path().join("keys")).await;
        let user = installation.user("ann").await;
        let the_box = TheBox::up(&installation, &user, "main").await;
        the_box.sh("echo one > /workspace/a").await;
        let first = the_box.save().await;
        the_box.sh("echo two > /workspace/a").await;

        server.go_down();
        let refused = the_box.try_save().await.expect_err("nowhere to go");
        assert_eq!(
            (refused.code(), reason(&refused)),
            (Code::Unavailable, "STORE_UNAVAILABLE".into())
        );
        let failed = Events::of_account(&user, "", &[])
            .next_of("snapshot.failed")
            .await;
        let failed = payload_if::<SnapshotFailed>(&failed, "snapshot.failed");
        assert_eq!(failed.expect("a failure").reason, "STORE_UNAVAILABLE");
        let refused = read(&the_box, &first.id, "/workspace/a").await;
        let refused = refused.expect_err("nothing to read from");
        assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
        // The box goes on.
        assert_eq!(the_box.sh("cat /workspace/a").await, "two\n");

        server.come_up().expect("its port is free");
        let second = the_box.save().await;
        for (snapshot, wanted) in [(first, "one\n"), (second, "two\n")] {
            let found = read(&the_box, &snapshot.id, "/workspace/a").await;
            assert_eq!(found.expect("read"), wanted.as_bytes());
        }
    });
}
