//! Random histories with erasures, killed and restarted runners and deleted views: what is live is
//! what the log says.

use std::fs;

use cocoonbox_events::{AgentEvent as A, BoxEvent as B, LogId, LogKind, Payload};
use cocoonbox_projections::Views;
use cocoonbox_proto::log::v1::{self as log, agent_output_streamed::Part, block};
use proptest::prelude::*;

use crate::world::{USER, World};

#[derive(Clone, Debug)]
enum Step {
    Box {
        id: u8,
        kind: u8,
        operation: u8,
    },
    Usage {
        id: u8,
        tokens: u8,
    },
    Agent {
        log: bool,
        id: u8,
        kind: u8,
        word: u8,
    },
    /// Payloads at these places, in percent of the tail.
    Erase {
        log: u8,
        at: Vec<u8>,
    },
    Kill,
    Restart,
    Delete,
    Settle,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0_u8..3, 0_u8..13, 0_u8..6)
            .prop_map(|(id, kind, operation)| Step::Box { id, kind, operation }),
        2 => (0_u8..3, any::<u8>()).prop_map(|(id, tokens)| Step::Usage { id, tokens }),
        20 => (any::<bool>(), 0_u8..2, 0_u8..15, any::<u8>())
            .prop_map(|(log, id, kind, word)| Step::Agent { log, id, kind, word }),
        5 => (0_u8..3, prop::collection::vec(prop_oneof![0_u8..100, 80_u8..100], 1..3))
            .prop_map(|(log, at)| Step::Erase { log, at }),
        1 => Just(Step::Kill),
        1 => Just(Step::Restart),
        1 => Just(Step::Delete),
        1 => Just(Step::Settle),
    ]
}

fn box_event(kind: u8, operation: u8) -> B {
    let operation_id = format!("op{operation}");
    match kind {
        0 => B::Created(log::BoxCreated {
            name: operation_id,
            ..Default::default()
        }),
        1 => B::Renamed(log::BoxRenamed { name: operation_id }),
        2 => B::EnsureRequested(log::BoxEnsureRequested { operation_id }),
        3 => B::WakeRequested(log::BoxWakeRequested { operation_id }),
        4 => B::Starting(log::BoxStarting {
            operation_id,
            ..Default::default()
        }),
        5 => B::Running(log::BoxRunning {
            operation_id,
            ..Default::default()
        }),
        6 => B::HibernateRequested(log::BoxHibernateRequested {
            operation_id,
            ..Default::default()
        }),
        7 => B::Hibernated(log::BoxHibernated {
            operation_id,
            memory_kept: false,
            quiesced: true,
        }),
        8 => B::MachineLost(log::BoxMachineLost {
            detail: operation_id,
            ..Default::default()
        }),
        9 => B::Failed(log::BoxFailed {
            operation_id,
            ..Default::default()
        }),
        10 => B::DeleteRequested(log::BoxDeleteRequested { operation_id }),
        11 => B::MemoryExhausted(log::BoxMemoryExhausted {
            killed: u64::from(operation) + 1,
            ..Default::default()
        }),
        _ => B::Deleted(log::BoxDeleted { operation_id }),
    }
}

fn agent_event(kind: u8, word: u8) -> A {
    let text = format!("word {word}");
    let call_id = format!("c{}", word / 200);
    let tool_call_id = format!("t{}", word % 3);
    let approval_id = format!("ap{}", word % 2);
    match kind {
        0 => A::Created(log::AgentCreated {
            name: text,
            ..Default::default()
        }),
        1 => A::PromptReceived(log::AgentPromptReceived {
            text,
            ..Default::default()
        }),
        2 => A::TurnStarted(log::AgentTurnStarted::default()),
        3 | 4 => A::ModelCalled(log::AgentModelCalled {
            call_id,
            ..Default::default()
        }),
        5..=7 => A::OutputStreamed(log::AgentOutputStreamed {
            call_id,
            block: u32::from(word % 2),
            part: Part::Text.into(),
            offset: 0,
            text,
        }),
        8 => A::ModelReplied(log::AgentModelReplied {
            call_id,
            blocks: vec![
                log::Block {
                    block: Some(block::Block::Text(log::TextBlock { text })),
                },
                log::Block {
                    block: Some(block::Block::ToolUse(log::ToolUseBlock {
                        tool_call_id,
                        name: "shell".to_owned(),
                        args_json: "{}".to_owned(),
                        ..log::ToolUseBlock::default()
                    })),
                },
            ],
            ..Default::default()
        }),
        9 => A::ModelFailed(log::AgentModelFailed {
            call_id,
            ..Default::default()
        }),
        10 => A::ToolCalled(log::AgentToolCalled {
            tool_call_id,
            ..Default::default()
        }),
        11 => A::ToolFinished(log::AgentToolFinished {
            tool_call_id,
            ..Default::default()
        }),
        12 => A::ApprovalRequested(log::AgentApprovalRequested {
            approval_id,
            tool_call_id,
            ..Default::default()
        }),
        13 => A::ApprovalDecided(log::AgentApprovalDecided {
            approval_id,
            ..Default::default()
        }),
        _ => A::TurnEnded(log::AgentTurnEnded {
            detail: text,
            ..Default::default()
        }),
    }
}

async fn play(steps: Vec<Step>) {
    let mut world = World::new();
    let account = world.account().await;
    let logs: [LogId; 2] = [
        world.open(LogKind::Box, USER).await,
        world.open(LogKind::Box, USER).await,
    ];
    for step in steps {
        match step {
            Step::Box {
                id,
                kind,
                operation,
            } => {
                world
                    .write_box(account, &format!("b{id}"), box_event(kind, operation))
                    .await;
            }
            Step::Usage { id, tokens } => {
                let call = log::UsageModelCalled {
                    box_id: format!("b{id}"),
                    input_tokens: tokens.into(),
                    status: 200,
                    ..Default::default()
                };
                world.write_usage(account, "2026-11-29", call).await;
            }
            Step::Agent {
                log,
                id,
                kind,
                word,
            } => {
                let event = agent_event(kind, word);
                world
                    .write_agent(logs[usize::from(log)], &format!("a{id}"), event)
                    .await;
            }
            Step::Erase { log, at } => {
                let log = if log == 2 {
                    account
                } else {
                    logs[usize::from(log)]
                };
                let tail = world.store.tail(log).unwrap().pos;
                if tail > 0 {
                    // What was never taken in cannot be left behind.
                    world.settle().await;
                    let positions: Vec<u64> = at
                        .iter()
                        .map(|percent| 1 + tail * u64::from(*percent) / 100)
                        .collect();
                    world.erase(log, &positions).await;
                }
            }
            Step::Kill => {
                world.kill().await;
                world.start();
            }
            Step::Restart => {
                world.kill().await;
                world.views = Views::open(&world.path()).unwrap();
                world.start();
            }
            Step::Delete => {
                world.stop().await;
                fs::remove_file(world.path()).unwrap();
                world.views = Views::open(&world.path()).unwrap();
                world.start();
            }
            Step::Settle => {
                let report = world.settle().await;
                assert!(report.is_equal(), "{report:#?}");
            }
        }
    }
    let report = world.settle().await;
    assert!(report.is_equal(), "{report:#?}");
    assert_eq!(world.views.degraded(), []);
    world.stop().await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn live_is_what_a_rebuild_gives(steps in prop::collection::vec(step(), 1..120)) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(play(steps));
    }
}

#[test]
fn every_kind_of_event_here_is_one_of_the_registry() {
    // Keeps the generators honest: each number makes another kind or is listed twice on purpose.
    let mut kinds: Vec<_> = (0..12)
        .map(|kind| Payload::from(box_event(kind, 0)).kind())
        .collect();
    kinds.dedup();
    assert_eq!(kinds.len(), 12);
}
