//! One line of an export.
//!
//! An export is JSON Lines. Each line is an object with one field, which says what the line is:
//!
//! * `header`: first in each file: format, whether payloads were left out, the ids of all exported logs.
//! * `log`: a log begins: kind, owner, parent, where it ends and the links at both ends.
//! * `event`: one event of that log, by position, with everything that its link covers.
//! * `checkpoint`: a signed checkpoint of that log.
//!
//! Bytes are in hex. What is there for people only (`name`, `at`, `actor`, `says`) is not read back.

use std::borrow::Cow;

use bytes::Bytes;
use cocoonbox_events::{
    ChainHash, Checkpoint, LogId, LogInfo, LogKind, Parent, PayloadHash, Recorded, StreamName,
    Tail, checkpoint::NOTE_BYTES_MAX, limits, record::Body,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::line::{Line, time_text};

/// What this build writes, and the newest that it reads.
pub const FORMAT: u32 = 1;

/// Longer lines are not read. The longest that is written has a payload of 256 KiB in hex, and again as
/// JSON for people with every byte escaped.
pub const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Owners are user ids.
const OWNER_BYTES_MAX: usize = 1024;

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportLine {
    Header(Header),
    Log(LogInfo),
    Event(Box<Recorded>),
    Checkpoint(LogId, Checkpoint),
}

/// The first line of each file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Payloads and salts were left out.
    pub redacted: bool,
    /// Every log of the export, those in other files of the same folder included.
    pub logs: Vec<LogId>,
}

/// Why a line is not one of an export.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum LineError {
    #[error("the line is longer than {LINE_BYTES_MAX} bytes")]
    TooLong,
    #[error("the line is not JSON of an export")]
    NotJson,
    #[error("the export has format {found}; this build reads up to {FORMAT}")]
    Newer { found: u32 },
    #[error("field `{field}` cannot be what it must be")]
    Field { field: &'static str },
}

impl LineError {
    /// The same without values, as a store tells of a damaged row.
    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::TooLong => "the line is too long",
            Self::NotJson => "the line is not JSON of an export",
            Self::Newer { .. } => "the line is of a newer format",
            Self::Field { field } => field,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Wire<'a> {
    #[serde(borrow)]
    Header(HeaderWire<'a>),
    #[serde(borrow)]
    Log(LogWire<'a>),
    #[serde(borrow)]
    Event(EventWire<'a>),
    #[serde(borrow)]
    Checkpoint(CheckpointWire<'a>),
}

#[derive(Serialize, Deserialize)]
struct HeaderWire<'a> {
    format: u32,
    redacted: bool,
    #[serde(borrow)]
    logs: Vec<Cow<'a, str>>,
    /// For people.
    #[serde(default, skip_deserializing)]
    by: &'a str,
}

#[derive(Serialize, Deserialize)]
struct LogWire<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    owner: Cow<'a, str>,
    #[serde(borrow)]
    parent: Option<PointWire<'a>>,
    #[serde(borrow)]
    moved_to: Option<Cow<'a, str>>,
    #[serde(borrow)]
    tail: PointWire<'a>,
}

/// A position in a log and the link there.
#[derive(Serialize, Deserialize)]
struct PointWire<'a> {
    #[serde(borrow)]
    log: Cow<'a, str>,
    pos: u64,
    #[serde(borrow)]
    chain: Cow<'a, str>,
}

#[derive(Serialize, Deserialize)]
struct EventWire<'a> {
    #[serde(borrow)]
    log: Cow<'a, str>,
    pos: u64,
    #[serde(borrow)]
    stream: Cow<'a, str>,
    seq: u64,
    kind: u32,
    version: u32,
    recorded_us: i64,
    #[serde(borrow)]
    header: Cow<'a, str>,
    /// Both or neither.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    salt: Option<Cow<'a, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    payload: Option<Cow<'a, str>>,
    #[serde(borrow)]
    payload_hash: Cow<'a, str>,
    #[serde(borrow)]
    chain: Cow<'a, str>,
    // The rest says it again in words.
    #[serde(skip_deserializing, skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(skip_deserializing, skip_serializing_if = "String::is_empty")]
    at: String,
    #[serde(skip_deserializing, skip_serializing_if = "String::is_empty")]
    actor: String,
    #[serde(skip_deserializing, skip_serializing_if = "Value::is_null")]
    says: Value,
}

#[derive(Serialize, Deserialize)]
struct CheckpointWire<'a> {
    #[serde(borrow)]
    log: Cow<'a, str>,
    size: u64,
    #[serde(borrow)]
    chain: Cow<'a, str>,
    #[serde(borrow)]
    note: Cow<'a, str>,
}

/// Reads one line, without its line break. Checks forms and sizes, no hashes.
///
/// Pure and bounded: it keeps no more than the line has, whatever is in it.
pub fn decode_line(line: &[u8]) -> Result<ExportLine, LineError> {
    if line.len() > LINE_BYTES_MAX {
        return Err(LineError::TooLong);
    }
    match serde_json::from_slice(line).map_err(|_| LineError::NotJson)? {
        Wire::Header(wire) => wire.read(),
        Wire::Log(wire) => wire.read(),
        Wire::Event(wire) => wire.read(),
        Wire::Checkpoint(wire) => wire.read(),
    }
}

/// Writes one line, without a line break.
pub fn encode_line(line: &ExportLine, redacted: bool) -> Result<Vec<u8>, serde_json::Error> {
    let wire = match line {
        ExportLine::Header(header) => Wire::Header(HeaderWire {
            format: FORMAT,
            redacted: header.redacted,
            logs: header.logs.iter().map(|id| id.to_string().into()).collect(),
            by: concat!("cocoonbox ", env!("CARGO_PKG_VERSION")),
        }),
        ExportLine::Log(info) => Wire::Log(LogWire::of(info)),
        ExportLine::Event(event) => Wire::Event(EventWire::of(event, redacted, true)),
        ExportLine::Checkpoint(log, kept) => Wire::Checkpoint(CheckpointWire {
            log: log.to_string().into(),
            size: kept.size,
            chain: kept.chain.to_string().into(),
            note: kept.note.as_str().into(),
        }),
    };
    let text = serde_json::to_vec(&wire)?;
    match line {
        // What is for people may go; what verifies may not.
        ExportLine::Event(event) if text.len() > LINE_BYTES_MAX => {
            serde_json::to_vec(&Wire::Event(EventWire::of(event, redacted, false)))
        }
        _ => Ok(text),
    }
}

impl HeaderWire<'_> {
    fn read(self) -> Result<ExportLine, LineError> {
        if self.format > FORMAT {
            return Err(LineError::Newer { found: self.format });
        }
        let logs = self.logs.iter().map(|id| log_id(id, "logs"));
        Ok(ExportLine::Header(Header {
            redacted: self.redacted,
            logs: logs.collect::<Result<_, _>>()?,
        }))
    }
}

impl<'a> LogWire<'a> {
    fn of(info: &'a LogInfo) -> Self {
        let point = |log: LogId, pos, chain: ChainHash| PointWire {
            log: log.to_string().into(),
            pos,
            chain: chain.to_string().into(),
        };
        Self {
            id: info.id.to_string().into(),
            kind: kind_name(info.kind).into(),
            owner: info.owner.as_str().into(),
            parent: info.parent.map(|at| point(at.log, at.pos, at.chain)),
            moved_to: info.moved_to.map(|to| to.to_string().into()),
            tail: point(info.tail.log, info.tail.pos, info.tail.chain),
        }
    }

    fn read(self) -> Result<ExportLine, LineError> {
        let id = log_id(&self.id, "id")?;
        let field = |field| LineError::Field { field };
        let kind = [LogKind::System, LogKind::Account, LogKind::Box]
            .into_iter()
            .find(|kind| kind_name(*kind) == self.kind)
            .ok_or(field("kind"))?;
        if self.owner.len() > OWNER_BYTES_MAX {
            return Err(field("owner"));
        }
        let parent = self.parent.map(|point| {
            Ok(Parent {
                log: log_id(&point.log, "parent")?,
                pos: point.pos,
                chain: chain(&point.chain, "parent")?,
            })
        });
        let parent = parent.transpose()?;
        let moved_to = self.moved_to.map(|to| log_id(&to, "moved_to"));
        let tail = Tail {
            log: id,
            pos: self.tail.pos,
            chain: chain(&self.tail.chain, "tail")?,
        };
        let base = parent.map_or(0, |parent| parent.pos);
        if tail.pos < base || parent.is_some_and(|parent| parent.log == id) {
            return Err(field("parent"));
        }
        Ok(ExportLine::Log(LogInfo {
            id,
            kind,
            owner: self.owner.into_owned(),
            parent,
            moved_to: moved_to.transpose()?,
            tail,
        }))
    }
}

impl<'a> EventWire<'a> {
    fn of(event: &'a Recorded, redacted: bool, with_words: bool) -> Self {
        let body = event.body.as_ref().filter(|_| !redacted);
        let (mut name, mut at, mut actor, mut says) = Default::default();
        if with_words {
            let line = Line::of(event);
            (name, at, actor) = (line.kind, time_text(line.at_us), line.actor);
            if body.is_some() {
                says = line.payload;
            }
        }
        Self {
            log: event.log.to_string().into(),
            pos: event.pos,
            stream: event.stream.as_str().into(),
            seq: event.seq,
            kind: event.kind,
            version: event.version,
            recorded_us: event.recorded_us,
            header: hex::encode(&event.header).into(),
            salt: body.map(|body| hex::encode(body.salt).into()),
            payload: body.map(|body| hex::encode(&body.payload).into()),
            payload_hash: event.payload_hash.to_string().into(),
            chain: event.chain.to_string().into(),
            name,
            at,
            actor,
            says,
        }
    }

    fn read(self) -> Result<ExportLine, LineError> {
        let field = |field| LineError::Field { field };
        let stream = StreamName::new(self.stream).map_err(|_| field("stream"))?;
        let body = match (self.salt, self.payload) {
            (Some(salt), Some(payload)) => {
                let mut bytes = [0; 16];
                hex::decode_to_slice(salt.as_bytes(), &mut bytes).map_err(|_| field("salt"))?;
                let payload = bounded(&payload, limits::PAYLOAD_BYTES_MAX, "payload")?;
                Some(Body {
                    salt: bytes,
                    payload,
                })
            }
            (None, None) => None,
            (Some(_), None) => return Err(field("payload")),
            (None, Some(_)) => return Err(field("salt")),
        };
        let mut payload_hash = [0; 32];
        hex::decode_to_slice(self.payload_hash.as_bytes(), &mut payload_hash)
            .map_err(|_| field("payload_hash"))?;
        if self.pos == 0 || self.seq == 0 {
            return Err(field(if self.pos == 0 { "pos" } else { "seq" }));
        }
        Ok(ExportLine::Event(Box::new(Recorded {
            log: log_id(&self.log, "log")?,
            pos: self.pos,
            stream,
            seq: self.seq,
            kind: self.kind,
            version: self.version,
            recorded_us: self.recorded_us,
            header: bounded(&self.header, limits::HEADER_BYTES_MAX, "header")?,
            body,
            payload_hash: PayloadHash(payload_hash),
            chain: chain(&self.chain, "chain")?,
        })))
    }
}

impl CheckpointWire<'_> {
    fn read(self) -> Result<ExportLine, LineError> {
        if self.note.len() > NOTE_BYTES_MAX {
            return Err(LineError::Field { field: "note" });
        }
        let checkpoint = Checkpoint {
            size: self.size,
            chain: chain(&self.chain, "chain")?,
            note: self.note.into_owned(),
        };
        Ok(ExportLine::Checkpoint(
            log_id(&self.log, "log")?,
            checkpoint,
        ))
    }
}

fn kind_name(kind: LogKind) -> &'static str {
    match kind {
        LogKind::System => "system",
        LogKind::Account => "account",
        LogKind::Box => "box",
    }
}

/// Exactly the form that is written: 32 hex digits.
fn log_id(text: &str, field: &'static str) -> Result<LogId, LineError> {
    let mut bytes = [0; 16];
    hex::decode_to_slice(text.as_bytes(), &mut bytes).map_err(|_| LineError::Field { field })?;
    LogId::from_slice(&bytes).ok_or(LineError::Field { field })
}

fn chain(text: &str, field: &'static str) -> Result<ChainHash, LineError> {
    let mut bytes = [0; 32];
    hex::decode_to_slice(text.as_bytes(), &mut bytes).map_err(|_| LineError::Field { field })?;
    Ok(ChainHash(bytes))
}

fn bounded(text: &str, bytes_max: usize, field: &'static str) -> Result<Bytes, LineError> {
    if text.len() > bytes_max * 2 {
        return Err(LineError::Field { field });
    }
    let bytes = hex::decode(text.as_bytes()).map_err(|_| LineError::Field { field })?;
    Ok(bytes.into())
}
