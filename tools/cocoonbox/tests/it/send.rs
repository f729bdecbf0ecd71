//! Turns, watched over a bad connection.

use cocoonbox_events::AgentEvent;
use cocoonbox_proto::{
    control::v1::{OperationEvent, Phase, State},
    log::v1::{
        AgentApprovalRequested, AgentModelCalled, AgentModelReplied, AgentOutputStreamed,
        AgentToolCalled, AgentTurnEnded, AgentTurnStarted, Block, TextBlock,
        agent_output_streamed::Part, agent_turn_ended::Outcome, block,
    },
};

use crate::{
    fake::{Cut, Fake, key},
    program::Program,
};

fn chunk(offset: u64, text: &str) -> AgentEvent {
    AgentEvent::OutputStreamed(AgentOutputStreamed {
        call_id: "c1".into(),
        block: 0,
        part: Part::Text.into(),
        offset,
        text: text.into(),
    })
}

fn ended(outcome: Outcome, detail: &str) -> AgentEvent {
    let (turn_id, outcome) = ("t1".into(), outcome.into());
    AgentEvent::TurnEnded(AgentTurnEnded {
        turn_id,
        outcome,
        detail: detail.into(),
    })
}

fn begun(fake: &Fake) {
    let start = AgentTurnStarted {
        turn_id: "t1".into(),
        prompt_ids: vec!["p1".into()],
    };
    fake.log("agent/a1", AgentEvent::TurnStarted(start));
    let (turn_id, call_id) = ("t1".into(), "c1".into());
    let call = AgentModelCalled {
        turn_id,
        call_id,
        ..AgentModelCalled::default()
    };
    fake.log("agent/a1", AgentEvent::ModelCalled(call));
}

fn story(fake: &Fake, outcome: Outcome, detail: &str) {
    begun(fake);
    for (offset, text) in [(0, "It is "), (6, "forty"), (11, "-two")] {
        fake.log("agent/a1", chunk(offset, text));
    }
    let text = block::Block::Text(TextBlock {
        text: "It is forty-two.".into(),
    });
    fake.log(
        "agent/a1",
        AgentEvent::ModelReplied(AgentModelReplied {
            call_id: "c1".into(),
            blocks: vec![Block { block: Some(text) }],
            ..AgentModelReplied::default()
        }),
    );
    fake.log("agent/a1", ended(outcome, detail));
}

#[tokio::test]
async fn a_sentence_that_is_cut_goes_on_in_its_middle() {
    let fake = Fake::new();
    story(&fake, Outcome::Done, "");
    fake.state()
        .cuts
        .extend([Cut::Error(4), Cut::Clean(1), Cut::Error(0)]);
    let run = Program::new(fake.serve().await)
        .run(&["send", "what", "is", "it?"])
        .await;
    assert_eq!(
        (run.code, run.text().as_str()),
        (0, "It is forty-two.\n"),
        "{}",
        run.stderr
    );
    let seen = &fake.state().seen;
    assert_eq!(seen.from_offsets, [key(0), key(4), key(5), key(5)]);
    assert_eq!(
        (seen.sent[0].prompt.as_str(), seen.sent[0].agent_id.as_str()),
        ("what is it?", "a1")
    );
    assert!(!seen.sent[0].client_nonce.is_empty());
}

#[tokio::test]
async fn a_turn_that_fails_is_code_7() {
    let fake = Fake::new();
    story(&fake, Outcome::StepLimit, "100 calls");
    let run = Program::new(fake.serve().await)
        .stdin("from stdin")
        .run(&["send", "-"])
        .await;
    assert_eq!((run.code, run.text().as_str()), (7, "It is forty-two.\n"));
    assert_eq!(
        run.stderr,
        "error: the turn reached its limit of model calls: 100 calls\n"
    );
    assert_eq!(fake.state().seen.sent[0].prompt, "from stdin");
}

#[tokio::test]
async fn an_approval_without_a_terminal_says_how_to_answer() {
    let fake = Fake::new();
    begun(&fake);
    let call = AgentToolCalled {
        turn_id: "t1".into(),
        tool_call_id: "u1".into(),
        name: "shell".into(),
        args_json: r#"{"command":"rm -r build"}"#.into(),
        ..AgentToolCalled::default()
    };
    fake.log("agent/a1", AgentEvent::ToolCalled(call));
    let ask = AgentApprovalRequested {
        approval_id: "ok1".into(),
        tool_call_id: "u1".into(),
        args_hash: Vec::new(),
        ..AgentApprovalRequested::default()
    };
    fake.log("agent/a1", AgentEvent::ApprovalRequested(ask));
    fake.log("agent/a1", ended(Outcome::Done, ""));
    let program = Program::new(fake.serve().await);
    let run = program.run(&["send", "clean up"]).await;
    assert_eq!(run.code, 0);
    insta::assert_snapshot!(run.stderr, @"
    ▸ shell rm -r build
    waiting for approval: shell rm -r build
      `cocoonbox agent approve ok1` (or deny) answers
    ");
    let run = program.run(&["agent", "deny", "ok1"]).await;
    assert_eq!((run.code, run.text().as_str()), (0, "denied ok1\n"));
    let answered = fake.state().seen.responded[0].clone();
    assert_eq!(
        (answered.approval_id.as_str(), answered.allow),
        ("ok1", false)
    );
}

#[tokio::test]
async fn a_sleeping_box_is_woken_first() {
    let fake = Fake::new();
    story(&fake, Outcome::Done, "");
    fake.state().boxes[0].state = State::Hibernated.into();
    fake.state().steps = vec![OperationEvent {
        phase: Phase::Done.into(),
        ..Default::default()
    }];
    let run = Program::new(fake.serve().await)
        .run(&["-q", "send", "hello"])
        .await;
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert_eq!(fake.state().seen.ensured.len(), 1);
}

#[tokio::test]
async fn json_is_what_was_accepted_and_then_the_events() {
    let fake = Fake::new();
    story(&fake, Outcome::Done, "");
    let run = Program::new(fake.serve().await)
        .run(&["--json", "send", "hello"])
        .await;
    let lines: Vec<serde_json::Value> = run
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["prompt_id"], "p1");
    assert_eq!(lines[1]["kind"], "agent.turn_started");
    assert_eq!(lines.last().unwrap()["payload"]["outcome"], "DONE");
    let run = Program::new(fake.serve().await)
        .run(&["send", "--no-follow", "hello"])
        .await;
    assert_eq!(run.text(), format!("p1\t{}\n", key(0)));
}
