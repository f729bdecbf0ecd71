//! The store in one `SQLite` file: many logs, one writer thread, any number of readers.

mod batch;
mod directory;
mod error;
mod poll;
mod readers;
mod request;
mod rows;
mod schema;
mod tables;
mod writer;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use tokio::sync::watch;

pub use self::error::OpenError;
use self::{
    directory::{Directory, Log},
    poll::Poll,
    readers::Readers,
    request::{
        AppendRequest, CheckpointRequest, EraseRequest, OpenRequest, ReplicateRequest, SizeRequest,
    },
    rows::{RowError, Stored},
    writer::Handle,
};
use crate::{
    chain::ChainHash,
    clock::{Clock, Ids, SystemIds},
    id::{CommandId, LogId, StreamName},
    keys::Keyring,
    limits,
    record::{Append, Recorded},
    sealing::{self, open_body, seal_append, seal_batch, writing_key},
    store::{
        AppendError, Appended, Checkpoint, Happened, LogInfo, NewLog, Page, ReadError,
        ReplicaError, Store, Tail,
    },
    tables::Tables,
};

/// Logs in one `SQLite` file.
///
/// One process writes it (`<path>.lock` is held), others may read it. Payloads are sealed on the
/// caller's thread with the key that the [`Keyring`] has for the log. Async methods want a tokio
/// runtime around them: reading happens on its blocking threads.
pub struct SqliteStore {
    path: PathBuf,
    keys: Arc<dyn Keyring>,
    ids: Arc<dyn Ids>,
    directory: Arc<Directory>,
    readers: Arc<Readers>,
    role: Role,
}

enum Role {
    Writer(Handle),
    Reader(#[expect(dead_code, reason = "held: polls until it is dropped")] Poll),
}

impl SqliteStore {
    /// Opens the file for writing and reading, making it when there is none. Blocks: call it at start.
    pub fn open(
        path: impl AsRef<Path>,
        keys: Arc<dyn Keyring>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
    ) -> Result<Self, OpenError> {
        let path = path.as_ref().to_owned();
        let directory = Arc::new(Directory::default());
        let writer = Handle::start(path.clone(), clock, directory.clone())?;
        let readers = Arc::new(Readers::new(path.clone()));
        Ok(Self {
            path,
            keys,
            ids,
            directory,
            readers,
            role: Role::Writer(writer),
        })
    }

    /// Opens the file for reading only, while another process may write it. Its doorbells ring up to
    /// 50 ms late; everything that writes is answered with [`AppendError::Stopped`].
    pub fn open_read_only(
        path: impl AsRef<Path>,
        keys: Arc<dyn Keyring>,
    ) -> Result<Self, OpenError> {
        let path = path.as_ref().to_owned();
        let directory = Arc::new(Directory::default());
        let poll = Poll::start(path.clone(), directory.clone())?;
        let readers = Arc::new(Readers::new(path.clone()));
        Ok(Self {
            path,
            keys,
            ids: Arc::new(SystemIds),
            directory,
            readers,
            role: Role::Reader(poll),
        })
    }

    /// Lets the file grow to `bytes`; appends past it are refused with [`AppendError::DiskFull`].
    /// `None` lifts the limit. Never below the present size; the write-ahead log comes on top.
    pub async fn set_size_max(&self, bytes: Option<u64>) -> Result<(), AppendError> {
        self.writer()?.ask(SizeRequest(bytes)).await
    }

    /// Writes what is queued, moves the write-ahead log into the file and stops the writer. Reading
    /// goes on working; appends are answered with [`AppendError::Stopped`].
    pub async fn close(&self) {
        if let Role::Writer(writer) = &self.role {
            writer.close().await;
        }
    }

    /// Bytes of the write-ahead log, to be held against [`limits::WAL_BYTES_WARNING`].
    pub fn wal_bytes(&self) -> u64 {
        let mut wal = self.path.as_os_str().to_owned();
        wal.push("-wal");
        std::fs::metadata(wal).map_or(0, |wal| wal.len())
    }

    fn writer(&self) -> Result<&Handle, AppendError> {
        match &self.role {
            Role::Writer(writer) => Ok(writer),
            Role::Reader(_) => Err(AppendError::Stopped),
        }
    }

    async fn open_log(&self, new: NewLog, is_rewind: bool) -> Result<Tail, AppendError> {
        let writer = self.writer()?;
        // The first look at an owner's key makes it, and waits for the disk.
        let (keys, id, owner) = (self.keys.clone(), new.id, new.owner.clone());
        let sealing = tokio::task::spawn_blocking(move || keys.log_key(id, &owner));
        let found = sealing.await.map_err(|_| AppendError::Stopped)?;
        let key_check = sealing::key_check(found)?;
        writer
            .ask(OpenRequest {
                new,
                key_check,
                is_rewind,
            })
            .await
    }

    fn log(&self, id: LogId) -> Result<Arc<Log>, ReadError> {
        self.directory
            .get(id)
            .ok_or(ReadError::NoSuchLog { log: id })
    }

    async fn page(
        &self,
        log: Arc<Log>,
        limit: usize,
        query: impl FnOnce(
            &rusqlite::Connection,
            &mut dyn FnMut(Stored) -> bool,
        ) -> Result<(), RowError>
        + Send
        + 'static,
    ) -> Result<Page, ReadError> {
        let keys = self.keys.clone();
        self.readers
            .read(move |conn| {
                let sealing = log.sealing(&*keys);
                let (mut page, mut bytes) = (Page::default(), 0);
                let mut broken = None;
                query(conn, &mut |stored| {
                    let Stored { mut event, body } = stored;
                    bytes += event.bytes() + body.as_ref().map_or(0, Vec::len);
                    if bytes > limits::PAGE_BYTES_MAX && !page.events.is_empty() {
                        return false;
                    }
                    match open_body(&sealing, &event, body) {
                        Ok(body) => event.body = body,
                        Err(error) => {
                            broken = Some(error);
                            return false;
                        }
                    }
                    page.events.push(event);
                    page.events.len() < limit
                })
                .map_err(readers::row_error)?;
                broken.map_or(Ok(page), Err)
            })
            .await
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn open(&self, new: NewLog) -> Result<Tail, AppendError> {
        if let Some(log) = self.directory.get(new.id) {
            let same = log.opened.is_same(&new);
            return if same {
                Ok(log.tail())
            } else {
                Err(AppendError::OtherLog { log: new.id })
            };
        }
        self.open_log(new, false).await
    }

    async fn rewind(&self, new: NewLog) -> Result<Tail, AppendError> {
        self.open_log(new, true).await
    }

    async fn append(&self, id: LogId, append: Append) -> Result<Appended, AppendError> {
        let writer = self.writer()?;
        let log = self
            .directory
            .get(id)
            .ok_or(AppendError::NoSuchLog { log: id })?;
        let prepared = append.prepare(&*self.ids)?;
        let last_event = prepared.last().map(|event| event.event_id);
        let key = writing_key(log.sealing(&*self.keys))?;
        let events = seal_append(key.as_ref(), id, prepared)?;
        let Append {
            command,
            digest,
            expect,
            ..
        } = append;
        writer
            .ask(AppendRequest {
                log,
                command,
                digest,
                expect,
                events,
                last_event,
            })
            .await
    }

    async fn replicate(&self, id: LogId, events: Vec<Recorded>) -> Result<Tail, ReplicaError> {
        let writer = self.writer().map_err(ReplicaError::Store)?;
        let log = self
            .directory
            .get(id)
            .ok_or(ReplicaError::NoSuchLog { log: id })?;
        let (keys, sealed_for) = (self.keys.clone(), log.clone());
        // A page of a thousand events is some milliseconds of hashing.
        let sealing = tokio::task::spawn_blocking(move || {
            let key = writing_key(sealed_for.sealing(&*keys)).map_err(ReplicaError::Store)?;
            seal_batch(key.as_ref(), id, events)
        });
        let (events, bodies) = sealing
            .await
            .map_err(|_| ReplicaError::Store(AppendError::Stopped))??;
        writer
            .ask(ReplicateRequest {
                log,
                events,
                bodies,
            })
            .await
    }

    async fn read(&self, id: LogId, after: u64, limit: usize) -> Result<Page, ReadError> {
        let (log, to) = self.directory.holder(self.log(id)?, after);
        if after >= log.end().pos {
            return Ok(Page::default());
        }
        let (id, no) = (log.id(), log.no);
        let end = rows::event_no(no, log.end().pos.min(to)) + 1;
        let limit = limit.clamp(1, limits::PAGE_EVENTS_MAX);
        self.page(log, limit, move |conn, each| {
            let mut statement = conn.prepare_cached(rows::SELECT_AFTER)?;
            let limit = rows::signed(limit as u64);
            let bounds = (rows::event_no(no, after), end, limit);
            let mut rows = statement.query(bounds)?;
            while let Some(row) = rows.next()? {
                if !each(rows::stored(id, row)?) {
                    break;
                }
            }
            Ok(())
        })
        .await
    }

    async fn read_stream(
        &self,
        id: LogId,
        stream: &StreamName,
        after: u64,
        limit: usize,
    ) -> Result<Page, ReadError> {
        let log = self.log(id)?;
        let limit = limit.clamp(1, limits::PAGE_EVENTS_MAX);
        for (log, to) in self.directory.line(log).into_iter().rev() {
            let (id, no, stream) = (log.id(), log.no, stream.clone());
            let page = self.page(log, limit, move |conn, each| {
                let mut statement = conn.prepare_cached(rows::SELECT_STREAM)?;
                let (after, limit) = (rows::signed(after), rows::signed(limit as u64));
                let mut rows = statement.query((no, stream.as_str(), after, limit))?;
                while let Some(row) = rows.next()? {
                    let stored = rows::stored(id, row)?;
                    if stored.event.pos > to || !each(stored) {
                        break;
                    }
                }
                Ok(())
            });
            let page = page.await?;
            if !page.events.is_empty() {
                return Ok(page);
            }
        }
        Ok(Page::default())
    }

    async fn erase(&self, id: LogId, positions: &[u64]) -> Result<(), AppendError> {
        let writer = self.writer()?;
        let log = self
            .directory
            .get(id)
            .ok_or(AppendError::NoSuchLog { log: id })?;
        writer
            .ask(EraseRequest {
                log,
                positions: positions.to_vec(),
            })
            .await
    }

    async fn happened(&self, id: LogId, command: CommandId) -> Result<Option<Happened>, ReadError> {
        let line = self.directory.line(self.log(id)?);
        let find = move |conn: &rusqlite::Connection| {
            for (log, to) in line {
                let known = rows::happened(conn, &log, command).map_err(readers::io)?;
                if let Some(known) = known.filter(|known| known.range.last <= to) {
                    return Ok(Some(known));
                }
            }
            Ok(None)
        };
        self.readers.read(find).await
    }

    async fn keep_checkpoint(&self, id: LogId, checkpoint: Checkpoint) -> Result<(), AppendError> {
        let writer = self.writer()?;
        let log = self
            .directory
            .get(id)
            .ok_or(AppendError::NoSuchLog { log: id })?;
        writer.ask(CheckpointRequest { log, checkpoint }).await
    }

    async fn checkpoints(
        &self,
        id: LogId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Checkpoint>, ReadError> {
        let log = self.log(id)?;
        let limit = limit.min(limits::PAGE_EVENTS_MAX);
        let read = move |conn: &rusqlite::Connection| {
            rows::checkpoints(conn, log.no, after, limit).map_err(readers::row_error)
        };
        self.readers.read(read).await
    }

    fn tail(&self, id: LogId) -> Result<Tail, ReadError> {
        self.log(id).map(|log| log.tail())
    }

    fn ends_at(&self, id: LogId, pos: u64) -> bool {
        // Whoever has the writer is the only one who has it.
        self.writer().is_ok()
            && self
                .directory
                .get(id)
                .is_some_and(|log| log.end().pos == pos)
    }

    async fn chain_at(&self, id: LogId, pos: u64) -> Result<ChainHash, ReadError> {
        let (log, _) = self.directory.holder(self.log(id)?, pos);
        let end = log.end();
        match pos {
            pos if pos == log.base() => Ok(log.genesis),
            pos if pos == end.pos => Ok(end.chain),
            pos if pos > end.pos => Err(ReadError::AheadOfTail { pos, tail: end.pos }),
            pos => {
                let read = move |conn: &rusqlite::Connection| {
                    rows::chain_at(conn, log.no, pos).map_err(readers::row_error)
                };
                self.readers.read(read).await
            }
        }
    }

    fn logs(&self) -> Vec<LogInfo> {
        self.directory.infos()
    }

    fn info(&self, id: LogId) -> Result<LogInfo, ReadError> {
        self.log(id).map(|log| log.info())
    }

    fn doorbell(&self, id: LogId) -> Result<watch::Receiver<u64>, ReadError> {
        self.log(id).map(|log| log.doorbell())
    }

    fn any_doorbell(&self) -> watch::Receiver<u64> {
        self.directory.any_doorbell()
    }

    fn tables(&self) -> Option<&dyn Tables> {
        Some(self)
    }
}
