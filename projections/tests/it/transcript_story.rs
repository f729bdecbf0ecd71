use cocoonbox_events::{AgentEvent as A, LogKind};
use cocoonbox_projections::ItemRow;
use cocoonbox_proto::{
    agent::v1::transcript_item::Kind,
    log::v1::{
        AgentApprovalDecided, AgentApprovalRequested, AgentClosed, AgentCreated, AgentModelCalled,
        AgentModelFailed, AgentModelReplied, AgentOutputStreamed, AgentPromptReceived,
        AgentToolCalled, AgentToolFinished, AgentTurnEnded, AgentTurnStarted, Block, ModelChoice,
        TextBlock, ToolUseBlock, Wire, agent_model_failed, agent_output_streamed::Part,
        agent_tool_finished, agent_turn_ended, block,
    },
};

use crate::world::{USER, World};

fn prompt(text: &str) -> A {
    let (prompt_id, text) = ("p1".to_owned(), text.to_owned());
    A::PromptReceived(AgentPromptReceived {
        prompt_id,
        text,
        ..AgentPromptReceived::default()
    })
}

fn called(call: &str) -> A {
    A::ModelCalled(AgentModelCalled {
        call_id: call.to_owned(),
        ..AgentModelCalled::default()
    })
}

fn chunk(call: &str, block: u32, part: Part, offset: u64, text: &str) -> A {
    A::OutputStreamed(AgentOutputStreamed {
        call_id: call.to_owned(),
        block,
        part: part.into(),
        offset,
        text: text.to_owned(),
    })
}

fn text_block(text: &str) -> Block {
    Block {
        block: Some(block::Block::Text(TextBlock {
            text: text.to_owned(),
        })),
    }
}

fn tool_block(id: &str, name: &str, args: &str) -> Block {
    Block {
        block: Some(block::Block::ToolUse(ToolUseBlock {
            tool_call_id: id.to_owned(),
            name: name.to_owned(),
            args_json: args.to_owned(),
            ..ToolUseBlock::default()
        })),
    }
}

fn replied(call: &str, blocks: Vec<Block>) -> A {
    let call_id = call.to_owned();
    A::ModelReplied(AgentModelReplied {
        call_id,
        blocks,
        ..AgentModelReplied::default()
    })
}

fn tool_called(id: &str, name: &str) -> A {
    A::ToolCalled(AgentToolCalled {
        tool_call_id: id.to_owned(),
        name: name.to_owned(),
        args_json: "{}".to_owned(),
        ..AgentToolCalled::default()
    })
}

fn tool_finished(id: &str, content: &str) -> A {
    A::ToolFinished(AgentToolFinished {
        tool_call_id: id.to_owned(),
        outcome: agent_tool_finished::Outcome::Ok.into(),
        content: content.to_owned(),
        exec_id: String::new(),
        ..AgentToolFinished::default()
    })
}

fn ended(outcome: agent_turn_ended::Outcome) -> A {
    A::TurnEnded(AgentTurnEnded {
        outcome: outcome.into(),
        ..AgentTurnEnded::default()
    })
}

fn told(items: &[ItemRow]) -> Vec<(Kind, &str, &str, bool)> {
    items
        .iter()
        .map(|item| {
            let kind = Kind::try_from(item.kind).unwrap();
            (
                kind,
                item.text.as_str(),
                item.outcome.as_str(),
                item.partial,
            )
        })
        .collect()
}

async fn items(world: &World, log: cocoonbox_events::LogId) -> Vec<ItemRow> {
    world
        .views
        .transcript(log, "a1", None, 1_000)
        .await
        .unwrap()
        .items
}

#[tokio::test]
async fn a_turn_is_streamed_and_then_whole() {
    let world = World::new();
    let log = world.open(LogKind::Box, USER).await;
    let created = AgentCreated {
        agent_id: "a1".to_owned(),
        name: "main".to_owned(),
        model: Some(ModelChoice {
            wire: Wire::OpenaiChat.into(),
            model: "m".to_owned(),
            output_tokens_max: 9,
            ..ModelChoice::default()
        }),
        ..AgentCreated::default()
    };
    world.write_agent(log, "a1", A::Created(created)).await;
    world.write_agent(log, "a1", prompt("make it")).await;
    world
        .write_agent(log, "a1", A::TurnStarted(AgentTurnStarted::default()))
        .await;
    world.write_agent(log, "a1", called("c1")).await;
    world
        .write_agent(log, "a1", chunk("c1", 0, Part::Text, 0, "I will "))
        .await;
    world
        .write_agent(log, "a1", chunk("c1", 1, Part::ToolArgs, 0, "{\"a\""))
        .await;
    let streamed = world
        .write_agent(log, "a1", chunk("c1", 0, Part::Text, 7, "lo"))
        .await;
    // Output of a call that is not out says nothing.
    let key = world
        .write_agent(log, "a1", chunk("c0", 0, Part::Text, 0, "stale"))
        .await;
    world.seen(&key).await;

    let rows = items(&world, log).await;
    assert_eq!(
        told(&rows),
        [
            (Kind::Prompt, "make it", "", false),
            (Kind::Reply, "I will lo", "", true),
            (Kind::ToolCall, "{\"a\"", "", true),
        ]
    );
    assert_eq!(rows[1].offset_key, streamed.to_string());
    let agent = world.views.agent(log, "a1").await.unwrap().unwrap();
    assert_eq!(agent.state.as_str(), "working");
    assert_eq!((agent.name.as_str(), agent.model.as_str()), ("main", "m"));

    let blocks = vec![
        text_block("I will look."),
        tool_block("t1", "shell", "{\"a\":1}"),
    ];
    world.write_agent(log, "a1", replied("c1", blocks)).await;
    let asked = AgentApprovalRequested {
        approval_id: "ap1".to_owned(),
        tool_call_id: "t1".to_owned(),
        args_hash: Vec::new(),
        ..AgentApprovalRequested::default()
    };
    let key = world
        .write_agent(log, "a1", A::ApprovalRequested(asked))
        .await;
    world.seen(&key).await;
    assert_eq!(
        world.views.agents(log).await.unwrap()[0].state.as_str(),
        "waiting"
    );

    let decided = AgentApprovalDecided {
        approval_id: "ap1".to_owned(),
        allowed: true,
        comment: String::new(),
        ..AgentApprovalDecided::default()
    };
    world
        .write_agent(log, "a1", A::ApprovalDecided(decided))
        .await;
    world
        .write_agent(log, "a1", tool_called("t1", "shell"))
        .await;
    world
        .write_agent(log, "a1", tool_finished("t1", "ok then"))
        .await;
    let key = world
        .write_agent(log, "a1", ended(agent_turn_ended::Outcome::Done))
        .await;
    world.seen(&key).await;

    let rows = items(&world, log).await;
    assert_eq!(
        told(&rows),
        [
            (Kind::Prompt, "make it", "", false),
            (Kind::Reply, "I will look.", "", false),
            (Kind::ToolCall, "{\"a\":1}", "", false),
            (Kind::Approval, "ap1", "allowed", false),
            (Kind::ToolResult, "ok then", "ok", false),
            (Kind::TurnEnded, "", "done", false),
        ]
    );
    assert_eq!(rows[2].tool_name, "shell");
    assert_eq!(rows[3].tool_name, "shell");
    assert_eq!(
        (&*rows[4].tool_name, &*rows[4].tool_call_id),
        ("shell", "t1")
    );
    assert_eq!(
        world.views.agents(log).await.unwrap()[0].state.as_str(),
        "idle"
    );

    // Pages meet without gap or repeat.
    let mut paged = Vec::new();
    let mut after = None;
    loop {
        let page = world
            .views
            .transcript(log, "a1", after.as_deref(), 4)
            .await
            .unwrap();
        paged.extend(page.items);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(paged, rows);

    let key = world
        .write_agent(log, "a1", A::Closed(AgentClosed {}))
        .await;
    world.seen(&key).await;
    assert_eq!(
        world.views.agents(log).await.unwrap()[0].state.as_str(),
        "closed"
    );
    assert!(world.settle().await.is_equal());
}

#[tokio::test]
async fn output_whose_whole_never_came_stays_and_says_so() {
    let world = World::new();
    let log = world.open(LogKind::Box, USER).await;
    world.write_agent(log, "a1", called("c1")).await;
    world
        .write_agent(log, "a1", chunk("c1", 0, Part::Text, 0, "half a sen"))
        .await;
    let failed = AgentModelFailed {
        call_id: "c1".to_owned(),
        reason: agent_model_failed::Reason::Cut.into(),
        detail: "stream ended".to_owned(),
        ..AgentModelFailed::default()
    };
    world.write_agent(log, "a1", A::ModelFailed(failed)).await;
    world.write_agent(log, "a1", called("c2")).await;
    world
        .write_agent(log, "a1", chunk("c2", 0, Part::Text, 0, "a whole"))
        .await;
    let key = world
        .write_agent(
            log,
            "a1",
            replied("c2", vec![text_block("a whole sentence")]),
        )
        .await;
    world.seen(&key).await;
    let rows = items(&world, log).await;
    assert_eq!(
        told(&rows),
        [
            (Kind::Reply, "half a sen", "cut", false),
            (Kind::ModelFailed, "stream ended", "cut", false),
            (Kind::Reply, "a whole sentence", "", false),
        ]
    );

    // Chunks of the call that was cut are all there is of it: erasing them takes the text.
    let key = world.erase(log, &[2]).await;
    world.seen(&key).await;
    let rows = items(&world, log).await;
    assert_eq!(
        told(&rows),
        [
            (Kind::ModelFailed, "stream ended", "cut", false),
            (Kind::Reply, "a whole sentence", "", false)
        ]
    );
    assert!(world.settle().await.is_equal());
}

#[tokio::test]
async fn erased_content_leaves_the_views() {
    let world = World::new();
    let log = world.open(LogKind::Box, USER).await;
    let prompted = world.write_agent(log, "a1", prompt("my secret")).await;
    world.write_agent(log, "a1", called("c1")).await;
    let streamed = world
        .write_agent(log, "a1", chunk("c1", 0, Part::Text, 0, "your"))
        .await;
    let key = world
        .write_agent(log, "a1", replied("c1", vec![text_block("your secret")]))
        .await;
    world.seen(&key).await;

    let erased_to = || async {
        world
            .views
            .checkpoint("transcript", log)
            .await
            .unwrap()
            .unwrap()
            .erased_to
    };
    let before = erased_to().await;
    // Chunks behind a whole reply go without a trace and without folding anew.
    let key = world.erase(log, &[streamed.pos]).await;
    world.seen(&key).await;
    assert_eq!(erased_to().await, before);
    assert_eq!(items(&world, log).await.len(), 2);

    let key = world.erase(log, &[prompted.pos]).await;
    world.seen(&key).await;
    assert_eq!(
        told(&items(&world, log).await),
        [
            (Kind::Prompt, "", "erased", false),
            (Kind::Reply, "your secret", "", false)
        ]
    );
    assert!(erased_to().await > before);
    assert!(world.settle().await.is_equal());
}
