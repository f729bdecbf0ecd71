//! What happened in an account, one line per event.

use cocoonbox_events::{
    BoxEvent, Kind, LogEvent, LogInfo, LogKind, Payload, Recorded, UsageEvent, UserEvent,
};
use cocoonbox_proto::{control::v1::AuditEntry, log::v1::actor};
use serde::{Deserialize, Serialize};

use crate::{
    boxes::told,
    projection::{ApplyError, Projection, Seen, at_ms},
    row_key,
    rows::{self, Rows, View},
};

/// Rises when a summary is worded differently.
const WORDING: u32 = 1;

pub struct Audit;

/// One line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRow {
    pub offset_key: String,
    pub at_ms: i64,
    /// `user:<id>`, `box:<id>`, `agent:<id>`, `system:<reactor>` or `host`; empty if nobody is named.
    pub actor: String,
    pub stream: String,
    /// Name from the registry, or `unknown.<number>`.
    pub kind: String,
    pub summary: String,
}

impl From<AuditRow> for AuditEntry {
    fn from(row: AuditRow) -> Self {
        Self {
            offset_key: row.offset_key,
            at_ms: row.at_ms,
            actor: row.actor,
            stream: row.stream,
            kind: row.kind,
            summary: row.summary,
        }
    }
}

impl Projection for Audit {
    fn name(&self) -> &'static str {
        "audit"
    }

    /// A build that knows more kinds reads old events differently, so the registry's size is part of
    /// the version.
    fn version(&self) -> u32 {
        WORDING * 10_000 + u32::try_from(Kind::ALL.len()).unwrap_or(u32::MAX)
    }

    fn views(&self) -> &'static [View] {
        &[View::Audit]
    }

    fn wants(&self, kind: LogKind) -> bool {
        kind == LogKind::Account
    }

    fn apply(
        &self,
        rows: &mut dyn Rows,
        event: &Recorded,
        log: &LogInfo,
    ) -> Result<(), ApplyError> {
        let (kind, summary) = match Seen::read(event)? {
            None => (format!("unknown.{}", event.kind), String::new()),
            Some(Seen {
                payload,
                erased: true,
            }) => (payload.kind().name().to_owned(), "erased".to_owned()),
            Some(Seen {
                payload,
                erased: false,
            }) => (payload.kind().name().to_owned(), summary(&payload)),
        };
        let row = AuditRow {
            offset_key: event.offset_key().to_string(),
            at_ms: at_ms(event),
            actor: actor_text(event),
            stream: event.stream.to_string(),
            kind,
            summary,
        };
        let key = row_key::key(&[
            &log.owner,
            row_key::log_order(log.kind),
            &row_key::pos(event.pos),
        ]);
        rows::put(rows, View::Audit, &key, &row)?;
        Ok(())
    }

    fn holds(&self, _: &dyn Rows, _: &Recorded, _: &LogInfo) -> Result<bool, rows::Error> {
        Ok(true)
    }

    fn clear(&self, rows: &mut dyn Rows, log: &LogInfo) -> Result<(), rows::Error> {
        rows.delete_prefix(
            View::Audit,
            &row_key::prefix(&[&log.owner, row_key::log_order(log.kind)]),
        )
    }
}

fn actor_text(event: &Recorded) -> String {
    let Some(actor) = event.header().actor else {
        return String::new();
    };
    let kind = match actor.kind() {
        actor::Kind::Unspecified => return actor.id,
        actor::Kind::User => "user",
        actor::Kind::Box => "box",
        actor::Kind::Agent => "agent",
        actor::Kind::System => "system",
        actor::Kind::Host => "host",
    };
    if actor.id.is_empty() {
        kind.to_owned()
    } else {
        format!("{kind}:{}", actor.id)
    }
}

fn summary(payload: &Payload) -> String {
    match payload {
        Payload::User(event) => user(event),
        Payload::Box(event) => of_box(event),
        Payload::Usage(UsageEvent::ModelCalled(call)) => format!(
            "{} {}: {} in, {} out, status {}{}",
            call.vendor,
            call.model,
            call.input_tokens,
            call.output_tokens,
            call.status,
            if call.complete { "" } else { ", cut" },
        ),
        Payload::Log(LogEvent::ErasureRequested(event)) => told(
            &format!("{} payloads", event.positions.len()),
            &event.reason,
        ),
        Payload::Log(LogEvent::ErasureDone(event)) => format!("{} payloads", event.positions.len()),
        // These do not stand in account logs.
        Payload::Directory(_) | Payload::Agent(_) | Payload::Exec(_) => String::new(),
    }
}

fn user(event: &UserEvent) -> String {
    match event {
        UserEvent::Created(e) if e.admin => format!("{}, admin", e.name),
        UserEvent::Created(e) => e.name.clone(),
        UserEvent::Renamed(e) => e.name.clone(),
        UserEvent::TokenIssued(e) => told(&e.token_id, &e.label),
        UserEvent::TokenRevoked(e) => e.token_id.clone(),
        UserEvent::Deleted(_) => String::new(),
    }
}

fn of_box(event: &BoxEvent) -> String {
    match event {
        BoxEvent::Created(e) => e.name.clone(),
        BoxEvent::Renamed(e) => e.name.clone(),
        BoxEvent::EnsureRequested(e) => e.operation_id.clone(),
        BoxEvent::WakeRequested(e) => e.operation_id.clone(),
        BoxEvent::Starting(e) => told(&e.operation_id, &e.image),
        BoxEvent::Running(e) => told(&e.operation_id, &e.agent_version),
        BoxEvent::HibernateRequested(e) => told(&e.operation_id, &e.reason),
        BoxEvent::Hibernated(e) => told(
            &e.operation_id,
            if e.memory_kept { "memory kept" } else { "" },
        ),
        BoxEvent::MachineLost(e) => e.detail.clone(),
        BoxEvent::Failed(e) => told(&e.operation_id, &told(&e.reason, &e.detail)),
        BoxEvent::DeleteRequested(e) => e.operation_id.clone(),
        BoxEvent::Deleted(e) => e.operation_id.clone(),
        BoxEvent::LogAnchored(e) => format!("at {}", e.pos),
    }
}
