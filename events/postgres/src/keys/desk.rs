//! A thread with a connection of its own, which can be asked from anywhere.
//!
//! The keyring is asked from threads of a runtime, which must not start another one, and from threads
//! without any. One question at a time also orders what the cache learns.

use std::{
    sync::{Arc, mpsc::RecvTimeoutError},
    time::{Duration, Instant},
};

use sqlx::{ConnectOptions, PgConnection, postgres::PgConnectOptions};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::{Cache, PgKeysError, REFRESH_EVERY};
use crate::error::Failure;

/// Longer than a start of the database takes to be noticed; who waits holds a thread.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Questions that wait. More threads than that do not wait for keys at once.
const QUEUE_MAX: usize = 1_024;
/// Destroyed keys are asked for as long after: far longer than any transaction may take.
const DESTROYED_WITHIN_SECONDS: i64 = 60;
/// Every so many questions, for all of them: against a database clock that jumped.
const WHOLE_EACH: u32 = 60;

pub(super) type Answering<'c, T> =
    std::pin::Pin<Box<dyn Future<Output = Result<T, PgKeysError>> + Send + 'c>>;

/// A question, its answer's type forgotten. Returns whether the connection is worth keeping.
type Question = Box<dyn for<'c> FnOnce(&'c mut PgConnection) -> Work<'c> + Send>;
type Work<'c> = std::pin::Pin<Box<dyn Future<Output = bool> + Send + 'c>>;

/// The way to the thread, which ends when this is dropped.
pub(super) struct Desk {
    questions: mpsc::Sender<Question>,
}

impl Desk {
    pub(super) fn start(connect: PgConnectOptions, cache: Arc<Cache>) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (questions, asked) = mpsc::channel(QUEUE_MAX);
        std::thread::Builder::new()
            .name("log-keys".into())
            .spawn(move || runtime.block_on(serve(connect, cache, asked)))?;
        Ok(Self { questions })
    }

    /// Asks from a task.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        question: impl for<'c> FnOnce(&'c mut PgConnection) -> Answering<'c, T> + Send + 'static,
    ) -> Result<T, PgKeysError> {
        let (reply, answer) = oneshot::channel();
        let work = boxed(question, |answer| drop(reply.send(answer)));
        self.questions
            .try_send(work)
            .map_err(|_| PgKeysError::Silent)?;
        let answer = timeout(ANSWER_MAX, answer).await;
        answer.map_or(Err(PgKeysError::Silent), |answer| {
            answer.unwrap_or(Err(PgKeysError::Silent))
        })
    }

    /// Asks and holds this thread until the answer is there.
    pub(super) fn ask_and_wait<T: Send + 'static>(
        &self,
        question: impl for<'c> FnOnce(&'c mut PgConnection) -> Answering<'c, T> + Send + 'static,
    ) -> Result<T, PgKeysError> {
        let (reply, answer) = std::sync::mpsc::sync_channel(1);
        let work = boxed(question, move |answer| drop(reply.send(answer)));
        self.questions
            .try_send(work)
            .map_err(|_| PgKeysError::Silent)?;
        match answer.recv_timeout(ANSWER_MAX) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                Err(PgKeysError::Silent)
            }
        }
    }
}

fn boxed<T: Send + 'static>(
    question: impl for<'c> FnOnce(&'c mut PgConnection) -> Answering<'c, T> + Send + 'static,
    reply: impl FnOnce(Result<T, PgKeysError>) + Send + 'static,
) -> Question {
    Box::new(move |conn| {
        let answering = question(conn);
        Box::pin(async move {
            let answer = answering.await;
            let is_whole = !matches!(&answer, Err(PgKeysError::Database(error)) if error.is_lost());
            reply(answer);
            is_whole
        })
    })
}

async fn serve(
    connect: PgConnectOptions,
    cache: Arc<Cache>,
    mut questions: mpsc::Receiver<Question>,
) {
    let mut conn: Option<PgConnection> = None;
    let mut refresh = tokio::time::interval(REFRESH_EVERY);
    refresh.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut count: u32 = 0;
    loop {
        let question = tokio::select! {
            question = questions.recv() => match question {
                Some(question) => Some(question),
                None => return,
            },
            _ = refresh.tick() => None,
        };
        let mut used = match conn.take() {
            Some(used) => used,
            None => match timeout(ANSWER_MAX, connect.connect()).await {
                Ok(Ok(made)) => made,
                failed => {
                    tracing::warn!(failed = ?failed.map(|_| ()), "no connection for the keys");
                    continue;
                }
            },
        };
        let is_whole = match question {
            Some(question) => timeout(ANSWER_MAX, question(&mut used)).await,
            None => {
                count = count.wrapping_add(1);
                let is_whole_poll = count.is_multiple_of(WHOLE_EACH);
                let refreshing = refreshed(&mut used, &cache, is_whole_poll);
                timeout(ANSWER_MAX, refreshing).await
            }
        };
        conn = Some(used).filter(|_| is_whole.unwrap_or(false));
    }
}

async fn refreshed(conn: &mut PgConnection, cache: &Cache, is_whole: bool) -> bool {
    let asked = Instant::now();
    let destroyed = sqlx::query_scalar(
        "SELECT owner FROM cocoonbox.owner_key WHERE sealed IS NULL
         AND ($1 OR destroyed_at >= clock_timestamp() - $2 * interval '1 second')",
    )
    .bind(is_whole)
    .bind(DESTROYED_WITHIN_SECONDS)
    .fetch_all(conn)
    .await;
    match destroyed {
        Ok(destroyed) => {
            cache.refresh(destroyed, asked);
            true
        }
        Err(error) => {
            tracing::warn!(%error, "destroyed keys not asked for");
            Failure::of(&error) != Failure::Lost
        }
    }
}
