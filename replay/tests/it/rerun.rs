use cocoonbox_commands::agent::{Command, Next};
use cocoonbox_events::{AgentEvent, Payload};
use cocoonbox_proto::log::v1::{
    self as log, ApprovalPolicy, StopReason, agent_model_failed::Reason,
    agent_tool_finished::Outcome,
};
use cocoonbox_replay::{
    Error, Rerun,
    export::{ExportLine, Header},
    rerun, verify,
};
use proptest::prelude::*;

use crate::{
    exported::{Exported, rewrite},
    world::{World, account, box_log, finished, replied, stream, text, tool},
};

async fn again(world: &World) -> Rerun {
    rerun(&world.store, box_log(), &stream("agent/main"))
        .await
        .unwrap()
}

#[tokio::test]
async fn a_recorded_turn_is_decided_the_same() {
    let world = World::whole().await;
    let run = again(&world).await;
    assert!(run.is_same(), "{}", run.text());
    let events = world
        .store
        .read_stream(box_log(), &stream("agent/main"), 0, 1_000)
        .await
        .unwrap();
    assert_eq!(run.same, events.events.len() as u64);
    assert_eq!(run.text(), format!("same: {} events", run.same));
}

#[tokio::test]
async fn erased_chunks_are_passed_over() {
    let world = World::whole().await;
    let events = world.store.read(box_log(), 0, 1_000).await.unwrap().events;
    let chunks: Vec<u64> = events
        .iter()
        .filter(|event| event.kind == cocoonbox_events::Kind::AgentOutputStreamed.number())
        .map(|event| event.pos)
        .collect();
    assert_eq!(chunks.len(), 2);
    world.store.erase(box_log(), &chunks).await.unwrap();
    let run = again(&world).await;
    assert!(run.is_same(), "{}", run.text());
    assert_eq!(run.erased, 2);
}

#[tokio::test]
async fn a_tool_that_nobody_allowed_is_where_they_part() {
    let mut world = World::empty().await;
    world.create_agent(ApprovalPolicy::AskBeforeEffects).await;
    world
        .agent(Command::Prompt {
            prompt_id: "p".into(),
            text: "go".into(),
            steer: false,
            images: Vec::new(),
        })
        .await;
    world
        .reply(vec![tool("c", "shell")], StopReason::ToolUse)
        .await;
    let state = world.agent_state().await;
    // A box that lies: the tool is called without an approval.
    let called = AgentEvent::ToolCalled(log::AgentToolCalled {
        turn_id: state.turn_id().unwrap().into(),
        tool_call_id: "c".into(),
        name: "shell".into(),
        args_json: "{}".into(),
        effect: log::Effect::SideEffect.into(),
        ..log::AgentToolCalled::default()
    });
    let pos = world.forge(box_log(), "agent/main", called).await;
    let run = again(&world).await;
    let found = run.divergence.as_ref().unwrap();
    assert_eq!((found.pos, run.same), (pos, pos - 1));
    // The record has no approval id to give, and without one this build cannot ask.
    assert!(
        run.text()
            .contains("got      a rejection: field `approval_id` is empty"),
        "{}",
        run.text()
    );
}

#[tokio::test]
async fn another_ending_is_where_they_part() {
    let mut world = World::empty().await;
    world.create_agent(ApprovalPolicy::ApproveAll).await;
    world
        .agent(Command::Prompt {
            prompt_id: "p".into(),
            text: "go".into(),
            steer: false,
            images: Vec::new(),
        })
        .await;
    world.reply(vec![text("no")], StopReason::MaxTokens).await;
    let state = world.agent_state().await;
    let ended = AgentEvent::TurnEnded(log::AgentTurnEnded {
        turn_id: state.turn_id().unwrap().into(),
        outcome: log::agent_turn_ended::Outcome::Done.into(),
        detail: String::new(),
    });
    let pos = world.forge(box_log(), "agent/main", ended).await;
    let run = again(&world).await;
    let found = run.divergence.as_ref().unwrap();
    assert_eq!(found.pos, pos);
    assert!(run.text().contains("OUTPUT_LIMIT"), "{}", run.text());
    assert_eq!(
        run.to_json()["divergence"]["produced"]["kind"],
        "agent.turn_ended"
    );
}

/// An export that another build wrote: the same conversation, one event decided otherwise. It verifies,
/// for that build linked what it wrote; only its meaning is another one.
#[tokio::test]
async fn the_export_of_another_build_is_where_they_part() {
    let world = World::whole().await;
    let mut lines = Exported::of_world(&world).await.lines();
    let ended = lines
        .iter()
        .find_map(|line| match line {
            ExportLine::Event(event) => match event.payload() {
                Ok(Some(Payload::Agent(AgentEvent::TurnEnded(ended)))) => Some((event.pos, ended)),
                _ => None,
            },
            _ => None,
        })
        .unwrap();
    let (pos, ended) = ended;
    let other = AgentEvent::TurnEnded(log::AgentTurnEnded {
        outcome: log::agent_turn_ended::Outcome::StepLimit.into(),
        ..ended
    });
    let (_, payload) = Payload::from(other).encode();
    rewrite(&mut lines, (box_log(), pos), payload);
    // Anchors are of the history before it was written otherwise.
    lines.retain(|line| !matches!(line, ExportLine::Log(info) if info.id != box_log()));
    lines.retain(|line| match line {
        ExportLine::Event(event) => event.log == box_log(),
        _ => true,
    });
    lines[0] = ExportLine::Header(Header {
        redacted: false,
        logs: vec![box_log()],
    });
    let exported = Exported::from_lines(&lines, false);
    let store = exported.store().await;
    assert!(verify(&store, box_log()).await.unwrap().is_good());
    let run = rerun(&store, box_log(), &stream("agent/main"))
        .await
        .unwrap();
    let found = run.divergence.as_ref().unwrap();
    assert_eq!(found.pos, pos);
    insta::assert_snapshot!(run.text(), @r#"
    parts after 11 events
    at 15, `advance` was decided otherwise
      expected agent.turn_ended {"turn_id":"d1","outcome":"STEP_LIMIT"}
      got      agent.turn_ended {"turn_id":"d1","outcome":"DONE"}
        - outcome: "STEP_LIMIT"
        + outcome: "DONE"
    "#);
    assert_eq!(run.to_json()["divergence"]["fields"][0]["path"], "outcome");
}

#[tokio::test]
async fn a_replica_that_ends_inside_an_append_goes_on() {
    let mut world = World::empty().await;
    world.create_agent(ApprovalPolicy::ApproveAll).await;
    world
        .agent(Command::Prompt {
            prompt_id: "p".into(),
            text: "go".into(),
            steer: false,
            images: Vec::new(),
        })
        .await;
    world
        .reply(
            vec![tool("a", "read"), tool("b", "read")],
            StopReason::ToolUse,
        )
        .await;
    world.settle().await;
    let tail = world.store.tail(box_log()).unwrap().pos;
    let mut cut = world.cut(tail - 1).await;
    cut.agent(Command::Restarted).await;
    // The first ends before the second is begun, which it would not have been in one append.
    cut.agent(finished("a", Outcome::Ok)).await;
    cut.settle().await;
    cut.agent(finished("b", Outcome::Ok)).await;
    cut.reply(vec![text("ok")], StopReason::EndTurn).await;
    cut.settle().await;
    let run = again(&cut).await;
    assert!(run.is_same(), "{}", run.text());
    assert_eq!(
        (run.cut, run.same),
        (1, cut.store.tail(box_log()).unwrap().pos)
    );
    let end = again(&world.cut(tail - 1).await).await;
    assert_eq!(
        (end.is_same(), end.cut),
        (true, 1),
        "also where nothing follows"
    );
}

#[tokio::test]
async fn another_event_inside_an_append_is_where_they_part() {
    let mut world = World::empty().await;
    world.create_agent(ApprovalPolicy::AskBeforeEffects).await;
    world
        .agent(Command::Prompt {
            prompt_id: "p".into(),
            text: "go".into(),
            steer: false,
            images: Vec::new(),
        })
        .await;
    world
        .reply(vec![tool("x", "shell")], StopReason::ToolUse)
        .await;
    let Next::Wait(asked) = world.settle().await else {
        panic!()
    };
    let decided = AgentEvent::ApprovalDecided(log::AgentApprovalDecided {
        approval_id: asked.approvals[0].approval_id.clone(),
        allowed: false,
        comment: String::new(),
        ..log::AgentApprovalDecided::default()
    });
    let denied = AgentEvent::ToolFinished(log::AgentToolFinished {
        tool_call_id: "x".into(),
        outcome: Outcome::Denied.into(),
        content: "as an older build said it".into(),
        exec_id: String::new(),
        ..log::AgentToolFinished::default()
    });
    let pos = world
        .forge_all(box_log(), "agent/main", vec![decided.into(), denied.into()])
        .await;
    let run = again(&world).await;
    assert_eq!(run.divergence.as_ref().unwrap().pos, pos);
    assert_eq!((run.same, run.cut), (pos - 1, 0));
    assert!(
        run.text().contains("a person denied this call"),
        "{}",
        run.text()
    );
}

#[tokio::test]
async fn only_agents_that_are_there_are_run_again() {
    let world = World::whole().await;
    let ask = async |log, name: &str| rerun(&world.store, log, &stream(name)).await.unwrap_err();
    assert!(matches!(
        ask(account(), "box/b1").await,
        Error::NotAnAggregate { .. }
    ));
    assert!(matches!(
        ask(box_log(), "agent/none").await,
        Error::NoSuchStream { .. }
    ));
}

/// Does something that fits the state; `dice` chooses what.
async fn play(world: &mut World, dice: u8) {
    let state = world.agent_state().await;
    let (drawn, choice) = (world.draw(), dice % 16);
    if choice == 15 && !state.agent_id.is_empty() {
        world.agent(Command::Restarted).await;
        return;
    }
    if choice == 14 {
        world.agent(Command::Cancel { turn_id: drawn }).await;
        return;
    }
    match state.next() {
        Next::WaitBudget { .. } | Next::Idle => {
            world
                .agent(Command::Prompt {
                    prompt_id: drawn,
                    text: "go".into(),
                    steer: false,
                    images: Vec::new(),
                })
                .await;
        }
        Next::Advance => {
            let (turn_id, call_id, approval_id) = (world.draw(), world.draw(), world.draw());
            world
                .agent(Command::Advance {
                    turn_id,
                    call_id,
                    approval_id,
                    now_us: 0,
                })
                .await;
        }
        Next::CallModel { call_id, .. } if choice < 3 => {
            world
                .agent(Command::ModelFailed {
                    call_id,
                    reason: Reason::Overloaded,
                    detail: "x".into(),
                    retryable: choice > 0,
                    retry_after_ms: 0,
                })
                .await;
        }
        Next::CallModel { call_id, .. } => {
            let names = ["read", "shell", "read", "write"];
            let count = usize::from(choice % 5);
            let blocks = (0..count)
                .map(|n| tool("same", names[(n + usize::from(dice)) % 4]))
                .collect();
            let stop = if count == 0 {
                StopReason::EndTurn
            } else {
                StopReason::ToolUse
            };
            world.agent(replied(call_id, blocks, stop)).await;
        }
        Next::RunTools(calls) => {
            let call = &calls[usize::from(choice) % calls.len()];
            let outcome =
                [Outcome::Ok, Outcome::Error, Outcome::Interrupted][usize::from(dice % 3)];
            world.agent(finished(&call.tool_call_id, outcome)).await;
        }
        Next::Wait(asked) => {
            let approval_id = asked.approvals[0].approval_id.clone();
            let allowed = choice % 2 == 0;
            world
                .agent(Command::Approve {
                    approval_id,
                    allowed,
                    comment: "c".into(),
                    scope: cocoonbox_proto::log::v1::agent_approval_decided::Scope::Once,
                    now_us: 0,
                })
                .await;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is recorded is decided again the same, with nothing left unexplained.
    #[test]
    fn any_history_is_decided_the_same(
        dice in prop::collection::vec(any::<u8>(), 0..80),
        ask in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut world = World::empty().await;
            let approval =
                if ask { ApprovalPolicy::AskBeforeEffects } else { ApprovalPolicy::ApproveAll };
            world.create_agent(approval).await;
            for dice in dice {
                play(&mut world, dice).await;
            }
            let run = again(&world).await;
            assert!(run.is_same(), "{}", run.text());
            assert_eq!(run.same, world.store.tail(box_log()).unwrap().pos);
            assert_eq!(run.cut, 0);
        });
    }
}
