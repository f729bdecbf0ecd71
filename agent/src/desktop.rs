//! The process that keeps a box's desktop up, as the desktop user.
//!
//! What there is to start stands in the image ([`Plan`]): one that has no plan has no desktop. Each part is
//! kept by a task of its own (`part`), which starts it when what it needs is ready, and again when it
//! ends. A part that ends takes along those that need it: without the X server there is no window manager.

mod backoff;
mod demand;
pub mod handed;
mod output;
mod part;
mod plan;
mod probe;
mod reports;
mod server;

use std::{collections::HashMap, io, os::unix::net::UnixListener, sync::Arc, time::Duration};

use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

pub(crate) use self::plan::private_name;
pub use self::plan::{Error as PlanError, PATH as PLAN_PATH, Part, Plan, Private, Ready};
use self::{
    demand::Demand,
    output::Output,
    part::{Happened, Keeper},
    reports::Reports,
};

/// For the programs on the desktop to end by themselves. Process 1 waits no longer than three seconds.
const LEAVE_MAX: Duration = Duration::from_millis(1_500);

/// What happened and was not taken yet. Parts wait when it is full; they never lose any of it.
const HAPPENED_MAX: usize = 64;

/// A part of an agent's own display that fails so often in a row is not coming up.
const PRIVATE_FAILURES_MAX: u32 = 3;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("making the pipe of a part's output")]
    Output(#[source] io::Error),
    #[error("listening on the desktop's socket")]
    Socket(#[source] io::Error),
    #[error("serving")]
    Serve(#[source] tonic::transport::Error),
    #[error("part `{0}` of the display does not come up")]
    Private(String),
}

/// Keeps every part of the plan up until `stop`, and tells who asks on `listener` what happens to them.
/// `session` is an id that no other life of this process has. `wanted` are the sockets where somebody
/// connects who wants a part that is on demand, by the part's name; one that has none is never started.
pub async fn serve(
    plan: Plan,
    session: String,
    listener: UnixListener,
    wanted: Vec<(String, UnixListener)>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let wanted = wanted
        .into_iter()
        .map(|(part, listener)| Ok((part, Demand::new(listener)?)))
        .collect::<io::Result<HashMap<_, _>>>()
        .map_err(Error::Socket)?;
    let display = plan.environment.get("DISPLAY").cloned();
    let reports = Reports::begin(session, &plan.parts);
    let served = server::serve(listener, reports.clone(), display, stop.clone());
    let kept = run(plan, wanted, None, stop, |happened| reports.add(happened));
    // The parts are what matters: who asks can be without an answer.
    let (kept, served) = tokio::join!(kept, served);
    if let Err(error) = served {
        tracing::error!(%error, "what happens to the desktop is not told");
    }
    kept
}

/// Keeps a display up that an agent has for itself ([`Plan::private`]), until `stop`, or until the process ends by
/// itself that answers on `listener` ([`Computer.Close`]). A part that does not come up is an error: who asked for the
/// display hears that it is gone, and the next one tries again.
///
/// [`Computer.Close`]: cocoonbox_proto::toolhost::v1::computer_server::Computer::close
pub async fn serve_private(
    plan: Plan,
    listener: UnixListener,
    stop: CancellationToken,
) -> Result<(), Error> {
    let computer = plan::COMPUTER.to_owned();
    let demand = Demand::new(listener).map_err(Error::Socket)?;
    let wanted = HashMap::from([(computer.clone(), demand)]);
    let mut missing = None;
    let give_up = stop.clone();
    run(plan, wanted, Some(computer), stop, |happened| {
        if let Happened::Failed { part, failures, .. } = happened
            && failures >= PRIVATE_FAILURES_MAX
        {
            missing.get_or_insert(part);
            give_up.cancel();
        }
    })
    .await?;
    missing.map_or(Ok(()), |part| Err(Error::Private(part)))
}

/// `last` is the part with whose good end everything ends.
async fn run(
    plan: Plan,
    mut wanted: HashMap<String, Demand>,
    last: Option<String>,
    stop: CancellationToken,
    mut told: impl FnMut(Happened),
) -> Result<(), Error> {
    let environment = Arc::new(plan.environment);
    let (sender, mut happened) = mpsc::channel(HAPPENED_MAX);
    let mut ready: HashMap<String, watch::Receiver<bool>> = HashMap::new();
    // Parts stop when nothing of the user's draws on them any more.
    let stop_parts = CancellationToken::new();
    let mut keepers = JoinSet::new();
    for part in plan.parts {
        let demand = wanted.remove(&part.name).filter(|_| part.on_demand);
        if part.on_demand && demand.is_none() {
            continue;
        }
        let (announce, is_ready) = watch::channel(false);
        let needs = part
            .needs
            .iter()
            .filter_map(|name| ready.get(name).cloned());
        let keeper = Keeper {
            needs: needs.collect(),
            output: Output::open().map_err(Error::Output)?,
            environment: environment.clone(),
            last: (last.as_ref() == Some(&part.name)).then(|| stop.clone()),
            demand,
            announce,
            happened: sender.clone(),
            part,
        };
        ready.insert(keeper.part.name.clone(), is_ready);
        keepers.spawn(keeper.keep(stop_parts.clone()));
    }
    drop(sender);
    loop {
        tokio::select! {
            Some(one) = happened.recv() => told(one),
            () = stop.cancelled(), if !stop_parts.is_cancelled() => {
                let left = probe::succeeds(&plan.leave, &environment);
                if !timeout(LEAVE_MAX, left).await.unwrap_or(false) {
                    tracing::info!("what is on the desktop was not left in time");
                }
                stop_parts.cancel();
            }
            // Nobody is left who could tell.
            else => break,
        }
    }
    keepers.join_all().await;
    Ok(())
}

#[cfg(test)]
mod tests;
