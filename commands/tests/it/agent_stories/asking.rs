//! Rules, approvals that expire or last, questions, and the list of what is to do.

use cocoonbox_commands::agent::{Command, Mood, Next, Rejection};
use cocoonbox_proto::log::v1::{
    AgentCreated, Risk, StopReason, Verdict, agent_approval_decided::Scope,
};

use crate::agent_loop::{Loop, agent, answer, asked, ids, ruled, story, tool_with};

const WRITE: &str = r#"{"path":"a"}"#;
const ELSEWHERE: &str = r#"{"path":"/etc/hosts"}"#;

fn expire(approval_id: &str, now_us: i64) -> Command {
    Command::Expire {
        approval_id: approval_id.into(),
        now_us,
    }
}

#[test]
fn each_risk_has_its_verdict() {
    let mut it = Loop::ruled(&[
        (Risk::WriteWorkspace, Verdict::Allow),
        (Risk::WriteOutside, Verdict::Deny),
    ])
    .going();
    let blocks = vec![
        tool_with("w", "write", WRITE),
        tool_with("e", "write", ELSEWHERE),
        tool_with("d", "shell", r#"{"command":"rm -rf /workspace"}"#),
    ];
    it.reply(blocks, StopReason::ToolUse);
    assert_eq!(ids(&it.settle()), ["w"]);
    it.finish("w", "ok");
    let approval_id = asked(&it.settle());
    it.send(answer(&approval_id, false)).unwrap();
    it.settle();
    story(
        &it.told(),
        &[
            "prompt_received",
            "turn_started 1 prompts",
            "model_called #1",
            "model_replied TOOL_USE",
            "tool_called w write",
            "tool_finished w OK",
            "tool_finished e DENIED",
            "approval_requested d",
            "approval_decided false",
            "tool_finished d DENIED",
            "model_called #1",
        ],
    );
    assert_eq!(
        it.results(),
        [
            "ok",
            "not run: the rules of this agent do not allow it",
            "not run: a person denied this call: not that"
        ]
    );
}

#[test]
fn an_approval_expires_by_the_clock_and_not_before() {
    let mut it = Loop::ruled(&[]);
    it.now_us = 1_000_000;
    it.prompt("go");
    it.settle();
    it.reply(vec![tool_with("w", "write", WRITE)], StopReason::ToolUse);
    let Next::Wait(waiting) = it.settle() else {
        panic!()
    };
    let pending = waiting.expires_next().unwrap();
    assert_eq!(pending.expires_at_us, 61_000_000);
    let approval_id = pending.approval_id.clone();
    assert_eq!(it.send(expire(&approval_id, 60_999_999)), Ok(vec![]));
    assert_eq!(
        it.send(expire(&approval_id, -5)),
        Ok(vec![]),
        "a clock may jump"
    );
    it.send(Command::Restarted).unwrap();
    assert_eq!(asked(&it.settle()), approval_id, "it survives a restart");
    let Command::Approve { comment, scope, .. } = answer("", true) else {
        panic!()
    };
    let late = Command::Approve {
        approval_id: approval_id.clone(),
        allowed: true,
        comment,
        scope,
        now_us: 61_000_000,
    };
    assert!(matches!(
        it.send(late),
        Err(Rejection::ApprovalExpired { .. })
    ));
    assert_eq!(it.send(expire(&approval_id, 61_000_000)).unwrap().len(), 2);
    assert_eq!(it.send(expire(&approval_id, 61_000_001)), Ok(vec![]));
    it.settle();
    assert_eq!(
        it.results(),
        ["not run: nobody answered in time whether this may run"]
    );
}

#[test]
fn a_yes_for_the_conversation_lasts_up_to_its_risk() {
    let mut it = Loop::ruled(&[]).going();
    it.reply(vec![tool_with("a", "write", WRITE)], StopReason::ToolUse);
    let approval_id = asked(&it.settle());
    it.send(Command::Approve {
        approval_id,
        allowed: true,
        comment: String::new(),
        scope: Scope::Conversation,
        now_us: 0,
    })
    .unwrap();
    it.settle();
    it.finish("a", "ok");
    it.settle();
    it.reply(
        vec![
            tool_with("b", "write", WRITE),
            tool_with("c", "write", ELSEWHERE),
        ],
        StopReason::ToolUse,
    );
    assert_eq!(ids(&it.settle()), ["b"], "not asked again");
    it.finish("b", "ok");
    asked(&it.settle());
    it.send(Command::Cancel {
        turn_id: String::new(),
    })
    .unwrap();
    assert_eq!(it.settle(), Next::Idle);
    // A rule that denies is stronger than a yes of before.
    let rules = ruled(&[(Risk::WriteWorkspace, Verdict::Deny)]);
    it.send(Command::SetRules { rules }).unwrap();
    it.prompt("again");
    it.settle();
    it.reply(vec![tool_with("d", "write", WRITE)], StopReason::ToolUse);
    it.settle();
    assert!(
        it.told()
            .ends_with("tool_finished d DENIED\nmodel_called #1")
    );
}

#[test]
fn a_question_waits_for_a_person() {
    let mut it = Loop::ruled(&[(Risk::Read, Verdict::Ask)]).going();
    let args = r#"{"question":"which?","choices":["a","b"]}"#;
    it.reply(vec![tool_with("q", "ask_user", args)], StopReason::ToolUse);
    let Next::Wait(waiting) = it.settle() else {
        panic!()
    };
    assert_eq!(it.state().mood(), Mood::Waiting);
    let pending = &waiting.questions[0];
    assert_eq!(pending.choices, ["a", "b"]);
    let answer = Command::Answer {
        question_id: pending.question_id.clone(),
        answer: "b".into(),
    };
    it.send(Command::Restarted).unwrap();
    assert_eq!(it.send(answer.clone()).unwrap().len(), 2);
    assert!(it.send(answer).is_err(), "it was answered");
    it.settle();
    assert_eq!(it.results(), ["b"]);
    it.reply(vec![tool_with("x", "ask_user", "{}")], StopReason::ToolUse);
    it.settle();
    assert_eq!(
        it.results(),
        ["`question` has to be a text that is not empty"]
    );
    assert!(
        it.told()
            .contains("question_asked which?\nquestion_answered b\ntool_finished q OK")
    );
}

#[test]
fn the_list_is_kept_by_the_conversation_itself() {
    let mut it = Loop::ruled(&[]).going();
    let args = r#"{"todos":[{"content":"a","status":"completed"},{"text":"b"}]}"#;
    it.reply(
        vec![tool_with("t", "todo", args), tool_with("u", "todo", "no")],
        StopReason::ToolUse,
    );
    it.settle();
    assert_eq!(it.state().todo.len(), 2);
    assert_eq!(it.results()[0], "the list has 2 items, 1 of them completed");
    assert!(it.results()[1].starts_with("the arguments are not JSON"));
    assert!(
        it.told()
            .contains("tool_called t todo\ntodo_set 2 items\ntool_finished t OK")
    );
}

#[test]
fn a_subagent_starts_no_other_and_stops_at_its_tokens() {
    let mut it = Loop::with(AgentCreated {
        parent_agent_id: "main".into(),
        parent_tool_call_id: "t1".into(),
        tokens_max: 100,
        ..agent()
    });
    assert_eq!(it.state().parent.as_ref().unwrap().tool_call_id, "t1");
    it.prompt("go");
    it.settle();
    it.reply(vec![tool_with("t", "task", "{}")], StopReason::ToolUse);
    it.settle();
    assert!(it.results()[0].starts_with("not run: a subagent cannot start another"));
    it.say("found", 100);
    it.settle();
    it.prompt("more");
    assert_eq!(it.settle(), Next::Idle);
    assert!(
        it.told()
            .ends_with("turn_started 1 prompts\nturn_ended TOKEN_LIMIT")
    );
    assert_eq!(it.state().tokens_used, 100);
}
