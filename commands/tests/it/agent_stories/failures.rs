//! Calls that fail, and what a restart leaves.

use cocoonbox_commands::agent::{ATTEMPTS_MAX, CONTENT_BYTES_MAX, Command, Next, Rejection};
use cocoonbox_events::AgentEvent;
use cocoonbox_proto::log::v1::{ApprovalPolicy, StopReason, agent_model_failed::Reason};

use crate::agent_loop::{Loop, ids, replied, story, text, tool};

#[test]
fn failures_are_tried_again_with_patience_that_ends() {
    let mut it = Loop::new(ApprovalPolicy::ApproveAll, 0).going();
    let mut waits = Vec::new();
    for attempt in 1..=ATTEMPTS_MAX {
        it.fail(
            Reason::Overloaded,
            true,
            if attempt == 2 { 7_000 } else { 0 },
        );
        waits.push(it.state().retry_after_ms());
        it.advance();
    }
    assert_eq!(waits, [500, 7_000, 2_000, 4_000, 8_000, 16_000, 30_000, 0]);
    assert_eq!(it.state().next(), Next::Idle);
    let told = it.told();
    assert!(
        told.ends_with("model_called #8\nmodel_failed OVERLOADED\nturn_ended FAILED"),
        "{told}"
    );
    assert_eq!(
        it.state().conversation().len(),
        1,
        "a failed call leaves nothing"
    );
    it.prompt("again");
    it.settle();
    it.fail(Reason::NotConfigured, false, 0);
    it.settle();
    story(
        &it.told(),
        &[
            "prompt_received",
            "turn_started 1 prompts",
            "model_called #1",
            "model_failed NOT_CONFIGURED",
            "turn_ended FAILED",
        ],
    );
    let Some(AgentEvent::TurnEnded(ended)) = it.machine.history.last() else {
        panic!()
    };
    assert_eq!(ended.detail, "`NOT_CONFIGURED` in attempt 1: down");
}

#[test]
fn after_a_restart_calls_are_made_again_and_effects_are_not() {
    let mut it = Loop::new(ApprovalPolicy::ApproveAll, 0).going();
    let lost = it.call_id();
    it.send(Command::Restarted).unwrap();
    assert_eq!(it.state().retry_after_ms(), 0);
    it.settle();
    assert!(matches!(
        it.send(replied(&lost, vec![text("late")], StopReason::EndTurn)),
        Err(Rejection::CallNotOut { .. })
    ));
    it.reply(
        vec![tool("r", "read"), tool("w", "write")],
        StopReason::ToolUse,
    );
    it.settle();
    assert_eq!(it.send(Command::Restarted), Ok(vec![]));
    assert_eq!(ids(&it.settle()), ["r"], "reading is done again");
    it.finish("r", "");
    it.settle();
    it.send(Command::Restarted).unwrap();
    assert_eq!(it.send(Command::Restarted), Ok(vec![]));
    it.settle();
    it.reply(vec![text("I looked")], StopReason::EndTurn);
    it.settle();
    story(
        &it.told(),
        &[
            "prompt_received",
            "turn_started 1 prompts",
            "model_called #1",
            "model_failed AGENT_RESTARTED",
            "model_called #2",
            "model_replied TOOL_USE",
            "tool_called r read",
            "tool_finished r OK",
            "tool_called w write",
            "tool_finished w INTERRUPTED",
            "model_called #1",
            "model_replied END_TURN",
            "turn_ended DONE",
        ],
    );
    let results = it.results();
    assert!(results[1].contains("not known"), "{}", results[1]);
}

#[test]
fn what_has_happened_is_never_refused_for_its_size() {
    let mut it = Loop::new(ApprovalPolicy::ApproveAll, 0).going();
    it.reply(vec![tool("w", "shell")], StopReason::ToolUse);
    it.settle();
    let long = "ä".repeat(CONTENT_BYTES_MAX);
    it.finish("w", &long);
    it.finish("w", &long);
    it.settle();
    let results = it.results();
    let content = &results[0];
    assert!(content.len() <= CONTENT_BYTES_MAX);
    assert!(
        content.ends_with("of 409600 bytes are shown]"),
        "{}",
        &content[content.len() - 60..]
    );
    it.reply(vec![text(&long)], StopReason::EndTurn);
    assert_eq!(it.settle(), Next::Idle);
    assert!(
        it.told()
            .ends_with("model_failed GARBLED\nturn_ended FAILED")
    );
}
