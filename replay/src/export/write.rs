//! Writing an export, event by event.

use std::{
    io::{self, Write},
    sync::Arc,
};

use cocoonbox_events::{LogId, LogInfo, Store, limits::PAGE_EVENTS_MAX};

use super::line::{ExportLine, Header, encode_line};
use crate::{error::Error, pages::Pages};

/// The program that checks an export with nothing but Python 3's standard library.
pub const VERIFIER: &str = include_str!("verify.py");

/// What is exported and how. Ends where the logs end when it is made.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Parents before their branches.
    logs: Vec<LogInfo>,
    redacted: bool,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub logs: u64,
    pub events: u64,
    pub checkpoints: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error(transparent)]
    Read(#[from] Error),
    #[error("writing the export")]
    Write(#[source] io::Error),
    #[error("event {pos} of log {log} cannot be put into JSON")]
    Encode {
        log: LogId,
        pos: u64,
        #[source]
        source: serde_json::Error,
    },
}

impl Plan {
    /// Plans an export of these logs as they are in the store at this moment.
    pub fn new(logs: impl IntoIterator<Item = LogInfo>, redacted: bool) -> Self {
        let mut left: Vec<LogInfo> = logs.into_iter().collect();
        let mut ordered: Vec<LogInfo> = Vec::with_capacity(left.len());
        while !left.is_empty() {
            let waits = |info: &LogInfo, left: &[LogInfo]| {
                let parent = info.parent.map(|parent| parent.log);
                left.iter().any(|other| Some(other.id) == parent)
            };
            let (later, ready): (Vec<_>, Vec<_>) =
                left.iter().cloned().partition(|info| waits(info, &left));
            if ready.is_empty() {
                // Parents in a circle: no store has them, and what verifies will say so.
                ordered.extend(later);
                break;
            }
            ordered.extend(ready);
            left = later;
        }
        Self {
            logs: ordered,
            redacted,
        }
    }

    pub fn logs(&self) -> &[LogInfo] {
        &self.logs
    }

    /// Writes one file with all logs in it.
    pub async fn write(
        &self,
        store: &Arc<dyn Store>,
        out: &mut (dyn Write + Send),
        see: &mut (dyn FnMut(u64) + Send),
    ) -> Result<Written, ExportError> {
        self.header(out)?;
        let mut written = Written::default();
        for info in &self.logs {
            self.log(store, info, out, &mut written, see).await?;
        }
        out.flush().map_err(ExportError::Write)?;
        Ok(written)
    }

    /// Writes one file of a folder, with one log in it.
    pub async fn write_one(
        &self,
        store: &Arc<dyn Store>,
        info: &LogInfo,
        out: &mut (dyn Write + Send),
        see: &mut (dyn FnMut(u64) + Send),
    ) -> Result<Written, ExportError> {
        self.header(out)?;
        let mut written = Written::default();
        self.log(store, info, out, &mut written, see).await?;
        out.flush().map_err(ExportError::Write)?;
        Ok(written)
    }

    fn header(&self, out: &mut (dyn Write + Send)) -> Result<(), ExportError> {
        let header = Header {
            redacted: self.redacted,
            logs: self.logs.iter().map(|info| info.id).collect(),
        };
        let at = self
            .logs
            .first()
            .map_or(LogId(uuid::Uuid::nil()), |info| info.id);
        self.line(&ExportLine::Header(header), (at, 0), out)
    }

    async fn log(
        &self,
        store: &Arc<dyn Store>,
        info: &LogInfo,
        out: &mut (dyn Write + Send),
        written: &mut Written,
        see: &mut (dyn FnMut(u64) + Send),
    ) -> Result<(), ExportError> {
        self.line(&ExportLine::Log(info.clone()), (info.id, 0), out)?;
        written.logs += 1;
        // What a branch inherits is in its parent's section.
        let base = info.parent.map_or(0, |parent| parent.pos);
        let mut pages = Pages::of_log(store, info.id, base)?.up_to(info.tail.pos);
        while let Some(events) = pages.next().await? {
            for event in events {
                let at = (event.log, event.pos);
                self.line(&ExportLine::Event(Box::new(event)), at, out)?;
                written.events += 1;
            }
            see(written.events);
        }
        let mut after = 0;
        loop {
            let kept = store
                .checkpoints(info.id, after, PAGE_EVENTS_MAX)
                .await
                .map_err(Error::read(info.id))?;
            let Some(last) = kept.last() else {
                return Ok(());
            };
            after = last.size;
            // Later ones speak of events that are not in this export.
            for checkpoint in kept.into_iter().filter(|kept| kept.size <= info.tail.pos) {
                let at = (info.id, checkpoint.size);
                self.line(&ExportLine::Checkpoint(info.id, checkpoint), at, out)?;
                written.checkpoints += 1;
            }
        }
    }

    fn line(
        &self,
        line: &ExportLine,
        (log, pos): (LogId, u64),
        out: &mut (dyn Write + Send),
    ) -> Result<(), ExportError> {
        let mut text = encode_line(line, self.redacted).map_err(|source| ExportError::Encode {
            log,
            pos,
            source,
        })?;
        text.push(b'\n');
        out.write_all(&text).map_err(ExportError::Write)
    }
}
