//! What the loop may tell, and what can follow.

use cocoonbox_commands::agent::{Chunk, Command, Next, Rejection, State};
use cocoonbox_events::{AgentEvent, Aggregate};
use cocoonbox_proto::log::v1::{
    ApprovalPolicy, StopReason, agent_model_failed::Reason, agent_output_streamed::Part,
    agent_tool_finished::Outcome,
};

use crate::agent_loop::{Loop, asked, finished, replied, text, tool, tool_with};

#[test]
fn streamed_output_is_gapless_and_per_block() {
    let mut it = Loop::new(ApprovalPolicy::ApproveAll, 0).going();
    let call_id = it.call_id();
    let chunk = |block, part, offset, text: &str| Chunk {
        block,
        part,
        offset,
        text: text.into(),
    };
    let streamed = |chunks| Command::Streamed {
        call_id: call_id.clone(),
        chunks,
    };
    let chunks = vec![
        chunk(0, Part::Thinking, 0, "hm"),
        chunk(1, Part::Text, 0, "Grüß"),
        chunk(1, Part::Text, 6, " Gott"),
        chunk(1, Part::Text, 11, ""),
    ];
    assert_eq!(it.send(streamed(chunks)).unwrap().len(), 3);
    let (call, partial) = it.state().partial().unwrap();
    assert_eq!(
        (call, partial.blocks[&1].text.as_str()),
        (call_id.as_str(), "Grüß Gott")
    );
    assert_eq!(
        it.send(streamed(vec![chunk(1, Part::Text, 6, "x")])),
        Err(Rejection::ChunkOffset {
            block: 1,
            expected: 11,
            found: 6
        })
    );
    assert_eq!(
        it.send(streamed(vec![chunk(0, Part::Text, 2, "x")])),
        Err(Rejection::ChunkPart { block: 0 })
    );
    it.reply(vec![text("Grüß Gott")], StopReason::EndTurn);
    assert!(it.state().partial().is_none());
    assert!(matches!(
        it.send(streamed(vec![chunk(1, Part::Text, 11, "x")])),
        Err(Rejection::CallNotOut { .. })
    ));
    // Once the reply is there, chunks may be erased, in any choice.
    it.machine
        .history
        .retain(|event| !matches!(event, AgentEvent::OutputStreamed(e) if e.offset == 0));
    it.machine.check_fold();
}

#[test]
fn limits_and_wrong_reports_are_refused() {
    let mut it = Loop::new(ApprovalPolicy::ApproveAll, 0);
    let long = "x".repeat(1024 * 1024);
    let prompt = |text: &str| Command::Prompt {
        prompt_id: "p".into(),
        text: text.into(),
        steer: false,
        images: Vec::new(),
    };
    assert!(matches!(
        it.send(prompt(&long)),
        Err(Rejection::TooLarge { .. })
    ));
    assert!(matches!(
        it.send(prompt(" \n")),
        Err(Rejection::Empty { .. })
    ));
    it.send(prompt("a")).unwrap();
    assert_eq!(it.send(prompt("a")), Ok(vec![]), "the same prompt");
    it.settle();
    assert_eq!(
        it.send(prompt("a")),
        Ok(vec![]),
        "and also once it was taken up"
    );
    let first = it.call_id();
    it.reply(
        vec![tool("a", "shell"), tool("b", "shell")],
        StopReason::ToolUse,
    );
    it.settle();
    let errors = [
        (
            finished("b", Outcome::Ok, ""),
            "tool call `b` was not started",
        ),
        (
            finished("z", Outcome::Ok, ""),
            "tool call `z` is not of the reply under way",
        ),
        (
            finished("a", Outcome::Denied, ""),
            "a tool cannot report this outcome",
        ),
        (
            replied(&first, vec![], StopReason::EndTurn),
            "model call `id3` is not under way",
        ),
    ];
    for (command, expected) in errors {
        let rejection = it.send(command).unwrap_err().to_string();
        if expected.starts_with("model call") {
            assert!(rejection.ends_with("is not under way"), "{rejection}");
        } else {
            assert_eq!(rejection, expected);
        }
    }
    it.finish("a", "1");
    assert_eq!(
        it.send(finished("a", Outcome::Ok, "1")),
        Ok(vec![]),
        "the same result"
    );
    assert!(matches!(
        it.send(finished("a", Outcome::Error, "2")),
        Err(Rejection::ToolFinished { .. })
    ));
}

#[test]
fn events_that_cannot_follow_are_illegal() {
    let mut it = Loop::new(ApprovalPolicy::AskBeforeEffects, 0).going();
    it.fail(Reason::Overloaded, true, 0);
    it.settle();
    it.reply(vec![tool("x", "shell")], StopReason::ToolUse);
    let approval_id = asked(&it.settle());
    it.send(Command::Approve {
        approval_id,
        allowed: true,
        comment: String::new(),
        scope: cocoonbox_proto::log::v1::agent_approval_decided::Scope::Once,
        now_us: 0,
    })
    .unwrap();
    it.settle();
    it.send(Command::Cancel {
        turn_id: String::new(),
    })
    .unwrap();
    it.finish("x", "ran");
    it.settle();
    // None of these can stand twice.
    let mut state = State::default();
    for event in &it.machine.history {
        state = state.evolve(event).unwrap();
        let twice = state.clone().evolve(event).unwrap_err();
        assert_eq!(twice.event, event.kind().name());
    }
    let call = it.machine.history.iter().find_map(|event| match event {
        AgentEvent::ModelCalled(called) => Some(called.clone()),
        _ => None,
    });
    let mut call = call.unwrap();
    call.attempt = 2;
    let mut cut = State::default();
    for event in &it.machine.history[..3] {
        cut = cut.evolve(event).unwrap();
    }
    assert!(
        cut.evolve(&AgentEvent::ModelCalled(call)).is_err(),
        "a second attempt at nothing"
    );
}

/// What a report leads to is the same, written with the step that follows or before it.
#[test]
fn a_report_and_its_step_are_written_together() {
    let step = |it: &mut Loop| {
        Box::new(Command::Advance {
            turn_id: it.draw(),
            call_id: it.draw(),
            approval_id: it.draw(),
            now_us: 0,
        })
    };
    let kinds = |events: &[AgentEvent]| -> Vec<_> {
        events.iter().map(|event| event.kind().name()).collect()
    };
    let mut it = Loop::new(ApprovalPolicy::ApproveAll, 10).going();
    let call_id = it.call_id();
    let streamed = Command::Streamed {
        call_id: call_id.clone(),
        chunks: vec![Chunk {
            block: 0,
            part: Part::Text,
            offset: 0,
            text: "a".to_owned(),
        }],
    };
    let reply = replied(
        &call_id,
        vec![tool_with("u1", "shell", r#"{"command":"ls"}"#)],
        StopReason::ToolUse,
    );
    let series = Command::Series {
        reports: vec![streamed, reply],
        step: step(&mut it),
        calls: false,
    };
    let written = it.send(series.clone()).unwrap();
    let wanted = [
        "agent.output_streamed",
        "agent.model_replied",
        "agent.tool_called",
    ];
    assert_eq!(kinds(&written), wanted);
    it.machine.check_fold();
    // A report that is refused takes the others along.
    let before = it.machine.history.len();
    it.send(series).unwrap_err();
    assert_eq!(it.machine.history.len(), before);

    let finish = |it: &mut Loop, calls| Command::Series {
        reports: vec![finished("u1", Outcome::Ok, "done")],
        step: step(it),
        calls,
    };
    // What a model is told has to be written before it is called.
    let mut other = Loop::new(ApprovalPolicy::ApproveAll, 10).going();
    other.reply(
        vec![tool_with("u1", "shell", r#"{"command":"ls"}"#)],
        StopReason::ToolUse,
    );
    other.settle();
    let unprepared = finish(&mut other, false);
    let written = other.send(unprepared).unwrap();
    assert_eq!(kinds(&written), ["agent.tool_finished"]);
    assert_eq!(other.state().next(), Next::Advance);
    let prepared = finish(&mut it, true);
    let written = it.send(prepared).unwrap();
    assert_eq!(
        kinds(&written),
        ["agent.tool_finished", "agent.model_called"]
    );
    // Nor is a call begun before which files have to be saved.
    let destroying = tool_with("u2", "shell", r#"{"command":"rm -rf /workspace"}"#);
    let reply = replied(&it.call_id(), vec![destroying], StopReason::ToolUse);
    let guarded = Command::Series {
        reports: vec![reply],
        step: step(&mut it),
        calls: true,
    };
    let written = it.send(guarded).unwrap();
    assert_eq!(kinds(&written), ["agent.model_replied"]);
    assert_eq!(it.state().next(), Next::Advance);
    it.settle();
    it.finish("u2", "gone");
    it.settle();
    // The last reply of a turn ends it in one.
    let reply = replied(&it.call_id(), vec![text("bye")], StopReason::EndTurn);
    let last = Command::Series {
        reports: vec![reply],
        step: step(&mut it),
        calls: false,
    };
    let written = it.send(last).unwrap();
    assert_eq!(kinds(&written), ["agent.model_replied", "agent.turn_ended"]);
    it.machine.check_fold();
}
