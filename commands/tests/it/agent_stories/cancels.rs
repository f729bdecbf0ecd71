//! Turns that a person stops.

use cocoonbox_commands::agent::{Command, Next};
use cocoonbox_proto::log::v1::{
    ApprovalPolicy, StopReason, agent_model_failed::Reason, agent_tool_finished::Outcome,
};

use crate::agent_loop::{Loop, finished, ids, story, tool};

fn cancel(turn_id: &str) -> Command {
    Command::Cancel {
        turn_id: turn_id.into(),
    }
}

#[test]
fn a_cancel_stops_what_runs_and_skips_what_does_not() {
    let mut it = Loop::new(ApprovalPolicy::ApproveAll, 0).going();
    it.reply(
        vec![tool("a", "shell"), tool("b", "shell"), tool("c", "read")],
        StopReason::ToolUse,
    );
    it.settle();
    let turn_id = it.draw();
    it.send(cancel(&turn_id)).unwrap();
    assert_eq!(it.send(cancel(&turn_id)), Ok(vec![]));
    assert_eq!(ids(&it.settle()), ["a"]);
    assert!(it.state().is_cancelling());
    it.send(finished("a", Outcome::Cancelled, "stopped"))
        .unwrap();
    assert_eq!(it.settle(), Next::Idle);
    story(
        &it.told(),
        &[
            "prompt_received",
            "turn_started 1 prompts",
            "model_called #1",
            "model_replied TOOL_USE",
            "tool_called a shell",
            "cancel_requested",
            "tool_finished b CANCELLED",
            "tool_finished c CANCELLED",
            "tool_finished a CANCELLED",
            "turn_ended CANCELLED",
        ],
    );
    assert_eq!(
        it.state().conversation().len(),
        3,
        "every use has its result"
    );
}

#[test]
fn a_cancel_breaks_off_a_call_and_is_never_too_early() {
    let mut it = Loop::new(ApprovalPolicy::ApproveAll, 0);
    assert_eq!(it.send(cancel("t0")), Ok(vec![]));
    it.prompt("go");
    it.send(cancel("t1")).unwrap();
    assert_eq!(it.settle(), Next::Idle);
    it.prompt("go on");
    it.settle();
    it.send(cancel("t2")).unwrap();
    assert!(matches!(it.settle(), Next::CallModel { .. }));
    it.fail(Reason::Cut, true, 0);
    assert_eq!(it.state().retry_after_ms(), 0, "nothing to wait for");
    assert_eq!(it.settle(), Next::Idle);
    story(
        &it.told(),
        &[
            "prompt_received",
            "turn_started 1 prompts",
            "cancel_requested",
            "turn_ended CANCELLED",
            "prompt_received",
            "turn_started 1 prompts",
            "model_called #1",
            "cancel_requested",
            "model_failed CUT",
            "turn_ended CANCELLED",
        ],
    );
}
