//! Finding out whether a part answers.

use std::{collections::BTreeMap, process::Stdio, time::Duration};

use tokio::{
    net::{TcpStream, UnixStream},
    process::Command,
    time::{sleep, timeout},
};

use super::plan::Ready;

/// A connection costs little, a process does not.
const LOOK: Duration = Duration::from_millis(10);
const LOOK_BY_COMMAND: Duration = Duration::from_millis(50);

/// A command that takes longer than this does not count, and is asked again.
const COMMAND_MAX: Duration = Duration::from_secs(5);

/// Resolves when everything that `ready` names holds, one after the other.
pub(super) async fn holds(ready: &Ready, environment: &BTreeMap<String, String>) {
    if let Some(socket) = &ready.socket {
        while UnixStream::connect(socket).await.is_err() {
            sleep(LOOK).await;
        }
    }
    if let Some(port) = ready.port {
        while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            sleep(LOOK).await;
        }
    }
    if let Some(command) = &ready.command {
        while !succeeds(command, environment).await {
            sleep(LOOK_BY_COMMAND).await;
        }
    }
}

/// Whether a command succeeds. One without words does.
pub(super) async fn succeeds(command: &[String], environment: &BTreeMap<String, String>) -> bool {
    let Some((program, arguments)) = command.split_first() else {
        return true;
    };
    let status = Command::new(program)
        .args(arguments)
        .envs(environment)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .status();
    matches!(timeout(COMMAND_MAX, status).await, Ok(Ok(status)) if status.success())
}
