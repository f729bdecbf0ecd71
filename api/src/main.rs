//! `cocoonbox-api`: the control plane, the edge and the gateway in one process.

use std::{
    io::{IsTerminal as _, Write as _},
    net::SocketAddr,
    path::PathBuf,
};

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};
use cocoonbox_api::{Config, Server, StartError, config, status};
use tokio::signal::unix::{SignalKind, signal};

/// Runs persistent cloud computers with an agent in each.
#[derive(Parser)]
#[command(name = "cocoonbox-api", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serves until SIGINT or SIGTERM. Boxes go on running; the next start adopts them.
    ///
    /// Logs, keys and tokens lie in the data folder, or in a PostgreSQL database that any number of these
    /// processes share: set COCOONBOX_STORE=postgres://USER:PASSWORD@HOST/DATABASE, or `store` or
    /// `store_file` in cocoonbox.toml. All of them need the same master.key in their data folders.
    ///
    /// Model keys are read from ANTHROPIC_API_KEY and OPENAI_API_KEY (base URLs from
    /// ANTHROPIC_BASE_URL and OPENAI_BASE_URL) or from the files that cocoonbox.toml names.
    Serve(Serve),
}

#[derive(Args)]
struct Serve {
    /// Logs, keys, boxes. Default: $XDG_DATA_HOME/cocoonbox
    #[arg(long, env = "COCOONBOX_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Where clients connect (HTTP/2 without TLS: put a TLS proxy before it for other hosts)
    #[arg(long, env = "COCOONBOX_LISTEN", default_value = config::LISTEN, value_name = "ADDR")]
    listen: SocketAddr,
    /// Where logs, keys and tokens lie: sqlite:FOLDER or postgres://HOST/DATABASE. With a password only by
    /// COCOONBOX_STORE, or in the file that COCOONBOX_STORE_FILE names
    #[arg(long, value_name = "ADDRESS")]
    store: Option<String>,
    /// Do not use LISTEN and NOTIFY: look at the database each second instead. Also `?notify=off` in the
    /// address; for databases that speak PostgreSQL's protocol but have no LISTEN
    #[arg(long)]
    no_notify: bool,
    /// HOST:PORT at which other api processes on the same store reach this one [default: --listen]
    #[arg(long, value_name = "HOST:PORT")]
    advertise: Option<String>,
    /// Where the boxes' disks lie. Api processes on one host that share it take each other's boxes over
    /// [default: the data folder]
    #[arg(long, value_name = "DIR")]
    machines_dir: Option<PathBuf>,
    /// The image that boxes start from, as `image/build` prints it
    #[arg(long, env = "COCOONBOX_IMAGE", value_name = "FILE")]
    image: PathBuf,
    /// The static agent binary. Default: `cocoonbox-agent` beside this program
    #[arg(long, env = "COCOONBOX_AGENT", value_name = "FILE")]
    agent: Option<PathBuf>,
    /// Default: cocoonbox.toml in the data folder
    #[arg(long, env = "COCOONBOX_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let Command::Serve(serve) = Cli::parse().command;
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(run(serve))
}

async fn run(serve: Serve) -> anyhow::Result<()> {
    let env = |key: &str| std::env::var(key).ok();
    let data = serve.data_dir.unwrap_or_else(|| config::default_data(&env));
    let file_path = serve.config.unwrap_or_else(|| data.join("cocoonbox.toml"));
    let file = config::File::read(&file_path)?;
    let (gateway, models) = file.resolve(&env)?;
    let beside = || {
        Some(
            std::env::current_exe()
                .ok()?
                .parent()?
                .join("cocoonbox-agent"),
        )
    };
    let agent = serve
        .agent
        .or_else(beside)
        .context("name the agent binary with --agent")?;
    for (what, path) in [("image", &serve.image), ("agent", &agent)] {
        anyhow::ensure!(
            path.exists(),
            "the {what} `{}` does not exist",
            path.display()
        );
    }
    let pid_file = data.join("run/api.pid");
    let image = serve.image.canonicalize().context("the image's path")?;
    let flags = config::Flags {
        store: serve.store,
        no_notify: serve.no_notify,
        advertise: serve.advertise,
        machines_dir: serve.machines_dir,
    };
    let fleet = config::Fleet::resolve(&flags, &env, &file, &file_path, &data)?;
    let config = Config {
        data,
        listen: serve.listen,
        fleet,
        image,
        agent,
        file,
        gateway,
        models,
    };
    let server = Server::start(config).await.map_err(advised)?;
    write_pid(&pid_file)?;
    tracing::info!(listen = %server.listen, "ready");
    let (mut terminate, mut interrupt) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("stopping; boxes go on running");
    server.stop().await;
    drop(std::fs::remove_file(&pid_file));
    Ok(())
}

/// Says what to do, where that is known.
fn advised(error: StartError) -> anyhow::Error {
    let advice = match &error {
        StartError::Open(error) => error.advice(),
        _ => None,
    };
    match advice {
        Some(advice) => anyhow::anyhow!("{}\n  {advice}", status::describe(&error)),
        None => error.into(),
    }
}

fn write_pid(path: &std::path::Path) -> anyhow::Result<()> {
    let mut file = std::fs::File::create(path).context("writing the pid file")?;
    writeln!(file, "{}", std::process::id()).context("writing the pid file")
}
