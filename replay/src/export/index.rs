//! Where the lines of an export lie, so that any position can be read without the lines before it.

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io::{self, BufRead, BufReader, Read},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use cocoonbox_events::{ChainHash, LogId, LogInfo, StreamName};
use serde::Deserialize;

use super::line::{ExportLine, LINE_BYTES_MAX, LineError, decode_line};

/// One offset is kept for so many events: eight bytes for each 64, and at most so many lines are read
/// for nothing.
const STRIDE: u64 = 64;

/// How every event's line begins.
const EVENT: &[u8] = b"{\"event\":";

const BUFFER_BYTES: usize = 128 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("reading `{path}`")]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`{path}` is not an export: it has no header")]
    NoHeader { path: PathBuf },
    #[error("line {line} of `{path}`")]
    Line {
        path: PathBuf,
        line: u64,
        #[source]
        source: LineError,
    },
    #[error("line {line} of `{path}` belongs to no log")]
    Stray { path: PathBuf, line: u64 },
    #[error("the files of `{path}` are not of one export")]
    Mixed { path: PathBuf },
    #[error("log {log} is in the export twice")]
    Twice { log: LogId },
    #[error("log {log}, which the header names, is not in the export")]
    Missing { log: LogId },
    #[error("log {log} is in the export, but the header does not name it")]
    NotNamed { log: LogId },
    #[error("log {log} branches off itself")]
    Circle { log: LogId },
}

/// An export's logs and where they lie.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) redacted: bool,
    pub(super) sections: BTreeMap<LogId, Section>,
}

/// One log.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) info: LogInfo,
    /// The link in front of the first event.
    pub(super) genesis: ChainHash,
    file: Arc<File>,
    /// Events that are there; the log line may say another number.
    events: u64,
    /// Offsets of every [`STRIDE`]th event, from the first.
    offsets: Vec<u64>,
    /// First and last position of each stream here.
    pub(super) streams: HashMap<StreamName, (u64, u64)>,
    /// Offsets of the checkpoints.
    checkpoints: Vec<u64>,
}

impl Index {
    /// Reads every line once. Keeps a few bytes for each 64 events and each stream.
    pub(super) fn build(files: &[PathBuf]) -> Result<Self, OpenError> {
        let mut index = Self {
            redacted: false,
            sections: BTreeMap::new(),
        };
        let mut named: Option<Vec<LogId>> = None;
        for path in files {
            let header = index.file(path)?;
            index.redacted |= header.redacted;
            if named.get_or_insert_with(|| header.logs.clone()) != &header.logs {
                return Err(OpenError::Mixed { path: path.clone() });
            }
        }
        let named = named.unwrap_or_default();
        if let Some(log) = named.iter().find(|log| !index.sections.contains_key(*log)) {
            return Err(OpenError::Missing { log: *log });
        }
        if let Some(log) = index.sections.keys().find(|log| !named.contains(log)) {
            return Err(OpenError::NotNamed { log: *log });
        }
        index.check_parents()?;
        Ok(index)
    }

    fn file(&mut self, path: &Path) -> Result<super::Header, OpenError> {
        let io = |source| OpenError::Io {
            path: path.to_owned(),
            source,
        };
        let file = Arc::new(File::open(path).map_err(io)?);
        let mut lines = Lines::at(&file, 0);
        let mut number = 0;
        let mut header = None;
        let mut current: Option<Section> = None;
        while let Some(offset) = lines.next().map_err(io)? {
            number += 1;
            let wrong = |source| OpenError::Line {
                path: path.to_owned(),
                line: number,
                source,
            };
            let stray = || OpenError::Stray {
                path: path.to_owned(),
                line: number,
            };
            if lines.line.starts_with(EVENT) {
                let section = current.as_mut().ok_or_else(stray)?;
                section.event(offset, &lines.line);
                continue;
            }
            match decode_line(&lines.line) {
                Ok(ExportLine::Header(found)) if number == 1 => header = Some(found),
                Err(_) if number == 1 => return Err(no_header(path)),
                _ if header.is_none() => return Err(no_header(path)),
                Ok(ExportLine::Log(info)) => {
                    self.put(current.replace(Section::new(info, &file)))?;
                }
                Ok(ExportLine::Checkpoint(log, _)) => match &mut current {
                    Some(section) if section.info.id == log => section.checkpoints.push(offset),
                    _ => return Err(stray()),
                },
                Ok(ExportLine::Header(_) | ExportLine::Event(_)) => return Err(stray()),
                Err(source) => return Err(wrong(source)),
            }
        }
        self.put(current)?;
        header.ok_or_else(|| no_header(path))
    }

    fn put(&mut self, section: Option<Section>) -> Result<(), OpenError> {
        let Some(section) = section else {
            return Ok(());
        };
        let log = section.info.id;
        match self.sections.insert(log, section) {
            None => Ok(()),
            Some(_) => Err(OpenError::Twice { log }),
        }
    }

    /// Whoever reads a branch goes up to its first parent: that must end.
    fn check_parents(&self) -> Result<(), OpenError> {
        for log in self.sections.keys() {
            let mut at = *log;
            for _ in 0..=self.sections.len() {
                match self.sections.get(&at).and_then(|found| found.info.parent) {
                    Some(parent) => at = parent.log,
                    None => break,
                }
            }
            let end = self.sections.get(&at);
            if end.is_some_and(|found| found.info.parent.is_some()) {
                return Err(OpenError::Circle { log: *log });
            }
        }
        Ok(())
    }
}

fn no_header(path: &Path) -> OpenError {
    OpenError::NoHeader {
        path: path.to_owned(),
    }
}

/// As much of an event's line as the index wants.
#[derive(Deserialize)]
struct Peek<'a> {
    #[serde(borrow)]
    event: PeekEvent<'a>,
}

#[derive(Deserialize)]
struct PeekEvent<'a> {
    stream: &'a str,
}

impl Section {
    fn new(info: LogInfo, file: &Arc<File>) -> Self {
        let genesis = ChainHash::genesis(info.id, info.parent.map(|parent| parent.chain));
        Self {
            info,
            genesis,
            file: file.clone(),
            events: 0,
            offsets: Vec::new(),
            streams: HashMap::new(),
            checkpoints: Vec::new(),
        }
    }

    /// The position behind which this log's own events begin.
    pub(super) fn base(&self) -> u64 {
        self.info.parent.map_or(0, |parent| parent.pos)
    }

    fn event(&mut self, offset: u64, line: &[u8]) {
        if self.events.is_multiple_of(STRIDE) {
            self.offsets.push(offset);
        }
        self.events += 1;
        let pos = self.base() + self.events;
        // A line that cannot be read is found when its position is.
        if let Ok(Peek { event }) = serde_json::from_slice(line)
            && let Ok(stream) = StreamName::new(event.stream)
        {
            self.streams.entry(stream).or_insert((pos, pos)).1 = pos;
        }
    }

    /// Reads the lines of the events behind position `after`, which is not before [`Self::base`], until
    /// `each` has enough. Positions are counted here; `each` is told which one a line must be.
    pub(super) fn read(
        &self,
        after: u64,
        mut each: impl FnMut(u64, Result<ExportLine, LineError>) -> bool,
    ) -> io::Result<()> {
        let first = after - self.base();
        let Some(offset) = usize::try_from(first / STRIDE)
            .ok()
            .and_then(|slot| self.offsets.get(slot))
        else {
            return Ok(());
        };
        let mut at = first - first % STRIDE;
        let mut lines = Lines::at(&self.file, *offset);
        while at < self.events && lines.next()?.is_some() {
            if !lines.line.starts_with(EVENT) {
                continue;
            }
            at += 1;
            if at > first && !each(self.base() + at, decode_line(&lines.line)) {
                break;
            }
        }
        Ok(())
    }

    /// Reads the checkpoints, one after the other.
    pub(super) fn checkpoints(
        &self,
        mut each: impl FnMut(Result<ExportLine, LineError>) -> bool,
    ) -> io::Result<()> {
        for offset in &self.checkpoints {
            let mut lines = Lines::at(&self.file, *offset);
            if lines.next()?.is_none() || !each(decode_line(&lines.line)) {
                break;
            }
        }
        Ok(())
    }
}

/// Lines of a file, none longer in memory than [`LINE_BYTES_MAX`] and a byte.
struct Lines<'a> {
    reader: BufReader<At<'a>>,
    offset: u64,
    /// The line that was read last, without its break; cut where it is too long, which the byte more
    /// tells.
    line: Vec<u8>,
}

impl<'a> Lines<'a> {
    fn at(file: &'a File, offset: u64) -> Self {
        Self {
            reader: BufReader::with_capacity(BUFFER_BYTES, At { file, offset }),
            offset,
            line: Vec::new(),
        }
    }

    /// Reads the next line and returns its offset; `None` at the end of the file.
    fn next(&mut self) -> io::Result<Option<u64>> {
        let start = self.offset;
        self.line.clear();
        let limit = LINE_BYTES_MAX as u64 + 1;
        let mut taken = self
            .reader
            .by_ref()
            .take(limit)
            .read_until(b'\n', &mut self.line)?;
        if taken == 0 {
            return Ok(None);
        }
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        } else if self.line.len() > LINE_BYTES_MAX {
            taken += self.reader.skip_until(b'\n')?;
        }
        self.offset += taken as u64;
        Ok(Some(start))
    }
}

/// A file from an offset on. Readers share the file: its own cursor is not used.
struct At<'a> {
    file: &'a File,
    offset: u64,
}

impl Read for At<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}
