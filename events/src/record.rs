//! Events: as they are asked for, and as they are in the log.

use bytes::Bytes;
use cocoonbox_proto::log::v1::{Actor, Header, RecordedEvent};
use prost::Message;

use crate::{
    chain::{ChainHash, PayloadHash},
    clock::Ids,
    id::{CommandId, EventId, LogId, StreamName},
    limits,
    offset_key::OffsetKey,
    registry::{DecodeError, Payload},
    store::{AppendError, Expect},
};

/// An event to be written.
#[derive(Clone, Debug)]
pub struct NewEvent {
    pub stream: StreamName,
    pub payload: Payload,
}

/// Events that are written together or not at all.
#[derive(Clone, Debug)]
pub struct Append {
    /// The same id a second time changes nothing and answers what the first time wrote.
    pub command: CommandId,
    /// What the command asks for, hashed by the caller; the same id with another digest is refused.
    pub digest: [u8; 32],
    /// Heads that must hold at this moment; several streams are allowed.
    pub expect: Vec<(StreamName, Expect)>,
    pub events: Vec<NewEvent>,
    pub actor: Actor,
    /// The event that led to these.
    pub cause: Option<EventId>,
}

/// One event of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    pub log: LogId,
    pub pos: u64,
    pub stream: StreamName,
    pub seq: u64,
    pub kind: u32,
    pub version: u32,
    pub recorded_us: i64,
    /// An encoded [`Header`], as it was written: it is hashed in this form.
    pub header: Bytes,
    /// `None` once erased, and for a reader without the log's key.
    pub body: Option<Body>,
    pub payload_hash: PayloadHash,
    pub chain: ChainHash,
}

/// The part of an event that can be erased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    pub salt: [u8; 16],
    pub payload: Bytes,
}

/// An event with everything that needs no lock already done: encoded, salted, hashed.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub event_id: EventId,
    pub stream: StreamName,
    pub kind: u32,
    pub version: u32,
    pub header: Bytes,
    pub body: Body,
    pub payload_hash: PayloadHash,
}

impl Append {
    /// Encodes, salts and hashes on the caller's thread, and checks the limits.
    pub fn prepare(&self, ids: &dyn Ids) -> Result<Vec<Prepared>, AppendError> {
        if self.events.len() > limits::APPEND_EVENTS_MAX {
            return Err(AppendError::TooMany {
                events: self.events.len(),
            });
        }
        if self.expect.len() > limits::APPEND_EVENTS_MAX {
            return Err(AppendError::TooMany {
                events: self.expect.len(),
            });
        }
        let mut total = 0;
        let mut prepared = Vec::with_capacity(self.events.len());
        for event in &self.events {
            let event_id = EventId(ids.draw());
            let header = Bytes::from(
                Header {
                    event_id: event_id.as_bytes().to_vec(),
                    command_id: self.command.as_bytes().to_vec(),
                    actor: Some(self.actor.clone()),
                    cause: self
                        .cause
                        .map(|id| id.as_bytes().to_vec())
                        .unwrap_or_default(),
                    trace_id: Vec::new(),
                }
                .encode_to_vec(),
            );
            let (kind, payload) = event.payload.encode();
            total += header.len() + payload.len();
            if payload.len() > limits::PAYLOAD_BYTES_MAX
                || header.len() > limits::HEADER_BYTES_MAX
                || total > limits::APPEND_BYTES_MAX
            {
                return Err(AppendError::TooLarge {
                    kind: kind.name(),
                    bytes: payload.len(),
                });
            }
            let salt = ids.salt().ok_or(AppendError::NoRandomness)?;
            let payload_hash = PayloadHash::of(&salt, &payload);
            prepared.push(Prepared {
                event_id,
                stream: event.stream.clone(),
                kind: kind.number(),
                version: kind.version(),
                header,
                body: Body {
                    salt,
                    payload: payload.into(),
                },
                payload_hash,
            });
        }
        Ok(prepared)
    }
}

impl Recorded {
    pub fn offset_key(&self) -> OffsetKey {
        OffsetKey::new(self.log, self.pos, self.chain)
    }

    /// Returns the payload in its newest form; `Ok(None)` if it was erased or cannot be opened.
    pub fn payload(&self) -> Result<Option<Payload>, DecodeError> {
        self.body
            .as_ref()
            .map(|body| Payload::decode(self.kind, self.version, &body.payload))
            .transpose()
    }

    /// Returns the header; a header that does not decode reads as empty.
    pub fn header(&self) -> Header {
        Header::decode(self.header.clone()).unwrap_or_default()
    }

    /// Bytes of an event as pages count them: what varies, not the fixed fields.
    pub fn bytes(&self) -> usize {
        let payload = self.body.as_ref().map_or(0, |body| body.payload.len());
        self.stream.as_str().len() + self.header.len() + payload
    }

    pub fn event_id(&self) -> Option<EventId> {
        EventId::from_slice(&self.header().event_id)
    }

    pub fn to_wire(&self) -> RecordedEvent {
        RecordedEvent {
            pos: self.pos,
            stream: self.stream.to_string(),
            seq: self.seq,
            kind: self.kind,
            version: self.version,
            recorded_us: self.recorded_us,
            header: self.header.to_vec(),
            salt: self
                .body
                .as_ref()
                .map(|b| b.salt.to_vec())
                .unwrap_or_default(),
            payload: self
                .body
                .as_ref()
                .map(|b| b.payload.to_vec())
                .unwrap_or_default(),
            erased: self.body.is_none(),
            payload_hash: self.payload_hash.0.to_vec(),
            chain: self.chain.0.to_vec(),
        }
    }

    /// Reads an event that came from elsewhere; `None` if a field cannot be what it must be. Hashes
    /// are not checked here: give it to a [`crate::chain::Verifier`].
    pub fn from_wire(log: LogId, event: RecordedEvent) -> Option<Self> {
        let too_large = event.header.len() > limits::HEADER_BYTES_MAX
            || event.payload.len() > limits::PAYLOAD_BYTES_MAX;
        if too_large {
            return None;
        }
        let body = if event.erased {
            None
        } else {
            let salt = event.salt.as_slice().try_into().ok()?;
            Some(Body {
                salt,
                payload: event.payload.into(),
            })
        };
        Some(Self {
            log,
            pos: event.pos,
            stream: StreamName::new(event.stream).ok()?,
            seq: event.seq,
            kind: event.kind,
            version: event.version,
            recorded_us: event.recorded_us,
            header: event.header.into(),
            body,
            payload_hash: PayloadHash::from_slice(&event.payload_hash)?,
            chain: ChainHash::from_slice(&event.chain)?,
        })
    }
}
