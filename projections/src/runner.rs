//! The runner: follows every log and keeps the views. The only part that knows a store.

mod branch;
mod build;
pub(crate) mod fold;
mod standing;

use std::{sync::Arc, time::Duration};

use cocoonbox_events::{ChainHash, LogId, LogInfo, ReadError, Store, limits::PAGE_EVENTS_MAX};
use tokio_util::sync::CancellationToken;

use crate::{
    database::EditionId,
    views::{Views, ViewsError},
};
use build::Comparison;
use fold::{Erasures, Folded, Fresh, Pages, Work};
use standing::Standings;

/// A doorbell can be lost; the logs are looked at this often anyway.
const SWEEP: Duration = Duration::from_secs(1);

/// Rows of another build are kept this long after the rows of this one are complete: going back to that
/// build finds them there, and goes on from where they are.
const KEEP_FOREIGN_FOR: Duration = Duration::from_hours(24);

/// Keeps the views up to date. One per [`Views`]; should two processes share a file, the checkpoints'
/// compare and set lets only one of them move.
pub struct Runner {
    store: Arc<dyn Store>,
    views: Views,
    standings: Standings,
    /// The rebuilt rows that are being compared.
    comparison: Option<Comparison>,
    /// When the editions of other builds were seen first.
    foreign_since: Option<tokio::time::Instant>,
    keep_foreign_for: Duration,
    /// Which of the editions that are built has the next step.
    turn: usize,
    /// When to look for editions that are of no use.
    tidy_at: tokio::time::Instant,
}

#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error("reading log {log}")]
    Read {
        log: LogId,
        #[source]
        source: ReadError,
    },
    #[error("keeping the views")]
    Views(#[from] ViewsError),
    #[error("opening the views again")]
    Open(#[from] crate::database::OpenError),
    /// Another process did it; the editions are read again.
    #[error("an edition was given up by somebody else")]
    GivenUp,
}

/// Whether there may be more to do at once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    More,
}

/// What came of one transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fold {
    Done,
    /// Somebody else moved a checkpoint; nothing was done, and this log's standings are forgotten.
    Contended,
}

impl Runner {
    pub fn new(store: Arc<dyn Store>, views: Views) -> Self {
        Self {
            store,
            views,
            standings: Standings::default(),
            comparison: None,
            foreign_since: None,
            keep_foreign_for: KEEP_FOREIGN_FOR,
            turn: 0,
            tidy_at: tokio::time::Instant::now(),
        }
    }

    /// Keeps rows of other builds for this long, instead of a day.
    pub fn keep_foreign_for(self, time: Duration) -> Self {
        Self {
            keep_foreign_for: time,
            ..self
        }
    }

    /// Runs until it is told to stop. Dropping the future is fine as well: rows and checkpoint move
    /// in one transaction.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut bell = self.store.any_doorbell();
        let mut orders = self.views.orders();
        let mut loaded = false;
        while !stop.is_cancelled() {
            bell.mark_unchanged();
            loaded &= !orders.has_changed().unwrap_or(false);
            if !loaded {
                orders.mark_unchanged();
                match self.load().await {
                    Ok(()) => loaded = true,
                    Err(error) => warn(&error),
                }
            }
            let mut left = Left::Nothing;
            if loaded {
                left = self.pass(&stop).await;
                match self.build(&mut bell).await {
                    Ok(Left::More) => left = Left::More,
                    Ok(Left::Nothing) => {}
                    Err(RunError::GivenUp) => loaded = false,
                    Err(error) => warn(&error),
                }
            }
            if left == Left::More {
                continue;
            }
            tokio::select! {
                () = stop.cancelled() => return,
                rung = bell.changed() => if rung.is_ok() { continue },
                ordered = orders.changed() => if ordered.is_ok() { loaded = false; continue },
                () = compared(self.comparison.as_ref()) => continue,
                () = tokio::time::sleep(SWEEP) => {}
            }
            match self.reopen().await {
                Ok(true) => loaded = false,
                Ok(false) => {}
                Err(error) => warn(&error),
            }
        }
    }

    /// Reads the editions and their checkpoints. Editions that have seen a log which is not there any
    /// more are dropped as a whole: which of their rows came from it cannot be told without its owner.
    async fn load(&mut self) -> Result<(), RunError> {
        self.standings = Standings::load(&self.views, &*self.store).await?;
        self.tell_all();
        self.views.ring();
        Ok(())
    }

    async fn reopen(&self) -> Result<bool, RunError> {
        let views = self.views.clone();
        let reopened = tokio::task::spawn_blocking(move || views.reopen_if_gone());
        Ok(reopened.await.map_err(|_| ViewsError::Interrupted)??)
    }

    /// Takes one page of each log that has one. So a long log does not hold up the others.
    async fn pass(&mut self, stop: &CancellationToken) -> Left {
        let mut left = Left::Nothing;
        self.views.progress().look();
        let logs = self.store.logs();
        // Before their branches are looked at, so that the two do not mix.
        match self.leave(&logs).await {
            Ok(()) => {}
            Err(RunError::GivenUp) => {
                self.views.order();
                return Left::Nothing;
            }
            Err(error) => {
                warn(&error);
                return Left::Nothing;
            }
        }
        for log in logs {
            if stop.is_cancelled() {
                return Left::Nothing;
            }
            match self.advance(&log).await {
                Ok(Left::More) => left = Left::More,
                Ok(Left::Nothing) => {}
                // Said and mended by the next load.
                Err(RunError::GivenUp) => self.views.order(),
                // The sweep tries again.
                Err(error) => warn(&error),
            }
        }
        left
    }

    /// Takes one page of one log into every projection that wants it.
    async fn advance(&mut self, log: &LogInfo) -> Result<Left, RunError> {
        if self.standings.is_current(log) {
            return Ok(Left::Nothing);
        }
        self.take_page(log, None, PAGE_EVENTS_MAX).await
    }

    /// Takes at most `limit` events of one log into the editions that go first, or into one that is built
    /// beside them.
    async fn take_page(
        &mut self,
        log: &LogInfo,
        beside: Option<EditionId>,
        limit: usize,
    ) -> Result<Left, RunError> {
        if !self.standings.meet(&self.views, log, &*self.store).await? {
            return Ok(Left::Nothing);
        }
        let mut left = Left::Nothing;
        for (pos, members) in self.standings.groups(log.id, beside) {
            let is_at_tail = pos == log.tail.pos;
            let chain = if is_at_tail {
                log.tail.chain
            } else if pos <= self.tail(log.id)? {
                // Asked anew: another runner may have moved past the tail that we were told of.
                self.chain_at(log.id, pos).await?
            } else {
                // The log is shorter than it was: no link fits.
                ChainHash([0; 32])
            };
            let (mut same, other): (Vec<_>, Vec<_>) = members
                .into_iter()
                .partition(|member| member.checkpoint.chain == chain);
            if !other.is_empty() {
                tracing::warn!(log = %log.id, pos, "log has another history, views are built again");
                let fresh = self.fresh(log, 0).await?;
                let work = Work::clear(log.clone(), other, fresh);
                left = Left::More;
                if self.fold(work).await? == Fold::Contended {
                    return Ok(left);
                }
            }
            same.retain(|member| !self.standings.is_stopped(member));
            if same.is_empty() || is_at_tail {
                continue;
            }
            let page = self
                .store
                .read(log.id, pos, limit)
                .await
                .map_err(|source| RunError::Read {
                    log: log.id,
                    source,
                })?;
            if page.events.is_empty() {
                continue;
            }
            let erasures = Erasures::find(&*self.store, log, pos, &same, &page.events)
                .await
                .map_err(|source| RunError::Read {
                    log: log.id,
                    source,
                })?;
            self.erase_in_kin(log, &erasures).await?;
            let fresh = self.fresh(log, erasures.to()).await?;
            let end = page.events.last().map_or(pos, |last| last.pos);
            let link = self.chain_at(log.id, end).await?;
            let work = Work {
                log: log.clone(),
                members: same,
                events: page.events,
                link,
                erasures,
                fresh,
            };
            left = Left::More;
            // Nothing that is believed of this log can be built on any more.
            if self.fold(work).await? == Fold::Contended {
                return Ok(left);
            }
        }
        Ok(left)
    }

    /// Does the work in one transaction and takes over what came of it.
    async fn fold(&mut self, work: Work) -> Result<Fold, RunError> {
        let log = work.log.id;
        let views = self.views.clone();
        let pages = Pages::of(self.store.clone());
        let folded = self
            .views
            .blocking(move |database| {
                database
                    .write(|connection| fold::fold(connection, views.projections(), work, &pages))
            })
            .await?;
        let fold = match folded {
            Folded::Moved(moved) => {
                for (member, poison) in moved {
                    self.standings.take(&self.views, member, poison);
                }
                Fold::Done
            }
            Folded::Contended => {
                tracing::info!(log = %log, "another runner keeps the same views");
                self.standings.forget(log);
                Fold::Contended
            }
        };
        self.views.ring();
        Ok(fold)
    }

    /// Where a projection stands that has seen nothing of a log.
    async fn fresh(&self, log: &LogInfo, erased_to: u64) -> Result<Fresh, RunError> {
        let chain = self.chain_at(log.id, 0).await?;
        Ok(Fresh {
            chain,
            erased_to: erased_to.max(log.tail.pos),
        })
    }

    fn tail(&self, log: LogId) -> Result<u64, RunError> {
        let tail = self.store.tail(log);
        tail.map(|tail| tail.pos)
            .map_err(|source| RunError::Read { log, source })
    }

    async fn chain_at(&self, log: LogId, pos: u64) -> Result<ChainHash, RunError> {
        self.store
            .chain_at(log, pos)
            .await
            .map_err(|source| RunError::Read { log, source })
    }
}

/// Ends when the comparison that is under way has an answer; never if none is.
async fn compared(comparison: Option<&Comparison>) {
    match comparison {
        Some(comparison) => comparison.done().await,
        None => std::future::pending().await,
    }
}

fn warn(error: &RunError) {
    tracing::warn!(error = causes(error), "views are not kept up to date");
}

/// An error with its causes, on one line.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
