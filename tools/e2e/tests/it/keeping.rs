//! What is saved is kept as long as the user's rule says, and what no snapshot needs is given back, whatever is killed.

use std::path::PathBuf;

use cocoonbox_e2e::{Chance, Events, Installation, Setup, TheBox, User, reason, run, until::soon};
use cocoonbox_proto::control::v1::{
    GetStorageRequest, Moment, PinRequest, PruneRequest, ReadFileRequest, Retention,
    SetRetentionRequest,
    moment::Moment as At,
    prune_progress::{Plan, Step, Swept},
};
use tonic::{Code, Status};

const QUIET: &str =
    "[capsule]\nevery_minutes = 0\nafter_turns = false\nasleep = false\nsweep_hours = 0\n";

async fn list(the_box: &TheBox) -> Vec<String> {
    let listed = the_box.snapshots().await.expect("listed");
    listed.into_iter().map(|one| one.id).collect()
}

async fn read(the_box: &TheBox, snapshot: &str, path: &str) -> Result<Vec<u8>, Status> {
    let request = ReadFileRequest {
        box_id: the_box.id.clone(),
        at: at(snapshot),
        path: path.as_bytes().to_vec(),
        offset: 0,
    };
    let parts = the_box.user.capsule().read_file(request).await?;
    let (mut parts, mut bytes) = (parts.into_inner(), Vec::new());
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

fn pin(the_box: &TheBox, id: &str) -> PinRequest {
    PinRequest {
        box_id: the_box.id.clone(),
        at: at(id),
        command_id: String::new(),
    }
}

async fn prune(user: &User, dry_run: bool) -> Result<(Option<Plan>, Option<Swept>), Status> {
    let request = PruneRequest {
        dry_run,
        ..PruneRequest::default()
    };
    let pruning = async {
        let mut steps = user.capsule().prune(request).await?.into_inner();
        let (mut plan, mut swept) = (None, None);
        while let Some(message) = steps.message().await? {
            match message.step {
                Some(Step::Plan(told)) => plan = Some(told),
                Some(Step::Swept(told)) => swept = Some(told),
                None => {}
            }
        }
        Ok((plan, swept))
    };
    soon("a pruning", pruning).await
}

async fn keep_the_newest_only(user: &User) {
    let request = SetRetentionRequest {
        retention: Some(Retention::default()),
        command_id: String::new(),
    };
    user.capsule().set_retention(request).await.expect("set");
}

fn store(installation: &Installation, user: &User) -> PathBuf {
    installation.data().join("capsules").join(&user.id)
}

fn count(installation: &Installation, user: &User, folder: &str) -> usize {
    std::fs::read_dir(store(installation, user).join(folder)).map_or(0, Iterator::count)
}

#[test]
fn the_rule_drops_what_is_not_pinned_and_says_so_before() {
    run(async {
        let installation = Setup::plain().config(QUIET).start().await;
        let user = installation.user("ann").await;
        let the_box = TheBox::up(&installation, &user, "main").await;
        let mut ids = Vec::new();
        for number in 0..4 {
            let line =
                format!("head -c 300K /dev/urandom > /workspace/f; echo {number} > /workspace/n");
            the_box.sh(&line).await;
            ids.push(the_box.save().await.id);
        }
        let [first, second, third, fourth] = &ids[..] else {
            panic!("four saves");
        };
        let capsule = || user.capsule();
        let pinned = capsule().pin(pin(&the_box, first)).await;
        assert!(pinned.expect("pinned").into_inner().pinned);
        let refused = capsule().forget(pin(&the_box, first)).await;
        let refused = refused.expect_err("it is pinned");
        assert_eq!(
            (refused.code(), reason(&refused)),
            (Code::FailedPrecondition, "PINNED".into())
        );

        // All of today are kept by itself.
        let (plan, _) = prune(&user, true).await.expect("planned");
        assert_eq!(plan.expect("a plan").dropped, []);
        keep_the_newest_only(&user).await;
        let (plan, swept) = prune(&user, true).await.expect("planned");
        let plan = plan.expect("a plan");
        assert!(swept.is_none());
        let dropped: Vec<_> = plan.dropped.iter().map(|one| &one.id).collect();
        assert_eq!(dropped, [second, third]);
        assert!(plan.chunks_dead > 0 && plan.packs_given_up > 0, "{plan:?}");
        assert_eq!(list(&the_box).await.len(), 4, "only said");

        let (plan, swept) = prune(&user, false).await.expect("pruned");
        assert!(plan.expect("a plan").packs_given_up > 0);
        let swept = swept.expect("swept");
        assert!(
            swept.bytes > 0 && swept.packs_deleted == 0,
            "a day later: {swept:?}"
        );
        assert_eq!(list(&the_box).await, [fourth.clone(), first.clone()]);
        assert_eq!(count(&installation, &user, "snapshots"), 2);
        let gone = read(&the_box, second, "/workspace/n").await;
        assert_eq!(gone.expect_err("it is dropped").code(), Code::NotFound);
        for (id, wanted) in [(first, "0\n"), (fourth, "3\n")] {
            let kept = read(&the_box, id, "/workspace/n").await.expect("kept");
            assert_eq!(kept, wanted.as_bytes());
        }
        let storage = capsule().get_storage(GetStorageRequest::default()).await;
        let storage = storage.expect("measured").into_inner();
        assert_eq!((storage.snapshots, storage.pinned), (2, 1));
        assert!(storage.bytes > 0 && storage.swept_ms > 0, "{storage:?}");
        let kinds: Vec<String> = Events::of_account(&user, "", &[&format!("capsule/{}", user.id)])
            .all()
            .await
            .expect("readable")
            .into_iter()
            .map(|event| event.kind)
            .collect();
        assert_eq!(
            kinds,
            [
                "capsule.rule_set",
                "capsule.sweep_requested",
                "capsule.sweep_planned",
                "capsule.swept"
            ]
        );
        // Unpinned it goes with the next; and one can be deleted by hand.
        capsule()
            .unpin(pin(&the_box, first))
            .await
            .expect("unpinned");
        prune(&user, false).await.expect("pruned");
        assert_eq!(list(&the_box).await, std::slice::from_ref(fourth));
        capsule()
            .forget(pin(&the_box, fourth))
            .await
            .expect("forgotten");
        assert_eq!(list(&the_box).await, Vec::<String>::new());
        assert_eq!(count(&installation, &user, "snapshots"), 0);
        // Nothing of that is in the way of saving.
        let again = the_box.save().await.id;
        assert_eq!(
            read(&the_box, &again, "/workspace/n").await.expect("read"),
            b"3\n"
        );
    });
}

#[test]
fn a_pruning_that_is_killed_is_gone_on_with_and_loses_nothing() {
    run(async {
        let installation = Setup::plain().config(QUIET).start().await;
        let user = installation.user("ann").await;
        let the_box = TheBox::up(&installation, &user, "main").await;
        keep_the_newest_only(&user).await;
        let mut chance = Chance::seeded("a pruning that is killed");
        for round in 0..6_u64 {
            let line = format!(
                "cd /workspace; head -c 2M /dev/urandom > f{}; echo {round} > n",
                round % 3
            );
            the_box.sh(&line).await;
            the_box.save().await;
            the_box.sh("echo last >> /workspace/n").await;
            let last = the_box.save().await;
            // Somewhere between being asked for and being done: so many things are seen to have happened.
            let mut left = chance.below(4);
            let mut seen = None;
            let asked = tokio::spawn({
                let user = user.clone();
                async move { prune(&user, false).await }
            });
            let stream = format!("capsule/{}", user.id);
            while left > 0 && !asked.is_finished() {
                let events = Events::of_account(&user, "", &[&stream]).all().await;
                let now = (
                    events.expect("readable").len(),
                    ["snapshots", "generation", "data", "index"]
                        .map(|folder| count(&installation, &user, folder)),
                );
                if seen.as_ref().is_some_and(|seen| *seen != now) {
                    left -= 1;
                }
                seen = Some(now);
            }
            installation.kill9();
            drop(asked.await);
            installation.restart().await;
            // Whether it was owed or not: this one ends.
            prune(&user, false).await.expect("pruned");
            assert_eq!(list(&the_box).await, std::slice::from_ref(&last.id));
            // A record whose deletion was cut off goes once it is a day old; nobody sees it.
            assert!(
                count(&installation, &user, "snapshots")
                    <= 2 + usize::try_from(round).expect("few")
            );
            let kept = read(&the_box, &last.id, "/workspace/n")
                .await
                .expect("kept");
            assert_eq!(kept, format!("{round}\nlast\n").as_bytes());
            for number in 0..3.min(round + 1) {
                let path = format!("/workspace/f{number}");
                let kept = read(&the_box, &last.id, &path).await.expect("kept");
                let own = installation
                    .data()
                    .join("boxes")
                    .join(&the_box.id)
                    .join(&path[1..]);
                assert!(
                    std::fs::read(own).expect("the file") == kept,
                    "{path} differs"
                );
            }
        }
    });
}

#[test]
fn a_quota_refuses_saves_and_loses_nothing() {
    run(async {
        let config = format!("{QUIET}quota_bytes = 3000000\n");
        let installation = Setup::plain().config(&config).start().await;
        let user = installation.user("ann").await;
        let the_box = TheBox::up(&installation, &user, "main").await;
        the_box.sh("echo small > /workspace/n").await;
        let first = the_box.save().await.id;
        the_box
            .sh("head -c 60M /dev/urandom > /workspace/big")
            .await;
        let refused = the_box.try_save().await.expect_err("it is too large");
        assert_eq!(
            (refused.code(), reason(&refused)),
            (Code::ResourceExhausted, "QUOTA_EXCEEDED".into())
        );
        assert_eq!(list(&the_box).await, std::slice::from_ref(&first));
        assert_eq!(
            read(&the_box, &first, "/workspace/n").await.expect("kept"),
            b"small\n"
        );
    });
}
