//! `cocoonbox-model`: plays a script to any client of Anthropic Messages, OpenAI Chat Completions or Responses.

use std::io::{IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Parser;
use cocoonbox_model::{Script, Server};

/// A scripted model server for tests and offline demos.
///
/// Speaks Anthropic Messages (POST /v1/messages), OpenAI Chat Completions (POST
/// /v1/chat/completions) and OpenAI Responses (POST /v1/responses), streamed or not, and lists its
/// models (GET /v1/models). It keeps no conversation: the step to play is found in each request.
///
/// Prints `listening on http://HOST:PORT` to standard output once it accepts connections, and a line
/// per request to standard error.
#[derive(Parser)]
#[command(
    version,
    after_help = "Examples:\n  \
        cocoonbox-model                                        play the demo on a free port\n  \
        cocoonbox-model --script flaky.toml --check            check a script\n  \
        cocoonbox-model --script flaky.toml --listen 127.0.0.1:8123\n  \
        ANTHROPIC_BASE_URL=http://127.0.0.1:8123 ANTHROPIC_API_KEY=any my-agent"
)]
struct Args {
    /// The script to play [default: the built-in demo]
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,

    /// The address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,

    /// Print HOST:PORT on a second line, for scripts that would rather not take a URL apart
    #[arg(long)]
    print_addr: bool,

    /// Check the script and exit
    #[arg(long)]
    check: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    tracing_subscriber::fmt()
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    let script = match &args.script {
        Some(path) => Script::load(path).context("`--script` cannot be played")?,
        None => Script::demo(),
    };
    if args.check {
        return Ok(());
    }
    let server = Server::start(script, args.listen).await?;
    announce(&server, args.print_addr).context("standard output")?;
    stop_signal().await.context("signals")?;
    server.shutdown().await;
    Ok(())
}

fn announce(server: &Server, print_addr: bool) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "listening on {}", server.url())?;
    if print_addr {
        writeln!(out, "{}", server.addr())?;
    }
    out.flush()
}

/// Waits for Ctrl-C, or for the termination that process supervisors send.
async fn stop_signal() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted,
        _ = terminate.recv() => Ok(()),
    }
}
