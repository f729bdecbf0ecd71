//! What a person says while a turn is under way, and takes back.

use cocoonbox_commands::agent::{Command, Next, Rejection};
use cocoonbox_proto::log::v1::{ApprovalPolicy, StopReason};

use crate::agent_loop::{Loop, story, text, tool_with};

#[test]
fn a_word_meanwhile_reaches_the_next_call_and_not_sooner() {
    let mut it = Loop::new(ApprovalPolicy::ApproveAll, 0).going();
    it.reply(vec![tool_with("r", "read", "{}")], StopReason::ToolUse);
    it.settle();
    it.prompt("later");
    it.steer("left");
    it.finish("r", "seen");
    it.settle();
    assert_eq!(
        it.conversation(),
        ["user go", "agent +r", "results seen", "user left"],
        "never between a use and its result"
    );
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
            "prompt_received",
            "prompt_received",
            "tool_finished r OK",
            "model_called #1 steered",
            "model_replied END_TURN",
            "turn_ended DONE",
            "turn_started 1 prompts",
            "model_called #1",
        ],
    );
}

#[test]
fn a_turn_that_would_end_goes_on_with_what_was_said() {
    let mut it = Loop::new(ApprovalPolicy::ApproveAll, 0).going();
    it.steer("and test it");
    it.reply(vec![text("done")], StopReason::EndTurn);
    it.settle();
    assert!(
        it.told()
            .ends_with("model_replied END_TURN\nmodel_called #1 steered")
    );
    it.reply(vec![text("tested")], StopReason::EndTurn);
    assert_eq!(it.settle(), Next::Idle);
    assert_eq!(
        it.conversation(),
        ["user go", "agent done", "user and test it", "agent tested"]
    );
}

#[test]
fn a_word_does_not_outlive_the_steps() {
    let mut it = Loop::new(ApprovalPolicy::ApproveAll, 1).going();
    it.steer("more");
    it.reply(vec![text("done")], StopReason::EndTurn);
    it.settle();
    // The steps of this turn are used up: what was said begins another one.
    assert!(
        it.told()
            .ends_with("turn_ended DONE\nturn_started 1 prompts\nmodel_called #1")
    );
}

#[test]
fn a_prompt_that_waits_can_be_taken_back() {
    let mut it = Loop::new(ApprovalPolicy::ApproveAll, 0).going();
    let prompt_id = it.steer("no");
    let withdraw = Command::Withdraw { prompt_id };
    assert_eq!(it.send(withdraw.clone()).unwrap().len(), 1);
    assert_eq!(it.send(withdraw), Ok(vec![]), "taken back already");
    it.reply(vec![text("ok")], StopReason::EndTurn);
    assert_eq!(it.settle(), Next::Idle);
    assert_eq!(it.conversation(), ["user go", "agent ok"]);
    let taken_up = Command::Withdraw {
        prompt_id: "id1".into(),
    };
    assert!(matches!(
        it.send(taken_up),
        Err(Rejection::PromptNotQueued { .. })
    ));
}
