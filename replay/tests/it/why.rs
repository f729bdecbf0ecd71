use cocoonbox_commands::boxes;
use cocoonbox_events::{EventId, LogId};
use cocoonbox_proto::log::v1::actor;
use cocoonbox_replay::{Error, Target, Via, Why, why};

use crate::world::{World, account, actor, box_log};

async fn ask(world: &World, target: Target) -> Result<Why, Error> {
    why(&world.store, target, &mut |_| {}).await
}

fn name(log: LogId) -> String {
    ["system", "account", "box"][usize::from(log.as_bytes()[0]) - 1].to_owned()
}

/// The drawing, without links: they depend on the salts, which are drawn.
fn drawn(tree: &Why) -> String {
    let text = tree.text(&name);
    let lines = text.lines();
    let cut = lines.map(|line| line.split_once(" chain=").map_or(line, |(told, _)| told));
    cut.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_start_from_the_request_to_the_machine() {
    let world = World::whole().await;
    let tree = ask(&world, Target::Pos(account(), 4)).await.unwrap();
    insta::assert_snapshot!(drawn(&tree), @r#"
      account 3 2026-01-02T03:04:08.000750Z box/b1#2 box.ensure_requested user:u1 operation_id="o1"
    * │ (operation) account 4 2026-01-02T03:04:09.001000Z box/b1#3 box.starting system:lifecycle operation_id="o1" wake_id="w1" image="core-1"
    "#);
    let root = tree.causes[0].line.event_id.parse::<EventId>().unwrap();
    let from_root = ask(&world, Target::Event(root)).await.unwrap();
    // The start and the machine that runs: both answer the one operation.
    let kinds: Vec<_> = from_root
        .effects
        .iter()
        .map(|effect| effect.node.line.kind.as_str())
        .collect();
    assert_eq!(kinds, ["box.starting", "box.running"]);
    assert_eq!(tree.to_json()["causes"].as_array().unwrap().len(), 2);
}

/// Ids tie what no cause ties: the prompt to its turn, the reply to the tool, the
/// tool to the command, and the anchor to what it holds fast.
#[tokio::test]
async fn a_turn_from_its_prompt_to_the_anchor() {
    let world = World::whole().await;
    let tree = ask(&world, Target::Pos(box_log(), 2)).await.unwrap();
    insta::assert_snapshot!(drawn(&tree), @r#"
    * box 2 2026-01-02T03:04:12.001750Z agent/main#2 agent.prompt_received agent:main prompt_id="p1" text="Größe?"
      │ (prompt) box 3 2026-01-02T03:04:13.002000Z agent/main#3 agent.turn_started agent:main turn_id="d1" prompt_ids=["p1"]
      ├─ (turn) box 4 2026-01-02T03:04:14.002250Z agent/main#4 agent.model_called agent:main turn_id="d1" call_id="d5" model={"wire":"OPENAI_CHAT","model":"m1","output_tokens_max":100} attempt=1
      │  ├─ (call) box 5 2026-01-02T03:04:15.002500Z agent/main#5 agent.output_streamed agent:main call_id="d5" part="TEXT" text="let me "
      │  ├─ (call) box 6 2026-01-02T03:04:15.002500Z agent/main#6 agent.output_streamed agent:main call_id="d5" part="TEXT" offset=7 text="look"
      │  └─ (call) box 7 2026-01-02T03:04:16.002750Z agent/main#7 agent.model_replied agent:main call_id="d5" blocks=[{"text":{"text":"let me look"}},{"tool_use":{"tool_call_id":"c1","name":"shell","args_json":"{}"}}] stop="TOOL_USE" vendor_stop="v" usage={…
      │     │ (tool) box 8 2026-01-02T03:04:17.003000Z agent/main#8 agent.tool_called agent:main turn_id="d1" tool_call_id="c1" name="shell" args_json="{}" effect="SIDE_EFFECT" risk="DESTRUCTIVE"
      │     ├─ (tool) box 9 2026-01-02T03:04:18.003250Z exec/e1#1 exec.started agent:main exec_id="e1" argv=["wc"] tool_call_id="c1"
      │     │  ├─ (exec) box 10 2026-01-02T03:04:19.003500Z exec/e1#2 exec.output_streamed agent:main source="STDOUT" data="12\n"
      │     │  └─ (exec) box 11 2026-01-02T03:04:20.003750Z exec/e1#3 exec.exited agent:main reason="EXITED"
      │     └─ (tool) box 12 2026-01-02T03:04:21.004000Z agent/main#9 agent.tool_finished agent:main tool_call_id="c1" outcome="OK" content="12" exec_id="e1"
      ├─ (turn) box 13 2026-01-02T03:04:22.004250Z agent/main#10 agent.model_called agent:main turn_id="d1" call_id="d11" model={"wire":"OPENAI_CHAT","model":"m1","output_tokens_max":100} attempt=1
      │  │ (call) box 14 2026-01-02T03:04:23.004500Z agent/main#11 agent.model_replied agent:main call_id="d11" blocks=[{"text":{"text":"12"}}] stop="END_TURN" vendor_stop="v" usage={"input":3,"output":4} vendor_request_id="r"
      └─ (turn) box 15 2026-01-02T03:04:24.004750Z agent/main#12 agent.turn_ended agent:main turn_id="d1" outcome="DONE"
         │ (anchor) account 6 2026-01-02T03:04:25.005000Z box/b1#5 box.log_anchored system:lifecycle box_log="03030303030303030303030303030303" pos=15
    "#);
    let tree = ask(&world, Target::Pos(account(), 6)).await.unwrap();
    let above: Vec<_> = tree
        .causes
        .iter()
        .map(|node| (name(node.log), node.line.pos, node.via))
        .collect();
    assert_eq!(above.last(), Some(&("account".into(), 6, Via::Anchor)));
    assert_eq!(above[above.len() - 2].0, "box");
    let tree = ask(&world, Target::Pos(box_log(), 1)).await.unwrap();
    assert_eq!(tree.to_json()["causes"][1]["via"], "box log");
}

#[tokio::test]
async fn causes_reach_into_other_logs_and_may_be_missing() {
    let mut world = World::whole().await;
    let prompt = world
        .store
        .read(box_log(), 1, 1)
        .await
        .unwrap()
        .events
        .remove(0);
    let by = || actor(actor::Kind::Box, "b1");
    let rename = |name: &str| boxes::Command::Rename { name: name.into() };
    world.boxes(rename("x"), by(), prompt.event_id()).await;
    let tree = ask(&world, Target::Event(prompt.event_id().unwrap()))
        .await
        .unwrap();
    let renamed = tree
        .effects
        .iter()
        .find(|effect| effect.node.log == account())
        .unwrap();
    assert_eq!((renamed.node.line.pos, renamed.node.via), (7, Via::Cause));

    let strange = EventId::from_slice(&[0xee; 16]).unwrap();
    world.boxes(rename("y"), by(), Some(strange)).await;
    let tree = ask(&world, Target::Pos(account(), 8)).await.unwrap();
    assert_eq!(tree.missing_cause, Some(strange));
    assert!(tree.text(&name).contains("in no log here"));
    assert!(matches!(
        ask(&world, Target::Event(strange)).await,
        Err(Error::NoSuchEvent { .. })
    ));
    assert!(matches!(
        ask(&world, Target::Pos(account(), 99)).await,
        Err(Error::NoSuchPosition { .. })
    ));
}

#[tokio::test]
async fn causes_that_go_in_circles_end() {
    let mut world = World::whole().await;
    let by = || actor(actor::Kind::Box, "b1");
    let rename = |name: &str| boxes::Command::Rename { name: name.into() };
    // Ids are drawn in order here, so that an event can name one that comes after it.
    let last = world.boxes(rename("x"), by(), None).await.unwrap();
    let behind = |n: u128| Some(EventId(uuid::Uuid::from_u128(last.0.as_u128() + n)));
    let first = world.boxes(rename("y"), by(), behind(2)).await;
    let second = world.boxes(rename("z"), by(), first).await;
    assert_eq!((first, second), (behind(1), behind(2)));
    let itself = world.boxes(rename("w"), by(), behind(3)).await;
    assert_eq!(itself, behind(3));
    let tree = ask(&world, Target::Event(second.unwrap())).await.unwrap();
    let chain: Vec<_> = tree.causes.iter().map(|node| node.line.pos).collect();
    assert_eq!(chain, [8, 9]);
    assert!(
        tree.effects.is_empty(),
        "what is above is not shown again below"
    );
    let tree = ask(&world, Target::Event(itself.unwrap())).await.unwrap();
    assert_eq!((tree.causes.len(), tree.effects.len()), (1, 0));
}
