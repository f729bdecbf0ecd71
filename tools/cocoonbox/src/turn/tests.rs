use cocoonbox_events::{NewEvent, StreamName};
use cocoonbox_proto::log::v1::{self as log, agent_output_streamed::Part};
use proptest::prelude::*;

use super::*;

fn events(payloads: Vec<AgentEvent>) -> Vec<Event> {
    let stream = StreamName::new("agent/a1").unwrap();
    let new = |payload: AgentEvent| NewEvent {
        stream: stream.clone(),
        payload: payload.into(),
    };
    let encode = |(seq, event): (u64, NewEvent)| {
        let (kind, payload) = event.payload.encode();
        Event {
            offset_key: format!("k{seq}"),
            stream: event.stream.to_string(),
            seq,
            kind: kind.name().to_owned(),
            version: kind.version(),
            payload,
            ..Event::default()
        }
    };
    (1..)
        .zip(payloads.into_iter().map(new))
        .map(encode)
        .collect()
}

fn started() -> Vec<AgentEvent> {
    vec![
        AgentEvent::TurnStarted(log::AgentTurnStarted {
            turn_id: "t1".into(),
            prompt_ids: vec!["p0".into(), "p1".into()],
        }),
        called("c1"),
    ]
}

fn called(call: &str) -> AgentEvent {
    AgentEvent::ModelCalled(log::AgentModelCalled {
        turn_id: "t1".into(),
        call_id: call.into(),
        ..log::AgentModelCalled::default()
    })
}

fn chunk(call: &str, block: u32, offset: usize, text: &str) -> AgentEvent {
    AgentEvent::OutputStreamed(log::AgentOutputStreamed {
        call_id: call.into(),
        block,
        part: Part::Text.into(),
        offset: offset as u64,
        text: text.into(),
    })
}

fn replied(call: &str, blocks: Vec<block::Block>) -> AgentEvent {
    let blocks = blocks
        .into_iter()
        .map(|block| log::Block { block: Some(block) })
        .collect();
    AgentEvent::ModelReplied(log::AgentModelReplied {
        call_id: call.into(),
        blocks,
        ..log::AgentModelReplied::default()
    })
}

fn words(text: &str) -> block::Block {
    block::Block::Text(log::TextBlock { text: text.into() })
}

fn ended(outcome: Ending) -> AgentEvent {
    AgentEvent::TurnEnded(log::AgentTurnEnded {
        turn_id: "t1".into(),
        outcome: outcome.into(),
        detail: String::new(),
    })
}

fn fold<'e>(turn: &mut Turn, events: impl IntoIterator<Item = &'e Event>) -> (String, Vec<Piece>) {
    let (mut text, mut others) = (String::new(), Vec::new());
    for piece in events.into_iter().flat_map(|event| turn.apply(event)) {
        match piece {
            Piece::Text(part) => text.push_str(&part),
            other => others.push(other),
        }
    }
    (text, others)
}

fn show(events: &[Event]) -> String {
    let mut turn = Turn::new("a1", "p1", false);
    let mut lines = String::new();
    for piece in events.iter().flat_map(|event| turn.apply(event)) {
        match piece {
            Piece::Text(text) => lines.push_str(&text),
            Piece::Note(note) => lines.extend([note, "\n".into()]),
            other => lines.extend([format!("{other:?}\n")]),
        }
    }
    lines
}

#[test]
fn a_turn_reads_like_a_conversation() {
    let mut story = started();
    let args = r#"{"command":"python3 -m unittest\n"}"#;
    story.extend([
        chunk("c1", 0, 0, "Running "),
        chunk("c1", 0, 8, "the tests."),
        replied(
            "c1",
            vec![
                words("Running the tests."),
                block::Block::ToolUse(log::ToolUseBlock {
                    tool_call_id: "u1".into(),
                    name: "shell".into(),
                    args_json: args.into(),
                    ..log::ToolUseBlock::default()
                }),
            ],
        ),
        AgentEvent::ApprovalRequested(log::AgentApprovalRequested {
            approval_id: "ok1".into(),
            tool_call_id: "u1".into(),
            args_hash: Vec::new(),
            ..log::AgentApprovalRequested::default()
        }),
        AgentEvent::ToolCalled(log::AgentToolCalled {
            turn_id: "t1".into(),
            tool_call_id: "u1".into(),
            name: "shell".into(),
            args_json: args.into(),
            ..log::AgentToolCalled::default()
        }),
        AgentEvent::ToolFinished(log::AgentToolFinished {
            tool_call_id: "u1".into(),
            outcome: Outcome::Error.into(),
            content: "F.\nFAILED\n\nexit 1\nmore\nand more".into(),
            exec_id: String::new(),
            ..log::AgentToolFinished::default()
        }),
        called("c2"),
        AgentEvent::ModelFailed(log::AgentModelFailed {
            call_id: "c2".into(),
            reason: agent_model_failed::Reason::RateLimited.into(),
            detail: "429".into(),
            retryable: true,
            retry_after_ms: 1500,
        }),
        called("c3"),
        replied("c3", vec![words("One test fails.\n")]),
        ended(Ending::Done),
    ]);
    insta::assert_snapshot!(show(&events(story)), @r#"
    Running the tests.
    Approval { id: "ok1", agent_id: "a1", call: "shell python3 -m unittest", risk: Unspecified }
    ▸ shell python3 -m unittest
      ✗ failed
      F.
      FAILED
      exit 1
      … 2 more lines
    ▪ the model's rate limit is reached (429); asking again in 2 s
    One test fails.
    Ended { outcome: Done, detail: "" }
    "#);
}

#[test]
fn a_call_made_again_goes_on_where_the_first_was_cut() {
    let mut story = started();
    story.extend([
        chunk("c1", 0, 0, "The answer is for"),
        AgentEvent::ModelFailed(log::AgentModelFailed {
            call_id: "c1".into(),
            reason: agent_model_failed::Reason::Cut.into(),
            retryable: true,
            ..log::AgentModelFailed::default()
        }),
        called("c2"),
        chunk("c2", 0, 0, "The answer"),
        chunk("c2", 0, 10, " is forty-two."),
        replied("c2", vec![words("The answer is forty-two.")]),
        ended(Ending::Done),
    ]);
    let (text, _) = fold(&mut Turn::new("a1", "p1", false), &events(story));
    assert_eq!(text, "The answer is forty-two.\n");
}

#[test]
fn another_answer_begins_on_its_own_line() {
    let mut story = started();
    story.extend([
        chunk("c1", 0, 0, "Yes, be"),
        AgentEvent::ModelFailed(log::AgentModelFailed {
            call_id: "c1".into(),
            ..Default::default()
        }),
        called("c2"),
        chunk("c2", 0, 0, "No."),
        replied("c2", vec![words("No.")]),
        ended(Ending::Done),
    ]);
    let (text, others) = fold(&mut Turn::new("a1", "p1", false), &events(story));
    assert_eq!(text, "Yes, be\nNo.\n");
    assert!(others.contains(&Piece::Note("▪ the answer begins again".into())));
}

#[test]
fn other_turns_and_agents_are_not_ours() {
    let mut story = vec![
        AgentEvent::TurnStarted(log::AgentTurnStarted {
            turn_id: "t0".into(),
            prompt_ids: vec!["p9".into()],
        }),
        AgentEvent::ModelCalled(log::AgentModelCalled {
            turn_id: "t0".into(),
            call_id: "c0".into(),
            ..Default::default()
        }),
        chunk("c0", 0, 0, "theirs"),
        replied("c0", vec![words("theirs")]),
    ];
    story.extend(started());
    story.extend([replied("c1", vec![words("ours")]), ended(Ending::Failed)]);
    let mut all = events(story);
    let mut other = all[2].clone();
    other.stream = "agent/a2".into();
    all.insert(6, other);
    let (text, others) = fold(&mut Turn::new("a1", "p1", false), &all);
    assert_eq!(text, "ours\n");
    assert_eq!(
        others,
        [Piece::Ended {
            outcome: Ending::Failed,
            detail: String::new()
        }]
    );
}

#[test]
fn verbose_shows_whole_lines_of_our_commands() {
    let mut story = events(started());
    let call = AgentEvent::ToolCalled(log::AgentToolCalled {
        turn_id: "t1".into(),
        tool_call_id: "u1".into(),
        name: "shell".into(),
        ..log::AgentToolCalled::default()
    });
    story.push(events(vec![call.clone(), call.clone(), call])[2].clone());
    let exec = |stream: &str, seq: u64, event: ExecEvent| {
        let (kind, payload) = Payload::from(event).encode();
        let (kind, version) = (kind.name().to_owned(), kind.version());
        Event {
            stream: stream.into(),
            seq,
            kind,
            version,
            payload,
            ..Event::default()
        }
    };
    let started = |call: &str| {
        let tool_call_id = call.to_owned();
        ExecEvent::Started(log::ExecStarted {
            tool_call_id,
            ..log::ExecStarted::default()
        })
    };
    let printed = |data: &str| {
        let data = data.as_bytes().to_vec();
        ExecEvent::OutputStreamed(log::ExecOutputStreamed {
            data,
            ..Default::default()
        })
    };
    story.extend([
        exec("exec/e1", 1, started("u1")),
        exec("exec/e2", 1, started("theirs")),
        exec("exec/e1", 2, printed("one ... ")),
        exec("exec/e2", 2, printed("not ours\n")),
        exec("exec/e1", 3, printed("ok\ntwo\n\nthr")),
        exec("exec/e1", 4, printed("ee")),
        exec("exec/e1", 5, ExecEvent::Exited(log::ExecExited::default())),
    ]);
    let notes = |verbose: bool| {
        let (_, others) = fold(&mut Turn::new("a1", "p1", verbose), &story);
        let text = others.into_iter().filter_map(|piece| match piece {
            Piece::Note(note) => Some(note),
            _ => None,
        });
        text.collect::<Vec<_>>()
    };
    assert_eq!(notes(false), ["▸ shell"]);
    assert_eq!(
        notes(true),
        ["▸ shell", "  │ one ... ok", "  │ two", "  │ ", "  │ three"]
    );
}

proptest! {
    /// Any chunking, any part of the chunks erased, resumed from any earlier key: once each.
    #[test]
    fn text_comes_out_once(
        blocks in prop::collection::vec("[a-zé\n ]{0,24}", 1..4),
        cuts in prop::collection::vec(0usize..6, 1..12),
        erased in prop::collection::vec(any::<bool>(), 12),
        resume in prop::collection::vec((0usize..40, 0usize..40), 0..4),
    ) {
        let mut story = started();
        let mut sizes = cuts.iter().cycle();
        let mut streamed = Vec::new();
        for (index, block) in (0..).zip(&blocks) {
            let (mut at, mut chars) = (0, block.chars().peekable());
            while chars.peek().is_some() {
                let size = 1 + sizes.next().copied().unwrap_or(1);
                let part: String = chars.by_ref().take(size).collect();
                streamed.push(story.len());
                story.push(chunk("c1", index, at, &part));
                at += part.len();
            }
        }
        story.push(replied("c1", blocks.iter().map(|b| words(b)).collect()));
        story.push(ended(Ending::Done));
        let mut all = events(story);
        for (at, gone) in streamed.into_iter().zip(erased.into_iter().cycle()) {
            if gone {
                all[at].erased = true;
                all[at].payload.clear();
            }
        }
        // A client that drops at `drop` and resumes from an earlier key reads some events twice.
        let mut read: Vec<&Event> = Vec::new();
        let mut next = 0;
        for (drop, back) in resume {
            let until = (next + drop).min(all.len());
            read.extend(&all[next..until]);
            next = until.saturating_sub(back);
        }
        read.extend(&all[next..]);
        let (text, others) = fold(&mut Turn::new("a1", "p1", false), read);
        let whole = blocks.concat();
        let line_end = if whole.is_empty() || whole.ends_with('\n') { "" } else { "\n" };
        prop_assert_eq!(text, format!("{whole}{line_end}"));
        prop_assert_eq!(others, [Piece::Ended { outcome: Ending::Done, detail: String::new() }]);
    }
}
