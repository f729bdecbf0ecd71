//! An export as a store that is only read: every question that a store answers, an export answers.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use cocoonbox_events::{
    Append, AppendError, Appended, ChainHash, Checkpoint, LogId, LogInfo, NewLog, Page, ReadError,
    Recorded, ReplicaError, Store, StreamName, Tail, limits,
};
use tokio::sync::watch;

use super::{
    index::{Index, OpenError, Section},
    line::ExportLine,
};

/// What the files of an export folder end with.
const EXTENSION: &str = "jsonl";

/// Places in streams that are remembered. Past it they are found again by reading.
const BOOKMARKS_MAX: usize = 4_096;

/// Logs in the files of an export. Nothing is believed but what the lines say; hashes are checked by
/// whoever asks for it. Everything that writes is answered with [`AppendError::Stopped`].
pub struct ExportStore {
    index: Arc<Index>,
    /// Where a reader of a stream left off: behind which position its next events are.
    bookmarks: Mutex<HashMap<(LogId, StreamName, u64), u64>>,
    bell: watch::Sender<u64>,
}

impl ExportStore {
    /// Opens a file, or a folder with a file for each log. Reads all of it once.
    pub async fn open(path: &Path) -> Result<Self, OpenError> {
        let path = path.to_owned();
        let opening = {
            let path = path.clone();
            tokio::task::spawn_blocking(move || Index::build(&files(&path)?))
        };
        let index = opening.await.map_err(|error| OpenError::Io {
            path,
            source: io::Error::other(error),
        })??;
        let (bell, _) = watch::channel(0);
        Ok(Self {
            index: Arc::new(index),
            bookmarks: Mutex::default(),
            bell,
        })
    }

    /// Whether payloads were left out when it was made.
    pub fn is_redacted(&self) -> bool {
        self.index.redacted
    }

    fn section(&self, log: LogId) -> Result<&Section, ReadError> {
        self.index
            .sections
            .get(&log)
            .ok_or(ReadError::NoSuchLog { log })
    }

    /// The log that holds what follows `after` in the history of `log`, and up to where.
    fn holder(&self, log: LogId, after: u64) -> Result<(LogId, u64), ReadError> {
        let mut section = self.section(log)?;
        let mut to = section.info.tail.pos;
        while let Some(parent) = section.info.parent
            && after < parent.pos
        {
            to = to.min(parent.pos);
            section = self.section(parent.log)?;
        }
        Ok((section.info.id, to))
    }

    /// Reads on a thread that may wait for the disk.
    async fn section_page(
        &self,
        log: LogId,
        after: u64,
        to: u64,
        limit: usize,
        wanted: Option<StreamName>,
    ) -> Result<Page, ReadError> {
        let index = self.index.clone();
        let reading = tokio::task::spawn_blocking(move || {
            let Some(section) = index.sections.get(&log) else {
                return Err(ReadError::NoSuchLog { log });
            };
            page(section, after, to, limit, wanted.as_ref())
        });
        reading.await.map_err(failed)?
    }

    /// Behind which position the events of a stream behind `after` are to be looked for, and how far.
    fn span(
        &self,
        log: LogId,
        stream: &StreamName,
        after: u64,
    ) -> Result<Vec<(LogId, u64, u64)>, ReadError> {
        let mut spans = Vec::new();
        let mut section = self.section(log)?;
        let mut to = section.info.tail.pos;
        loop {
            if let Some((first, last)) = section.streams.get(stream) {
                spans.push((section.info.id, *first - 1, to.min(*last)));
            }
            let Some(parent) = section.info.parent else {
                break;
            };
            to = to.min(parent.pos);
            section = self.section(parent.log)?;
        }
        spans.reverse();
        let bookmarks = self
            .bookmarks
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(behind) = bookmarks.get(&(log, stream.clone(), after)) {
            spans.retain(|(_, _, to)| to > behind);
            for (_, from, _) in &mut spans {
                *from = (*from).max(*behind);
            }
        }
        Ok(spans)
    }

    fn remember(&self, log: LogId, stream: &StreamName, last: &Recorded) {
        let mut bookmarks = self
            .bookmarks
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if bookmarks.len() >= BOOKMARKS_MAX {
            bookmarks.clear();
        }
        bookmarks.insert((log, stream.clone(), last.seq), last.pos);
    }
}

/// The files of an export, in order.
fn files(path: &Path) -> Result<Vec<PathBuf>, OpenError> {
    let io = |source| OpenError::Io {
        path: path.to_owned(),
        source,
    };
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(io)? {
        let file = entry.map_err(io)?.path();
        if file.extension().is_some_and(|found| found == EXTENSION) {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(OpenError::NoHeader {
            path: path.to_owned(),
        });
    }
    Ok(files)
}

/// Reads a page of one section; of one stream if that is wanted.
fn page(
    section: &Section,
    after: u64,
    to: u64,
    limit: usize,
    wanted: Option<&StreamName>,
) -> Result<Page, ReadError> {
    let limit = limit.clamp(1, limits::PAGE_EVENTS_MAX);
    let (mut page, mut bytes) = (Page::default(), 0);
    let mut broken = None;
    let read = section.read(after, |pos, line| {
        if pos > to {
            return false;
        }
        let event = match line {
            Ok(ExportLine::Event(event)) => event,
            Ok(_) => {
                broken = Some((pos, "the line is not an event"));
                return false;
            }
            Err(error) => {
                broken = Some((pos, error.what()));
                return false;
            }
        };
        if wanted.is_some_and(|stream| *stream != event.stream) {
            return true;
        }
        bytes += event.bytes();
        if bytes > limits::PAGE_BYTES_MAX && !page.events.is_empty() {
            return false;
        }
        page.events.push(*event);
        page.events.len() < limit
    });
    read.map_err(failed)?;
    // What is in front of a damaged line is answered first.
    match broken {
        Some((pos, what)) if page.events.is_empty() => Err(ReadError::Damaged { pos, what }),
        _ => Ok(page),
    }
}

fn failed(source: impl std::error::Error + Send + Sync + 'static) -> ReadError {
    ReadError::Io(Box::new(source))
}

#[async_trait]
impl Store for ExportStore {
    async fn open(&self, _: NewLog) -> Result<Tail, AppendError> {
        Err(AppendError::Stopped)
    }

    async fn rewind(&self, _: NewLog) -> Result<Tail, AppendError> {
        Err(AppendError::Stopped)
    }

    async fn append(&self, _: LogId, _: Append) -> Result<Appended, AppendError> {
        Err(AppendError::Stopped)
    }

    async fn replicate(&self, _: LogId, _: Vec<Recorded>) -> Result<Tail, ReplicaError> {
        Err(ReplicaError::Store(AppendError::Stopped))
    }

    async fn keep_checkpoint(&self, _: LogId, _: Checkpoint) -> Result<(), AppendError> {
        Err(AppendError::Stopped)
    }

    async fn checkpoints(
        &self,
        log: LogId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Checkpoint>, ReadError> {
        let mut found = Vec::new();
        let mut broken = None;
        let read = self.section(log)?.checkpoints(|line| {
            match line {
                Ok(ExportLine::Checkpoint(_, kept)) if kept.size > after => found.push(kept),
                Ok(_) => {}
                Err(error) => broken = Some(error.what()),
            }
            found.len() < limit && broken.is_none()
        });
        read.map_err(failed)?;
        match broken {
            Some(what) => Err(ReadError::Damaged { pos: after, what }),
            None => Ok(found),
        }
    }

    async fn read(&self, log: LogId, after: u64, limit: usize) -> Result<Page, ReadError> {
        let (holder, to) = self.holder(log, after)?;
        self.section_page(holder, after, to, limit, None).await
    }

    async fn read_stream(
        &self,
        log: LogId,
        stream: &StreamName,
        after: u64,
        limit: usize,
    ) -> Result<Page, ReadError> {
        for (holder, from, to) in self.span(log, stream, after)? {
            let mut from = from;
            loop {
                let wanted = Some(stream.clone());
                let mut page = self.section_page(holder, from, to, limit, wanted).await?;
                let Some(last) = page.events.last() else {
                    break;
                };
                from = last.pos;
                page.events.retain(|event| event.seq > after);
                if let Some(last) = page.events.last() {
                    self.remember(log, stream, last);
                    return Ok(page);
                }
            }
        }
        Ok(Page::default())
    }

    async fn erase(&self, _: LogId, _: &[u64]) -> Result<(), AppendError> {
        Err(AppendError::Stopped)
    }

    fn tail(&self, log: LogId) -> Result<Tail, ReadError> {
        self.section(log).map(|section| section.info.tail)
    }

    async fn chain_at(&self, log: LogId, pos: u64) -> Result<ChainHash, ReadError> {
        let tail = self.tail(log)?;
        if pos > tail.pos {
            let tail = tail.pos;
            return Err(ReadError::AheadOfTail { pos, tail });
        }
        let mut section = self.section(log)?;
        while let Some(parent) = section.info.parent
            && pos < parent.pos
        {
            section = self.section(parent.log)?;
        }
        if pos == section.base() {
            return Ok(section.genesis);
        }
        let page = self.read(log, pos - 1, 1).await?;
        let what = "the event is not there";
        let event = page
            .events
            .first()
            .ok_or(ReadError::Damaged { pos, what })?;
        Ok(event.chain)
    }

    fn logs(&self) -> Vec<LogInfo> {
        let sections = self.index.sections.values();
        sections.map(|section| section.info.clone()).collect()
    }

    fn info(&self, log: LogId) -> Result<LogInfo, ReadError> {
        self.section(log).map(|section| section.info.clone())
    }

    fn doorbell(&self, log: LogId) -> Result<watch::Receiver<u64>, ReadError> {
        self.section(log).map(|_| self.bell.subscribe())
    }

    fn any_doorbell(&self) -> watch::Receiver<u64> {
        self.bell.subscribe()
    }
}
