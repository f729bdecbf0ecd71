//! One event as a person reads it, and as a script does.

use std::fmt::{self, Write};

use cocoonbox_events::{AgentEvent, BoxEvent, DirectoryEvent, ExecEvent, Kind, Payload, Recorded};
use cocoonbox_proto::{
    json,
    log::v1::{Actor, OutputSummary, actor},
};
use serde_json::{Value, json};
use time::OffsetDateTime;

/// Longest payload on a line, in characters.
const SHORT_CHARS_MAX: usize = 160;

/// One event. `Display` is one line that stays the same for ever; [`Line::to_json`] has everything.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    pub offset_key: String,
    pub pos: u64,
    /// Microseconds since the epoch.
    pub at_us: i64,
    pub stream: String,
    pub seq: u64,
    /// Name from the registry, or `kind.<number>` where this build does not know it.
    pub kind: String,
    pub version: u32,
    /// `user:<id>`, `box:<id>`, `agent:<id>`, `system:<id>`, `host`; `?` if it is not said.
    pub actor: String,
    /// Hex, as the event's cause.
    pub event_id: String,
    /// Empty if it is not said.
    pub cause: String,
    pub erased: bool,
    /// Protobuf JSON, see [`payload_json`]; null if erased or not known to this build.
    pub payload: Value,
}

impl Line {
    pub fn of(event: &Recorded) -> Self {
        let header = event.header();
        let kind = Kind::from_number(event.kind);
        Self {
            offset_key: event.offset_key().to_string(),
            pos: event.pos,
            at_us: event.recorded_us,
            stream: event.stream.to_string(),
            seq: event.seq,
            kind: kind.map_or_else(
                || format!("kind.{}", event.kind),
                |kind| kind.name().to_owned(),
            ),
            version: event.version,
            actor: actor_text(header.actor.as_ref()),
            event_id: hex::encode(&header.event_id),
            cause: hex::encode(&header.cause),
            erased: event.body.is_none(),
            payload: payload_json(event),
        }
    }

    pub fn to_json(&self) -> Value {
        json!({
            "offset_key": self.offset_key,
            "pos": self.pos,
            "at": time_text(self.at_us),
            "stream": self.stream,
            "seq": self.seq,
            "kind": self.kind,
            "version": self.version,
            "actor": self.actor,
            "event_id": self.event_id,
            "cause": self.cause,
            "erased": self.erased,
            "payload": self.payload,
        })
    }

    /// Returns the payload on one line: `field=value`, cut where it is long.
    pub fn short(&self) -> String {
        if self.erased {
            return "(erased)".to_owned();
        }
        let mut text = String::new();
        if let Value::Object(fields) = &self.payload {
            for (name, value) in fields {
                let space = if text.is_empty() { "" } else { " " };
                // Writing to a string cannot fail.
                let _ = write!(text, "{space}{name}={value}");
            }
        }
        cut(&text)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            pos,
            stream,
            seq,
            kind,
            actor,
            ..
        } = self;
        let (at, short) = (time_text(self.at_us), self.short());
        write!(f, "{pos:>6} {at} {stream}#{seq} {kind} {actor}")?;
        if short.is_empty() {
            Ok(())
        } else {
            write!(f, " {short}")
        }
    }
}

/// Returns RFC 3339 in UTC with microseconds, always of one width.
pub fn time_text(at_us: i64) -> String {
    let Ok(at) = OffsetDateTime::from_unix_timestamp_nanos(i128::from(at_us) * 1000) else {
        return format!("{at_us}us");
    };
    let (date, time) = (at.date(), at.time());
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z",
        date.year(),
        u8::from(date.month()),
        date.day(),
        time.hour(),
        time.minute(),
        time.second(),
        time.microsecond()
    )
}

/// Returns a payload as protobuf JSON, in its newest form; null if there is none to be had.
///
/// Ids are in hex and output is text, where canonical JSON has base64.
pub fn payload_json(event: &Recorded) -> Value {
    let (Some(kind), Some(body)) = (Kind::from_number(event.kind), &event.body) else {
        return Value::Null;
    };
    let rendered = if event.version == kind.version() {
        json::render(kind.message(), &body.payload)
    } else {
        Payload::decode(event.kind, event.version, &body.payload)
            .ok()
            .and_then(|payload| json::render(kind.message(), &payload.encode().1))
    };
    let mut value = rendered.unwrap_or(Value::Null);
    if let Ok(Some(payload)) = event.payload() {
        spell_bytes(&payload, &mut value);
    }
    value
}

/// Returns a payload that is in no log as protobuf JSON, spelled as [`payload_json`] spells it.
pub fn event_json(payload: &Payload) -> Value {
    let (kind, bytes) = payload.encode();
    let mut value = json::render(kind.message(), &bytes).unwrap_or(Value::Null);
    spell_bytes(payload, &mut value);
    value
}

/// Writes ids and hashes in hex and what a program put out as text: nobody reads base64.
fn spell_bytes(payload: &Payload, value: &mut Value) {
    let hex = |bytes: &[u8]| hex::encode(bytes);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let spelled: Vec<(&str, String)> = match payload {
        Payload::Directory(DirectoryEvent::UserAdded(e)) => {
            vec![("/account_log", hex(&e.account_log))]
        }
        Payload::Box(BoxEvent::Created(e)) => vec![("/box_log", hex(&e.box_log))],
        Payload::Box(BoxEvent::LogAnchored(e)) => {
            vec![("/box_log", hex(&e.box_log)), ("/chain", hex(&e.chain))]
        }
        Payload::Box(BoxEvent::LogRewound(e)) => vec![
            ("/old_log", hex(&e.old_log)),
            ("/new_log", hex(&e.new_log)),
            ("/chain", hex(&e.chain)),
        ],
        Payload::Agent(AgentEvent::ApprovalRequested(e)) => {
            vec![("/args_hash", hex(&e.args_hash))]
        }
        Payload::Exec(ExecEvent::OutputStreamed(e)) => vec![("/data", text(&e.data))],
        Payload::Exec(ExecEvent::Exited(e)) => {
            let (out, err) = (e.stdout.as_ref(), e.stderr.as_ref());
            let kept = |summary: Option<&OutputSummary>| {
                summary
                    .map(|kept| (text(&kept.head), text(&kept.tail)))
                    .unwrap_or_default()
            };
            let ((out_head, out_tail), (err_head, err_tail)) = (kept(out), kept(err));
            vec![
                ("/stdout/head", out_head),
                ("/stdout/tail", out_tail),
                ("/stderr/head", err_head),
                ("/stderr/tail", err_tail),
            ]
        }
        _ => Vec::new(),
    };
    for (path, spelled) in spelled {
        if let Some(field) = value.pointer_mut(path) {
            *field = Value::String(spelled);
        }
    }
}

fn actor_text(actor: Option<&Actor>) -> String {
    let Some(actor) = actor else {
        return "?".to_owned();
    };
    let kind = match actor.kind() {
        actor::Kind::Unspecified => return "?".to_owned(),
        actor::Kind::User => "user",
        actor::Kind::Box => "box",
        actor::Kind::Agent => "agent",
        actor::Kind::System => "system",
        actor::Kind::Host => "host",
        actor::Kind::Guest => "guest",
    };
    if actor.id.is_empty() {
        kind.to_owned()
    } else {
        format!("{kind}:{}", actor.id)
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(SHORT_CHARS_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
