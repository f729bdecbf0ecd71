//! What a person is asked before a tool runs.

use cocoonbox_commands::agent::{Command, Mood, Next, Rejection, tools};
use cocoonbox_events::{AgentEvent, Aggregate};
use cocoonbox_proto::log::v1::{ApprovalPolicy, StopReason};

use crate::agent_loop::{Loop, answer, asked, ids, story, text, tool};

#[test]
fn a_person_is_asked_and_says_no_then_yes() {
    let mut it = Loop::new(ApprovalPolicy::AskBeforeEffects, 0).going();
    it.reply(
        vec![tool("r", "read"), tool("x", "shell"), tool("y", "shell")],
        StopReason::ToolUse,
    );
    assert_eq!(ids(&it.settle()), ["r"], "reading is not asked for");
    it.finish("r", "");
    let approval_id = asked(&it.settle());
    assert_eq!(it.state().mood(), Mood::Waiting);
    let request = it.machine.history.iter().find_map(|event| match event {
        AgentEvent::ApprovalRequested(e) => Some(e.args_hash.clone()),
        _ => None,
    });
    assert_eq!(
        request.unwrap(),
        tools::args_hash("shell", "{\"of\":\"x\"}")
    );
    it.send(answer(&approval_id, false)).unwrap();
    assert_eq!(
        it.send(answer(&approval_id, false)),
        Ok(vec![]),
        "said already"
    );
    assert!(matches!(
        it.send(answer(&approval_id, true)),
        Err(Rejection::AlreadyDecided { .. })
    ));
    assert!(matches!(
        it.send(answer("none", true)),
        Err(Rejection::UnknownApproval { .. })
    ));
    let approval_id = asked(&it.settle());
    it.send(answer(&approval_id, true)).unwrap();
    assert_eq!(ids(&it.settle()), ["y"]);
    it.finish("y", "ran");
    it.settle();
    it.reply(vec![text("ok")], StopReason::EndTurn);
    it.settle();
    story(
        &it.told(),
        &[
            "prompt_received",
            "turn_started 1 prompts",
            "model_called #1",
            "model_replied TOOL_USE",
            "tool_called r read",
            "tool_finished r OK",
            "approval_requested x",
            "approval_decided false",
            "tool_finished x DENIED",
            "approval_requested y",
            "approval_decided true",
            "tool_called y shell",
            "tool_finished y OK",
            "model_called #1",
            "model_replied END_TURN",
            "turn_ended DONE",
        ],
    );
    let results = it.results();
    assert_eq!(results[1], "not run: a person denied this call: not that");
}

#[test]
fn a_history_that_was_cut_behind_a_denial_goes_on() {
    let mut it = Loop::new(ApprovalPolicy::AskBeforeEffects, 0).going();
    it.reply(vec![tool("x", "shell")], StopReason::ToolUse);
    let approval_id = asked(&it.settle());
    let answer = Command::Approve {
        approval_id,
        allowed: false,
        comment: String::new(),
        scope: cocoonbox_proto::log::v1::agent_approval_decided::Scope::Once,
        now_us: 0,
    };
    // Both events are one append, but a replica may end between them.
    let decided = it.state().decide(&answer).unwrap();
    assert_eq!(decided.len(), 2);
    it.machine.take(&decided[0]);
    assert_eq!(it.state().next(), Next::Advance);
    assert_eq!(it.advance(), decided[1..]);
}

#[test]
fn a_call_that_destroys_is_known_before_it_is_made_and_may_be_left() {
    let mut it = Loop::new(ApprovalPolicy::AskBeforeEffects, 0).going();
    let tools = vec![tool("r", "read"), tool("x", "shell"), tool("y", "shell")];
    it.reply(tools, StopReason::ToolUse);
    let next = |it: &Loop| {
        let due = it.state().destroys_next();
        due.map(|tool| tool.tool_call_id.clone())
            .unwrap_or_default()
    };
    let not_run = |id: &str| Command::NotRun {
        tool_call_id: id.into(),
        content: "not saved".into(),
    };
    assert_eq!(next(&it), "", "reading destroys nothing");
    it.settle();
    it.finish("r", "");
    let approval_id = asked(&it.settle());
    assert_eq!(next(&it), "", "it is asked about");
    assert_eq!(it.send(not_run("x")), Ok(vec![]));
    it.send(answer(&approval_id, true)).unwrap();
    assert_eq!(next(&it), "x");
    assert_eq!(it.send(not_run("y")), Ok(vec![]), "it waits for `x`");
    assert_eq!(it.send(not_run("x")).unwrap().len(), 1);
    assert_eq!(it.send(not_run("x")), Ok(vec![]), "said already");
    let approval_id = asked(&it.settle());
    it.send(answer(&approval_id, true)).unwrap();
    assert_eq!(next(&it), "y");
    it.send(Command::Cancel {
        turn_id: String::new(),
    })
    .unwrap();
    assert_eq!(next(&it), "");
    assert_eq!(it.send(not_run("y")), Ok(vec![]));
    it.settle();
    story(
        &it.told(),
        &[
            "prompt_received",
            "turn_started 1 prompts",
            "model_called #1",
            "model_replied TOOL_USE",
            "tool_called r read",
            "tool_finished r OK",
            "approval_requested x",
            "approval_decided true",
            "tool_finished x ERROR",
            "approval_requested y",
            "approval_decided true",
            "cancel_requested",
            "tool_finished y CANCELLED",
            "turn_ended CANCELLED",
        ],
    );
}
