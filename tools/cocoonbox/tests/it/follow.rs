//! Events: resumed after breaks, and given to readers who leave.

use std::{path::Path, process::Stdio};

use cocoonbox_events::AgentEvent;
use cocoonbox_proto::log::v1::AgentPromptReceived;
use tokio::io::{AsyncBufReadExt, BufReader};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::{
    fake::{Cut, Fake, key},
    program::Program,
};

fn prompts(fake: &Fake, count: usize) {
    for n in 1..=count {
        let prompt = AgentPromptReceived {
            prompt_id: format!("p{n}"),
            text: "do\nit".into(),
            ..AgentPromptReceived::default()
        };
        fake.log("agent/a1", AgentEvent::PromptReceived(prompt));
    }
}

#[tokio::test]
async fn every_event_once_whatever_breaks() {
    let fake = Fake::new();
    prompts(&fake, 30);
    fake.state()
        .cuts
        .extend([Cut::Error(7), Cut::Error(0), Cut::Error(12)]);
    let run = Program::new(fake.serve().await)
        .run(&["events", "--no-follow"])
        .await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    let keys: Vec<String> = run
        .text()
        .lines()
        .map(|line| line.split(' ').next().unwrap().to_owned())
        .collect();
    assert_eq!(keys, (1..=30).map(key).collect::<Vec<_>>());
    assert!(run.text().starts_with(
        "log.0000000000000001.c0ffee00  -  agent/a1  agent.prompt_received  prompt_id=p1 text=do it\n"
    ));
}

#[tokio::test]
async fn from_and_stream_are_passed_on() {
    let fake = Fake::new();
    prompts(&fake, 3);
    let program = Program::new(fake.serve().await);
    let args = [
        "--json",
        "events",
        "--no-follow",
        "--from",
        &key(2),
        "--stream",
        "agent/",
    ];
    let run = program.run(&args).await;
    let event: serde_json::Value = serde_json::from_str(&run.text()).unwrap();
    assert_eq!(event["payload"]["prompt_id"], "p3");
    let run = program
        .run(&["events", "--no-follow", "--stream", "exec/"])
        .await;
    assert_eq!((run.code, run.text().as_str()), (0, ""));
}

#[tokio::test]
async fn a_reader_that_leaves_ends_it_quietly() {
    let fake = Fake::new();
    prompts(&fake, 5_000);
    let program = Program::new(fake.serve().await);
    let mut command = program.command(Path::new(env!("CARGO_BIN_EXE_cocoonbox")));
    command
        .args(["events"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.next_line().await.unwrap().unwrap();
    drop(lines);
    let output = child.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(141));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[tokio::test]
async fn a_key_of_another_branch_is_said_and_not_retried() {
    let fake = Fake::new();
    let details = ErrorDetails::with_error_info(
        "DIVERGED",
        "cocoonbox",
        std::collections::HashMap::<String, String>::new(),
    );
    let status = Status::with_error_details(
        Code::DataLoss,
        "the history differs from this offset key's at position 7",
        details,
    );
    fake.state().list_error = Some(status);
    let run = Program::new(fake.serve().await).run(&["events"]).await;
    assert_eq!(run.code, 1);
    insta::assert_snapshot!(run.stderr, @"
    error: the history differs from this offset key's at position 7 [DIVERGED]
      the key belongs to another branch of this log; start without `--from`
    ");
    let status: Status = Status::permission_denied("not yours");
    fake.state().list_error = Some(status);
    assert_eq!(
        Program::new(fake.serve().await).run(&["events"]).await.code,
        4
    );
}
