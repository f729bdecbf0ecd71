//! Our agent with a real model: the chat wire as a server speaks it that we did not write.

use std::{io::Write, path::PathBuf, process::Stdio, time::Duration};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::timeout,
};

use crate::{
    own,
    tap::{Exchange, Next, Tap},
};

/// To load the weights.
const START_MAX: Duration = Duration::from_mins(2);

/// What to prove it with.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Our agent's program.
    #[arg(long)]
    agent: PathBuf,
    /// A Python with xllamacpp.
    #[arg(long)]
    python: PathBuf,
    /// `model.py`.
    #[arg(long)]
    server: PathBuf,
    #[arg(long)]
    weights: PathBuf,
}

/// Has the agent do one task.
pub(crate) async fn prove(args: Args) -> Result<()> {
    let (_server, port) = server(&args).await?;
    let tap = Tap::start(Next::Server(format!("http://127.0.0.1:{port}"))).await?;
    let folder = tempfile::tempdir()?;
    let turn = own::run(&args.agent, "openai", tap.address, folder.path()).await?;
    let calls: Vec<_> = tap.seen().into_iter().filter(Exchange::is_call).collect();
    ensure!(
        calls.len() >= 2,
        "the model was asked {} times",
        calls.len()
    );
    let command = command(&calls[1].request)?;
    let (printed, words) = (result(&calls[1].request)?, words(&calls[1].answer));
    let said = command.trim_start_matches("echo ").to_owned();
    ensure!(printed.contains(&said), "`{command}` printed `{printed}`");
    ensure!(!words.is_empty(), "the model said nothing in the end");
    writeln!(
        std::io::stdout(),
        "proof-model: a real model ran `{command}` and said `{}`; {} calls in {:.0} s, agent {:.0} ms cpu",
        words.trim().replace('\n', " "),
        calls.len(),
        turn.wall.as_secs_f64(),
        turn.agent.cpu.as_secs_f64() * 1e3,
    )?;
    Ok(())
}

async fn server(args: &Args) -> Result<(Child, u16)> {
    let mut server = Command::new(&args.python)
        .arg(&args.server)
        .arg(&args.weights)
        .arg("0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .context("starting the model")?;
    let mut lines = BufReader::new(server.stdout.take().context("a pipe")?).lines();
    let listening = async {
        while let Some(line) = lines.next_line().await? {
            if let Some(port) = line.strip_prefix("listening ") {
                return Ok(port.trim().parse()?);
            }
        }
        anyhow::bail!("the model ended")
    };
    let port = timeout(START_MAX, listening)
        .await
        .context("the model does not start")??;
    Ok((server, port))
}

fn messages(request: &[u8]) -> Result<Vec<Value>> {
    let request: Value = serde_json::from_slice(request)?;
    Ok(request["messages"].as_array().cloned().unwrap_or_default())
}

/// The command that the model asked for, as the agent told it back.
fn command(request: &[u8]) -> Result<String> {
    let messages = messages(request)?;
    let call = messages
        .iter()
        .find_map(|message| message["tool_calls"][0]["function"]["arguments"].as_str());
    let args: Value = serde_json::from_str(call.context("no call")?)?;
    Ok(args["command"].as_str().context("no command")?.to_owned())
}

/// What that command printed.
fn result(request: &[u8]) -> Result<String> {
    let messages = messages(request)?;
    let result = messages.iter().find(|message| message["role"] == "tool");
    Ok(result.context("no result")?["content"].to_string())
}

/// The text of a streamed answer.
fn words(answer: &[u8]) -> String {
    let answer = String::from_utf8_lossy(answer);
    let chunks = answer
        .lines()
        .filter_map(|line| line.strip_prefix("data: "));
    let chunks = chunks.filter_map(|data| serde_json::from_str::<Value>(data).ok());
    chunks
        .filter_map(|chunk| {
            chunk["choices"][0]["delta"]["content"]
                .as_str()
                .map(str::to_owned)
        })
        .collect()
}
