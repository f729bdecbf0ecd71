//! A restore in place is taken back by one call: exactly, once, and whatever is killed meanwhile.

use cocoonbox_e2e::{
    Installation, Setup, TheBox, reason, run,
    until::{soon, until},
};
use cocoonbox_proto::control::v1::{Moment, UndoRestoreRequest, moment::Moment as At};
use tonic::Code;

/// No save but those that are asked for.
const QUIET: &str = "[capsule]\nevery_minutes = 0\nafter_turns = false\nasleep = false\n";
/// All of it, with what can be seen of each.
const SEEN: &str = "cd /workspace; find . -mindepth 1 -printf '%P %y %m %u %s %T@ %l\\n' | sort; find . -type f -print0 | sort -z | xargs -0 sha256sum";

/// A box whose files are others than those of the snapshot.
async fn up() -> (Installation, TheBox, Option<Moment>) {
    let installation = Setup::plain().config(QUIET).start().await;
    let user = installation.user("ann").await;
    let the_box = TheBox::up(&installation, &user, "main").await;
    the_box
        .sh("cd /workspace; mkdir -p d/deep; echo old > d/a; echo gone > d/deep/b; ln -s old d/link; head -c 30M /dev/urandom > d/big")
        .await;
    let saved = the_box.save().await;
    the_box
        .sh("cd /workspace/d; echo new > a; rm -r deep; ln -sfn new link; echo later > later; head -c 40M /dev/urandom > big; chmod 700 .")
        .await;
    let at = Moment {
        moment: Some(At::SnapshotId(saved.id)),
    };
    (installation, the_box, Some(at))
}

#[test]
fn what_was_replaced_comes_back_and_what_was_added_goes() {
    run(async {
        let (_installation, the_box, at) = up().await;
        let seen = the_box.sh(SEEN).await;
        let nothing = the_box.undo(UndoRestoreRequest::default()).await;
        let nothing = nothing.expect_err("there was no restore");
        assert_eq!(
            (nothing.code(), reason(&nothing)),
            (Code::FailedPrecondition, "NOTHING_TO_UNDO".into())
        );
        let restored = the_box.restore(at.clone(), &["/workspace/d"], true);
        let restored = soon("a restore", restored).await.expect("given back");
        assert_eq!(
            the_box.sh("cd /workspace/d; cat a deep/b").await,
            "old\ngone\n"
        );
        let undone = the_box.undo(UndoRestoreRequest::default());
        let undone = soon("an undo", undone).await.expect("taken back");
        assert_eq!((undone.removed, undone.stayed, undone.problems), (1, 0, 0));
        assert_eq!(undone.kept, Vec::<String>::new());
        assert_eq!(the_box.sh(SEEN).await, seen);
        let twice = UndoRestoreRequest {
            restore_id: restored.restore_id,
            ..UndoRestoreRequest::default()
        };
        let twice = the_box.undo(twice).await.expect_err("it was undone");
        assert_eq!(reason(&twice), "UNDONE");

        // Asleep; and what was changed since is not lost.
        let again = the_box.restore(at, &["/workspace/d"], true);
        soon("a restore", again).await.expect("given back");
        the_box
            .sh("cd /workspace/d; echo mine >> deep/b; echo mine >> a; echo mine > since")
            .await;
        the_box.hibernate().await;
        let undone = the_box.undo(UndoRestoreRequest::default());
        let undone = soon("an undo", undone).await.expect("taken back");
        assert_eq!((undone.removed, undone.stayed, undone.replaced), (0, 1, 1));
        the_box.wake().await;
        let kept = format!(
            "cat {}/d/a; cd /workspace/d; cat a deep/b since",
            undone.kept[0]
        );
        assert_eq!(
            the_box.sh(&kept).await,
            "old\nmine\nnew\ngone\nmine\nmine\n"
        );
    });
}

#[test]
fn an_undo_that_is_killed_is_gone_on_with() {
    run(async {
        let (installation, the_box, at) = up().await;
        let seen = the_box.sh(SEEN).await;
        let restored = the_box.restore(at, &["/workspace/d"], true);
        soon("a restore", restored).await.expect("given back");
        let request = UndoRestoreRequest {
            command_id: uuid::Uuid::new_v4().to_string(),
            ..UndoRestoreRequest::default()
        };
        let begun = async {
            // It is killed once what was added is gone, which is one of the first things done.
            let added = installation.data().join("boxes").join(&the_box.id);
            let added = added.join("workspace/d/deep");
            assert!(added.exists());
            until("an undo under way", || async {
                (!added.exists()).then_some(())
            })
            .await;
            installation.kill9();
        };
        let (cut, ()) = tokio::join!(the_box.undo(request.clone()), begun);
        installation.restart().await;
        if cut.is_err() {
            let undone = soon("an undo", the_box.undo(request)).await;
            undone.expect("it is the same one");
        }
        assert_eq!(the_box.sh(SEEN).await, seen);
    });
}
