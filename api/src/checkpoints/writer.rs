//! The task that makes checkpoints.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use cocoonbox_events::{
    AppendError, Clock, LogId, LogInfo, LogKind, ReadError, SigningKeys, Store,
    checkpoint::{self, BadKeyName, KeyName, Signer, Statement},
    keys::{IssuedKey, SigningError},
    limits::PAGE_EVENTS_MAX,
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    Standing,
    keys::{KeyBook, KeyError},
    objects::{ObjectError, Objects, Put},
};
use crate::status::describe;

/// A log that moves is signed at least this often: an auditor's last word is never older.
const EVENTS: u64 = 1_024;
const AGE: Duration = Duration::from_mins(1);
/// Logs are looked at four times a second at most, however often they ring.
const GATHER: Duration = Duration::from_millis(250);
/// After a failure. A full disk or a lost database does not come back faster for being asked more often.
const RETRY: Duration = Duration::from_secs(5);
/// Requests that wait for the task.
const REQUESTS_MAX: usize = 64;

/// What a checkpointer works with.
pub struct Parts {
    pub store: Arc<dyn Store>,
    pub keys: Arc<dyn SigningKeys>,
    pub objects: Arc<dyn Objects>,
    pub clock: Arc<dyn Clock>,
    /// The name in checkpoints and keys. `None`: one that follows from the system log's id, which never
    /// changes and is nobody else's.
    pub host: Option<KeyName>,
}

/// Makes checkpoints of every log.
pub struct Checkpointer {
    store: Arc<dyn Store>,
    objects: Arc<dyn Objects>,
    book: KeyBook,
    logs: HashMap<LogId, Kept>,
    requests: mpsc::Receiver<Request>,
    standing: watch::Sender<Standing>,
    retry_at: Option<Instant>,
}

/// Asks a [`Checkpointer`].
#[derive(Clone)]
pub struct Handle {
    requests: mpsc::Sender<Request>,
    standing: watch::Receiver<Standing>,
    book: KeyBook,
}

enum Request {
    /// A log has come to an end for some time.
    Now(LogId),
    Rotate(oneshot::Sender<Result<IssuedKey, CheckpointError>>),
}

/// How far one log is signed.
#[derive(Default)]
struct Kept {
    /// Size of its newest checkpoint.
    size: u64,
    /// Since when there is something to sign.
    since: Option<Instant>,
    is_urgent: bool,
    /// Sizes that are in the store and not in the objects.
    uncopied: BTreeSet<u64>,
}

/// Why a checkpoint was not made.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    #[error(transparent)]
    Keys(#[from] KeyError),
    #[error("keeping a checkpoint in the store")]
    Store(#[from] AppendError),
    #[error("reading checkpoints from the store")]
    Read(#[from] ReadError),
    #[error(transparent)]
    Objects(#[from] ObjectError),
}

impl Checkpointer {
    /// Prepares checkpoints of the logs of a store that has a system log.
    pub fn new(parts: Parts, system: LogId) -> Result<(Self, Handle), BadKeyName> {
        let host = match parts.host {
            Some(host) => host,
            None => KeyName::new(format!("cocoonbox-{system}"))?,
        };
        let book = KeyBook {
            keys: parts.keys,
            store: parts.store.clone(),
            clock: parts.clock,
            host,
            system,
        };
        let (sender, requests) = mpsc::channel(REQUESTS_MAX);
        let (standing, seen) = watch::channel(Standing::default());
        let handle = Handle {
            requests: sender,
            standing: seen,
            book: book.clone(),
        };
        let this = Self {
            store: parts.store,
            objects: parts.objects,
            book,
            logs: HashMap::new(),
            requests,
            standing,
            retry_at: None,
        };
        Ok((this, handle))
    }

    /// Runs until stopped, and then signs what has moved. Stop it last: what is appended behind it is
    /// signed by the next one.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut bell = self.store.any_doorbell();
        loop {
            bell.mark_unchanged();
            let swept = Instant::now();
            let next = self.sweep().await;
            let next = next.max(swept + GATHER);
            tokio::select! {
                () = stop.cancelled() => break,
                request = self.requests.recv() => match request {
                    Some(request) => self.answer(request).await,
                    None => break,
                },
                () = tokio::time::sleep_until(next) => {}
                _ = bell.changed() => {
                    tokio::select! {
                        () = stop.cancelled() => break,
                        () = tokio::time::sleep_until(swept + GATHER) => {}
                    }
                }
            }
        }
        self.requests.close();
        let logs = self.store.logs();
        for info in &logs {
            if let Err(error) = self.look(info, Instant::now()).await {
                self.failed(&error);
            }
        }
        for kept in self.logs.values_mut() {
            kept.is_urgent = true;
        }
        self.write_due(&logs).await;
    }

    async fn answer(&mut self, request: Request) {
        match request {
            Request::Now(log) => {
                self.logs.entry(log).or_default().is_urgent = true;
            }
            Request::Rotate(reply) => {
                let rotated = self.rotate().await;
                // Whoever asked may have gone.
                drop(reply.send(rotated));
            }
        }
    }

    /// Signs what is due. Returns when something will be.
    async fn sweep(&mut self) -> Instant {
        let now = Instant::now();
        if let Some(at) = self.retry_at.filter(|at| *at > now) {
            return at;
        }
        self.retry_at = None;
        let failed = self.standing.borrow().failed;
        let logs = self.store.logs();
        for info in &logs {
            if let Err(error) = self.look(info, now).await {
                self.failed(&error);
            }
        }
        self.write_due(&logs).await;
        self.standing.send_if_modified(|standing| {
            standing.failed == failed && standing.fault.take().is_some()
        });
        let waiting = self.logs.values().filter_map(|kept| kept.since);
        let next = waiting.map(|since| since + AGE).min();
        let next = next.map_or(now + AGE, |next| next.min(now + AGE));
        self.retry_at.unwrap_or(next)
    }

    /// Notes how far a log is. The first time the store is asked for its newest checkpoint.
    async fn look(&mut self, info: &LogInfo, now: Instant) -> Result<(), CheckpointError> {
        if !self.logs.contains_key(&info.id) {
            let mut kept = Kept::default();
            if let Some(newest) = checkpoint::newest(&*self.store, info).await? {
                kept.size = newest.size;
                // A process that ended between the store and the objects may have left others behind.
                if self.copy(info.id, newest.size, newest.note).await? == Put::Made {
                    kept.uncopied = self.sizes(info.id).await?;
                }
            }
            self.logs.insert(info.id, kept);
        }
        let base = info.parent.map_or(0, |parent| parent.pos);
        if let Some(kept) = self.logs.get_mut(&info.id)
            && info.tail.pos > kept.size.max(base)
        {
            kept.since.get_or_insert(now);
        }
        Ok(())
    }

    async fn write_due(&mut self, logs: &[LogInfo]) {
        let now = Instant::now();
        let due: Vec<&LogInfo> = logs
            .iter()
            .filter(|info| {
                self.logs
                    .get(&info.id)
                    .is_some_and(|kept| kept.is_due(info, now))
            })
            .collect();
        let mut behind = 0;
        if !due.is_empty() {
            match self.signers().await {
                Ok(signers) => {
                    for info in &due {
                        if let Err(error) = self.write(info, &signers).await {
                            behind += 1;
                            self.failed(&error);
                        }
                    }
                }
                Err(error) => {
                    behind = due.len() as u64;
                    self.failed(&error);
                }
            }
        }
        self.standing.send_if_modified(|standing| {
            let was = standing.clone();
            standing.logs_behind = behind;
            *standing != was
        });
    }

    /// Returns the keys that sign. Where several do, a rotation was cut short; it is finished first.
    async fn signers(&mut self) -> Result<Vec<Signer>, CheckpointError> {
        let signers = self.book.signers().await?;
        if signers.len() > 1 {
            self.hand_over().await?;
            return Ok(self.book.signers().await?);
        }
        self.book.announce().await?;
        Ok(signers)
    }

    async fn rotate(&mut self) -> Result<IssuedKey, CheckpointError> {
        // Without one there is nothing to rotate; with one that is not announced, nothing to build on.
        self.book.signers().await?;
        self.book.announce().await?;
        let key = self.book.rotate().await?;
        self.hand_over().await?;
        let all = self.book.all().await?;
        let issued = all.into_iter().find(|issued| issued.key == key);
        issued.ok_or_else(|| KeyError::Keys(SigningError::Damaged).into())
    }

    /// Lets the system log tell of the keys, has the first checkpoint behind that signed by the old ones
    /// as well, and retires them.
    async fn hand_over(&mut self) -> Result<(), CheckpointError> {
        self.book.announce().await?;
        let logs = self.store.logs();
        let signers = self.book.signers().await?;
        // What moved in other logs gets both words too; the system log's is what trust goes on by.
        for info in &logs {
            self.look(info, Instant::now()).await?;
            let is_system = info.kind == LogKind::System;
            let has_moved = self
                .logs
                .get(&info.id)
                .is_some_and(|kept| kept.since.is_some());
            if has_moved && let Err(error) = self.write(info, &signers).await {
                if is_system {
                    return Err(error);
                }
                self.failed(&error);
            }
        }
        self.book.retire_old().await?;
        Ok(())
    }

    /// Signs a log as it is, and keeps that in the store and in the objects.
    async fn write(&mut self, info: &LogInfo, signers: &[Signer]) -> Result<(), CheckpointError> {
        let (log, size) = (info.id, info.tail.pos);
        let kept = self.logs.entry(log).or_default();
        if size > kept.size {
            let statement = Statement {
                host: self.book.host.clone(),
                log,
                size,
                chain: info.tail.chain,
            };
            let note = statement.sign(signers);
            self.store
                .keep_checkpoint(log, note.to_checkpoint())
                .await?;
            kept.size = size;
            kept.uncopied.insert(size);
        }
        kept.since = None;
        kept.is_urgent = false;
        while let Some(size) = self.uncopied(log) {
            // Another process may have kept another note of this size first: that is the one.
            let rows = self.store.checkpoints(log, size - 1, 1).await?;
            if let Some(row) = rows.into_iter().find(|row| row.size == size) {
                self.copy(log, size, row.note).await?;
            }
            if let Some(kept) = self.logs.get_mut(&log) {
                kept.uncopied.remove(&size);
            }
        }
        self.standing.send_modify(|standing| standing.written += 1);
        Ok(())
    }

    fn uncopied(&self, log: LogId) -> Option<u64> {
        self.logs.get(&log)?.uncopied.first().copied()
    }

    async fn copy(&self, log: LogId, size: u64, note: String) -> Result<Put, CheckpointError> {
        let name = format!("checkpoints/{log}/{size:016}");
        let put = self.objects.put_new(&name, note.into_bytes()).await?;
        if put == Put::Other {
            tracing::error!(%log, size, "another checkpoint of this size was kept before");
            let alarm = format!("`{name}` is kept, and is not what the log has at {size}");
            self.standing.send_modify(|standing| {
                standing.alarm.get_or_insert(alarm);
            });
        }
        Ok(put)
    }

    /// Sizes of all checkpoints of a log.
    async fn sizes(&self, log: LogId) -> Result<BTreeSet<u64>, CheckpointError> {
        let mut sizes = BTreeSet::new();
        loop {
            let after = sizes.last().copied().unwrap_or(0);
            let page = self.store.checkpoints(log, after, PAGE_EVENTS_MAX).await?;
            if page.is_empty() {
                return Ok(sizes);
            }
            sizes.extend(page.iter().map(|row| row.size));
        }
    }

    fn failed(&mut self, error: &CheckpointError) {
        let error = describe(error);
        tracing::error!(error, "a checkpoint was not written");
        self.retry_at = Some(Instant::now() + RETRY);
        self.standing.send_modify(|standing| {
            standing.failed += 1;
            standing.fault = Some(error);
        });
    }
}

impl Kept {
    fn is_due(&self, info: &LogInfo, now: Instant) -> bool {
        let is_old = |since: Instant| now >= since + AGE;
        let has_moved = self.since.is_some();
        !self.uncopied.is_empty()
            || has_moved
                && (self.is_urgent
                    || info.tail.pos >= self.size + EVENTS
                    || self.since.is_some_and(is_old))
    }
}

impl Handle {
    /// Has a log signed at the next look, however little it has moved. Never waits: a full queue means
    /// that the task is busy with signing anyway.
    pub fn now(&self, log: LogId) {
        drop(self.requests.try_send(Request::Now(log)));
    }

    /// Signs with another key from here on. `None`: the api is stopping.
    pub async fn rotate(&self) -> Option<Result<IssuedKey, CheckpointError>> {
        let (reply, answer) = oneshot::channel();
        self.requests.send(Request::Rotate(reply)).await.ok()?;
        answer.await.ok()
    }

    /// Returns every key that was ever made, oldest first.
    pub async fn keys(&self) -> Result<Vec<IssuedKey>, KeyError> {
        self.book.all().await
    }

    pub fn standing(&self) -> Standing {
        self.standing.borrow().clone()
    }

    /// Rings when the standing has changed.
    pub fn watch(&self) -> watch::Receiver<Standing> {
        self.standing.clone()
    }
}
