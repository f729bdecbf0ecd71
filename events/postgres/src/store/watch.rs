//! Hearing of other replicas' events, and telling them of ours.
//!
//! A doorbell never runs inside an append's transaction: NOTIFY serialises commits. A connection of its
//! own rings at most every 10 ms, another one listens, and every second the tails are asked for
//! regardless: a doorbell is a hint, the database is what counts.

use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use cocoonbox_events::{LogId, replica::End};
use sqlx::{
    ConnectOptions, PgConnection,
    postgres::{PgListener, PgPoolOptions},
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use uuid::Uuid;

use super::{directory::Log, shelf::Shelf};
use crate::database::Database;

const CHANNEL: &str = "cocoonbox";
/// Between two rings: a burst of commits is one notification.
const RING_EVERY: Duration = Duration::from_millis(10);
/// Give or take a fifth, so that replicas do not ask in step.
const POLL_EVERY: Duration = Duration::from_secs(1);
/// A tail is asked for as long after it moved: far longer than any transaction may take.
const MOVED_WITHIN_SECONDS: i64 = 60;
/// Every so many polls, all tails: against a database clock that jumped.
const WHOLE_POLL_EACH: u32 = 60;
/// A listener that does not hear its own replica for longer than two beats is dead, whatever its
/// socket says.
const BEAT_EVERY: Duration = Duration::from_secs(5);
const SILENCE_MAX: Duration = Duration::from_secs(12);
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5);
/// A notification holds less than 8,000 bytes; a log in it takes at most 54.
const LOGS_PER_RING: usize = 140;

/// The tasks, and what they share with the store.
pub(crate) struct Watch {
    shared: Arc<Shared>,
    tasks: TaskTracker,
}

struct Shared {
    shelf: Arc<Shelf>,
    database: Database,
    /// Tells our own beats from others'.
    replica: Uuid,
    to_ring: Mutex<BTreeMap<LogId, u64>>,
    ring: Notify,
    poll: Notify,
    stop: CancellationToken,
    started: Instant,
    polled_ms: AtomicU64,
    heard_ms: AtomicU64,
    is_listening: AtomicBool,
    reconnects: AtomicU64,
    failed_polls: AtomicU64,
}

/// How well a replica hears of the others.
#[derive(Clone, Copy, Debug)]
pub struct Health {
    /// Since the tails were last asked for with success.
    pub polled_ago: Duration,
    /// Since the doorbell's connection was last heard; `None` when only polling.
    pub heard_ago: Option<Duration>,
    pub is_listening: bool,
    /// How often the listening connection was lost.
    pub listener_losses: u64,
    pub failed_polls: u64,
}

impl Watch {
    /// Starts the tasks. The shelf has been filled once.
    pub(crate) fn start(shelf: Arc<Shelf>, database: Database) -> Self {
        let shared = Arc::new(Shared {
            shelf,
            database,
            replica: Uuid::now_v7(),
            to_ring: Mutex::default(),
            ring: Notify::new(),
            poll: Notify::new(),
            stop: CancellationToken::new(),
            started: Instant::now(),
            polled_ms: AtomicU64::new(0),
            heard_ms: AtomicU64::new(0),
            is_listening: AtomicBool::new(false),
            reconnects: AtomicU64::new(0),
            failed_polls: AtomicU64::new(0),
        });
        let tasks = TaskTracker::new();
        let (polling, ringing, listening) = (shared.clone(), shared.clone(), shared.clone());
        tasks.spawn(async move { polling.poll().await });
        if shared.database.notify {
            tasks.spawn(async move { ringing.ring().await });
            tasks.spawn(async move { listening.listen().await });
        }
        tasks.close();
        Self { shared, tasks }
    }

    /// Tells the other replicas that a log has moved, soon.
    pub(crate) fn moved(&self, log: &Log, end: End) {
        if self.shared.database.notify {
            let mut to_ring = self.shared.to_ring();
            to_ring.insert(log.id(), end.pos);
            drop(to_ring);
            self.shared.ring.notify_one();
        }
    }

    /// Whether what is known of the tails is not older than a poll or two.
    pub(crate) fn is_fresh(&self) -> bool {
        self.shared.since(&self.shared.polled_ms) < 3 * POLL_EVERY
    }

    pub(crate) fn health(&self) -> Health {
        let shared = &self.shared;
        let heard_ago = shared.since(&shared.heard_ms);
        Health {
            polled_ago: shared.since(&shared.polled_ms),
            heard_ago: Some(heard_ago).filter(|_| shared.database.notify),
            is_listening: shared.is_listening.load(Ordering::Relaxed),
            listener_losses: shared.reconnects.load(Ordering::Relaxed),
            failed_polls: shared.failed_polls.load(Ordering::Relaxed),
        }
    }

    pub(crate) async fn close(&self) {
        self.shared.stop.cancel();
        self.tasks.wait().await;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}

impl Shared {
    async fn poll(&self) {
        let mut count: u32 = 0;
        loop {
            let next = sleep(jittered(POLL_EVERY));
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = self.poll.notified() => {}
                () = next => {}
            }
            count = count.wrapping_add(1);
            let within =
                Some(MOVED_WITHIN_SECONDS).filter(|_| !count.is_multiple_of(WHOLE_POLL_EACH));
            let asked = tokio::select! {
                () = self.stop.cancelled() => return,
                asked = timeout(SILENCE_MAX, self.shelf.refresh_moved(within)) => asked,
            };
            match asked {
                Ok(Ok(())) => self.mark(&self.polled_ms),
                failed => {
                    // Once until it works again, not every second.
                    if self.since(&self.polled_ms) < 3 * POLL_EVERY {
                        tracing::warn!(?failed, "tails of the logs not read");
                    }
                    self.failed_polls.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    async fn ring(&self) {
        let mut conn: Option<PgConnection> = None;
        let mut beaten = Instant::now();
        let mut is_first = true;
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = self.ring.notified() => {}
                () = tokio::time::sleep_until(beaten + BEAT_EVERY), if !is_first => {}
                () = std::future::ready(()), if is_first => {}
            }
            let mut payloads = payloads(&std::mem::take(&mut *self.to_ring()));
            if is_first || beaten.elapsed() >= BEAT_EVERY {
                payloads.push(format!("beat:{}", self.replica.simple()));
                (beaten, is_first) = (Instant::now(), false);
            }
            if payloads.is_empty() {
                continue;
            }
            // What is lost here is found by polling.
            match timeout(SILENCE_MAX, self.notify(conn.take(), payloads)).await {
                Ok(Ok(used)) => conn = Some(used),
                failed => tracing::warn!(failed = ?failed.map(|_| ()), "doorbell not rung"),
            }
            sleep(RING_EVERY).await;
        }
    }

    async fn notify(
        &self,
        conn: Option<PgConnection>,
        payloads: Vec<String>,
    ) -> Result<PgConnection, sqlx::Error> {
        let mut conn = match conn {
            Some(conn) => conn,
            None => self.database.connect.connect().await?,
        };
        sqlx::query("SELECT pg_notify($1, payload) FROM unnest($2::text[]) payload")
            .bind(CHANNEL)
            .bind(payloads)
            .execute(&mut conn)
            .await?;
        Ok(conn)
    }

    async fn listen(&self) {
        let mut wait = RETRY_FIRST;
        loop {
            let heard = tokio::select! {
                () = self.stop.cancelled() => return,
                heard = self.listen_once() => heard,
            };
            self.is_listening.store(false, Ordering::Relaxed);
            self.reconnects.fetch_add(1, Ordering::Relaxed);
            // What was rung meanwhile was not heard.
            self.poll.notify_one();
            if heard.is_ok() {
                wait = RETRY_FIRST;
            }
            tracing::warn!(?heard, "doorbell's connection lost");
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = sleep(jittered(wait)) => {}
            }
            wait = (wait * 2).min(RETRY_MAX);
        }
    }

    /// Listens until the connection is lost. An error if it was never had.
    async fn listen_once(&self) -> Result<(), sqlx::Error> {
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .idle_timeout(None)
            .max_lifetime(None)
            .acquire_timeout(SILENCE_MAX)
            .connect_lazy_with(self.database.connect.clone());
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.listen(CHANNEL).await?;
        self.is_listening.store(true, Ordering::Relaxed);
        self.mark(&self.heard_ms);
        // What was rung before is not heard any more.
        self.poll.notify_one();
        while let Ok(Ok(Some(heard))) = timeout(SILENCE_MAX, listener.try_recv()).await {
            let mut logs = Vec::new();
            let mut next = Some(heard);
            while let Some(heard) = next {
                self.hear(heard.payload(), &mut logs);
                next = listener.next_buffered();
            }
            if !logs.is_empty()
                && let Err(error) = self.shelf.refresh(&logs).await
            {
                tracing::warn!(%error, "tails of the logs that were rung for not read");
            }
        }
        Ok(())
    }

    /// Takes a ring apart. Anybody who may connect can ring: what it says is only a reason to look.
    fn hear(&self, payload: &str, logs: &mut Vec<Uuid>) {
        for part in payload.split(',') {
            let Some((log, pos)) = part.split_once(':') else {
                continue;
            };
            if log == "beat" {
                if pos.parse() == Ok(self.replica) {
                    self.mark(&self.heard_ms);
                }
                continue;
            }
            let (Ok(log), Ok(pos)) = (log.parse::<LogId>(), pos.parse::<u64>()) else {
                continue;
            };
            if !self.shelf.knows(log, pos) {
                logs.push(log.0);
            }
        }
    }

    fn to_ring(&self) -> std::sync::MutexGuard<'_, BTreeMap<LogId, u64>> {
        self.to_ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mark(&self, at: &AtomicU64) {
        let now_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        at.store(now_ms, Ordering::Relaxed);
    }

    fn since(&self, at: &AtomicU64) -> Duration {
        let at = Duration::from_millis(at.load(Ordering::Relaxed));
        self.started.elapsed().saturating_sub(at)
    }
}

/// What is rung for these logs.
fn payloads(logs: &BTreeMap<LogId, u64>) -> Vec<String> {
    let logs: Vec<_> = logs.iter().collect();
    let ring = |logs: &[(&LogId, &u64)]| {
        logs.iter().fold(String::new(), |mut text, (log, pos)| {
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "{}{log}:{pos}",
                if text.is_empty() { "" } else { "," }
            );
            text
        })
    };
    logs.chunks(LOGS_PER_RING).map(ring).collect()
}

/// Give or take a fifth.
fn jittered(duration: Duration) -> Duration {
    let mut byte = [128];
    // Without randomness replicas ask in step, which is only a little worse.
    let _ = getrandom::fill(&mut byte);
    duration * (205 + u32::from(byte[0]) * 2 / 5) / 256
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Watch").field(&self.health()).finish()
    }
}
