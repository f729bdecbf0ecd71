//! `cocoonbox-agent`: `init`, `serve`, `toolhost`, `desktop`, `browser` and `computer` of a box.

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
    browser, computer, desktop, init, serve, supervise,
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
    /// Holds the browser while somebody wants it.
    Browser(BrowserOptions),
    /// Looks at the display and acts on it for agents, while one wants to.
    Computer(ComputerOptions),
    /// Starts the browser for a person. Ends with code 3 if it runs already.
    Browse(BrowseOptions),
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
    /// Where the browser is asked for, where there is one.
    #[arg(long, default_value = browser::SOCKET)]
    browser: PathBuf,
    /// Where the display is acted on, where there is one.
    #[arg(long, default_value = computer::SOCKET)]
    computer: PathBuf,
    /// The plan of the desktop, where there is one.
    #[arg(long, default_value = desktop::PLAN_PATH)]
    plan: PathBuf,
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
struct BrowserOptions {
    /// Take the listening socket from standard input, as `desktop` gives it.
    #[arg(long, conflicts_with = "socket")]
    socket_on_stdin: bool,
    /// Make the listening socket here.
    #[arg(long, required_unless_present = "socket_on_stdin")]
    socket: Option<PathBuf>,
    /// What starts Chromium.
    #[arg(long, default_value = browser::PROGRAM)]
    program: PathBuf,
    /// Its downloads go beneath it.
    #[arg(long, default_value = "/home/user")]
    home: PathBuf,
    /// The uid of the agents' loop.
    #[arg(long, default_value_t = 990)]
    agent_uid: u32,
    /// Seconds without a call after which a browser that no person has a page in is ended.
    #[arg(long, default_value_t = 900)]
    idle_s: u64,
}

#[derive(clap::Args)]
struct ComputerOptions {
    /// Take the listening socket from standard input, as `desktop` gives it.
    #[arg(long, conflicts_with = "socket")]
    socket_on_stdin: bool,
    /// Make the listening socket here.
    #[arg(long, required_unless_present_any = ["socket_on_stdin", "put_away"])]
    socket: Option<PathBuf>,
    /// Only take away what one that was killed has left at the display.
    #[arg(long)]
    put_away: bool,
    /// The uid of the agents' loop.
    #[arg(long, default_value_t = 990)]
    agent_uid: u32,
    /// Seconds without a call after which it ends.
    #[arg(long, default_value_t = 900)]
    idle_s: u64,
}

#[derive(clap::Args)]
struct BrowseOptions {
    #[arg(long, default_value = browser::SOCKET)]
    socket: PathBuf,
    /// Addresses and options, as for the browser itself.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

#[derive(clap::Args)]
struct DesktopOptions {
    /// Standard output gives the listening sockets of the parts that are on demand.
    #[arg(long)]
    sockets_on_stdout: bool,
    /// What there is to start.
    #[arg(long, default_value = desktop::PLAN_PATH)]
    plan: PathBuf,
    /// Keep the display of this number that an agent has for itself. Standard input is the socket where it is
    /// looked at and acted on.
    #[arg(long, conflicts_with_all = ["socket", "sockets_on_stdout"])]
    private: Option<u32>,
    /// Take the listening socket from standard input, as init gives it.
    #[arg(long, conflicts_with = "socket")]
    socket_on_stdin: bool,
    /// Make the listening socket here.
    #[arg(long, required_unless_present_any = ["socket_on_stdin", "private"])]
    socket: Option<PathBuf>,
}

/// As `browse` ends where the browser runs already.
const RUNS_ALREADY: u8 = 3;

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
        Ok(code) => code,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: Options) -> anyhow::Result<ExitCode> {
    match options.command {
        Command::Init => single_threaded()?.block_on(init::run(init::Layout::default()))?,
        Command::Serve(options) => run_serve(options)?,
        Command::Toolhost(options) => run_toolhost(options)?,
        Command::Desktop(options) => run_desktop(options)?,
        Command::Browser(options) => run_browser(options)?,
        Command::Computer(options) => run_computer(options)?,
        Command::Browse(options) => return run_browse(options),
    }
    Ok(ExitCode::SUCCESS)
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
        browser: options.browser,
        computer: options.computer,
        // One that cannot be followed is the desktop's business.
        plan: desktop::Plan::read(&options.plan).ok().flatten(),
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
    if let Some(number) = options.private {
        let plan = plan.private(number);
        let plan =
            plan.with_context(|| format!("the plan has no display {number} for an agent"))?;
        return single_threaded()?.block_on(async {
            let stop = stop_on_signals()?;
            Ok(desktop::serve_private(plan, listener, stop).await?)
        });
    }
    let wanted = if options.sockets_on_stdout {
        desktop::handed::take(&std::io::stdout().as_fd().try_clone_to_owned()?)?
    } else {
        Vec::new()
    };
    let session = SystemIds.draw().simple().to_string();
    single_threaded()?.block_on(async {
        let stop = stop_on_signals()?;
        Ok(desktop::serve(plan, session, listener, wanted, stop).await?)
    })
}

fn run_browser(options: BrowserOptions) -> anyhow::Result<()> {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let listener = listener(options.socket)?;
    let config = browser::Config {
        program: options.program,
        home: options.home,
        agent_uid: options.agent_uid,
        idle: std::time::Duration::from_secs(options.idle_s),
    };
    single_threaded()?.block_on(async {
        let stop = stop_on_signals()?;
        Ok(browser::serve(listener, config, stop).await?)
    })
}

fn run_computer(options: ComputerOptions) -> anyhow::Result<()> {
    if options.put_away {
        return Ok(computer::put_away()?);
    }
    if options.socket_on_stdin {
        // Whoever keeps the display ends it with what is on it, this process too.
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        if rustix::process::getppid() == Some(rustix::process::Pid::INIT) {
            anyhow::bail!("whoever keeps the display is gone");
        }
    }
    let listener = listener(options.socket)?;
    let config = computer::Config {
        agent_uid: options.agent_uid,
        idle: std::time::Duration::from_secs(options.idle_s),
    };
    single_threaded()?.block_on(async {
        let stop = stop_on_signals()?;
        Ok(computer::serve(listener, config, stop).await?)
    })
}

fn run_browse(options: BrowseOptions) -> anyhow::Result<ExitCode> {
    // Who starts it stands in another folder.
    let whole = |argument: String| match std::fs::canonicalize(&argument) {
        Ok(path) if !argument.starts_with('-') => path.to_string_lossy().into_owned(),
        _ => argument,
    };
    let arguments = options.arguments.into_iter().map(whole).collect();
    let opened = browser::open(options.socket, arguments);
    let started = single_threaded()?.block_on(opened)?;
    Ok(ExitCode::from(if started { 0 } else { RUNS_ALREADY }))
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
