//! Boxes are made of moments: the files of the last save before it, and the conversation up to it.

use cocoonbox_e2e::{
    Events, Installation, Setup, TheBox, User, events::payload_if, reason, run, until::until,
};
use cocoonbox_proto::{
    agent::v1::transcript_item::Kind,
    control::v1::{ForkRequest, Moment, moment::Moment as At},
    log::v1::{AgentToolCalled, AgentTurnEnded, BoxCreated, agent_turn_ended::Outcome},
};
use tonic::Code;

const WRITES: &str = r#"
[[conversation]]
[[conversation.step]]
text = "I write."
tools = [{ name = "shell", args = { command = "echo by the agent > /workspace/agent.txt" } }]
[[conversation.step]]
text = "Done."
"#;

/// No save but those that are asked for.
const QUIET: &str = "[capsule]\nevery_minutes = 0\nafter_turns = false\nasleep = false\n";

fn request(the_box: &TheBox, at: At, name: &str) -> ForkRequest {
    ForkRequest {
        box_id: the_box.id.clone(),
        name: name.to_owned(),
        moment: Some(Moment { moment: Some(at) }),
        command_id: uuid::Uuid::new_v4().to_string(),
        ..ForkRequest::default()
    }
}

async fn fork(installation: &Installation, the_box: &TheBox, at: At, name: &str) -> TheBox {
    let user = &the_box.user;
    let request = request(the_box, at, name);
    let asked = user.boxes().fork(request.clone()).await;
    let asked = asked.expect("the moment can be forked").into_inner();
    // Asked again, it is the same box.
    let again = user.boxes().fork(request).await.expect("asked again");
    assert_eq!(again.into_inner().id, asked.id);
    let ended = user.watch(&asked.operation_id).await.expect("watched");
    assert!(ended.is_done(), "{ended:?}");
    TheBox::of(installation, user, asked.id)
}

async fn refused(the_box: &TheBox, user: &User, at: At) -> (Code, String) {
    let refused = user.boxes().fork(request(the_box, at, "none")).await;
    let refused = refused.expect_err("refused");
    (refused.code(), reason(&refused))
}

async fn prompts(the_box: &TheBox) -> Vec<String> {
    let items = the_box.transcript().await.into_iter();
    let prompts = items.filter(|item| item.kind() == Kind::Prompt);
    prompts.map(|item| item.text).collect()
}

async fn last_key(the_box: &TheBox) -> String {
    let events = the_box.events("", &[]).all().await.expect("readable");
    events.last().expect("events").offset_key.clone()
}

#[test]
fn a_box_is_made_of_any_moment_of_one_that_runs() {
    run(async {
        let installation = Setup::plain().config(QUIET).start().await;
        let user = installation.user("ann").await;
        let source = TheBox::up(&installation, &user, "main").await;
        source.sh("true").await;
        let first_key = {
            let events = source.events("", &[]).all().await.expect("readable");
            events[0].offset_key.clone()
        };
        source.send("one").await.assert_done();
        source
            .sh("cd /workspace; echo one > a; mkdir d; ln a d/hard; ln -s ../a d/soft; echo home > ~/h; chmod 600 ~/h")
            .await;
        let first = source.save().await;
        let key = last_key(&source).await;
        source.send("two").await.assert_done();
        source
            .sh("cd /workspace; echo two > a; rm -r d; echo n > n")
            .await;
        let second = source.save().await;

        let then = fork(&installation, &source, At::OffsetKey(key), "then").await;
        assert_eq!(prompts(&then).await, ["one"]);
        let seen = "cat /workspace/a /workspace/d/soft ~/h; stat -c '%U %a %h' ~/h /workspace/d/hard; ls /workspace";
        assert_eq!(
            then.sh(seen).await,
            "one\none\nhome\nuser 600 1\nuser 644 2\na\nd\n"
        );
        // Its own log says what it is made of.
        let events = Events::of_account(&user, "", &[])
            .all()
            .await
            .expect("readable");
        let created = events
            .iter()
            .filter_map(|event| payload_if::<BoxCreated>(event, "box.created"))
            .find(|created| created.box_id == then.id)
            .expect("it was created");
        let origin = created.origin.expect("it was forked");
        assert_eq!(
            (&origin.box_id, &origin.snapshot_id),
            (&source.id, &first.id)
        );

        let by_id = At::SnapshotId(second.id.clone());
        let latest = fork(&installation, &source, by_id, "latest").await;
        assert_eq!(prompts(&latest).await, ["one", "two"]);
        assert_eq!(latest.sh("cd /workspace; cat a; ls").await, "two\na\nn\n");
        let by_time = At::AtMs(second.started_ms - 1);
        let timed = fork(&installation, &source, by_time, "timed").await;
        assert_eq!(timed.sh("cat /workspace/a").await, "one\n");

        // Each goes its own way, and sleeps and wakes.
        then.send("in then").await.assert_done();
        then.sh("echo then > /workspace/a").await;
        then.hibernate().await;
        then.wake().await;
        assert_eq!(prompts(&then).await, ["one", "in then"]);
        assert_eq!(then.sh("cat /workspace/a").await, "then\n");
        assert_eq!(prompts(&source).await, ["one", "two"]);
        assert_eq!(source.sh("cat /workspace/a").await, "two\n");

        let too_old = refused(&source, &user, At::OffsetKey(first_key)).await;
        assert_eq!(too_old, (Code::NotFound, "NO_SNAPSHOT_BEFORE".into()));
        let unknown = refused(&source, &user, At::BeforeToolCall("toolu_0".into())).await;
        assert_eq!(unknown, (Code::NotFound, "NO_SUCH_TOOL_CALL".into()));
        let both = ForkRequest {
            at: first.box_offset_key.clone(),
            ..request(&source, At::AtMs(0), "both")
        };
        let both = user.boxes().fork(both).await.expect_err("refused");
        assert_eq!(both.code(), Code::InvalidArgument);
        // Somebody else's box is none, and somebody else's snapshot is none of theirs.
        let eve = installation.user("eve").await;
        let of_ann = || At::SnapshotId(first.id.clone());
        let stolen = refused(&source, &eve, of_ann()).await;
        assert_eq!(stolen, (Code::NotFound, "NO_SUCH_BOX".into()));
        let hers = TheBox::up(&installation, &eve, "main").await;
        let stolen = refused(&hers, &eve, of_ann()).await;
        assert_eq!(stolen, (Code::NotFound, "NO_SUCH_SNAPSHOT".into()));
    });
}

#[test]
fn a_tool_call_is_undone_in_another_box_and_not_made_again() {
    run(async {
        let installation = Setup::scripted(WRITES).config(QUIET).start().await;
        let user = installation.user("ann").await;
        let source = TheBox::up(&installation, &user, "main").await;
        source.sh("echo before > /workspace/me").await;
        source.save().await;
        source.send("Write.").await.assert_done();
        let called = source.events("", &[]).all().await.expect("readable");
        let called = called
            .iter()
            .find_map(|event| payload_if::<AgentToolCalled>(event, "agent.tool_called"))
            .expect("a tool was called");
        assert_eq!(
            source.sh("cat /workspace/agent.txt").await,
            "by the agent\n"
        );
        let at = At::BeforeToolCall(called.tool_call_id.clone());
        let undone = fork(&installation, &source, at, "undone").await;
        assert_eq!(prompts(&undone).await, ["Write."]);
        assert_eq!(undone.sh("cat /workspace/*").await, "before\n");
        let ended = until("the turn to end", || async {
            let events = undone.events("", &[]).all().await.expect("readable");
            assert!(
                !events.iter().any(|event| event.kind == "agent.tool_called"),
                "it was called again"
            );
            events
                .iter()
                .find_map(|event| payload_if::<AgentTurnEnded>(event, "agent.turn_ended"))
        })
        .await;
        assert_eq!(ended.outcome(), Outcome::Cancelled);
        assert_eq!(undone.sh("ls /workspace").await, "me\n");
    });
}

#[test]
fn a_fork_that_is_killed_is_gone_on_with() {
    run(async {
        let installation = Setup::plain().config(QUIET).start().await;
        let user = installation.user("ann").await;
        let source = TheBox::up(&installation, &user, "main").await;
        let sum = source
            .sh("cd /workspace; for n in $(seq 30); do head -c 8M /dev/urandom > $n; done; cat * | sha256sum")
            .await;
        let saved = source.save().await;
        let asked = request(&source, At::SnapshotId(saved.id.clone()), "twin");
        let asked = user.boxes().fork(asked).await.expect("asked").into_inner();
        let drafts = installation.data().join("boxes/.deleted");
        until("files of the fork", || async {
            let drafts = std::fs::read_dir(&drafts).ok()?;
            let mut own = drafts.filter_map(Result::ok).filter(|draft| {
                let name = draft.file_name().to_string_lossy().into_owned();
                name.starts_with(&asked.id)
            });
            let workspace = own.next()?.path().join("workspace");
            let files = std::fs::read_dir(workspace).map_or(0, Iterator::count);
            (files > 0).then_some(())
        })
        .await;
        installation.kill9();
        assert!(
            !installation.data().join("boxes").join(&asked.id).exists(),
            "it was killed too late"
        );
        installation.restart().await;
        let ended = user.watch(&asked.operation_id).await.expect("watched");
        assert!(ended.is_done(), "{ended:?}");
        let twin = TheBox::of(&installation, &user, asked.id);
        assert_eq!(twin.sh("cd /workspace; cat * | sha256sum").await, sum);
    });
}
