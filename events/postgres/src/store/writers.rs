//! The writers: one task for each log that has something waiting, group commit without a timer.
//!
//! While a transaction of a log runs, the next appends to it gather; several logs are written at once,
//! as many as there are connections. A task ends when nothing waits for its log.

mod failed;

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use cocoonbox_events::{AppendError, Clock, LogId, limits, replica::End};
use sqlx::{Acquire, PgConnection, PgPool, Postgres, pool::PoolConnection};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};
use tokio_util::task::TaskTracker;

pub(crate) use self::failed::Failed;
use super::{
    batch::{Batch, Heads, Questions},
    directory::Log,
    request::{Job, Replicate},
    rows,
};
use crate::error::Failure;

/// A batch ends here: more gains nothing and makes everybody in it wait.
const BATCH_EVENTS_MAX: usize = 256;
const BATCH_BYTES_MAX: usize = 1024 * 1024;
/// A connection that is lost before anything was decided is replaced, this often.
pub(crate) const TRIES: usize = 3;
/// What the server's own time limits do not end, a dead network, ends here.
const STEP_MAX: Duration = Duration::from_secs(30);
/// Who has waited for so long is told to come again: they have given up, or will.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// What a log's last batch left behind is worth a guess for so long: what it was written through is
/// still there then.
const GUESS_WITHIN: Duration = Duration::from_secs(1);
/// Logs whose heads are kept while nothing waits for them, and heads of each.
const KEPT_LOGS_MAX: usize = 256;
const KEPT_HEADS_MAX: usize = 256;

/// Told of every durable end.
pub(crate) type Publish = dyn Fn(&Arc<Log>, End) + Send + Sync;

pub(crate) struct Writers {
    pool: PgPool,
    clock: Arc<dyn Clock>,
    publish: Box<Publish>,
    /// Tasks wait here, not in the pool: its waiting has a time limit that is meant for connecting.
    turns: Semaphore,
    /// Tasks that wait for a turn.
    in_line: AtomicUsize,
    lanes: Mutex<Lanes>,
    queued_bytes: Arc<AtomicUsize>,
    tasks: TaskTracker,
}

#[derive(Default)]
struct Lanes {
    /// A log is here as long as a task writes it.
    queues: HashMap<LogId, VecDeque<Waiting>>,
    /// What logs that nobody writes at the moment were left with.
    kept: HashMap<LogId, Known>,
    waiting: usize,
    is_closed: bool,
}

/// What a batch leaves for the next one of its log.
#[derive(Default)]
struct Known {
    heads: Heads,
    since: Option<Instant>,
}

struct Waiting {
    job: Job,
    since: Instant,
    weight: (usize, usize),
    _room: Room,
}

/// A task's hold of a log's queue. One that ends before its time, by a panic or with its runtime, lets go
/// of what waits (which is answered with `Unknown`), so that the next append starts another.
struct Lane<'a> {
    writers: &'a Writers,
    log: LogId,
    is_done: bool,
}

/// Bytes of requests that wait, counted as long as this lives.
struct Room {
    queued_bytes: Arc<AtomicUsize>,
    bytes: usize,
}

/// A connection between two batches of a task.
type Lent = Option<PoolConnection<Postgres>>;

impl Writers {
    pub(crate) fn new(pool: PgPool, clock: Arc<dyn Clock>, publish: Box<Publish>) -> Self {
        let turns = usize::try_from(pool.options().get_max_connections()).unwrap_or(1);
        Self {
            pool,
            clock,
            publish,
            turns: Semaphore::new(turns),
            in_line: AtomicUsize::new(0),
            lanes: Mutex::default(),
            queued_bytes: Arc::default(),
            tasks: TaskTracker::new(),
        }
    }

    /// Queues a job, or says at once why not.
    pub(crate) fn queue(self: &Arc<Self>, log: &Arc<Log>, job: Job) -> Result<(), AppendError> {
        let weight = job.weight();
        let room = Room::take(&self.queued_bytes, weight.1).ok_or(AppendError::Overloaded)?;
        let mut lanes = self.lock();
        if lanes.is_closed {
            return Err(AppendError::Stopped);
        }
        if lanes.waiting >= limits::QUEUE_APPENDS_MAX {
            return Err(AppendError::Overloaded);
        }
        lanes.waiting += 1;
        let waiting = Waiting {
            job,
            since: Instant::now(),
            weight,
            _room: room,
        };
        let mut is_idle = false;
        let queue = lanes.queues.entry(log.id()).or_insert_with(|| {
            is_idle = true;
            VecDeque::new()
        });
        queue.push_back(waiting);
        drop(lanes);
        if is_idle {
            let (writers, log) = (self.clone(), log.clone());
            self.tasks.spawn(async move { writers.run(log).await });
        }
        Ok(())
    }

    /// Refuses what comes from here on and waits for what is queued.
    pub(crate) async fn close(&self) {
        self.lock().is_closed = true;
        self.tasks.close();
        self.tasks.wait().await;
    }

    async fn run(&self, log: Arc<Log>) {
        let mut lane = Lane {
            writers: self,
            log: log.id(),
            is_done: false,
        };
        let mut known = self.lock().kept.remove(&log.id()).unwrap_or_default();
        loop {
            // Before gathering: what comes while this waits for its turn is in the batch.
            self.in_line.fetch_add(1, Ordering::Relaxed);
            let turn = self.turns.acquire().await;
            self.in_line.fetch_sub(1, Ordering::Relaxed);
            let mut conn = None;
            // As long as nobody else wants it, the connection stays here.
            loop {
                let Some(jobs) = self.gather(log.id(), &mut known) else {
                    lane.is_done = true;
                    return;
                };
                self.write(&log, jobs, &mut conn, &mut known).await;
                // Who was just answered may have more: it goes into the next batch, not behind it.
                tokio::task::yield_now().await;
                if self.in_line.load(Ordering::Relaxed) > 0 {
                    break;
                }
            }
            drop(conn);
            drop(turn);
        }
    }

    /// Takes what waits for a log, as much as a batch holds. `None` when nothing does; the next job
    /// starts a new task then.
    fn gather(&self, log: LogId, known: &mut Known) -> Option<Vec<Job>> {
        let mut late = Vec::new();
        let mut jobs = Vec::new();
        let (mut events, mut bytes) = (0, 0);
        let mut lanes = self.lock();
        let queue = lanes.queues.get_mut(&log)?;
        while let Some(next) = queue.front() {
            let (is_alone, weight) = (next.job.is_alone(), next.weight);
            let fits = events + weight.0 <= BATCH_EVENTS_MAX
                && bytes + weight.1 <= BATCH_BYTES_MAX
                && !is_alone;
            if !fits && !jobs.is_empty() {
                break;
            }
            let Some(next) = queue.pop_front() else { break };
            if next.since.elapsed() > WAIT_MAX {
                late.push(next.job);
                continue;
            }
            (events, bytes) = (events + weight.0, bytes + weight.1);
            jobs.push(next.job);
            if is_alone {
                break;
            }
        }
        let is_done = jobs.is_empty() && queue.is_empty();
        lanes.waiting -= jobs.len() + late.len();
        if is_done {
            lanes.queues.remove(&log);
            lanes.keep(log, std::mem::take(known));
        }
        drop(lanes);
        for job in late {
            job.refuse(|| AppendError::Overloaded);
        }
        (!is_done).then_some(jobs)
    }

    async fn write(&self, log: &Arc<Log>, mut jobs: Vec<Job>, conn: &mut Lent, known: &mut Known) {
        match self.attempt(log, &mut jobs, conn, known).await {
            Ok(end) => {
                if let Some(end) = end {
                    (self.publish)(log, end);
                }
                jobs.into_iter().for_each(Job::answer);
            }
            Err(failed) => {
                let (log, fate) = (log.id(), failed.fate(log.id()));
                for job in jobs {
                    job.refuse(|| fate.error(log));
                }
            }
        }
    }

    /// Writes a batch. Returns the end of the log if it moved.
    async fn attempt(
        &self,
        log: &Arc<Log>,
        jobs: &mut [Job],
        lent: &mut Lent,
        known: &mut Known,
    ) -> Result<Option<End>, Failed> {
        let mut tries = 0;
        loop {
            tries += 1;
            let mut conn = match lent.take() {
                Some(conn) => conn,
                None => self.pool.acquire().await.map_err(Failed::Writing)?,
            };
            let now_us = self.clock.now_us();
            let failed = match known.write(&mut conn, log, now_us, jobs).await {
                Ok(end) => {
                    *lent = Some(conn);
                    return Ok(end);
                }
                Err(failed) => failed,
            };
            // What it believes of the server may be wrong; a new one knows better.
            conn.close_on_drop();
            if tries == TRIES || !failed.is_repeatable() {
                return Err(failed);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lanes {
    /// Keeps what the next task for a log begins with.
    fn keep(&mut self, log: LogId, known: Known) {
        if known.since.is_none() || known.heads.len() > KEPT_HEADS_MAX {
            return;
        }
        if self.kept.len() >= KEPT_LOGS_MAX {
            self.kept.retain(|_, known| known.is_fresh());
        }
        if self.kept.len() < KEPT_LOGS_MAX {
            self.kept.insert(log, known);
        }
    }
}

impl Known {
    /// Writes a batch: by a guess if there is something to guess from, else under the log's lock.
    async fn write(
        &mut self,
        conn: &mut PgConnection,
        log: &Arc<Log>,
        now_us: i64,
        jobs: &mut [Job],
    ) -> Result<Option<End>, Failed> {
        if !self.is_fresh() {
            self.heads = Heads::default();
        }
        self.since = None;
        let mut end = None;
        if !jobs.iter().any(Job::is_alone) {
            end = guess(conn, log, now_us, jobs, &mut self.heads).await?;
        }
        if end.is_none() {
            end = transact(conn, log, now_us, jobs, &mut self.heads).await?;
        }
        self.since = Some(Instant::now());
        Ok(end)
    }

    fn is_fresh(&self) -> bool {
        self.since
            .is_some_and(|since| since.elapsed() < GUESS_WITHIN)
    }
}

/// Decides on what the last batch left, and writes in one round trip if that is still so. `None`: it
/// is not, and nothing was written.
async fn guess(
    conn: &mut PgConnection,
    log: &Arc<Log>,
    now_us: i64,
    jobs: &mut [Job],
    heads: &mut Heads,
) -> Result<Option<End>, Failed> {
    let Some(mut batch) = Batch::guess(log, now_us, heads) else {
        return Ok(None);
    };
    let from = batch.end;
    let questions = Questions::of(jobs);
    // They move with the log's head, so what is read here holds if that still does.
    let reading = bounded(batch.read_heads(conn, log, questions.streams)).await;
    reading.map_err(Failed::Beginning)?;
    for job in jobs.iter_mut() {
        job.apply(&mut batch);
    }
    // A refusal is an answer too, and nothing says yet that what it was decided on is so.
    if !batch.is_moved() {
        return Ok(None);
    }
    let end = batch.end;
    match bounded(batch.write_guess(conn, from, questions.commands)).await {
        Ok(Some(kept)) => {
            *heads = kept;
            Ok(Some(end))
        }
        Ok(None) => Ok(None),
        Err(error) => match Failure::of(&error) {
            Failure::Again | Failure::Duplicate => Ok(None),
            // The server says that it stopped the statement, and the commit was part of it.
            Failure::Busy | Failure::DiskFull | Failure::ReadOnly => Err(Failed::Writing(error)),
            Failure::Lost | Failure::Refused => Err(Failed::Committing(error)),
        },
    }
}

async fn transact(
    conn: &mut PgConnection,
    log: &Arc<Log>,
    now_us: i64,
    jobs: &mut [Job],
    heads: &mut Heads,
) -> Result<Option<End>, Failed> {
    let mut tx = bounded(conn.begin()).await.map_err(Failed::Beginning)?;
    let questions = Questions::of(jobs);
    // Not put back after a failure: they may be wrong then.
    let kept = std::mem::take(heads);
    let batch = bounded(Batch::begin(&mut tx, log, now_us, questions, kept)).await;
    let Some(mut batch) = batch.map_err(Failed::Beginning)? else {
        return Err(Failed::NoSuchLog);
    };
    // Under the lock: what is known here was durable before. Its positions are not given out again.
    let known = log.end();
    let is_there =
        batch.end.pos > known.pos || (batch.end.pos == known.pos && batch.end.chain == known.chain);
    if !is_there {
        return Err(Failed::WentBack { acked: known.pos });
    }
    for job in jobs.iter_mut() {
        if let Job::Replicate(asked) = job {
            let held = held(&mut tx, log, batch.end, &asked.request);
            asked.request.held = bounded(held).await.map_err(Failed::Beginning)?;
        }
    }
    for job in jobs.iter_mut() {
        job.apply(&mut batch);
    }
    let end = batch.end;
    let written = bounded(batch.write(&mut tx)).await;
    let (moved, kept) = written.map_err(Failed::Writing)?;
    // Also when nothing was written: what was looked at is committed, and this says that the
    // connection was whole while it was.
    bounded(tx.commit()).await.map_err(Failed::Committing)?;
    *heads = kept;
    Ok(moved.then_some(end))
}

/// Reads what the log holds at the positions of a batch.
async fn held(
    conn: &mut PgConnection,
    log: &Log,
    end: End,
    request: &Replicate,
) -> Result<Vec<cocoonbox_events::Recorded>, sqlx::Error> {
    let Some((first, last)) = request.positions() else {
        return Ok(Vec::new());
    };
    if first > end.pos {
        return Ok(Vec::new());
    }
    let held = sqlx::query(rows::SELECT_HELD)
        .bind(log.id().0)
        .bind(rows::signed(first))
        .bind(rows::signed(last.min(end.pos)))
        .fetch_all(conn)
        .await?;
    // A row that cannot be read is one that differs.
    let events = held
        .iter()
        .filter_map(|row| rows::named(log.id(), row).ok());
    Ok(events.collect())
}

async fn bounded<T>(step: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    let silent = || sqlx::Error::Io(std::io::ErrorKind::TimedOut.into());
    timeout(STEP_MAX, step)
        .await
        .unwrap_or_else(|_| Err(silent()))
}

impl Drop for Lane<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            let mut lanes = self.writers.lock();
            let left = lanes.queues.remove(&self.log).unwrap_or_default();
            lanes.waiting -= left.len();
        }
    }
}

impl Room {
    /// `None` when there is none. One request always gets in, however large.
    fn take(queued_bytes: &Arc<AtomicUsize>, bytes: usize) -> Option<Self> {
        let before = queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        let room = Self {
            queued_bytes: queued_bytes.clone(),
            bytes,
        };
        let fits = before == 0 || before.saturating_add(bytes) <= limits::QUEUE_BYTES_MAX;
        fits.then_some(room)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.queued_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
