//! Process 1 of a box: prepares folders, starts the others, reaps, restarts, stops.

mod child;
mod folders;

use std::{io, path::PathBuf, time::Duration};

use rustix::process::{Pid, Signal, WaitOptions};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, sleep_until, timeout_at},
};

pub use self::folders::Layout;
use self::{
    child::{Child, Role},
    folders::Callers,
};

/// How long `serve` has to write what it must, and the desktop to be left, before everything else is stopped.
const FIRST_STOP_MAX: Duration = Duration::from_secs(3);
/// How long everything else has.
const REST_STOP_MAX: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("init is not process 1: it would signal processes that are not its own")]
    NotFirst,
    #[error("preparing `{path}`")]
    Folder {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("preparing a socket")]
    Socket(#[source] io::Error),
    #[error("listening for signals")]
    Signals(#[source] io::Error),
}

/// Runs until it is told to stop, and until everything has stopped.
pub async fn run(layout: Layout) -> Result<(), Error> {
    if rustix::process::getpid() != Pid::INIT {
        return Err(Error::NotFirst);
    }
    let mut term = signal(SignalKind::terminate()).map_err(Error::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Signals)?;
    let mut dead = signal(SignalKind::child()).map_err(Error::Signals)?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    folders::prepare(&layout)?;
    let socket =
        |name: &str, callers| folders::socket(&layout, name, callers).map_err(Error::Socket);
    let toolhost = socket("toolhost.sock", Callers::Agent)?;
    let mut children = vec![
        Child::new(Role::Toolhost, Some(toolhost)),
        Child::new(Role::Serve, None),
    ];
    // Made before `serve` is started, which looks whether it is there.
    if layout.plan.exists() {
        folders::x11_sockets(&layout)?;
        let mut desktop = Child::new(Role::Desktop, Some(socket("desktop.sock", Callers::Agent)?));
        for (part, callers) in folders::on_demand(&layout) {
            let listener = socket(&format!("{part}.sock"), callers)?;
            desktop = desktop.also(part, listener);
        }
        children.push(desktop);
    }
    loop {
        let now = Instant::now();
        for child in &mut children {
            child.start_if_due(now);
        }
        let next = children.iter().filter_map(Child::due).min();
        tokio::select! {
            _ = term.recv() => break,
            _ = interrupt.recv() => break,
            _ = dead.recv() => {}
            () = until(next) => {}
        }
        reap(&mut children);
    }
    stop(&mut children, &mut dead).await;
    Ok(())
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Collects every dead process, ours and those whose parents left them to us.
fn reap(children: &mut [Child]) {
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        for child in children.iter_mut().filter(|child| child.is(pid)) {
            child.died(status, Instant::now());
        }
    }
}

/// First the log is brought to an end and what draws on the desktop, then everything else, then whatever did
/// not listen.
async fn stop(children: &mut [Child], dead: &mut tokio::signal::unix::Signal) {
    tracing::info!("stopping");
    let is_first = |child: &Child| child.role() != Role::Toolhost;
    for child in children.iter().filter(|child| is_first(child)) {
        child.signal(Signal::TERM);
    }
    let deadline = Instant::now() + FIRST_STOP_MAX;
    while children
        .iter()
        .any(|child| is_first(child) && child.is_running())
    {
        if timeout_at(deadline, dead.recv()).await.is_err() {
            break;
        }
        reap(children);
    }
    let deadline = Instant::now() + REST_STOP_MAX;
    // To process group 1 means to everyone but us.
    rustix::process::kill_process_group(Pid::INIT, Signal::TERM).ok();
    while has_children(children) {
        if timeout_at(deadline, dead.recv()).await.is_err() {
            break;
        }
    }
    while rustix::process::kill_process_group(Pid::INIT, Signal::KILL).is_ok() {
        if !has_children(children) {
            break;
        }
        timeout_at(Instant::now() + Duration::from_millis(10), dead.recv())
            .await
            .ok();
    }
}

fn has_children(children: &mut [Child]) -> bool {
    reap(children);
    // Nobody left to wait for is an error; somebody who is not dead yet is not.
    rustix::process::wait(WaitOptions::NOHANG).is_ok()
}
