//! The writer: one thread that owns the only write connection.
//!
//! Group commit without a timer: the fsync of one batch is the wait in which the next one gathers.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::{
    OpenError,
    batch::{Batch, Moved, State},
    directory::Directory,
    request::Request,
    rows::RowError,
    schema::{self, WriterLock},
};
use crate::{clock::Clock, limits, store::AppendError};

/// A batch ends here: more gains nothing and makes everybody in it wait.
const BATCH_EVENTS_MAX: usize = 256;
const BATCH_BYTES_MAX: usize = 1024 * 1024;
/// Dropping the store waits this long for the batch that is being written. A disk that takes longer
/// is broken; the thread is left to it, and goes with the process.
const DROP_WAIT: Duration = Duration::from_secs(5);

/// Why nothing of a batch is acked.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Unknown,
    DiskFull,
    Stopped,
}

/// A request with the place for its answer, its types forgotten.
trait Job: Send {
    fn weight(&self) -> (usize, usize);
    fn erases(&self) -> bool;
    fn apply(&mut self, batch: &mut Batch<'_>) -> rusqlite::Result<()>;
    fn answer(self: Box<Self>, fate: Result<(), Fate>);
}

struct Asked<R: Request> {
    request: R,
    /// Gives the room in the queue back when the request is done with.
    _room: Room,
    outcome: Option<Result<R::Done, R::Refusal>>,
    reply: oneshot::Sender<Result<R::Done, R::Refusal>>,
}

/// Bytes of requests that wait, counted as long as this lives.
struct Room {
    queued_bytes: Arc<AtomicUsize>,
    bytes: usize,
}

enum Message {
    Job(Box<dyn Job>),
    Close(oneshot::Sender<()>),
}

/// The way to the writer. Stops it when dropped.
pub(super) struct Handle {
    queue: Option<mpsc::Sender<Message>>,
    queued_bytes: Arc<AtomicUsize>,
    /// In a mutex only so that handles may be shared; nobody but drop looks at it.
    stopped: Mutex<std::sync::mpsc::Receiver<()>>,
}

struct Writer {
    path: PathBuf,
    clock: Arc<dyn Clock>,
    directory: Arc<Directory>,
    queue: mpsc::Receiver<Message>,
    /// `None` after a failure that a new connection could not be opened after either.
    open: Option<(Connection, State)>,
    size_max: Option<u64>,
    /// A job that did not fit into the batch before.
    waiting: Option<Box<dyn Job>>,
    closing: Option<oneshot::Sender<()>>,
    // Last: released only once the connection is gone.
    _lock: WriterLock,
}

impl Handle {
    /// Opens the write connection, reads the directory and starts the thread.
    pub(super) fn start(
        path: PathBuf,
        clock: Arc<dyn Clock>,
        directory: Arc<Directory>,
    ) -> Result<Self, OpenError> {
        let lock = WriterLock::take(&path)?;
        let conn = schema::open_writer(&path)?;
        schema::settle_first(&path, &conn)?;
        let state =
            State::load(&conn, &directory, None).map_err(|error| OpenError::row(&path, error))?;
        let (sender, queue) = mpsc::channel(limits::QUEUE_APPENDS_MAX);
        let (stopping, stopped) = std::sync::mpsc::sync_channel(1);
        let writer = Writer {
            path: path.clone(),
            clock,
            directory,
            queue,
            open: Some((conn, state)),
            size_max: None,
            waiting: None,
            closing: None,
            _lock: lock,
        };
        std::thread::Builder::new()
            .name("log-writer".into())
            .spawn(move || {
                let closing = writer.run();
                if let Some(reply) = closing {
                    let _ = reply.send(());
                }
                let _ = stopping.send(());
            })
            .map_err(|source| OpenError::Io { path, source })?;
        Ok(Self {
            queue: Some(sender),
            queued_bytes: Arc::default(),
            stopped: Mutex::new(stopped),
        })
    }

    /// Asks and waits for the answer. Refused at once when the queue is full.
    pub(super) async fn ask<R: Request>(&self, request: R) -> Result<R::Done, R::Refusal> {
        let (_, bytes) = request.weight();
        let room = Room::take(&self.queued_bytes, bytes);
        let room = room.ok_or_else(|| R::refusal(AppendError::Overloaded))?;
        let (reply, answer) = oneshot::channel();
        let job = Message::Job(Box::new(Asked {
            request,
            _room: room,
            outcome: None,
            reply,
        }));
        let Some(queue) = &self.queue else {
            return Err(R::refusal(AppendError::Stopped));
        };
        match queue.try_send(job) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => {
                return Err(R::refusal(AppendError::Overloaded));
            }
            Err(mpsc::error::TrySendError::Closed(_)) => {
                return Err(R::refusal(AppendError::Stopped));
            }
        }
        answer
            .await
            .unwrap_or_else(|_| Err(R::refusal(AppendError::Unknown)))
    }

    /// Waits until what is queued is written and the write-ahead log is in the file.
    pub(super) async fn close(&self) {
        let (reply, closed) = oneshot::channel();
        if let Some(queue) = &self.queue
            && queue.send(Message::Close(reply)).await.is_ok()
        {
            // An error: somebody else closed it first, which is as good.
            let _ = closed.await;
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

impl Drop for Handle {
    fn drop(&mut self) {
        drop(self.queue.take());
        let stopped = self
            .stopped
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if stopped.recv_timeout(DROP_WAIT).is_err() {
            tracing::warn!("the log writer did not stop in time");
        }
    }
}

impl<R: Request> Job for Asked<R> {
    fn weight(&self) -> (usize, usize) {
        self.request.weight()
    }

    fn erases(&self) -> bool {
        self.request.erases()
    }

    fn apply(&mut self, batch: &mut Batch<'_>) -> rusqlite::Result<()> {
        self.outcome = Some(self.request.apply(batch)?);
        Ok(())
    }

    fn answer(self: Box<Self>, fate: Result<(), Fate>) {
        let error = match fate {
            Ok(()) | Err(Fate::Unknown) => AppendError::Unknown,
            Err(Fate::DiskFull) => AppendError::DiskFull,
            Err(Fate::Stopped) => AppendError::Stopped,
        };
        let outcome = self.outcome.filter(|_| fate.is_ok());
        // Nobody waits any more: they repeat it with the same command id if they care.
        let _sent = self
            .reply
            .send(outcome.unwrap_or_else(|| Err(R::refusal(error))));
    }
}

impl Writer {
    fn run(mut self) -> Option<oneshot::Sender<()>> {
        while let Some(jobs) = self.gather() {
            self.write(jobs);
        }
        // Refuses what comes from here on; what came between is answered below.
        self.queue.close();
        while let Ok(message) = self.queue.try_recv() {
            if let Message::Job(job) = message {
                job.answer(Err(Fate::Stopped));
            }
        }
        if let Some((conn, _)) = self.open.take() {
            let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
            if let Err(error) = conn.query_row(checkpoint, [], |_| Ok(())) {
                tracing::warn!(%error, "write-ahead log not checkpointed on close");
            }
            if let Err((_, error)) = conn.close() {
                tracing::warn!(%error, "log database not closed");
            }
        }
        self.closing.take()
    }

    /// Waits for a job and takes what else is there. `None` when it is time to stop.
    fn gather(&mut self) -> Option<Vec<Box<dyn Job>>> {
        if self.closing.is_some() && self.waiting.is_none() {
            return None;
        }
        let mut jobs = Vec::new();
        let (mut events, mut bytes) = (0, 0);
        loop {
            let next = match self.waiting.take() {
                Some(job) => Some(Message::Job(job)),
                None if self.closing.is_some() => None,
                None if jobs.is_empty() => self.queue.blocking_recv(),
                None => self.queue.try_recv().ok(),
            };
            match next {
                Some(Message::Job(job)) => {
                    let weight = job.weight();
                    let fits = events + weight.0 <= BATCH_EVENTS_MAX
                        && bytes + weight.1 <= BATCH_BYTES_MAX;
                    if !fits && !jobs.is_empty() {
                        self.waiting = Some(job);
                        return Some(jobs);
                    }
                    (events, bytes) = (events + weight.0, bytes + weight.1);
                    jobs.push(job);
                }
                Some(Message::Close(reply)) => self.closing = Some(reply),
                None if jobs.is_empty() => return None,
                None => return Some(jobs),
            }
        }
    }

    fn write(&mut self, mut jobs: Vec<Box<dyn Job>>) {
        let fate = self.attempt(&mut jobs);
        // What was erased lies in the write-ahead log until that is empty. Not erased as far as anybody can
        // tell: asking again is fine.
        let erased = if fate.is_ok() && jobs.iter().any(|job| job.erases()) && !self.truncate() {
            Err(Fate::Unknown)
        } else {
            fate
        };
        for job in jobs {
            let fate = if job.erases() { erased } else { fate };
            job.answer(fate);
        }
    }

    /// Moves the write-ahead log into the file and empties it. Waits for readers, a page each.
    fn truncate(&self) -> bool {
        let Some((conn, _)) = &self.open else {
            return false;
        };
        let busy = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
            row.get::<_, i64>(0)
        });
        match busy {
            Ok(0) => true,
            Ok(_) => {
                tracing::warn!("write-ahead log is in use and was not emptied after an erasure");
                false
            }
            Err(error) => {
                tracing::warn!(%error, "write-ahead log was not emptied after an erasure");
                false
            }
        }
    }

    fn attempt(&mut self, jobs: &mut [Box<dyn Job>]) -> Result<(), Fate> {
        if self.open.is_none() {
            self.reopen()?;
        }
        let Some((conn, mut state)) = self.open.take() else {
            return Err(Fate::Stopped);
        };
        let now_us = self.clock.now_us();
        match commit(&conn, &self.directory, &mut state, now_us, jobs) {
            Ok(moved) => {
                self.size_max = state.size_max;
                self.directory.publish(moved.opened, &moved.ends);
                self.directory.close(&moved.closed);
                self.open = Some((conn, state));
                Ok(())
            }
            Err(error) => Err(self.recover(conn, &error)),
        }
    }

    /// A failed write poisons the connection: what it believes of the disk may be wrong. A new one
    /// reads what is there, and only that says what became of the batch.
    fn recover(&mut self, conn: Connection, error: &rusqlite::Error) -> Fate {
        tracing::error!(%error, "log write failed; reopening the database");
        // Rolls back what is still open. Its own error adds nothing.
        drop(conn);
        let before: Vec<_> = self.directory.all().iter().map(|log| log.tail()).collect();
        if let Err(fate) = self.reopen() {
            tracing::error!("log database cannot be reopened; appends are refused until it can");
            // That there is no room to reopen says nothing of a batch that failed of something else.
            return match fate {
                Fate::DiskFull if schema::is_full(error) => Fate::DiskFull,
                Fate::DiskFull | Fate::Unknown | Fate::Stopped => Fate::Unknown,
            };
        }
        let after: Vec<_> = self.directory.all().iter().map(|log| log.tail()).collect();
        if schema::is_full(error) && before == after {
            Fate::DiskFull
        } else {
            Fate::Unknown
        }
    }

    fn reopen(&mut self) -> Result<(), Fate> {
        let fate = |error: &rusqlite::Error| {
            if schema::is_full(error) {
                Fate::DiskFull
            } else {
                Fate::Stopped
            }
        };
        let conn = schema::open_writer(&self.path).map_err(|error| {
            tracing::error!(%error, "log database does not open");
            match &error {
                OpenError::Sqlite { source, .. } => fate(source),
                _ => Fate::Stopped,
            }
        })?;
        // A sync that failed once tells the next one nothing: what is read below was on its way then.
        match schema::settle(&conn) {
            Ok(true) => {}
            Ok(false) => {
                tracing::error!("log database is in use and cannot be settled");
                return Err(Fate::Stopped);
            }
            Err(error) => {
                tracing::error!(%error, "log database cannot be settled");
                return Err(fate(&error));
            }
        }
        let state =
            State::load(&conn, &self.directory, self.size_max).map_err(|error| match error {
                RowError::Sqlite(error) => fate(&error),
                RowError::Damaged { pos, what } => {
                    tracing::error!(pos, what, "log database is damaged");
                    Fate::Stopped
                }
            })?;
        self.open = Some((conn, state));
        Ok(())
    }
}

fn commit(
    conn: &Connection,
    directory: &Directory,
    state: &mut State,
    now_us: i64,
    jobs: &mut [Box<dyn Job>],
) -> rusqlite::Result<Moved> {
    let mut batch = Batch::begin(conn, directory, state, now_us)?;
    for job in jobs {
        job.apply(&mut batch)?;
    }
    batch.commit()
}
