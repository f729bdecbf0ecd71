//! Whole turns, told one event a line.

use cocoonbox_commands::agent::{
    ATTEMPTS_MAX, CONTENT_BYTES_MAX, Chunk, Command, Entry, Mood, Next, Rejection, State, tools,
};
use cocoonbox_events::{AgentEvent, Aggregate};
use cocoonbox_proto::log::v1::{
    ApprovalPolicy, Block, ModelChoice, StopReason, TextBlock, TokenUsage, ToolUseBlock, Wire,
    agent_model_failed::Reason, agent_output_streamed::Part, agent_tool_finished::Outcome, block,
};

use crate::machine::Machine;

/// A loop under test: draws ids, and writes down what happened.
pub(crate) struct Loop {
    pub(crate) machine: Machine<State>,
    drawn: u32,
    told: usize,
}

impl Loop {
    pub(crate) fn new(approval: ApprovalPolicy, steps_max: u32) -> Self {
        let mut machine = Machine::new();
        let model = ModelChoice {
            wire: Wire::AnthropicMessages.into(),
            model: "m".into(),
            output_tokens_max: 9,
        };
        let (agent_id, name) = ("a".to_owned(), "main".to_owned());
        machine
            .send(&Command::Create {
                agent_id,
                name,
                model,
                approval,
                steps_max,
            })
            .unwrap();
        Self {
            machine,
            drawn: 0,
            told: 1,
        }
    }

    pub(crate) fn state(&self) -> &State {
        &self.machine.state
    }

    pub(crate) fn send(&mut self, command: Command) -> Result<Vec<AgentEvent>, Rejection> {
        self.machine.send(&command)
    }

    pub(crate) fn draw(&mut self) -> String {
        self.drawn += 1;
        format!("id{}", self.drawn)
    }

    pub(crate) fn advance(&mut self) -> Vec<AgentEvent> {
        let command = Command::Advance {
            turn_id: self.draw(),
            call_id: self.draw(),
            approval_id: self.draw(),
        };
        self.send(command).unwrap()
    }

    /// Writes every step that is due.
    fn settle(&mut self) -> Next {
        while self.state().next() == Next::Advance {
            assert!(!self.advance().is_empty(), "due, but nothing was written");
        }
        self.state().next()
    }

    pub(crate) fn call_id(&self) -> String {
        match self.state().next() {
            Next::CallModel { call_id, .. } => call_id,
            other => panic!("no call is out: {other:?}"),
        }
    }

    fn prompt(&mut self, text: &str) {
        let prompt_id = self.draw();
        self.send(Command::Prompt {
            prompt_id,
            text: text.into(),
        })
        .unwrap();
    }

    pub(crate) fn reply(&mut self, blocks: Vec<Block>, stop: StopReason) {
        let call_id = self.call_id();
        self.send(replied(&call_id, blocks, stop)).unwrap();
    }

    fn fail(&mut self, reason: Reason, retryable: bool, retry_after_ms: u64) {
        let (call_id, detail) = (self.call_id(), "down".to_owned());
        self.send(Command::ModelFailed {
            call_id,
            reason,
            detail,
            retryable,
            retry_after_ms,
        })
        .unwrap();
    }

    fn finish(&mut self, tool_call_id: &str, content: &str) {
        self.send(finished(tool_call_id, Outcome::Ok, content))
            .unwrap();
    }

    /// What was written since the last time, one line an event.
    fn told(&mut self) -> String {
        let lines: Vec<String> = self.machine.history[self.told..].iter().map(line).collect();
        self.told = self.machine.history.len();
        lines.join("\n")
    }
}

pub(crate) fn replied(call_id: &str, blocks: Vec<Block>, stop: StopReason) -> Command {
    Command::Replied {
        call_id: call_id.into(),
        blocks,
        stop,
        vendor_stop: "v".into(),
        usage: TokenUsage::default(),
        vendor_request_id: String::new(),
    }
}

pub(crate) fn finished(tool_call_id: &str, outcome: Outcome, content: &str) -> Command {
    Command::ToolFinished {
        tool_call_id: tool_call_id.into(),
        outcome,
        content: content.into(),
        exec_id: String::new(),
    }
}

pub(crate) fn text(text: &str) -> Block {
    Block {
        block: Some(block::Block::Text(TextBlock { text: text.into() })),
    }
}

pub(crate) fn tool(id: &str, name: &str) -> Block {
    let args_json = format!("{{\"of\":\"{id}\"}}");
    let tool = ToolUseBlock {
        tool_call_id: id.into(),
        name: name.into(),
        args_json,
    };
    Block {
        block: Some(block::Block::ToolUse(tool)),
    }
}

fn line(event: &AgentEvent) -> String {
    let name = event.kind().name().trim_start_matches("agent.");
    let rest = match event {
        AgentEvent::ModelCalled(e) => format!("#{}", e.attempt),
        AgentEvent::ModelReplied(e) => e.stop().as_str_name().to_owned(),
        AgentEvent::ModelFailed(e) => e.reason().as_str_name().to_owned(),
        AgentEvent::ToolCalled(e) => format!("{} {}", e.tool_call_id, e.name),
        AgentEvent::ToolFinished(e) => {
            format!("{} {}", e.tool_call_id, e.outcome().as_str_name())
        }
        AgentEvent::ApprovalRequested(e) => e.tool_call_id.clone(),
        AgentEvent::ApprovalDecided(e) => e.allowed.to_string(),
        AgentEvent::TurnStarted(e) => format!("{} prompts", e.prompt_ids.len()),
        AgentEvent::TurnEnded(e) => e.outcome().as_str_name().to_owned(),
        AgentEvent::Created(_)
        | AgentEvent::Renamed(_)
        | AgentEvent::Closed(_)
        | AgentEvent::PromptReceived(_)
        | AgentEvent::OutputStreamed(_)
        | AgentEvent::CancelRequested(_) => String::new(),
    };
    format!("{name} {rest}").trim_end().to_owned()
}

fn ids(next: &Next) -> Vec<&str> {
    match next {
        Next::RunTools(calls) => calls
            .iter()
            .map(|call| call.tool_call_id.as_str())
            .collect(),
        other => panic!("no tools: {other:?}"),
    }
}

#[track_caller]
fn story(told: &str, expected: &[&str]) {
    assert_eq!(told, expected.join("\n"), "\n{told}\n");
}

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
    let Entry::ToolResults(results) = &it.state().conversation()[3] else {
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
fn a_person_is_asked_and_says_no_then_yes() {
    let mut it = Loop::new(ApprovalPolicy::AskBeforeEffects, 0);
    it.prompt("go");
    it.settle();
    it.reply(
        vec![tool("r", "read"), tool("x", "shell"), tool("y", "shell")],
        StopReason::ToolUse,
    );
    assert_eq!(ids(&it.settle()), ["r"], "reading is not asked for");
    it.finish("r", "");
    let Next::Wait(asked) = it.settle() else {
        panic!()
    };
    assert_eq!(it.state().mood(), Mood::Waiting);
    let answer = |approval_id: &str, allowed| Command::Approve {
        approval_id: approval_id.into(),
        allowed,
        comment: "not that".into(),
    };
    let request = it.machine.history.iter().find_map(|event| match event {
        AgentEvent::ApprovalRequested(e) => Some(e.args_hash.clone()),
        _ => None,
    });
    assert_eq!(
        request.unwrap(),
        tools::args_hash("shell", "{\"of\":\"x\"}")
    );
    it.send(answer(&asked[0], false)).unwrap();
    assert_eq!(
        it.send(answer(&asked[0], false)),
        Ok(vec![]),
        "said already"
    );
    assert!(matches!(
        it.send(answer(&asked[0], true)),
        Err(Rejection::AlreadyDecided { .. })
    ));
    assert!(matches!(
        it.send(answer("none", true)),
        Err(Rejection::UnknownApproval { .. })
    ));
    let Next::Wait(asked) = it.settle() else {
        panic!()
    };
    it.send(answer(&asked[0], true)).unwrap();
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
    let Entry::ToolResults(results) = &it.state().conversation()[2] else {
        panic!()
    };
    assert_eq!(
        results[1].content,
        "not run: a person denied this call: not that"
    );
}

#[test]
fn a_history_that_was_cut_behind_a_denial_goes_on() {
    let mut it = Loop::new(ApprovalPolicy::AskBeforeEffects, 0);
    it.prompt("go");
    it.settle();
    it.reply(vec![tool("x", "shell")], StopReason::ToolUse);
    let Next::Wait(asked) = it.settle() else {
        panic!()
    };
    let answer = Command::Approve {
        approval_id: asked[0].clone(),
        allowed: false,
        comment: String::new(),
    };
    // Both events are one append, but a replica may end between them.
    let decided = it.state().decide(&answer).unwrap();
    assert_eq!(decided.len(), 2);
    it.machine.take(&decided[0]);
    assert_eq!(it.state().next(), Next::Advance);
    assert_eq!(it.advance(), decided[1..]);
}

#[test]
fn failures_are_tried_again_with_patience_that_ends() {
    let mut it = Loop::new(ApprovalPolicy::ApproveAll, 0);
    it.prompt("go");
    it.settle();
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
        .filter_map(|entry| match entry {
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
    let mut it = Loop::new(ApprovalPolicy::ApproveAll, 0);
    it.prompt("go");
    it.settle();
    it.reply(vec![text("half")], StopReason::PauseTurn);
    it.settle();
    it.reply(vec![text("whole")], StopReason::EndTurn);
    it.settle();
    assert_eq!(it.state().conversation().len(), 3);
    assert!(it.told().ends_with("turn_ended DONE"));
}

#[test]
fn a_tool_use_at_the_output_limit_says_that_it_may_be_cut() {
    let mut it = Loop::new(ApprovalPolicy::ApproveAll, 0);
    it.prompt("go");
    it.settle();
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
fn a_cancel_stops_what_runs_and_skips_what_does_not() {
    let mut it = Loop::new(ApprovalPolicy::ApproveAll, 0);
    it.prompt("go");
    it.settle();
    it.reply(
        vec![tool("a", "shell"), tool("b", "shell"), tool("c", "read")],
        StopReason::ToolUse,
    );
    it.settle();
    let turn_id = it.draw();
    it.send(Command::Cancel {
        turn_id: turn_id.clone(),
    })
    .unwrap();
    assert_eq!(it.send(Command::Cancel { turn_id }), Ok(vec![]));
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
    assert_eq!(
        it.send(Command::Cancel {
            turn_id: "t0".into()
        }),
        Ok(vec![])
    );
    it.prompt("go");
    it.send(Command::Cancel {
        turn_id: "t1".into(),
    })
    .unwrap();
    assert_eq!(it.settle(), Next::Idle);
    it.prompt("go on");
    it.settle();
    it.send(Command::Cancel {
        turn_id: "t2".into(),
    })
    .unwrap();
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

#[test]
fn after_a_restart_calls_are_made_again_and_effects_are_not() {
    let mut it = Loop::new(ApprovalPolicy::ApproveAll, 0);
    it.prompt("go");
    it.settle();
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
    let Entry::ToolResults(results) = &it.state().conversation()[2] else {
        panic!()
    };
    assert!(
        results[1].content.contains("not known"),
        "{}",
        results[1].content
    );
}

#[test]
fn streamed_output_is_gapless_and_per_block() {
    let mut it = Loop::new(ApprovalPolicy::ApproveAll, 0);
    it.prompt("go");
    it.settle();
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
    };
    assert_eq!(it.send(again), Err(Rejection::Closed));
    assert_eq!(it.state().mood(), Mood::Closed);
}

#[test]
fn limits_and_wrong_reports_are_refused() {
    let mut it = Loop::new(ApprovalPolicy::ApproveAll, 0);
    let long = "x".repeat(1024 * 1024);
    let prompt = |text: &str| Command::Prompt {
        prompt_id: "p".into(),
        text: text.into(),
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
    let mut it = Loop::new(ApprovalPolicy::AskBeforeEffects, 0);
    it.prompt("go");
    it.settle();
    it.fail(Reason::Overloaded, true, 0);
    it.settle();
    it.reply(vec![tool("x", "shell")], StopReason::ToolUse);
    let Next::Wait(asked) = it.settle() else {
        panic!()
    };
    let approval_id = asked[0].clone();
    it.send(Command::Approve {
        approval_id,
        allowed: true,
        comment: String::new(),
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

#[test]
fn what_has_happened_is_never_refused_for_its_size() {
    let mut it = Loop::new(ApprovalPolicy::ApproveAll, 0);
    it.prompt("go");
    it.settle();
    it.reply(vec![tool("w", "shell")], StopReason::ToolUse);
    it.settle();
    let long = "ä".repeat(CONTENT_BYTES_MAX);
    it.finish("w", &long);
    it.finish("w", &long);
    it.settle();
    let Entry::ToolResults(results) = &it.state().conversation()[2] else {
        panic!()
    };
    let content = results[0].content.clone();
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

#[test]
fn a_prompt_id_that_is_one_of_ours_is_still_a_prompt() {
    let mut it = Loop::new(ApprovalPolicy::ApproveAll, 0);
    it.prompt("go");
    it.settle();
    let turn_id = it.state().turn_id().unwrap().to_owned();
    let prompt = Command::Prompt {
        prompt_id: turn_id,
        text: "and go".into(),
    };
    assert_eq!(it.send(prompt.clone()).unwrap().len(), 1);
    assert_eq!(it.send(prompt), Ok(vec![]));
    it.reply(vec![text("ok")], StopReason::EndTurn);
    assert!(
        matches!(it.settle(), Next::CallModel { .. }),
        "it has its own turn"
    );
}
