//! A box is saved before an agent makes a call that may destroy files; what it destroyed is given back.

use cocoonbox_e2e::{
    Installation, Setup, TheBox, Turn,
    events::payload_if,
    run,
    until::{soon, until},
};
use cocoonbox_proto::{
    control::v1::{ForkRequest, Moment, Snapshot, moment::Moment as At},
    log::v1::{AgentToolCalled, AgentToolFinished, agent_tool_finished::Outcome},
};

/// The second call of the turn destroys what the first one and others have made.
const DESTROYS: &str = r#"
[[conversation]]
[[conversation.step]]
text = "I tidy up."
tools = [
  { name = "shell", args = { command = "echo by the agent > /workspace/kept/agent.txt" } },
  { name = "shell", args = { command = "rm -rf /workspace/kept; echo gone >> /workspace/lines" } },
]
[[conversation.step]]
text = "Done."
"#;

/// No save but those that somebody waits for.
const QUIET: &str = "[capsule]\nevery_minutes = 0\nafter_turns = false\nasleep = false\n";

async fn up(config: &str) -> (Installation, TheBox) {
    let installation = Setup::scripted(DESTROYS).config(config).start().await;
    let user = installation.user("ann").await;
    let the_box = TheBox::up(&installation, &user, "main").await;
    let make = "mkdir -p /workspace/kept/deep; echo mine > /workspace/kept/deep/a; echo lines > /workspace/lines";
    the_box.sh(make).await;
    (installation, the_box)
}

/// The call that destroys, and what became of it.
fn destroyed(turn: &Turn) -> AgentToolFinished {
    let events = turn.events.iter();
    let mut finished = events
        .rev()
        .filter_map(|event| payload_if(event, "agent.tool_finished"));
    finished.next().expect("two tools have ended")
}

fn called(turn: &Turn) -> Vec<AgentToolCalled> {
    let events = turn.events.iter();
    let called = events.filter_map(|event| payload_if(event, "agent.tool_called"));
    called.collect()
}

async fn only_snapshot(the_box: &TheBox) -> Snapshot {
    let mut listed = the_box.snapshots().await.expect("listed");
    assert_eq!(listed.len(), 1, "{listed:?}");
    listed.remove(0)
}

fn before(call: &AgentToolFinished) -> At {
    At::BeforeToolCall(call.tool_call_id.clone())
}

#[test]
fn what_an_agent_destroys_was_saved_before_and_comes_back() {
    run(async {
        let (installation, the_box) = up(QUIET).await;
        let turn = the_box.send("Tidy up.").await;
        turn.assert_done();
        let call = destroyed(&turn);
        assert_eq!(call.outcome(), Outcome::Ok, "{}", call.content);
        assert_eq!(the_box.sh("ls /workspace").await, "lines\n");
        // The timeline says what it was made for, and where in the conversation.
        let saved = only_snapshot(&the_box).await;
        assert_eq!(
            (saved.reason.as_str(), &saved.tool_call_id),
            ("tool", &call.tool_call_id)
        );
        // One that was asked for since, which begins before the copy of the log has the call, does not take its place.
        the_box.save().await;
        let request = ForkRequest {
            box_id: the_box.id.clone(),
            name: "then".to_owned(),
            moment: Some(Moment {
                moment: Some(before(&call)),
            }),
            command_id: uuid::Uuid::new_v4().to_string(),
            ..ForkRequest::default()
        };
        let user = &the_box.user;
        let fork = user.boxes().fork(request).await.expect("forked");
        let fork = fork.into_inner();
        let ended = user.watch(&fork.operation_id).await.expect("watched");
        assert!(ended.is_done(), "{ended:?}");
        let then = TheBox::of(&installation, user, fork.id);
        let seen = "cd /workspace; cat kept/deep/a kept/agent.txt lines";
        assert_eq!(then.sh(seen).await, "mine\nby the agent\nlines\n");
        // The box itself gets it back, too.
        let moment = Moment {
            moment: Some(before(&call)),
        };
        let paths = ["/workspace/kept"];
        let restored = the_box.restore(Some(moment), &paths, true);
        let restored = soon("a restore", restored).await.expect("given back");
        assert_eq!(restored.snapshot.map(|one| one.id), Some(saved.id));
        assert_eq!(the_box.sh(seen).await, "mine\nby the agent\nlines\ngone\n");
    });
}

#[test]
fn a_call_whose_files_cannot_be_saved_is_not_made_unless_nothing_waits_for_saves() {
    run(async {
        let config = format!("{QUIET}quota_bytes = 3000000\n");
        let (_installation, the_box) = up(&config).await;
        the_box
            .sh("head -c 60M /dev/urandom > /workspace/big")
            .await;
        let turn = the_box.send("Tidy up.").await;
        turn.assert_done();
        let call = destroyed(&turn);
        assert_eq!(call.outcome(), Outcome::Error);
        assert!(call.content.contains("QUOTA_EXCEEDED"), "{}", call.content);
        assert_eq!(called(&turn).len(), 1, "the other one is not in the log");
        let seen = "cat /workspace/kept/deep/a /workspace/lines";
        assert_eq!(the_box.sh(seen).await, "mine\nlines\n");

        let config = format!("{config}before_destructive = false\n");
        let (_installation, the_box) = up(&config).await;
        the_box
            .sh("head -c 60M /dev/urandom > /workspace/big")
            .await;
        the_box.send("Tidy up.").await.assert_done();
        assert_eq!(the_box.sh("cat /workspace/lines").await, "lines\ngone\n");
        assert_eq!(the_box.snapshots().await.expect("listed"), []);
    });
}

#[test]
fn an_api_that_is_killed_while_a_call_waits_makes_it_once_and_loses_nothing() {
    run(async {
        let (installation, the_box) = up(QUIET).await;
        the_box
            .sh("cd /workspace/kept; for n in $(seq 30); do head -c 8M /dev/urandom > $n; done")
            .await;
        let sum = the_box
            .sh("cd /workspace/kept; cat [0-9]* | sha256sum")
            .await;
        let accepted = the_box.accept("Tidy up.").await;
        let packs = installation.data().join("capsules").join(&the_box.user.id);
        until("a save that is under way", || async {
            let data = std::fs::read_dir(packs.join("data")).ok()?;
            (data.count() > 0).then_some(())
        })
        .await;
        installation.kill9();
        installation.restart().await;
        let turn = the_box.turn_of(accepted).await;
        turn.assert_done();
        let call = destroyed(&turn);
        assert_eq!(call.outcome(), Outcome::Ok, "{}", call.content);
        assert_eq!(the_box.sh("cat /workspace/lines").await, "lines\ngone\n");
        assert_eq!(
            only_snapshot(&the_box).await.tool_call_id,
            call.tool_call_id
        );
        let moment = Moment {
            moment: Some(before(&call)),
        };
        let restored = the_box.restore(Some(moment), &["/workspace/kept"], true);
        soon("a restore", restored).await.expect("given back");
        let again = the_box
            .sh("cd /workspace/kept; cat [0-9]* | sha256sum")
            .await;
        assert_eq!(again, sum);
    });
}
