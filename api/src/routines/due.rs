//! Starts what is due.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use cocoonbox_commands::{
    boxes,
    routine::{Command, Rejection, State},
};
use cocoonbox_events::{
    Aggregate, Clock, CommandId, Execute, Fold, Ids, LogId, LogInfo, LogKind, Meta, Store,
    StreamName, id::BadStreamName,
};
use cocoonbox_projections::{RoutineRow, Views, ViewsError};
use cocoonbox_proto::log::v1::{Actor, actor, routine_missed::Reason};
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{run::Run, schedule, stream};
use crate::{channel::Channels, status::describe, stream::AT_LEAST};

/// Routines are looked for this often. What is due within this time is started when it is.
const LOOK: Duration = Duration::from_secs(1);
/// What could not be started when it was due is started this much later at most. Later it is missed: who wanted it in
/// the morning does not want it at night.
const CATCH_UP_US: i64 = 3_600_000_000;

/// What routines are run with.
#[derive(Clone)]
pub struct Parts {
    pub store: Arc<dyn Store>,
    pub views: Views,
    pub channels: Channels,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    /// Rung when a person starts a run.
    pub bell: Arc<Notify>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("there is no such stream")]
    Name(#[from] BadStreamName),
    #[error("what users have cannot be read")]
    Views(#[from] ViewsError),
    #[error("what users have is not seen yet")]
    Behind,
    #[error("a routine cannot be read")]
    Load(#[from] cocoonbox_events::LoadError),
    #[error("a step of a routine cannot be written")]
    Routine(#[from] Execute<Rejection>),
    #[error("a box cannot be woken")]
    Box(#[from] Execute<boxes::Rejection>),
    #[error("the history of a box cannot be read")]
    Read(#[from] cocoonbox_events::ReadError),
}

/// Looks at the clock.
pub struct Clockwork {
    parts: Parts,
    /// Account logs as far as their routines are known.
    known: HashMap<LogId, (u64, Vec<RoutineRow>)>,
    /// Runs that a task here sees to.
    runs: Arc<Mutex<HashSet<String>>>,
    tracker: TaskTracker,
    failing: HashSet<LogId>,
}

impl Clockwork {
    pub fn new(parts: Parts) -> Self {
        Self {
            parts,
            known: HashMap::new(),
            runs: Arc::default(),
            tracker: TaskTracker::new(),
            failing: HashSet::new(),
        }
    }

    /// Runs until stopped. Runs under way are gone on with by the next process, or another one.
    pub async fn run(mut self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            for log in self.parts.store.logs() {
                let is_open = log.kind == LogKind::Account && log.moved_to.is_none();
                if !is_open {
                    self.known.remove(&log.id);
                    continue;
                }
                match self.look(&log, &stop).await {
                    Ok(()) => drop(self.failing.remove(&log.id)),
                    Err(error) if self.failing.insert(log.id) => {
                        let error = describe(&error);
                        tracing::warn!(log = %log.id, error, "routines cannot be looked at now");
                    }
                    Err(_) => {}
                }
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.parts.bell.notified() => {}
                () = tokio::time::sleep(self.pause()) => {}
            }
        }
        self.tracker.close();
        self.tracker.wait().await;
    }

    /// Until something is due, at most until the next look.
    fn pause(&self) -> Duration {
        let rows = self.known.values().flat_map(|(_, rows)| rows);
        let now = self.parts.clock.now_us();
        // What is due and was not started now, since a store does not answer, waits for the next look.
        let due = rows
            .filter_map(RoutineRow::due_us)
            .filter(|due| *due > now)
            .min();
        due.and_then(|due| u64::try_from(due.saturating_sub(now)).ok())
            .map_or(LOOK, |left| LOOK.min(Duration::from_micros(left)))
            .max(Duration::from_millis(10))
    }

    async fn look(&mut self, log: &LogInfo, stop: &CancellationToken) -> Result<(), Fault> {
        let known = self.known.get(&log.id);
        if known.is_none_or(|(pos, _)| *pos != log.tail.pos) {
            let key = cocoonbox_events::OffsetKey::new(log.id, log.tail.pos, log.tail.chain);
            let seen = self.parts.views.at_least(&key, AT_LEAST).await;
            seen.map_err(|_| Fault::Behind)?;
            let rows = self.parts.views.routines(&log.owner).await?;
            self.known.insert(log.id, (log.tail.pos, rows));
        }
        let Some((_, rows)) = self.known.get(&log.id) else {
            return Ok(());
        };
        let now = self.parts.clock.now_us();
        for row in rows {
            if let Some(run) = &row.run {
                self.see_to(log, row, &run.run_id, stop)?;
            }
            if row.due_us().is_some_and(|due| due <= now) {
                start(&self.parts, log, row).await?;
            }
        }
        Ok(())
    }

    /// Makes sure that a task sees to a run.
    fn see_to(
        &self,
        log: &LogInfo,
        row: &RoutineRow,
        run_id: &str,
        stop: &CancellationToken,
    ) -> Result<(), Fault> {
        let fold = Fold::<State>::new(log.id, stream(&row.id)?);
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if !runs.insert(run_id.to_owned()) {
            return Ok(());
        }
        drop(runs);
        let run = Run::new(
            self.parts.clone(),
            fold,
            row.box_id.clone(),
            run_id.to_owned(),
        );
        let (runs, run_id, stop) = (self.runs.clone(), run_id.to_owned(), stop.clone());
        self.tracker.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = run.see_to() => {}
            }
            let mut runs = runs.lock().unwrap_or_else(PoisonError::into_inner);
            runs.remove(&run_id);
        });
        Ok(())
    }
}

/// Starts a run of a routine that is due, or notes that it was missed.
async fn start(parts: &Parts, log: &LogInfo, row: &RoutineRow) -> Result<(), Fault> {
    let mut fold = Fold::<State>::new(log.id, stream(&row.id)?);
    fold.refresh(&*parts.store).await?;
    let now = parts.clock.now_us();
    let Some(due_us) = fold.state.due_us().filter(|due| *due <= now) else {
        return Ok(());
    };
    // The same time may be due twice, where a clock was put back; the same place in the stream comes once.
    let step = format!("due {due_us} at {}", fold.seq);
    let definition = &fold.state.definition;
    let next_us = schedule::next_us(definition, now);
    let miss = |reason| Command::Miss {
        due_us,
        next_us,
        reason,
    };
    let command = if now - due_us > CATCH_UP_US {
        miss(Reason::Late)
    } else if fold.state.run.is_some() {
        miss(Reason::Busy)
    } else {
        Command::Start {
            run_id: CommandId::derive(row.id.as_bytes(), &step).to_string(),
            due_us,
            next_us,
            until_us: until_us(now, definition.run_ms_max),
            wakes: sleeps(parts, log.id, &row.box_id).await?,
        }
    };
    execute(parts, &mut fold, &command, &step).await
}

/// When a run that begins now is given up.
pub(super) fn until_us(now_us: i64, run_ms_max: u64) -> i64 {
    let most = i64::try_from(run_ms_max.saturating_mul(1_000)).unwrap_or(i64::MAX);
    now_us.saturating_add(most)
}

/// Whether a box is at rest, so that a run wakes it.
pub(super) async fn sleeps(parts: &Parts, account: LogId, box_id: &str) -> Result<bool, Fault> {
    use boxes::Phase;
    Ok(match of_box(parts, account, box_id).await?.state.phase {
        Phase::Starting { .. } | Phase::Running { .. } => false,
        Phase::Hibernating { then_wake, .. } => then_wake.is_none(),
        Phase::Absent
        | Phase::Hibernated
        | Phase::Failed { .. }
        | Phase::Deleting { .. }
        | Phase::Deleted => true,
    })
}

/// Returns a box as the log has it.
pub(super) async fn of_box(
    parts: &Parts,
    account: LogId,
    box_id: &str,
) -> Result<Fold<boxes::State>, Fault> {
    let mut fold = Fold::new(account, StreamName::new(format!("box/{box_id}"))?);
    fold.refresh(&*parts.store).await?;
    Ok(fold)
}

/// Writes a step of a routine, the same step once. One that is not to be any more is none: another was faster.
pub(super) async fn execute(
    parts: &Parts,
    fold: &mut Fold<State>,
    command: &Command,
    step: &str,
) -> Result<(), Fault> {
    let id = CommandId::derive(fold.stream.as_str().as_bytes(), step);
    match by_clock(parts, fold, command, id, step).await {
        Ok(()) | Err(Execute::Rejected(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Writes what nobody asked for at this moment. `step` says what it is: decided from another process's clock it is the
/// same step.
pub(super) async fn by_clock<A: Aggregate>(
    parts: &Parts,
    fold: &mut Fold<A>,
    command: &A::Command,
    id: CommandId,
    step: &str,
) -> Result<(), Execute<A::Rejection>> {
    let meta = Meta {
        command: id,
        actor: Actor {
            kind: actor::Kind::System.into(),
            id: "routines".to_owned(),
        },
        cause: fold.last,
    };
    let digest = *blake3::hash(step.as_bytes()).as_bytes();
    fold.execute(&*parts.store, command, &meta, digest).await?;
    Ok(())
}
