//! One part: started, found ready, started again.

use std::{
    collections::BTreeMap,
    os::unix::process::ExitStatusExt,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use futures::future::select_all;
use rustix::process::{Pid, Signal};
use tokio::{
    process::{Child, Command},
    sync::{mpsc, watch},
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{backoff::Backoff, demand::Demand, output::Output, plan, probe};

/// A part that does not answer by then is taken for hung. A loaded machine takes seconds.
const READY_MAX: Duration = Duration::from_secs(30);
/// A program whose display is lost ends by itself, and may be seen to end before the display is.
const LOSS_MAX: Duration = Duration::from_millis(100);
/// From being asked to end to being ended by force.
const STOP_MAX: Duration = Duration::from_millis(500);

/// Failures in a row of a part on demand, behind which those who wait for it hear that it does not come. It is tried
/// again for the next one.
const REFUSED_FROM: u32 = 3;

/// What is told of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Happened {
    /// It answers.
    Started { part: String, took: Duration },
    /// It was on demand, and nobody wants it any more.
    Ended { part: String },
    /// It ended, or did not come up.
    Failed {
        part: String,
        ending: Ending,
        /// The end of what it wrote.
        output: String,
        /// Failures since it last ran well, with this one.
        failures: u32,
        /// When it will be started again.
        wait: Duration,
    },
}

/// How a part's process came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Exited(i32),
    Signalled(i32),
    /// There was no process: why.
    NotStarted(String),
    /// It was ended since it did not answer.
    Silent,
}

/// Keeps one part.
pub(super) struct Keeper {
    pub(super) part: plan::Part,
    pub(super) needs: Vec<watch::Receiver<bool>>,
    pub(super) environment: Arc<BTreeMap<String, String>>,
    /// What has to be asked for before it is started.
    pub(super) demand: Option<Demand>,
    /// Cancelled when it has ended well; then it is not started again.
    pub(super) last: Option<CancellationToken>,
    pub(super) output: Output,
    pub(super) announce: watch::Sender<bool>,
    pub(super) happened: mpsc::Sender<Happened>,
}

/// Why one run of a part is over.
enum Over {
    Failed(Ending),
    /// Nobody wants it any more.
    Done,
    /// Something that it needs is not ready any more.
    Bereft,
    Stopped,
}

impl Keeper {
    pub(super) async fn keep(mut self, stop: CancellationToken) {
        let mut backoff = Backoff::new();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = all_ready(&mut self.needs) => {}
            }
            if let Some(demand) = &self.demand {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = one_lost(&mut self.needs) => continue,
                    () = demand.comes() => {}
                }
            }
            let began = Instant::now();
            let over = self.run_once(began, &stop).await;
            self.announce.send_replace(false);
            if !stop.is_cancelled() && !probe::succeeds(&self.part.after, &self.environment).await {
                tracing::info!(part = self.part.name, "what it left was not put away");
            }
            match over {
                Over::Stopped => return,
                // With everything else, which is asked to end in no order.
                Over::Failed(_) if stop.is_cancelled() => return,
                Over::Bereft => {}
                Over::Done => {
                    let part = self.part.name.clone();
                    self.happened.send(Happened::Ended { part }).await.ok();
                    if let Some(last) = &self.last {
                        last.cancel();
                        return;
                    }
                }
                Over::Failed(ending) => {
                    let wait = backoff.failed(began.elapsed());
                    let failures = backoff.failures();
                    if failures >= REFUSED_FROM
                        && let Some(demand) = &self.demand
                    {
                        demand.refuse();
                    }
                    let part = &self.part.name;
                    tracing::warn!(part, ?ending, failures, ?wait, "part failed");
                    let failed = Happened::Failed {
                        part: part.clone(),
                        ending,
                        output: self.output.tail(),
                        failures,
                        wait,
                    };
                    self.happened.send(failed).await.ok();
                    tokio::select! {
                        () = stop.cancelled() => return,
                        () = sleep(wait) => {}
                    }
                }
            }
        }
    }

    async fn run_once(&mut self, began: Instant, stop: &CancellationToken) -> Over {
        let mut child = match self.spawn() {
            Ok(child) => child,
            Err(error) => return Over::Failed(Ending::NotStarted(error.to_string())),
        };
        let probing = timeout(READY_MAX, probe::holds(&self.part.ready, &self.environment));
        tokio::pin!(probing);
        let mut is_ready = false;
        let over = loop {
            tokio::select! {
                // Answers may come from what was left of an earlier start: an end counts first.
                biased;
                status = child.wait() => {
                    if timeout(LOSS_MAX, one_lost(&mut self.needs)).await.is_ok() {
                        return Over::Bereft;
                    }
                    return Over::Failed(match status {
                        Ok(status) if self.demand.is_some() && status.success() => {
                            self.announce.send_replace(false);
                            return Over::Done;
                        }
                        Ok(status) => ending(status),
                        Err(error) => Ending::NotStarted(error.to_string()),
                    });
                }
                () = stop.cancelled() => break Over::Stopped,
                () = one_lost(&mut self.needs) => break Over::Bereft,
                held = &mut probing, if !is_ready => {
                    if held.is_err() {
                        break Over::Failed(Ending::Silent);
                    }
                    is_ready = true;
                    let (part, took) = (self.part.name.clone(), began.elapsed());
                    tracing::info!(part, ?took, "part started");
                    self.happened.send(Happened::Started { part, took }).await.ok();
                    self.announce.send_replace(true);
                }
            }
        };
        // Those that need it see it go before it is gone.
        self.announce.send_replace(false);
        end(&mut child).await;
        over
    }

    fn spawn(&self) -> std::io::Result<Child> {
        // A plan without a command was refused.
        let (program, arguments) = self
            .part
            .command
            .split_first()
            .ok_or(std::io::ErrorKind::InvalidInput)?;
        // In this process's group, so that process 1 finds all parts should this process be killed.
        Command::new(program)
            .args(arguments)
            .envs(&*self.environment)
            .stdin(match &self.demand {
                Some(demand) => demand.socket()?,
                None => Stdio::null(),
            })
            .stdout(self.output.begin()?)
            .stderr(self.output.begin()?)
            .kill_on_drop(true)
            .spawn()
    }
}

/// Only the process itself: what a panel has started goes on when the panel is started again.
async fn end(child: &mut Child) {
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
    if let Some(pid) = pid.and_then(Pid::from_raw) {
        // We have not collected it, so the id is still its own.
        rustix::process::kill_process(pid, Signal::TERM).ok();
    }
    if timeout(STOP_MAX, child.wait()).await.is_err() {
        child.kill().await.ok();
    }
}

async fn all_ready(needs: &mut [watch::Receiver<bool>]) {
    // One that is passed may be lost while another is waited for; the run sees that at once.
    for need in needs {
        // The keeper of what is needed ends only with everything.
        if need.wait_for(|is_ready| *is_ready).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

async fn one_lost(needs: &mut [watch::Receiver<bool>]) {
    if needs.is_empty() {
        return std::future::pending().await;
    }
    let lost = needs
        .iter_mut()
        .map(|need| Box::pin(need.wait_for(|is_ready| !is_ready)));
    // An error means that its keeper has ended, which is a loss as well.
    drop(select_all(lost).await);
}

fn ending(status: ExitStatus) -> Ending {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ending::Exited(code),
        (None, signal) => Ending::Signalled(signal.unwrap_or(9)),
    }
}
