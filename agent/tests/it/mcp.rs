//! MCP servers: what they offer reaches the model, what they do wrong reaches nobody.

use std::{fmt::Write, path::Path, time::Duration};

use cocoonbox_events::{AgentEvent, ExecEvent, Payload};
use cocoonbox_proto::{
    agent::v1::{AgentRef, SendRequest},
    log::v1::{
        AgentToolFinished, Event, Risk, Verdict, agent_tool_finished::Outcome, agent_turn_ended,
        exec_exited::Reason,
    },
};
use tokio::{
    process::{Child, Command},
    time::Instant,
};

use crate::{
    turns::results,
    world::{DEADLINE, World, eventually, payload, processes_with, resident_bytes},
};

const SERVER: &str = include_str!("mcp_server.py");

/// Puts the test's server into the workspace under names that stand for its modes.
fn set_up(world: &World, modes: &[&str]) {
    let folder = world.workspace();
    std::fs::create_dir_all(folder.join(".cocoonbox")).expect("a folder");
    std::fs::write(folder.join("server.py"), SERVER).expect("a write");
    let servers: serde_json::Map<_, _> = modes
        .iter()
        .map(|mode| {
            let home = folder.join(mode);
            std::fs::create_dir_all(&home).expect("a folder");
            let args = serde_json::json!([folder.join("server.py"), mode, home]);
            let server =
                serde_json::json!({ "command": "python3", "args": args, "env": { "MARK": "m1" } });
            ((*mode).to_owned(), server)
        })
        .collect();
    configure(world, &serde_json::json!({ "mcpServers": servers }));
}

pub(crate) fn configure(world: &World, config: &serde_json::Value) {
    let path = world.workspace().join(".cocoonbox/mcp.json");
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    std::fs::write(path, config.to_string()).expect("a write");
}

/// A server on a port of this machine, which is returned with it.
pub(crate) async fn elsewhere(folder: &Path, mode: &str) -> (Child, String) {
    std::fs::write(folder.join("server.py"), SERVER).expect("a write");
    let server = Command::new("python3")
        .arg(folder.join("server.py"))
        .arg(mode)
        .arg(folder)
        .kill_on_drop(true)
        .spawn()
        .expect("a server");
    let port = folder.join("port");
    eventually("it listens", || port.exists()).await;
    (server, crate::world::read(&port))
}

/// A conversation of one call a step.
pub(crate) fn script(calls: &[(&str, &str)]) -> String {
    let mut script = "[[conversation]]\n".to_owned();
    for (name, args) in calls {
        let _ = write!(
            script,
            "[[conversation.step]]\ntools = [{{ name = \"{name}\", raw_args = '''{args}''' }}]\n"
        );
    }
    script + "[[conversation.step]]\ntext = \"done\"\n"
}

pub(crate) async fn done(world: &World) -> Vec<Event> {
    world.send("go").await;
    let events = world.until_kind("agent.turn_ended").await;
    let Payload::Agent(AgentEvent::TurnEnded(ended)) = payload(events.last().expect("an end"))
    else {
        panic!("another event")
    };
    assert_eq!(
        ended.outcome(),
        agent_turn_ended::Outcome::Done,
        "{}",
        ended.detail
    );
    events
}

async fn played(modes: &[&str], calls: &[(&str, &str)]) -> (World, Vec<AgentToolFinished>) {
    let world = World::new("anthropic", &script(calls)).await;
    set_up(&world, modes);
    let results = results(&done(&world).await);
    assert_eq!(results.len(), calls.len());
    (world, results)
}

fn offered(world: &World, call: usize) -> Vec<serde_json::Value> {
    let requests = world.model.requests();
    requests[call].body["tools"]
        .as_array()
        .expect("tools")
        .clone()
}

fn names(tools: &[serde_json::Value]) -> Vec<&str> {
    tools
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect()
}

#[tokio::test]
async fn a_local_server_offers_its_tools_and_is_run_as_the_user() {
    let mark = &blake3::hash(b"good\0whoami.now").to_hex()[..8];
    let whoami = format!("mcp__good__whoami_now_{mark}");
    let calls = [
        ("mcp__good__echo", r#"{"text":"hi"}"#),
        ("mcp__good__add", r#"{"a":"20","b":22}"#),
        ("mcp__good__add", r#"{"a":"many"}"#),
        ("mcp__good__picture", "{}"),
        ("mcp__good__fail", "{}"),
        ("mcp__good__big", r#"{"bytes":3000000}"#),
        (whoami.as_str(), "{}"),
        ("mcp_servers", "{}"),
    ];
    let (world, results) = played(&["good"], &calls).await;
    let said: Vec<_> = results.iter().map(|r| r.content.as_str()).collect();
    assert_eq!(said[0], "you said hi");
    assert!(said[1].ends_with("{\"sum\":42}"), "{}", said[1]);
    assert!(said[1].contains("repaired"), "{}", said[1]);
    assert_eq!(results[2].outcome(), Outcome::Error);
    assert!(said[2].contains("`b` is missing"), "{}", said[2]);
    assert_eq!(results[3].images.len(), 1, "{results:?}");
    assert_eq!(
        (results[4].outcome(), said[4]),
        (Outcome::Error, "it went wrong")
    );
    assert!(said[5].len() < 100_000 && !results[5].blob.is_empty());
    assert!(
        said[6].contains("\"mark\": \"m1\"") && said[6].contains("3128"),
        "{}",
        said[6]
    );
    assert!(said[7].contains("good: 12 tools"), "{}", said[7]);
    let tools = offered(&world, 0);
    let odd = tools
        .iter()
        .find(|tool| tool["name"] == "mcp__good__odd")
        .expect("it is there");
    assert_eq!(
        odd["input_schema"],
        serde_json::json!({ "type": "object", "properties": {} })
    );
    for tool in &tools {
        let name = tool["name"].as_str().expect("a name");
        cocoonbox_agent::args::Schema::new(&tool["input_schema"]).expect(name);
        assert_eq!(tool["input_schema"]["type"], "object", "{name}");
    }
    assert_eq!(
        crate::world::read(&world.workspace().join("good/started")),
        "x"
    );
}

#[tokio::test]
async fn a_server_may_add_tools_and_die_and_come_again() {
    let calls = [
        ("mcp__good__grow", "{}"),
        ("mcp__good__die", "{}"),
        ("mcp__good__echo", r#"{"text":"again"}"#),
    ];
    let (world, results) = played(&["good"], &calls).await;
    assert_eq!(results[1].outcome(), Outcome::Error);
    let said = &results[1].content;
    assert!(said.contains("what the call did is not known"), "{said}");
    assert!(
        said.contains("exit code 3") && said.contains("out of luck"),
        "{said}"
    );
    assert_eq!(results[2].content, "you said again");
    assert_eq!(
        crate::world::read(&world.workspace().join("good/started")),
        "xx"
    );
    assert!(!names(&offered(&world, 0)).contains(&"mcp__good__grown"));
    // Both starts are in the log, without what follows the program's name.
    let events = world.events().await;
    let of_servers = events
        .iter()
        .filter(|event| event.stream.starts_with("exec/mcp-good-"));
    let (mut started, mut exited) = (Vec::new(), Vec::new());
    for event in of_servers {
        match payload(event) {
            Payload::Exec(ExecEvent::Started(one)) => started.push(one),
            Payload::Exec(ExecEvent::Exited(one)) => exited.push(one),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(started.len(), 2);
    assert_ne!(started[0].exec_id, started[1].exec_id);
    assert!(started[0].pipe);
    assert_eq!(
        started[0].argv,
        ["python3", "[3 arguments, see .cocoonbox/mcp.json]"]
    );
    assert_eq!(
        (exited.len(), exited[0].reason(), exited[0].code),
        (1, Reason::Exited, 3)
    );
    assert!(
        exited[0]
            .stdout
            .as_ref()
            .is_some_and(|one| one.total_bytes > 0)
    );
}

#[tokio::test]
async fn a_servers_hint_is_asked_about_though_its_name_is_harmless() {
    let calls = [("mcp__good__raze", "{}"), ("mcp__good__delete_all", "{}")];
    let world = World::new("anthropic", &script(&calls)).await;
    set_up(&world, &["good"]);
    // Whatever else these tools do is allowed.
    crate::people::rule(&world, Risk::Destructive, Verdict::Deny).await;
    let events = done(&world).await;
    let outcomes: Vec<_> = results(&events)
        .iter()
        .map(AgentToolFinished::outcome)
        .collect();
    // The second says of itself that it only reads.
    assert_eq!(outcomes, [Outcome::Denied, Outcome::Denied], "{events:?}");
}

#[tokio::test]
async fn a_cancel_reaches_the_server() {
    let world = World::new("anthropic", &script(&[("mcp__good__slow", "{}")])).await;
    set_up(&world, &["good"]);
    world.send("go").await;
    let slow = world.workspace().join("good");
    eventually("it runs", || slow.join("slow.started").exists()).await;
    let before = Instant::now();
    let main = AgentRef {
        agent_id: "main".to_owned(),
    };
    world.agents().cancel(main).await.expect("cancelled");
    let events = world.until_kind("agent.turn_ended").await;
    assert!(before.elapsed() < Duration::from_secs(5));
    assert_eq!(results(&events)[0].outcome(), Outcome::Cancelled);
    eventually("it was told", || slow.join("slow.cancelled").exists()).await;
}

#[tokio::test]
async fn hostile_servers_are_told_of_and_cost_little() {
    let modes = [
        "garbage", "endless", "mute", "ends", "flood", "many", "turning", "chatty",
    ];
    let calls = [
        ("mcp__chatty__echo", r#"{"text":"hi"}"#),
        ("mcp_servers", "{}"),
    ];
    let world = World::new("anthropic", &script(&calls)).await;
    set_up(&world, &modes);
    let results = results(&done(&world).await);
    assert_eq!(results[0].content, "you said hi");
    let said = &results[1].content;
    let line = |name: &str| {
        said.lines()
            .find(|line| line.starts_with(name))
            .unwrap_or(said)
    };
    assert!(line("garbage").contains("was not MCP"), "{said}");
    assert!(line("endless").contains("was not MCP"), "{said}");
    assert!(line("mute").contains("is being started"), "{said}");
    assert!(
        line("ends").contains("exit code 1") && line("ends").contains("no licence"),
        "{said}"
    );
    assert!(line("flood").contains("without end"), "{said}");
    assert!(
        line("many").contains("128 tools and 9872 left out"),
        "{said}"
    );
    assert!(line("turning").contains("12 tools"), "{said}");
    assert!(resident_bytes(world.serve_pid()) < 200 << 20);
}

#[tokio::test]
async fn a_server_elsewhere_is_reached_through_the_door_and_one_in_the_box_directly() {
    let calls = [
        ("mcp__far__echo", r#"{"text":"hi"}"#),
        ("mcp__near__echo", r#"{"text":"ho"}"#),
        ("mcp_servers", "{}"),
    ];
    let world = World::new("anthropic", &script(&calls)).await;
    let (mut server, port) = elsewhere(&world.workspace(), "http").await;
    let headers = serde_json::json!({ "X-Team": "t1" });
    configure(
        &world,
        &serde_json::json!({ "mcpServers": {
            // A name that only the door of the test knows.
            "far": { "type": "http", "url": format!("http://port-{port}.test/mcp"), "headers": headers },
            "near": { "url": format!("http://127.0.0.1:{port}/mcp"), "headers": headers },
            "shut": { "url": format!("http://127.0.0.1:{port}/mcp") },
            "gone": { "url": "http://127.0.0.1:1/mcp" },
        } }),
    );
    let results = results(&done(&world).await);
    assert_eq!(results[0].content, "you said hi");
    assert_eq!(results[1].content, "you said ho");
    let said = &results[2].content;
    assert!(
        said.contains("far: 12 tools") && said.contains("near: 12 tools"),
        "{said}"
    );
    assert!(said.contains("gone: 0 tools; does not work"), "{said}");
    assert!(said.contains("shut: 0 tools; does not work"), "{said}");
    server.kill().await.expect("killed");
}

#[tokio::test]
async fn what_is_taken_out_of_the_file_is_stopped() {
    let world = World::new("anthropic", &script(&[])).await;
    set_up(&world, &["good"]);
    done(&world).await;
    let running = world.workspace().join("good").display().to_string();
    assert!(!processes_with(&running).is_empty());
    configure(
        &world,
        &serde_json::json!({ "mcpServers": { "bad": { "url": "ftp://x" } } }),
    );
    // The file is looked at while there are turns.
    let deadline = Instant::now() + DEADLINE;
    for nonce in 0.. {
        if processes_with(&running).is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "it still runs");
        let request = SendRequest {
            prompt: "go".to_owned(),
            client_nonce: format!("again-{nonce}"),
            ..SendRequest::default()
        };
        world.agents().send(request).await.expect("accepted");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
