//! The store in PostgreSQL: many logs, any number of replicas that write each of them.

mod batch;
mod directory;
mod erasing;
mod opening;
mod pages;
mod request;
mod rows;
mod sealing;
mod shelf;
mod tables;
mod watch;
mod writers;

use std::sync::Arc;

use async_trait::async_trait;
use cocoonbox_events::{
    AppendError, Appended, ChainHash, Checkpoint, Clock, CommandId, Happened, Ids, Keyring, LogId,
    LogInfo, NewLog, OffsetKey, Page, ReadError, Recorded, ReplicaError, Store, StreamName, Tail,
    limits, record,
    replica::End,
    sealing::{key_check, seal_append, seal_batch},
    tables::Tables,
};
use sqlx::Row;
use tokio::sync::{oneshot, watch as channel};
use tokio_util::task::AbortOnDropHandle;

pub use self::watch::Health;
use self::{
    directory::Log,
    opening::{chain_at, unread},
    pages::Pages,
    request::{Append, Asked, Job, Replicate},
    rows::{io, signed},
    sealing::writing_key,
    shelf::Shelf,
    watch::Watch,
    writers::{Failed, Writers},
};
use crate::{database::Database, error::OpenError};

/// Logs in one PostgreSQL database.
///
/// Any number of replicas read and write the same logs. Payloads are sealed on the caller's side with
/// the key that the [`Keyring`] has for the log.
///
/// [`Store::tail`], [`Store::logs`], [`Store::info`] and the doorbells answer from memory, which
/// follows this replica's own commits at once, those of others within some 10 ms (a second without
/// NOTIFY). Reading at the end that is known answers the same way. Everything that is decided upon
/// ([`Store::append`], [`Store::read_stream`], [`Store::happened`], [`Store::resume`]) asks the database.
pub struct PgStore {
    database: Database,
    keys: Arc<dyn Keyring>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    shelf: Arc<Shelf>,
    pages: Arc<Pages>,
    writers: Arc<Writers>,
    watch: Arc<Watch>,
}

impl PgStore {
    /// Reads which logs there are and begins to follow them. Wants a tokio runtime around it, for as
    /// long as it lives.
    pub async fn open(
        database: &Database,
        keys: Arc<dyn Keyring>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
    ) -> Result<Self, OpenError> {
        let shelf = Shelf::new(database.readers.clone(), database.control.clone());
        let shelf = Arc::new(shelf);
        shelf.refresh_moved(None).await.map_err(OpenError::Read)?;
        let watch = Arc::new(Watch::start(shelf.clone(), database.clone()));
        let publish = {
            let (shelf, watch) = (shelf.clone(), watch.clone());
            Box::new(move |log: &Arc<Log>, end: End| {
                shelf.directory.moved(log, end);
                watch.moved(log, end);
            })
        };
        let writers = Writers::new(database.writers.clone(), clock.clone(), publish);
        Ok(Self {
            database: database.clone(),
            pages: Arc::new(Pages::new(shelf.clone(), keys.clone())),
            keys,
            clock,
            ids,
            shelf,
            writers: Arc::new(writers),
            watch,
        })
    }

    /// Writes what is queued and stops following. Reading goes on working; appends are answered with
    /// [`AppendError::Stopped`].
    pub async fn close(&self) {
        self.writers.close().await;
        self.watch.close().await;
    }

    /// How well this replica hears of the others.
    pub fn health(&self) -> Health {
        self.watch.health()
    }

    async fn key_check(&self, new: &NewLog) -> Result<Option<[u8; 8]>, AppendError> {
        key_check(sealing::asked(&self.keys, new.id, new.owner.clone()).await)
    }
}

#[async_trait]
impl Store for PgStore {
    async fn open(&self, new: NewLog) -> Result<Tail, AppendError> {
        if let Some(log) = self.shelf.directory.get(new.id) {
            return if log.opened.is_same(&new) {
                Ok(log.tail())
            } else {
                Err(AppendError::OtherLog { log: new.id })
            };
        }
        let key_check = self.key_check(&new).await?;
        self.open_log(new, key_check, false).await
    }

    async fn rewind(&self, new: NewLog) -> Result<Tail, AppendError> {
        let key_check = self.key_check(&new).await?;
        self.open_log(new, key_check, true).await
    }

    async fn append(&self, id: LogId, append: record::Append) -> Result<Appended, AppendError> {
        let log = self.shelf.log(id).await.map_err(unread)?;
        let prepared = append.prepare(&*self.ids)?;
        let last_event = prepared.last().map(|event| event.event_id);
        let key = writing_key(&self.keys, &log).await?;
        let request = Append {
            command: append.command,
            digest: append.digest,
            expect: append.expect,
            events: seal_append(key.as_ref(), id, prepared)?,
            last_event,
        };
        let (reply, answer) = oneshot::channel();
        let job = Job::Append(Asked {
            request,
            outcome: None,
            reply,
        });
        self.writers.queue(&log, job)?;
        let answered = answer.await.unwrap_or(Err(AppendError::Unknown));
        if let Err(AppendError::Moved { to, .. }) = &answered
            && let Err(error) = self.shelf.refresh(&[id.0, to.0]).await
        {
            // Who is refused asks at once where the log goes on. Without this the next poll tells.
            tracing::warn!(%error, "a rewind of another replica is not known yet");
        }
        answered
    }

    async fn replicate(&self, id: LogId, events: Vec<Recorded>) -> Result<Tail, ReplicaError> {
        let log = self.shelf.log(id).await.map_err(|error| match error {
            ReadError::NoSuchLog { log } => ReplicaError::NoSuchLog { log },
            error => ReplicaError::Store(unread(error)),
        })?;
        let key = writing_key(&self.keys, &log).await;
        let key = key.map_err(ReplicaError::Store)?;
        let sealing = tokio::task::spawn_blocking(move || seal_batch(key.as_ref(), id, events));
        let (events, bodies) = sealing
            .await
            .map_err(|_| ReplicaError::Store(AppendError::Stopped))??;
        let (reply, answer) = oneshot::channel();
        let job = Job::Replicate(Asked {
            request: Replicate {
                events,
                bodies,
                held: Vec::new(),
            },
            outcome: None,
            reply,
        });
        self.writers.queue(&log, job).map_err(ReplicaError::Store)?;
        answer
            .await
            .unwrap_or(Err(ReplicaError::Store(AppendError::Unknown)))
    }

    async fn keep_checkpoint(&self, id: LogId, checkpoint: Checkpoint) -> Result<(), AppendError> {
        let log = self.shelf.log(id).await.map_err(unread)?;
        let failed = |error| Failed::Writing(error).error(id);
        let mut conn = self.database.writers.acquire().await.map_err(failed)?;
        // What is there once stays: no lock is needed to look.
        let size = checkpoint.size;
        let is_own = size >= log.base();
        if !is_own
            || chain_at(&mut conn, &log, size).await.map_err(failed)? != Some(checkpoint.chain)
        {
            return Err(AppendError::OtherHistory { log: id, pos: size });
        }
        sqlx::query(
            "INSERT INTO cocoonbox.checkpoint (log_id, size, chain, note) VALUES ($1, $2, $3, $4)
             ON CONFLICT DO NOTHING",
        )
        .bind(id.0)
        .bind(signed(size))
        .bind(checkpoint.chain.0.to_vec())
        .bind(checkpoint.note)
        .execute(&mut *conn)
        .await
        .map(drop)
        .map_err(|error| Failed::Committing(error).error(id))
    }

    async fn checkpoints(
        &self,
        id: LogId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Checkpoint>, ReadError> {
        self.shelf.log(id).await?;
        let limit = signed(limit.min(limits::PAGE_EVENTS_MAX) as u64);
        let ask = || {
            sqlx::query(
                "SELECT size, chain, note FROM cocoonbox.checkpoint
                 WHERE log_id = $1 AND size > $2 ORDER BY size LIMIT $3",
            )
            .bind(id.0)
            .bind(signed(after))
            .bind(limit)
        };
        let rows = self.shelf.read(ask).await?;
        rows.iter().map(rows::checkpoint).collect()
    }

    async fn read(&self, id: LogId, after: u64, limit: usize) -> Result<Page, ReadError> {
        let (log, to) = self.shelf.log(id).await?.holder(after);
        // Followers wait here: they cost nothing as long as nothing moves.
        if after >= log.end().pos && self.watch.is_fresh() {
            return Ok(Page::default());
        }
        let limit = limit.clamp(1, limits::PAGE_EVENTS_MAX);
        let (pages, holder) = (self.pages.clone(), log.clone());
        // A task of its own: it goes on while whoever asked works on what is in front of it.
        let reading = tokio::spawn(async move { pages.read(&holder, after, to, limit).await });
        let page = AbortOnDropHandle::new(reading)
            .await
            .map_err(|stopped| ReadError::Io(Box::new(stopped)))??;
        if let Some(last) = page.events.last() {
            let end = End {
                pos: last.pos,
                chain: last.chain,
                recorded_us: last.recorded_us,
            };
            self.shelf.directory.moved(&log, end);
        }
        Ok(page)
    }

    async fn read_stream(
        &self,
        id: LogId,
        stream: &StreamName,
        after: u64,
        limit: usize,
    ) -> Result<Page, ReadError> {
        let limit = limit.clamp(1, limits::PAGE_EVENTS_MAX);
        for (log, to) in self.shelf.log(id).await?.line().into_iter().rev() {
            let page = self.pages.read_stream(&log, stream, after, to, limit);
            let page = page.await?;
            if !page.events.is_empty() {
                return Ok(page);
            }
        }
        Ok(Page::default())
    }

    async fn erase(&self, id: LogId, positions: &[u64]) -> Result<(), AppendError> {
        self.shelf.log(id).await.map_err(unread)?;
        let positions: Vec<i64> = positions.iter().map(|pos| signed(*pos)).collect();
        let failed = |error| Failed::Committing(error).error(id);
        for positions in positions.chunks(limits::PAGE_EVENTS_MAX) {
            erasing::erase(&self.database.writers, id, positions)
                .await
                .map_err(failed)?;
        }
        Ok(())
    }

    async fn happened(&self, id: LogId, command: CommandId) -> Result<Option<Happened>, ReadError> {
        for (log, to) in self.shelf.log(id).await?.line() {
            let ask = || {
                sqlx::query(rows::SELECT_COMMANDS)
                    .bind(log.id().0)
                    .bind(vec![command.0])
            };
            for row in self.shelf.read(ask).await? {
                let (_, happened) = rows::command(&row, &log).map_err(io)?;
                if let Some(happened) = happened.filter(|happened| happened.range.last <= to) {
                    return Ok(Some(happened));
                }
            }
        }
        Ok(None)
    }

    fn tail(&self, id: LogId) -> Result<Tail, ReadError> {
        self.shelf.known(id).map(|log| log.tail())
    }

    async fn chain_at(&self, id: LogId, pos: u64) -> Result<ChainHash, ReadError> {
        let (log, _) = self.shelf.log(id).await?.holder(pos);
        if pos > log.end().pos {
            self.shelf.refresh(&[log.id().0]).await?;
        }
        let end = log.end();
        match pos {
            pos if pos == log.base() => Ok(log.genesis),
            pos if pos == end.pos => Ok(end.chain),
            pos if pos > end.pos => Err(ReadError::AheadOfTail { pos, tail: end.pos }),
            pos => {
                let ask = || {
                    sqlx::query(rows::SELECT_CHAIN)
                        .bind(log.id().0)
                        .bind(signed(pos))
                };
                let rows = self.shelf.read(ask).await?;
                let what = "it is missing";
                let row = rows.first().ok_or(ReadError::Damaged { pos, what })?;
                let chain = ChainHash::from_slice(row.try_get(0).map_err(io)?);
                chain.ok_or(ReadError::Damaged { pos, what: "chain" })
            }
        }
    }

    fn logs(&self) -> Vec<LogInfo> {
        self.shelf.directory.infos()
    }

    fn info(&self, id: LogId) -> Result<LogInfo, ReadError> {
        self.shelf.known(id).map(|log| log.info())
    }

    fn doorbell(&self, id: LogId) -> Result<channel::Receiver<u64>, ReadError> {
        self.shelf.known(id).map(|log| log.doorbell())
    }

    fn any_doorbell(&self) -> channel::Receiver<u64> {
        self.shelf.directory.any_doorbell()
    }

    fn tables(&self) -> Option<&dyn Tables> {
        Some(self)
    }

    async fn resume(&self, id: LogId, key: &OffsetKey) -> Result<u64, ReadError> {
        let mut log = self.shelf.log(id).await?;
        let mut common = u64::MAX;
        while log.id() != key.log {
            let other = ReadError::OtherLog { log: key.log };
            let before = log.before.clone().ok_or(other)?;
            common = common.min(log.base());
            log = before;
        }
        if key.pos > common {
            return Err(ReadError::Moved { to: id, common });
        }
        // Looks into the database before it calls a key ahead: another replica may have written it.
        let chain = self.chain_at(key.log, key.pos).await?;
        if chain.short() == key.chain {
            Ok(key.pos)
        } else {
            Err(ReadError::Diverged { pos: key.pos })
        }
    }
}

impl std::fmt::Debug for PgStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PgStore")
            .field("watch", &self.watch)
            .finish_non_exhaustive()
    }
}
