//! Turns from a prompt to an ending.

use cocoonbox_commands::agent::{Command, Entry, Mood, Next, Rejection};
use cocoonbox_proto::log::v1::{ApprovalPolicy, StopReason};

use crate::agent_loop::{Loop, ids, story, text, tool};

#[test]
fn a_turn_with_tools() {
    let mut it = Loop::new(ApprovalPolicy::ApproveAll, 0);
    assert_eq!(
        (it.state().next(), it.state().mood()),
        (Next::Idle, Mood::Idle)
    );
    it.prompt("make it so");
    it.prompt("and test it");
    it.settle();
    let blocks = vec![
        text("looking"),
        tool("r1", "read"),
        tool("r2", "ls"),
        tool("w", "write"),
        tool("r3", "grep"),
    ];
    it.reply(blocks, StopReason::ToolUse);
    // Readers together, the writer alone, and what is behind it waits for it.
    assert_eq!(ids(&it.settle()), ["r1", "r2"]);
    it.finish("r2", "2");
    assert_eq!(ids(&it.settle()), ["r1"]);
    it.finish("r1", "1");
    assert_eq!(ids(&it.settle()), ["w"]);
    assert_eq!(
        it.state().conversation().len(),
        2,
        "a reply enters with all its results"
    );
    it.finish("w", "written");
    assert_eq!(ids(&it.settle()), ["r3"]);
    it.finish("r3", "3");
    it.settle();
    it.reply(vec![text("done")], StopReason::EndTurn);
    assert_eq!(it.settle(), Next::Idle);
    story(
        &it.told(),
        &[
            "prompt_received",
            "prompt_received",
            "turn_started 2 prompts",
            "model_called #1",
            "model_replied TOOL_USE",
            "tool_called r1 read",
            "tool_called r2 ls",
            "tool_finished r2 OK",
            "tool_finished r1 OK",
            "tool_called w write",
            "tool_finished w OK",
            "tool_called r3 grep",
            "tool_finished r3 OK",
            "model_called #1",
            "model_replied END_TURN",
            "turn_ended DONE",
        ],
    );
    let entries = it.state().conversation();
    let Entry::ToolResults(results) = &*entries[3] else {
        panic!()
    };
    let order: Vec<_> = results
        .iter()
        .map(|result| result.tool_call_id.as_str())
        .collect();
    assert_eq!(order, ["r1", "r2", "w", "r3"], "in the order of the reply");
    it.machine.check_fold();
}

#[test]
fn endings() {
    for (stop, ending) in [
        (StopReason::EndTurn, "DONE"),
        (StopReason::Refusal, "REFUSED"),
        (StopReason::MaxTokens, "OUTPUT_LIMIT"),
        (StopReason::OtherStop, "FAILED"),
    ] {
        let mut it = Loop::new(ApprovalPolicy::ApproveAll, 0);
        it.prompt("go");
        it.settle();
        it.reply(vec![text("so far")], stop);
        assert_eq!(it.settle(), Next::Idle);
        assert!(
            it.told().ends_with(&format!("turn_ended {ending}")),
            "{stop:?}"
        );
        let kept = it.state().conversation().len();
        assert_eq!(kept, if stop == StopReason::Refusal { 1 } else { 2 });
    }
}

#[test]
fn the_step_limit_ends_a_model_that_goes_in_circles() {
    let mut it = Loop::new(ApprovalPolicy::ApproveAll, 3);
    it.prompt("go");
    for _ in 0..3 {
        it.settle();
        // The vendor gives the same id each time.
        it.reply(vec![tool("same", "read")], StopReason::ToolUse);
        let next = it.settle();
        let id = ids(&next)[0].to_owned();
        it.finish(&id, "");
    }
    assert_eq!(it.settle(), Next::Idle);
    assert!(it.told().ends_with("turn_ended STEP_LIMIT"));
    let mut seen: Vec<_> = it
        .state()
        .conversation()
        .iter()
        .filter_map(|entry| match &**entry {
            Entry::ToolResults(results) => Some(results[0].tool_call_id.clone()),
            Entry::User { .. } | Entry::Assistant { .. } => None,
        })
        .collect();
    seen.dedup();
    assert_eq!(seen.len(), 3, "made unique");
    assert_eq!(seen[0], "same", "left alone where it can be");
}

#[test]
fn a_paused_turn_is_sent_again() {
    let mut it = Loop::new(ApprovalPolicy::ApproveAll, 0).going();
    it.reply(vec![text("half")], StopReason::PauseTurn);
    it.settle();
    it.reply(vec![text("whole")], StopReason::EndTurn);
    it.settle();
    assert_eq!(it.state().conversation().len(), 3);
    assert!(it.told().ends_with("turn_ended DONE"));
}

#[test]
fn a_tool_use_at_the_output_limit_says_that_it_may_be_cut() {
    let mut it = Loop::new(ApprovalPolicy::ApproveAll, 0).going();
    it.reply(
        vec![tool("a", "read"), tool("b", "read")],
        StopReason::MaxTokens,
    );
    let Next::RunTools(calls) = it.settle() else {
        panic!()
    };
    assert_eq!(
        calls.iter().map(|call| call.cut).collect::<Vec<_>>(),
        [false, true]
    );
}

#[test]
fn a_closed_agent_takes_no_prompts() {
    let mut it = Loop::new(ApprovalPolicy::ApproveAll, 0);
    it.prompt("go");
    assert_eq!(it.send(Command::Close), Err(Rejection::Busy));
    it.settle();
    assert_eq!(it.send(Command::Close), Err(Rejection::Busy));
    it.reply(vec![text("ok")], StopReason::EndTurn);
    it.settle();
    it.send(Command::Close).unwrap();
    assert_eq!(it.send(Command::Close), Ok(vec![]));
    let again = Command::Prompt {
        prompt_id: "p".into(),
        text: "x".into(),
        steer: false,
        images: Vec::new(),
    };
    assert_eq!(it.send(again), Err(Rejection::Closed));
    assert_eq!(it.state().mood(), Mood::Closed);
}

#[test]
fn a_prompt_id_that_is_one_of_ours_is_still_a_prompt() {
    let mut it = Loop::new(ApprovalPolicy::ApproveAll, 0).going();
    let turn_id = it.state().turn_id().unwrap().to_owned();
    let prompt = Command::Prompt {
        prompt_id: turn_id,
        text: "and go".into(),
        steer: false,
        images: Vec::new(),
    };
    assert_eq!(it.send(prompt.clone()).unwrap().len(), 1);
    assert_eq!(it.send(prompt), Ok(vec![]));
    it.reply(vec![text("ok")], StopReason::EndTurn);
    assert!(
        matches!(it.settle(), Next::CallModel { .. }),
        "it has its own turn"
    );
}
