//! The demo, played to an agent loop whose tools really run.

use std::fs;
use std::path::Path;
use std::process::Command;

use cocoonbox_model::{Script, Server};
use serde_json::Value;

use crate::agent::{Agent, Wire};

const TOOLS: [&str; 6] = ["shell", "read", "write", "edit", "ls", "grep"];

/// The demo without its pauses.
fn demo() -> Script {
    let mut script = Script::demo();
    script.chunk_delay_ms = 0;
    for step in script
        .conversations
        .iter_mut()
        .flat_map(|block| &mut block.steps)
    {
        step.chunk_delay_ms = None;
    }
    script
}

fn installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

/// Runs a tool with `/workspace` moved to `root`.
fn run(root: &Path, name: &str, args: &Value) -> String {
    let moved = |text: &str| text.replace("/workspace", root.to_str().unwrap());
    let arg = |key: &str| {
        moved(
            args[key]
                .as_str()
                .unwrap_or_else(|| panic!("{name}: no `{key}`")),
        )
    };
    let shell = |command: &str| {
        let output = Command::new("sh").args(["-c", command]).output().unwrap();
        format!(
            "{}{}\nexit code: {}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
            output.status.code().unwrap()
        )
    };
    match name {
        "shell" if args["background"] == true => "started".to_owned(),
        "shell" => shell(&arg("command")),
        "read" => fs::read_to_string(arg("path")).unwrap(),
        "write" => {
            let path = arg("path");
            fs::create_dir_all(Path::new(&path).parent().unwrap()).unwrap();
            fs::write(path, args["content"].as_str().unwrap()).unwrap();
            "written".to_owned()
        }
        "edit" => {
            let text = fs::read_to_string(arg("path")).unwrap();
            let old = args["old"].as_str().unwrap();
            assert_eq!(text.matches(old).count(), 1);
            fs::write(
                arg("path"),
                text.replace(old, args["new"].as_str().unwrap()),
            )
            .unwrap();
            "edited".to_owned()
        }
        "ls" => shell(&format!("ls -a '{}'", arg("path"))),
        "grep" => shell(&format!("grep -rn '{}' '{}'", arg("pattern"), arg("path"))),
        other => panic!("the demo calls `{other}`"),
    }
}

/// Plays the project twice in one box and returns the last text and the calls made.
async fn play(server: &Server, wire: Wire, root: &Path) -> (String, Vec<(String, String)>) {
    let mut agent = Agent::new(server, wire, &TOOLS);
    let mut calls = Vec::new();
    let mut last = String::new();
    for _ in 0..2 {
        let mut heard = agent.prompt("Set up a small Project, please.").await;
        while !heard.calls.is_empty() {
            let mut results = Vec::new();
            for call in heard.calls {
                let args = serde_json::from_str(&call.arguments).unwrap();
                results.push((call.id, run(root, &call.name, &args)));
                calls.push((call.name, call.arguments));
            }
            heard = agent.answer(&results).await;
        }
        last = heard.text;
    }
    (last, calls)
}

#[tokio::test]
async fn the_project_is_made_and_both_wires_agree() {
    if !installed("python3") || !installed("git") {
        eprintln!("skipped: the demo needs python3 and git");
        return;
    }
    let server = Server::start_local(demo()).await.unwrap();
    let mut plays = Vec::new();
    for wire in [Wire::Anthropic, Wire::OpenAi] {
        let root = tempfile::tempdir().unwrap();
        let (last, calls) = play(&server, wire, root.path()).await;
        assert!(
            last.starts_with("The project is ready in /workspace/greeter"),
            "{last}"
        );
        let module = fs::read_to_string(root.path().join("greeter/greeter.py")).unwrap();
        assert!(module.contains("name.strip() or \"world\""));
        plays.push(calls);
    }
    assert_eq!(plays[0], plays[1]);
    let steps: Vec<usize> = server
        .requests()
        .iter()
        .map(|request| request.position.unwrap().step)
        .collect();
    assert_eq!(steps[..8], [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[tokio::test]
async fn any_other_prompt_is_told_what_this_is() {
    let server = Server::start_local(demo()).await.unwrap();
    let heard = Agent::new(&server, Wire::Anthropic, &TOOLS)
        .prompt("my secret is 1234")
        .await;
    assert!(
        heard.text.starts_with("Hello! I am a scripted model"),
        "{}",
        heard.text
    );
    assert!(!heard.text.contains("1234"));
}
