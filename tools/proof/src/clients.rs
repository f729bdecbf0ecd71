//! Real coding CLIs, one for each wire, against the scripted model: directly, and through our gateway.
//! And our own agent on the same task beside them.

use std::{
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use cocoonbox_model::{Script, Server};

use crate::{
    client::Client,
    gateway::Door,
    own,
    tap::{Next, Tap},
    usage::Usage,
};

/// What to prove it with.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder with the programs `claude`, `codex` and `opencode`; one that is missing is left out.
    #[arg(long)]
    clients: PathBuf,
    /// Our agent's program.
    #[arg(long)]
    agent: PathBuf,
    /// Commands that the task takes, each a step.
    #[arg(long, default_value_t = 20)]
    steps: usize,
    /// Conversations that one agent of ours holds.
    #[arg(long, default_value_t = 1_000)]
    idle: usize,
}

/// What playing the task once took.
struct Played {
    who: String,
    step: Duration,
    wall: Duration,
    usage: Usage,
    /// What is known of ours alone.
    note: String,
}

/// Proves it with every CLI that is there.
pub(crate) async fn prove(args: Args) -> Result<()> {
    let mut out = std::io::stdout();
    let mut figures = Vec::new();
    for client in Client::ALL {
        if !args.clients.join(client.name()).exists() {
            writeln!(out, "{}: not there, left out", client.name())?;
            continue;
        }
        let played = with(&args, client).await.with_context(|| client.name())?;
        for played in played {
            writeln!(
                out,
                "{:<24} step p50 {:>8.2} ms   task {:>8.0} ms   cpu {:>7.0} ms   rss {:>5.0} MB{}",
                played.who,
                played.step.as_secs_f64() * 1e3,
                played.wall.as_secs_f64() * 1e3,
                played.usage.cpu.as_secs_f64() * 1e3,
                mb(played.usage.resident_bytes),
                played.note,
            )?;
            figures.push(played);
        }
    }
    ensure!(!figures.is_empty(), "no CLI is there");
    let said: Vec<String> = figures.iter().map(figure).collect();
    let idle = idle(&args).await.context("idle conversations")?;
    // Cargo names the folder of a program after how it was built.
    let build = args.agent.parent().and_then(Path::file_name);
    let build = build.unwrap_or_default().to_string_lossy();
    writeln!(
        out,
        "proof-agent: {} steps; bodies equal; ours a {build} build; {}; {idle}",
        args.steps,
        said.join("; ")
    )?;
    Ok(())
}

fn mb(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes >> 10).unwrap_or(u32::MAX)) / 1_024.0
}

fn figure(played: &Played) -> String {
    format!(
        "{} {:.1} ms/step {:.0} MB {:.0} ms cpu{}",
        played.who,
        played.step.as_secs_f64() * 1e3,
        mb(played.usage.resident_bytes),
        played.usage.cpu.as_secs_f64() * 1e3,
        played.note
    )
}

/// Plays the task with a CLI, directly and through the gateway, and with our agent.
async fn with(args: &Args, client: Client) -> Result<Vec<Played>> {
    let model = Server::start_local(Script::parse(&script(client.shell(), args.steps))?).await?;
    let direct = Tap::start(Next::Server(model.url())).await?;
    let folder = tempfile::tempdir()?;
    let (wall, usage) = client
        .run(&args.clients, &direct.url(), folder.path())
        .await?;
    done(folder.path(), args.steps)?;
    let one = Played {
        who: format!("{} direct", client.name()),
        step: median(direct.steps())?,
        wall,
        usage,
        note: String::new(),
    };

    // Before the gateway and behind it: what goes in has to come out, both ways.
    let behind = Tap::start(Next::Server(model.url())).await?;
    let door = Door::open(&behind.url()).await?;
    let vendor = client.vendor();
    let before = Tap::start(Next::Door {
        address: door.address,
        vendor,
    })
    .await?;
    let folder = tempfile::tempdir()?;
    let (wall, usage) = client
        .run(&args.clients, &before.url(), folder.path())
        .await?;
    done(folder.path(), args.steps)?;
    equal(&before, &behind, args.steps)?;
    let two = Played {
        who: format!("{} by gateway", client.name()),
        step: median(before.steps())?,
        wall,
        usage,
        note: String::new(),
    };

    Ok(vec![one, two, ours(args, client).await?])
}

/// Plays the task with our agent, through the gateway, on the wire of a CLI.
async fn ours(args: &Args, client: Client) -> Result<Played> {
    let script = Script::parse(&script(("shell", "command"), args.steps))?;
    let model = Server::start_local(script).await?;
    let behind = Tap::start(Next::Server(model.url())).await?;
    let door = Door::open(&behind.url()).await?;
    let before = Tap::start(Next::Door {
        address: door.address,
        vendor: client.vendor(),
    })
    .await?;
    let folder = tempfile::tempdir()?;
    let turn = own::run(&args.agent, client.wire(), before.address, folder.path()).await?;
    done(folder.path(), args.steps)?;
    equal(&before, &behind, args.steps)?;
    let steps = before.steps();
    ensure!(
        steps.len() == turn.commands.len(),
        "{} steps with {} commands",
        steps.len(),
        turn.commands.len()
    );
    let mut without = Vec::new();
    for (step, command) in steps.iter().zip(&turn.commands) {
        without.push(step.saturating_sub(*command));
    }
    let note = format!(
        ", {:.1} ms/step without the command, agent {:.0} MB, toolhost {:.0} MB",
        median(without)?.as_secs_f64() * 1e3,
        mb(turn.agent.resident_bytes),
        mb(turn.toolhost.resident_bytes),
    );
    Ok(Played {
        who: format!("ours, {}", client.wire()),
        step: median(steps)?,
        wall: turn.wall,
        usage: Usage {
            cpu: turn.agent.cpu + turn.toolhost.cpu,
            resident_bytes: turn.agent.resident_bytes + turn.toolhost.resident_bytes,
        },
        note,
    })
}

/// Conversations that have nothing to do, all in one agent.
async fn idle(args: &Args) -> Result<String> {
    let script = Script::parse("[[conversation]]\n[[conversation.step]]\ntext = \"done\"\n")?;
    let model = Server::start_local(script).await?;
    let tap = Tap::start(Next::Server(model.url())).await?;
    let folder = tempfile::tempdir()?;
    let (before, after) = own::idle(&args.agent, tap.address, folder.path(), args.idle).await?;
    Ok(format!(
        "{} idle conversations in {:.0} MB, none in {:.0} MB",
        args.idle,
        mb(after),
        mb(before)
    ))
}

/// One command a step, each of which leaves a line.
fn script((tool, argument): (&str, &str), steps: usize) -> String {
    use std::fmt::Write as _;
    let mut script = "[[conversation]]\n".to_owned();
    for step in 0..steps {
        let _ = write!(
            script,
            "[[conversation.step]]\nthinking = \"Number {step} is next.\"\ntools = [{{ name = \"{tool}\", args = {{ {argument} = \"echo {step} >> steps\" }} }}]\n"
        );
    }
    script + "[[conversation.step]]\ntext = \"done\"\n"
}

fn done(folder: &Path, steps: usize) -> Result<()> {
    let made = std::fs::read_to_string(folder.join("project/steps")).unwrap_or_default();
    let numbers: Vec<String> = made.lines().map(str::to_owned).collect();
    let expected: Vec<String> = (0..steps).map(|step| step.to_string()).collect();
    ensure!(numbers == expected, "the task is not done: {made:?}");
    Ok(())
}

/// Every exchange is the same on both sides of the gateway, byte for byte.
fn equal(before: &Tap, behind: &Tap, steps: usize) -> Result<()> {
    let calls = |tap: &Tap| -> Vec<_> {
        let all = tap.seen().into_iter();
        all.filter(|exchange| exchange.path.starts_with("/v1/"))
            .collect()
    };
    let (before, behind) = (calls(before), calls(behind));
    ensure!(
        before.len() == behind.len(),
        "{} requests became {}",
        before.len(),
        behind.len()
    );
    ensure!(
        before.iter().filter(|e| e.is_call()).count() > steps,
        "too few calls"
    );
    for (one, other) in before.iter().zip(&behind) {
        ensure!(
            one.path == other.path,
            "`{}` became `{}`",
            one.path,
            other.path
        );
        ensure!(
            one.request == other.request,
            "a request to `{}` was changed",
            one.path
        );
        ensure!(
            one.answer == other.answer,
            "an answer of `{}` was changed",
            one.path
        );
        ensure!(
            one.status == other.status,
            "a status of `{}` was changed",
            one.path
        );
    }
    Ok(())
}

fn median(mut steps: Vec<Duration>) -> Result<Duration> {
    steps.sort();
    steps.get(steps.len() / 2).copied().context("no steps")
}
