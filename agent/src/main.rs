//! `cocoonbox-agent`: `init`, `serve`, `toolhost` and `desktop` of a box.

#![forbid(unsafe_code)]

use std::{
    ffi::OsStr,
    net::SocketAddr,
    os::{fd::AsFd, unix::net::UnixListener},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Context;
use clap::{Parser, Subcommand};
use cocoonbox_agent::{
    desktop, init, serve, supervise,
    toolhost::{self, Peers, Roots},
};
use cocoonbox_events::{Ids, SystemIds};
use rustix::process::{Resource, Rlimit};
use tokio::{
    runtime::{Builder, Runtime},
    signal::unix::{SignalKind, signal},
};
use tokio_util::sync::CancellationToken;

/// What lives in a box.
#[derive(Parser)]
#[command(version)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Process 1: prepares the box, starts the other two and keeps them running.
    Init,
    /// The turn loop, the box's log and its gRPC server.
    Serve(ServeOptions),
    /// Runs commands and touches files as the user it runs as.
    Toolhost(ToolhostOptions),
    /// Starts what shows the desktop, and keeps it running.
    Desktop(DesktopOptions),
}

#[derive(clap::Args)]
struct ServeOptions {
    /// Who this box is; written by the api.
    #[arg(long, default_value = "/run/cocoonbox-identity/identity")]
    identity: PathBuf,
    /// Folder of the log.
    #[arg(long, default_value = "/var/lib/cocoonbox")]
    data: PathBuf,
    /// Address of the gRPC server. With port 0 the address is the first line on standard output.
    #[arg(long, default_value = "127.0.0.1:7443")]
    listen: SocketAddr,
    /// Socket of the toolhost.
    #[arg(long, default_value = "/run/cocoonbox/toolhost.sock")]
    toolhost: PathBuf,
    /// Socket of the desktop, where there is one.
    #[arg(long, default_value = "/run/cocoonbox/desktop.sock")]
    desktop: PathBuf,
    /// The door through which models are reached.
    #[arg(long, default_value = "127.0.0.1:3128")]
    door: SocketAddr,
    #[arg(long, hide = true, env = "COCOONBOX_CRASH_AT", default_value_t = 0)]
    crash_at: u64,
    #[arg(long, hide = true, env = "COCOONBOX_CRASH_AFTER", default_value_t = 0)]
    crash_after: u64,
}

#[derive(clap::Args)]
struct ToolhostOptions {
    /// Take the listening socket from standard input, as init gives it.
    #[arg(long, conflicts_with = "socket")]
    socket_on_stdin: bool,
    /// Make the listening socket here.
    #[arg(long, required_unless_present = "socket_on_stdin")]
    socket: Option<PathBuf>,
    /// The uid that may call, besides root and our own.
    #[arg(long, default_value_t = 990)]
    agent_uid: u32,
    #[arg(long, default_value = "/workspace")]
    workspace: String,
    #[arg(long, default_value = "/home/user")]
    home: String,
    #[arg(long, default_value = "/tmp")]
    temporary: String,
    /// The door through which everything outside is reached.
    #[arg(long, default_value = "127.0.0.1:3128")]
    door: SocketAddr,
    /// The plan of the desktop, where there is one.
    #[arg(long, default_value = desktop::PLAN_PATH)]
    plan: PathBuf,
}

#[derive(clap::Args)]
struct DesktopOptions {
    /// What there is to start.
    #[arg(long, default_value = desktop::PLAN_PATH)]
    plan: PathBuf,
    /// Take the listening socket from standard input, as init gives it.
    #[arg(long, conflicts_with = "socket")]
    socket_on_stdin: bool,
    /// Make the listening socket here.
    #[arg(long, required_unless_present = "socket_on_stdin")]
    socket: Option<PathBuf>,
}

fn main() -> ExitCode {
    let name = std::env::args_os().next();
    if name.as_deref() == Some(OsStr::new(supervise::NAME)) {
        return supervise::main();
    }
    if name.as_deref() == Some(OsStr::new(toolhost::convert::NAME)) {
        return toolhost::convert::main();
    }
    tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .init();
    match run(Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: Options) -> anyhow::Result<()> {
    match options.command {
        Command::Init => Ok(single_threaded()?.block_on(init::run(init::Layout::default()))?),
        Command::Serve(options) => run_serve(options),
        Command::Toolhost(options) => run_toolhost(options),
        Command::Desktop(options) => run_desktop(options),
    }
}

fn run_serve(options: ServeOptions) -> anyhow::Result<()> {
    // The log is nobody else's to read.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    raise_files();
    let config = serve::Config {
        identity: options.identity,
        data: options.data,
        listen: options.listen,
        toolhost: options.toolhost,
        desktop: options.desktop,
        door: options.door,
        crash_at: options.crash_at,
        crash_after: options.crash_after,
    };
    let announce = config.listen.port() == 0;
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let stop = stop_on_signals()?;
        let ready = |address: SocketAddr| {
            tracing::info!(%address, "answering");
            if announce {
                use std::io::Write;
                writeln!(std::io::stdout(), "{address}").ok();
            }
        };
        Ok(serve::serve(config, stop, ready).await?)
    })
}

fn run_toolhost(options: ToolhostOptions) -> anyhow::Result<()> {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    raise_files();
    // What a killed supervisor leaves comes to us instead of to init.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let listener = listener(options.socket)?;
    // A plan that cannot be followed is the desktop's business: commands go on without it.
    let plan = desktop::Plan::read(&options.plan).ok().flatten();
    let config = toolhost::Config {
        roots: Roots::new(&options.workspace, &options.home, &options.temporary),
        peers: Peers::new(options.agent_uid),
        supervisor: "/proc/self/exe".into(),
        door: format!("http://{}", options.door),
        environment: plan.map(|plan| plan.environment).unwrap_or_default(),
    };
    single_threaded()?.block_on(async {
        let stop = stop_on_signals()?;
        Ok(toolhost::serve(listener, config, stop).await?)
    })
}

fn run_desktop(options: DesktopOptions) -> anyhow::Result<()> {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let Some(plan) = desktop::Plan::read(&options.plan)? else {
        anyhow::bail!("there is no plan at `{}`", options.plan.display());
    };
    let listener = listener(options.socket)?;
    let session = SystemIds.draw().simple().to_string();
    single_threaded()?.block_on(async {
        let stop = stop_on_signals()?;
        Ok(desktop::serve(plan, session, listener, stop).await?)
    })
}

/// Makes the socket, or takes the one that init gave.
fn listener(socket: Option<PathBuf>) -> anyhow::Result<UnixListener> {
    Ok(match socket {
        Some(path) => UnixListener::bind(&path).with_context(|| format!("{}", path.display()))?,
        None => UnixListener::from(std::io::stdin().as_fd().try_clone_to_owned()?),
    })
}

fn single_threaded() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

fn stop_on_signals() -> std::io::Result<CancellationToken> {
    let stop = CancellationToken::new();
    let mut term = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let told = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = interrupt.recv() => {}
        }
        told.cancel();
    });
    Ok(stop)
}

/// Each command costs a handful of descriptors; commands themselves get the usual limit back.
fn raise_files() {
    let now = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: now.maximum,
        maximum: now.maximum,
    };
    if let Err(error) = rustix::process::setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "limit of open files not raised");
    }
}
