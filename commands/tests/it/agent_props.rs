//! Random commands in any order, and what holds whatever they are.

use std::collections::{BTreeMap, BTreeSet};

use cocoonbox_commands::agent::{Chunk, Command, Entry, Next, Rejection, Turn, UseState};
use cocoonbox_events::AgentEvent;
use cocoonbox_proto::log::v1::{
    ApprovalPolicy, Block, StopReason, agent_model_failed::Reason, agent_output_streamed::Part,
    agent_tool_finished::Outcome, block,
};
use proptest::prelude::*;

use crate::agent_stories::{Loop, finished, replied, text, tool};

/// A random step. Numbers choose among what is there when it comes to it.
#[derive(Clone, Debug)]
enum Step {
    Prompt(u8),
    Advance,
    Stream {
        block: u32,
        len: usize,
        right: bool,
    },
    Reply {
        blocks: Vec<(u8, u8)>,
        stop: StopReason,
        stale: bool,
    },
    Fail {
        retryable: bool,
    },
    Finish {
        which: usize,
        outcome: Outcome,
        stray: bool,
    },
    Approve {
        allowed: bool,
        stray: bool,
    },
    Cancel,
    Restarted,
    Close,
}

fn any_step() -> impl Strategy<Value = Step> {
    let stop = prop_oneof![
        4 => Just(StopReason::ToolUse),
        2 => Just(StopReason::EndTurn),
        1 => Just(StopReason::MaxTokens),
        1 => Just(StopReason::Refusal),
        1 => Just(StopReason::PauseTurn),
        1 => Just(StopReason::OtherStop),
    ];
    let outcome = prop_oneof![
        3 => Just(Outcome::Ok),
        1 => Just(Outcome::Error),
        1 => Just(Outcome::Cancelled),
        1 => Just(Outcome::Denied),
    ];
    let rare = prop::bool::weighted(0.1);
    prop_oneof![
        3 => any::<u8>().prop_map(Step::Prompt),
        12 => Just(Step::Advance),
        3 => (0..3_u32, 0..9_usize, any::<bool>())
            .prop_map(|(block, len, right)| Step::Stream { block, len, right }),
        8 => (prop::collection::vec((0..6_u8, 0..6_u8), 0..6), stop, rare)
            .prop_map(|(blocks, stop, stale)| Step::Reply { blocks, stop, stale }),
        2 => any::<bool>().prop_map(|retryable| Step::Fail { retryable }),
        8 => (0..6_usize, outcome, rare)
            .prop_map(|(which, outcome, stray)| Step::Finish { which, outcome, stray }),
        4 => (any::<bool>(), rare).prop_map(|(allowed, stray)| Step::Approve { allowed, stray }),
        1 => Just(Step::Cancel),
        2 => Just(Step::Restarted),
        1 => Just(Step::Close),
    ]
}

/// Blocks with ids that repeat within and across replies, empty ones included.
fn blocks(choices: &[(u8, u8)]) -> Vec<Block> {
    let one = |(what, n): &(u8, u8)| match what {
        0 => text(""),
        1 => text("words"),
        2 | 3 => tool(["", "c0", "c1", "c2", "c3", "c4"][usize::from(*n)], "shell"),
        _ => tool(["", "c0", "c1", "c2", "c3", "c4"][usize::from(*n)], "read"),
    };
    choices.iter().map(one).collect()
}

fn call_id(it: &Loop) -> String {
    match it.state().next() {
        Next::CallModel { call_id, .. } => call_id,
        _ => "none".to_owned(),
    }
}

fn run(it: &mut Loop, step: &Step) -> Result<Vec<AgentEvent>, Rejection> {
    let command = match step {
        Step::Prompt(n) => Command::Prompt {
            prompt_id: format!("p{n}"),
            text: "do".into(),
        },
        Step::Advance => return Ok(it.advance()),
        Step::Stream { block, len, right } => {
            let call_id = call_id(it);
            let known = it
                .state()
                .partial()
                .and_then(|(_, partial)| partial.blocks.get(block));
            let offset = known.map_or(0, |known| known.bytes) + u64::from(!right);
            let chunk = Chunk {
                block: *block,
                part: Part::Text,
                offset,
                text: "y".repeat(*len),
            };
            Command::Streamed {
                call_id,
                chunks: vec![chunk],
            }
        }
        Step::Reply {
            blocks: choices,
            stop,
            stale,
        } => {
            let call_id = if *stale { "stale".into() } else { call_id(it) };
            replied(&call_id, blocks(choices), *stop)
        }
        Step::Fail { retryable } => Command::ModelFailed {
            call_id: call_id(it),
            reason: Reason::Overloaded,
            detail: "x".into(),
            retryable: *retryable,
            retry_after_ms: 0,
        },
        Step::Finish {
            which,
            outcome,
            stray,
        } => {
            let uses = it.state().turn.as_ref().map(Turn::uses).unwrap_or_default();
            let called: Vec<_> = uses
                .iter()
                .filter(|tool| *stray || tool.state == UseState::Called)
                .collect();
            let id = called
                .get(which % called.len().max(1))
                .map(|tool| tool.tool_call_id.clone());
            finished(&id.unwrap_or_default(), *outcome, "result")
        }
        Step::Approve { allowed, stray } => {
            let approval_id = match it.state().next() {
                Next::Wait(asked) if !*stray => asked[0].clone(),
                _ => "none".to_owned(),
            };
            Command::Approve {
                approval_id,
                allowed: *allowed,
                comment: String::new(),
            }
        }
        Step::Cancel => Command::Cancel { turn_id: it.draw() },
        Step::Restarted => Command::Restarted,
        Step::Close => Command::Close,
    };
    it.send(command)
}

/// Every tool use is followed by exactly its results, in order, and ids are used once.
fn check_conversation(entries: &[Entry]) {
    let mut owed: Option<Vec<String>> = None;
    let mut seen = BTreeSet::new();
    for entry in entries {
        match (owed.take(), entry) {
            (None, Entry::User { text }) => assert!(!text.is_empty()),
            (None, Entry::Assistant { blocks }) => {
                assert!(!blocks.is_empty());
                let mut uses = Vec::new();
                for block in blocks {
                    match block.block.as_ref().unwrap() {
                        block::Block::ToolUse(tool) => {
                            assert!(seen.insert(tool.tool_call_id.clone()), "used twice");
                            uses.push(tool.tool_call_id.clone());
                        }
                        block::Block::Text(text) => assert!(!text.text.is_empty()),
                        block::Block::Thinking(_) => {}
                    }
                }
                owed = (!uses.is_empty()).then_some(uses);
            }
            (Some(uses), Entry::ToolResults(results)) => {
                let ids: Vec<_> = results
                    .iter()
                    .map(|result| result.tool_call_id.clone())
                    .collect();
                assert_eq!(uses, ids);
            }
            (owed, entry) => panic!("{entry:?} while {owed:?} are owed"),
        }
    }
    assert_eq!(owed, None);
}

/// What can be seen from the events alone.
#[derive(Default)]
struct Observer {
    calls_out: BTreeSet<String>,
    uses_open: BTreeSet<String>,
    called: BTreeMap<String, u32>,
    results: BTreeMap<String, u32>,
    effects_out: u32,
    effect_of: BTreeMap<String, bool>,
    approvals: BTreeMap<String, u32>,
    in_turn: bool,
}

impl Observer {
    fn see_all(&mut self, events: &[AgentEvent]) {
        for event in events {
            self.see(event);
        }
    }

    fn see(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::TurnStarted(_) => {
                assert!(!self.in_turn);
                self.in_turn = true;
            }
            AgentEvent::ModelCalled(e) => {
                assert!(
                    self.in_turn && self.uses_open.is_empty(),
                    "called with open tool uses"
                );
                assert!(self.calls_out.is_empty(), "two calls at once");
                self.calls_out.insert(e.call_id.clone());
            }
            AgentEvent::ModelReplied(e) => {
                assert!(self.calls_out.remove(&e.call_id));
                if e.stop() != StopReason::Refusal {
                    for block in &e.blocks {
                        if let Some(block::Block::ToolUse(tool)) = &block.block {
                            assert!(self.uses_open.insert(tool.tool_call_id.clone()));
                        }
                    }
                }
            }
            AgentEvent::ModelFailed(e) => assert!(self.calls_out.remove(&e.call_id)),
            AgentEvent::ToolCalled(e) => {
                let side_effect = e.name == "shell";
                assert!(self.uses_open.contains(&e.tool_call_id));
                *self.called.entry(e.tool_call_id.clone()).or_default() += 1;
                assert_eq!(self.called[&e.tool_call_id], 1, "called twice");
                self.effects_out += u32::from(side_effect);
                assert!(self.effects_out <= 1, "two effects at once");
                self.effect_of.insert(e.tool_call_id.clone(), side_effect);
            }
            AgentEvent::ToolFinished(e) => {
                assert!(
                    self.uses_open.remove(&e.tool_call_id),
                    "a result that nobody asked for"
                );
                *self.results.entry(e.tool_call_id.clone()).or_default() += 1;
                assert_eq!(self.results[&e.tool_call_id], 1, "two results");
                if self.effect_of.get(&e.tool_call_id) == Some(&true) {
                    self.effects_out -= 1;
                }
            }
            AgentEvent::ApprovalDecided(e) => {
                *self.approvals.entry(e.approval_id.clone()).or_default() += 1;
                assert_eq!(self.approvals[&e.approval_id], 1, "decided twice");
            }
            AgentEvent::TurnEnded(_) => {
                assert!(self.in_turn && self.uses_open.is_empty() && self.calls_out.is_empty());
                self.in_turn = false;
            }
            AgentEvent::Created(_)
            | AgentEvent::Renamed(_)
            | AgentEvent::Closed(_)
            | AgentEvent::PromptReceived(_)
            | AgentEvent::OutputStreamed(_)
            | AgentEvent::ApprovalRequested(_)
            | AgentEvent::CancelRequested(_) => {}
        }
    }
}

/// A loop that does what it is told, with a model that is done at once. Returns whether it came to rest.
fn drive(it: &mut Loop, observer: &mut Observer) {
    for _ in 0..2_000 {
        let events = match it.state().next() {
            Next::Idle => return,
            Next::Advance => {
                let events = it.advance();
                assert!(!events.is_empty(), "due, but nothing was written");
                events
            }
            Next::CallModel { call_id, .. } => it
                .send(replied(&call_id, vec![text("done")], StopReason::EndTurn))
                .unwrap(),
            Next::RunTools(calls) => it
                .send(finished(&calls[0].tool_call_id, Outcome::Ok, "ran"))
                .unwrap(),
            Next::Wait(asked) => {
                assert!(!asked.is_empty(), "waits for nobody");
                let approval_id = asked[0].clone();
                it.send(Command::Approve {
                    approval_id,
                    allowed: true,
                    comment: String::new(),
                })
                .unwrap()
            }
        };
        observer.see_all(&events);
        check_conversation(it.state().conversation());
    }
    panic!("the turn does not end");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_commands(
        steps in prop::collection::vec(any_step(), 0..120),
        ask in any::<bool>(),
        steps_max in 1..6_u32,
        restart in any::<bool>(),
    ) {
        let approval =
            if ask { ApprovalPolicy::AskBeforeEffects } else { ApprovalPolicy::ApproveAll };
        let mut it = Loop::new(approval, steps_max);
        let mut observer = Observer::default();
        for step in &steps {
            let before = it.state().clone();
            let due = it.state().next() == Next::Advance;
            match run(&mut it, step) {
                Ok(events) => {
                    if matches!(step, Step::Advance) {
                        prop_assert_eq!(due, !events.is_empty());
                    }
                    observer.see_all(&events);
                }
                Err(_) => prop_assert_eq!(&before, it.state()),
            }
            check_conversation(it.state().conversation());
        }
        it.machine.check_fold();
        if restart {
            let events = it.send(Command::Restarted).unwrap();
            observer.see_all(&events);
        }
        drive(&mut it, &mut observer);
        prop_assert!(it.state().turn.is_none() && !observer.in_turn);
        prop_assert!(it.state().queued.is_empty());
        it.machine.check_fold();
    }

    /// A replica may end anywhere, also inside an append: from every prefix the turn still ends.
    #[test]
    fn every_prefix_goes_on(steps in prop::collection::vec(any_step(), 0..60), ask in any::<bool>()) {
        let approval =
            if ask { ApprovalPolicy::AskBeforeEffects } else { ApprovalPolicy::ApproveAll };
        let mut it = Loop::new(approval, 4);
        for step in &steps {
            drop(run(&mut it, step));
        }
        let history = it.machine.history.clone();
        for end in 1..=history.len() {
            // The first event is `created`, which a new loop writes itself.
            let mut cut = Loop::new(approval, 4);
            let mut observer = Observer::default();
            for event in &history[1..end] {
                cut.machine.take(event);
                observer.see(event);
            }
            for _ in 0..1_000 {
                cut.draw();
            }
            let events = cut.send(Command::Restarted).unwrap();
            observer.see_all(&events);
            drive(&mut cut, &mut observer);
            prop_assert!(cut.state().turn.is_none());
        }
    }
}
