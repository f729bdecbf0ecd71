//! What may be said to a conversation at random.

use cocoonbox_commands::agent::{Chunk, Command, Next, Rejection, Turn, UseState};
use cocoonbox_events::AgentEvent;
use cocoonbox_proto::log::v1::{
    Block, ModelRoles, Risk, StopReason, Verdict, agent_approval_decided::Scope,
    agent_model_failed::Reason, agent_output_streamed::Part, agent_tool_finished::Outcome,
};
use proptest::prelude::*;

use crate::agent_loop::{Loop, finished, model, replied, ruled, text, tool, tool_with};

/// A random step. Numbers choose among what is there when it comes to it.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Prompt {
        n: u8,
        steer: bool,
    },
    Withdraw(u8),
    Branch {
        n: u8,
        before: u8,
    },
    Select(u8),
    Answer {
        stray: bool,
    },
    Expire {
        late: bool,
    },
    Models(u8),
    Rules([u8; 6]),
    Instruct(u8),
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
        tokens: u64,
    },
    Fail {
        retryable: bool,
        reason: u8,
    },
    Finish {
        which: usize,
        outcome: Outcome,
        stray: bool,
    },
    NotRun {
        stray: bool,
    },
    Approve {
        allowed: bool,
        stray: bool,
        lasting: bool,
    },
    Cancel,
    Restarted,
    Close,
}

pub(super) fn any_step() -> impl Strategy<Value = Step> {
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
        3 => (any::<u8>(), any::<bool>()).prop_map(|(n, steer)| Step::Prompt { n, steer }),
        1 => any::<u8>().prop_map(Step::Withdraw),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(n, before)| Step::Branch { n, before }),
        1 => any::<u8>().prop_map(Step::Select),
        3 => rare.prop_map(|stray| Step::Answer { stray }),
        2 => any::<bool>().prop_map(|late| Step::Expire { late }),
        1 => any::<u8>().prop_map(Step::Models),
        1 => any::<[u8; 6]>().prop_map(Step::Rules),
        1 => any::<u8>().prop_map(Step::Instruct),
        12 => Just(Step::Advance),
        3 => (0..3_u32, 0..9_usize, any::<bool>())
            .prop_map(|(block, len, right)| Step::Stream { block, len, right }),
        8 => (prop::collection::vec((0..10_u8, 0..6_u8), 0..6), stop, rare, 0..200_000_u64)
            .prop_map(|(blocks, stop, stale, tokens)| Step::Reply { blocks, stop, stale, tokens }),
        3 => (any::<bool>(), any::<u8>()).prop_map(|(retryable, reason)| Step::Fail { retryable, reason }),
        8 => (0..6_usize, outcome, rare)
            .prop_map(|(which, outcome, stray)| Step::Finish { which, outcome, stray }),
        2 => rare.prop_map(|stray| Step::NotRun { stray }),
        4 => (any::<bool>(), rare, rare)
            .prop_map(|(allowed, stray, lasting)| Step::Approve { allowed, stray, lasting }),
        1 => Just(Step::Cancel),
        2 => Just(Step::Restarted),
        1 => Just(Step::Close),
    ]
}

/// Blocks with ids that repeat within and across replies, empty ones included.
fn blocks(choices: &[(u8, u8)]) -> Vec<Block> {
    let ids = ["", "c0", "c1", "c2", "c3", "c4"];
    let one = |(what, n): &(u8, u8)| {
        let id = ids[usize::from(*n)];
        match what {
            0 => text(""),
            1 => text("words"),
            2 | 3 => tool(id, "shell"),
            4 => tool_with(id, "ask_user", r#"{"question":"which?"}"#),
            5 => tool_with(id, "todo", r#"{"items":[{"text":"a","state":"pending"}]}"#),
            6 => tool(id, "todo"),
            7 => tool_with(id, "write", r#"{"path":"a"}"#),
            8 => tool_with(id, "read", "{}"),
            _ => tool(id, "read"),
        }
    };
    choices.iter().map(one).collect()
}

fn call_id(it: &Loop) -> String {
    match it.state().next() {
        Next::CallModel { call_id, .. } => call_id,
        _ => "none".to_owned(),
    }
}

pub(super) fn run(it: &mut Loop, step: &Step) -> Result<Vec<AgentEvent>, Rejection> {
    let command = match step {
        Step::Prompt { n, steer } => Command::Prompt {
            prompt_id: format!("p{n}"),
            text: "do".into(),
            steer: *steer,
            images: Vec::new(),
        },
        Step::Withdraw(n) => {
            let queued = &it.state().queued;
            let prompt_id = match queued.get(usize::from(*n) % (queued.len() + 1)) {
                Some(prompt) => prompt.prompt_id.clone(),
                None => format!("p{n}"),
            };
            Command::Withdraw { prompt_id }
        }
        Step::Branch { n, before } => {
            let taken: Vec<String> = taken_up(it);
            let before_prompt_id = match taken.get(usize::from(*before) % (taken.len() + 1)) {
                Some(prompt_id) => prompt_id.clone(),
                None => format!("p{before}"),
            };
            Command::Branch {
                branch_id: format!("b{n}"),
                before_prompt_id,
                prompt_id: format!("q{n}"),
                text: "do otherwise".into(),
            }
        }
        Step::Select(n) => {
            let ids = it.state().branch_ids();
            let branch_id = ids.get(usize::from(*n) % (ids.len() + 1));
            Command::SelectBranch {
                branch_id: branch_id.cloned().unwrap_or_else(|| "none".into()),
            }
        }
        Step::Answer { stray } => {
            let waiting = it.state().waiting();
            let question = waiting.questions.first().filter(|_| !stray);
            Command::Answer {
                question_id: question.map_or_else(|| "none".into(), |one| one.question_id.clone()),
                answer: "this".into(),
            }
        }
        Step::Expire { late } => {
            let waiting = it.state().waiting();
            let one = waiting.expires_next();
            Command::Expire {
                approval_id: one.map_or_else(|| "none".into(), |one| one.approval_id.clone()),
                now_us: one.map_or(0, |one| one.expires_at_us - i64::from(!late)),
            }
        }
        Step::Models(n) => Command::SetModels {
            models: ModelRoles {
                main: Some(model("m")),
                fallbacks: ["f1", "f2"][..usize::from(n % 3)]
                    .iter()
                    .map(|name| model(name))
                    .collect(),
                summarize: (n % 2 == 0).then(|| model("s")),
                computer: None,
            },
        },
        Step::Rules(verdicts) => {
            let verdicts =
                verdicts.map(|n| [Verdict::Allow, Verdict::Ask, Verdict::Deny][usize::from(n % 3)]);
            let risks = [
                Risk::Read,
                Risk::WriteWorkspace,
                Risk::WriteOutside,
                Risk::NetworkWrite,
                Risk::Destructive,
                Risk::Money,
            ];
            let rules: Vec<_> = risks.into_iter().zip(verdicts).collect();
            Command::SetRules {
                rules: ruled(&rules),
            }
        }
        Step::Instruct(n) => Command::Instruct {
            system: format!("you are {}", n % 2),
            tools: vec!["read".into()],
            tools_hash: vec![1],
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
            tokens,
        } => {
            let call_id = if *stale { "stale".into() } else { call_id(it) };
            let mut command = replied(&call_id, blocks(choices), *stop);
            if let Command::Replied { usage, .. } = &mut command {
                usage.input = *tokens;
            }
            command
        }
        Step::Fail { retryable, reason } => Command::ModelFailed {
            call_id: call_id(it),
            reason: [
                Reason::Overloaded,
                Reason::Budget,
                Reason::TooLong,
                Reason::Rejected,
            ][usize::from(reason % 4)],
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
        Step::NotRun { stray } => {
            let due = it.state().destroys_next().filter(|_| !stray);
            Command::NotRun {
                tool_call_id: due.map_or_else(String::new, |tool| tool.tool_call_id.clone()),
                content: "not saved".into(),
            }
        }
        Step::Approve {
            allowed,
            stray,
            lasting,
        } => {
            let approval_id = match it.state().next() {
                Next::Wait(waiting) if !*stray && !waiting.approvals.is_empty() => {
                    waiting.approvals[0].approval_id.clone()
                }
                _ => "none".to_owned(),
            };
            Command::Approve {
                approval_id,
                allowed: *allowed,
                comment: String::new(),
                scope: if *lasting {
                    Scope::Conversation
                } else {
                    Scope::Once
                },
                now_us: 0,
            }
        }
        Step::Cancel => Command::Cancel { turn_id: it.draw() },
        Step::Restarted => Command::Restarted,
        Step::Close => Command::Close,
    };
    it.send(command)
}

/// Prompts that a turn has taken up.
fn taken_up(it: &Loop) -> Vec<String> {
    let taken = it.machine.history.iter().flat_map(|event| match event {
        AgentEvent::TurnStarted(e) => e.prompt_ids.clone(),
        AgentEvent::ModelCalled(e) => e.prompt_ids.clone(),
        _ => Vec::new(),
    });
    taken.collect()
}
