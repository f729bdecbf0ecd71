//! Editions that are being built: one step between passes, and the moment when they begin to answer.
//!
//! An edition that is built beside one that answers takes a small page whenever the logs have been looked
//! at, so that a live event waits for one such page at most.

use cocoonbox_events::{LogInfo, limits::PAGE_EVENTS_MAX};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Duration, Instant},
};

use crate::{
    compare::{self, Compared},
    database::{Edition, EditionId, State, sweep},
    projection::takes,
    runner::{
        Left, RunError, Runner,
        standing::{Kept, Part, Standings},
    },
    views::{Building, Rebuilt, Views, ViewsError},
};

/// Events of one step: a few milliseconds, which is what a live event may have to wait.
const STEP_EVENTS: usize = 500;
/// Steps go on for this long while no log moves, before the logs are looked at again.
const SPELL: Duration = Duration::from_millis(50);

/// Editions that are of no use are looked for this often.
const TIDY: Duration = Duration::from_secs(1);

type Outcome = Result<Option<Compared>, ViewsError>;

/// A comparison that runs on its own thread, over the rows as they were when it began.
pub(super) struct Comparison {
    built: EditionId,
    job: JoinHandle<Outcome>,
    done: watch::Receiver<bool>,
}

impl Comparison {
    /// Ends when there is an answer.
    pub(super) async fn done(&self) {
        // The other end goes with the job, which is an answer as well.
        drop(self.done.clone().wait_for(|done| *done).await);
    }
}

/// Whether an edition has to wait, can go on or can answer.
enum Next {
    Wait,
    /// It is behind in this log.
    Fold(LogInfo),
    GoInStep,
    Compare(EditionId),
    Answer {
        instead: Option<EditionId>,
        compared: Option<Compared>,
    },
}

impl Runner {
    /// Takes steps in what is being built, until a log moves.
    pub(super) async fn build(
        &mut self,
        bell: &mut watch::Receiver<u64>,
    ) -> Result<Left, RunError> {
        let until = Instant::now() + SPELL;
        loop {
            let mut left = Left::Nothing;
            let mut unfinished = self.unfinished();
            let is_building = !unfinished.is_empty();
            if is_building {
                let logs = self.store.logs();
                self.turn = (self.turn + 1) % unfinished.len();
                unfinished.rotate_left(self.turn);
                for kept in unfinished {
                    if self.step(&kept, &logs).await? == Left::More {
                        left = Left::More;
                        break;
                    }
                }
            }
            if left == Left::Nothing && !is_building && Instant::now() >= self.tidy_at {
                self.retire().await?;
                left = self.sweep().await?;
                if left == Left::Nothing {
                    self.tidy_at = Instant::now() + TIDY;
                }
            }
            if left == Left::Nothing || bell.has_changed().unwrap_or(true) || Instant::now() > until
            {
                return Ok(left);
            }
        }
    }

    fn unfinished(&self) -> Vec<Kept> {
        self.standings
            .kept()
            .filter(|kept| kept.edition.state == State::Building)
            .cloned()
            .collect()
    }

    /// Says of everything that is built how far it is.
    pub(super) fn tell_all(&self) {
        let logs = self.store.logs();
        for kept in self.unfinished() {
            let projection = &*self.views.projections()[kept.projection];
            let wanted: Vec<_> = logs.iter().filter(|log| takes(projection, log)).collect();
            self.tell(&kept, &wanted);
        }
    }

    async fn step(&mut self, kept: &Kept, logs: &[LogInfo]) -> Result<Left, RunError> {
        let wanted: Vec<&LogInfo> = logs
            .iter()
            .filter(|log| takes(&*self.views.projections()[kept.projection], log))
            .collect();
        self.tell(kept, &wanted);
        let id = kept.edition.id;
        match self.next(kept, &wanted).await? {
            Next::Wait => Ok(Left::Nothing),
            Next::Fold(log) => self.take_page(&log, Some(id), STEP_EVENTS).await,
            Next::GoInStep => {
                self.standings.set_part(id, Part::InStep);
                Ok(Left::More)
            }
            Next::Compare(live) => {
                self.compare(live, id);
                Ok(Left::Nothing)
            }
            Next::Answer { instead, compared } => {
                self.answer(kept, instead, compared).await?;
                Ok(Left::More)
            }
        }
    }

    async fn next(&mut self, kept: &Kept, logs: &[&LogInfo]) -> Result<Next, RunError> {
        let standings = &self.standings;
        let id = kept.edition.id;
        let Some(live) = live(standings, kept) else {
            // Nothing of this version answers: it is enough to be near the tails, and not before what
            // the rows of the other version say.
            let behind = logs.iter().find(|log| {
                let near = log.tail.pos.saturating_sub(PAGE_EVENTS_MAX as u64);
                let frozen = standings.frozen(kept.projection, log.id).min(log.tail.pos);
                standings.pos(id, log.id) < near.max(frozen) && standings.stop(id, log.id).is_none()
            });
            return Ok(match (behind, kept.part) {
                (Some(log), Part::Beside) => Next::Fold((*log).clone()),
                // The passes take it on.
                (Some(_), _) => Next::Wait,
                (None, _) => Next::Answer {
                    instead: None,
                    compared: None,
                },
            });
        };
        let mut behind = logs
            .iter()
            .filter(|log| standings.pos(id, log.id) < standings.pos(live, log.id));
        if let Some(log) = behind
            .clone()
            .find(|log| standings.stop(id, log.id).is_none())
        {
            let log = (*log).clone();
            self.standings.set_part(id, Part::Beside);
            return Ok(Next::Fold(log));
        }
        if behind.next().is_some() {
            // It stopped where the live rows did not: they stay.
            return Ok(Next::Wait);
        }
        if kept.part == Part::Beside {
            return Ok(Next::GoInStep);
        }
        if !kept.edition.compare {
            return Ok(Next::Answer {
                instead: Some(live),
                compared: None,
            });
        }
        let apart = |log: &&LogInfo| standings.pos(id, log.id) != standings.pos(live, log.id);
        if logs.iter().any(apart) {
            // The live rows stopped where these did not: there is nothing to compare with.
            return Ok(Next::Answer {
                instead: Some(live),
                compared: None,
            });
        }
        let kept = &self.standings;
        self.comparison
            .take_if(|one| kept.kept().all(|kept| kept.edition.id != one.built));
        match self
            .comparison
            .take_if(|one| one.built == id && one.job.is_finished())
        {
            Some(done) => {
                let compared = done.job.await.map_err(|_| ViewsError::Interrupted)??;
                Ok(match compared {
                    Some(compared) => Next::Answer {
                        instead: Some(live),
                        compared: Some(compared),
                    },
                    None => Next::Compare(live),
                })
            }
            None if self.comparison.is_some() => Ok(Next::Wait),
            None => Ok(Next::Compare(live)),
        }
    }

    fn compare(&mut self, live: EditionId, built: EditionId) {
        let (finished, done) = watch::channel(false);
        let database = self.views.database();
        let job = tokio::task::spawn_blocking(move || {
            let outcome =
                database.read(|connection| Ok(compare::editions(connection, live, built)?));
            finished.send_replace(true);
            outcome
        });
        self.comparison = Some(Comparison { built, job, done });
    }

    /// Lets an edition answer, in one transaction.
    async fn answer(
        &mut self,
        kept: &Kept,
        instead: Option<EditionId>,
        compared: Option<Compared>,
    ) -> Result<(), RunError> {
        let id = kept.edition.id;
        let answers = self
            .views
            .blocking(move |database| {
                database.write(|connection| Ok(change_places(connection, id, instead)?))
            })
            .await?;
        if !answers {
            return Err(RunError::GivenUp);
        }
        self.standings.lead(&self.views, id, instead);
        let projection = self.views.projections()[kept.projection].name();
        if let Some(compared) = &compared {
            if compared.differing == 0 {
                tracing::info!(projection, rows = compared.rows, "rebuilt views are equal");
            } else {
                tracing::error!(
                    projection,
                    rows = compared.rows,
                    differing = compared.differing,
                    "rebuilt views differ from those that answered"
                );
            }
        }
        if kept.edition.compare {
            self.views.progress().set_rebuilt(Rebuilt {
                projection,
                edition: id,
                compared,
            });
        }
        tracing::info!(
            projection,
            version = kept.edition.version,
            "views are built"
        );
        self.views.ring();
        Ok(())
    }

    /// Says how far it is.
    fn tell(&self, kept: &Kept, logs: &[&LogInfo]) {
        let id = kept.edition.id;
        let live = live(&self.standings, kept);
        let blocked = logs.iter().find_map(|log| {
            let stop = self.standings.stop(id, log.id)?;
            let further = live.is_some_and(|live| self.standings.pos(live, log.id) >= stop.pos);
            further.then(|| stop.clone())
        });
        let told = Building {
            projection: self.views.projections()[kept.projection].name(),
            edition: id,
            version: kept.edition.version,
            answers: kept.part != Part::Leading,
            done: logs.iter().map(|log| self.standings.pos(id, log.id)).sum(),
            of: logs.iter().map(|log| log.tail.pos).sum(),
            comparing: kept.part == Part::InStep && kept.edition.compare,
            blocked,
        };
        let turn = |one: &Building| (one.edition, one.comparing, one.blocked.clone());
        let mut progress = self.views.progress();
        let before = progress.building();
        let before = before.iter().find(|one| one.projection == told.projection);
        let is_turn = before.map(turn) != Some(turn(&told));
        progress.set_building(told);
        drop(progress);
        if is_turn {
            self.views.ring();
        }
    }

    /// Gives the rows of other builds up once those of this one have answered for long enough.
    async fn retire(&mut self) -> Result<(), RunError> {
        let foreign: Vec<EditionId> = self.standings.foreign().iter().map(|e| e.id).collect();
        if foreign.is_empty() {
            self.foreign_since = None;
            return Ok(());
        }
        let since = *self.foreign_since.get_or_insert_with(Instant::now);
        if since.elapsed() < self.keep_foreign_for {
            return Ok(());
        }
        self.views
            .blocking(move |database| {
                database.write(|connection| {
                    let tx =
                        connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
                    for edition in foreign {
                        Edition::give_up(&tx, edition)?;
                    }
                    Ok(tx.commit()?)
                })
            })
            .await?;
        self.standings.forget_foreign();
        Ok(())
    }

    /// Deletes some rows of editions that were given up.
    async fn sweep(&self) -> Result<Left, RunError> {
        let more = sweep_some(&self.views).await?;
        Ok(if more { Left::More } else { Left::Nothing })
    }
}

async fn sweep_some(views: &Views) -> Result<bool, ViewsError> {
    views
        .blocking(|database| Ok(database.write(|connection| sweep(connection))?))
        .await
}

/// The edition of the same version that answers.
fn live(standings: &Standings, kept: &Kept) -> Option<EditionId> {
    standings
        .kept()
        .find(|other| other.projection == kept.projection && other.edition.state == State::Complete)
        .map(|other| other.edition.id)
}

/// Lets an edition answer in place of another one of its version. False if it is not built any more, or
/// if the other has gone on without it.
fn change_places(
    connection: &mut Connection,
    built: EditionId,
    instead: Option<EditionId>,
) -> Result<bool, rusqlite::Error> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if !Edition::complete(&tx, built)? {
        return Ok(false);
    }
    if let Some(instead) = instead {
        let ahead: Option<i64> = tx
            .query_row(
                "SELECT 1 FROM checkpoint AS live LEFT JOIN checkpoint AS built
                   ON built.edition = ?1 AND built.log = live.log
                 WHERE live.edition = ?2 AND COALESCE(built.pos, -1) < live.pos LIMIT 1",
                params![built.0, instead.0],
                |row| row.get(0),
            )
            .optional()?;
        if ahead.is_some() {
            return Ok(false);
        }
        Edition::give_up(&tx, instead)?;
    }
    tx.commit()?;
    Ok(true)
}
