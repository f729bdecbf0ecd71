//! What happened in an account, one line per event.

use cocoonbox_events::{
    BoxEvent, BudgetEvent, CapsuleEvent, ControlEvent, ErasureEvent, Kind, LogEvent, LogInfo,
    LogKind, Payload, Recorded, RoutineEvent, ShareEvent, SnapshotEvent, UsageEvent, UserEvent,
};
use cocoonbox_proto::{
    control::v1::AuditEntry,
    log::v1::{
        BudgetAmount, BudgetScope, ModelRoles, RoutineDefinition, actor, control_released::Reason,
    },
};
use serde::{Deserialize, Serialize};

use crate::{
    boxes::told,
    projection::{ApplyError, Projection, Seen, at_ms},
    row_key,
    rows::{self, Rows, View},
};

/// Rises when a summary is worded differently or lies elsewhere.
const WORDING: u32 = 2;

pub struct Audit;

/// One line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRow {
    pub offset_key: String,
    pub at_ms: i64,
    /// `user:<id>`, `box:<id>`, `agent:<id>`, `system:<reactor>`, `guest:<share>` or `host`; empty if nobody is named.
    pub actor: String,
    pub stream: String,
    /// Name from the registry, or `unknown.<number>`.
    pub kind: String,
    pub summary: String,
    /// Left behind by a rewind of the log: it happened, and does not count. Told by who asks, for it
    /// may come true later.
    #[serde(skip)]
    pub undone: bool,
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
            undone: row.undone,
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

    fn gives_way(&self) -> bool {
        false
    }

    fn apply(
        &self,
        rows: &mut dyn Rows,
        event: &Recorded,
        log: &LogInfo,
    ) -> Result<(), ApplyError> {
        // What a branch inherits is told where it happened.
        if event.log != log.id {
            return Ok(());
        }
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
            undone: false,
        };
        let key = row_key::key(&[
            &log.owner,
            &row_key::time(event.recorded_us),
            &row_key::log(log.id),
            &row_key::pos(event.pos),
        ]);
        rows::put(rows, View::Audit, &key, &row)?;
        Ok(())
    }

    fn holds(&self, _: &dyn Rows, _: &Recorded, _: &LogInfo) -> Result<bool, rows::Error> {
        Ok(true)
    }

    fn clear(&self, rows: &mut dyn Rows, log: &LogInfo) -> Result<(), rows::Error> {
        let (all, of_log) = (row_key::prefix(&[&log.owner]), row_key::log(log.id));
        for (key, _) in rows::scan_all::<AuditRow>(rows, View::Audit, &all)? {
            if key.split('/').nth(2) == Some(&of_log) {
                rows.delete(View::Audit, &key)?;
            }
        }
        Ok(())
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
        actor::Kind::Guest => "guest",
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
            "{} {}: {} in, {} out{}, status {}{}",
            call.vendor,
            call.model,
            call.input_tokens,
            call.output_tokens,
            call.cost_micros
                .map(|micros| format!(", {}", dollars(micros)))
                .unwrap_or_default(),
            call.status,
            if call.complete { "" } else { ", cut" },
        ),
        Payload::Log(LogEvent::ErasureRequested(event)) => told(
            &format!("{} payloads", event.positions.len()),
            &event.reason,
        ),
        Payload::Log(LogEvent::ErasureDone(event)) => format!("{} payloads", event.positions.len()),
        // Of a system log.
        Payload::Log(LogEvent::CheckpointKeyIssued(event)) => event.name.clone(),
        Payload::Log(LogEvent::CheckpointKeyRetired(event)) => event.name.clone(),
        Payload::Erasure(event) => erasure(event),
        Payload::Budget(event) => budget(event),
        Payload::Control(event) => control(event),
        Payload::Routine(event) => routine(event),
        Payload::Snapshot(event) => snapshot(event),
        Payload::Capsule(event) => capsule(event),
        Payload::Share(event) => share(event),
        Payload::Log(LogEvent::Rewound(event)) => {
            told(&format!("to {}", event.common), &event.reason)
        }
        // These do not stand in account logs.
        Payload::Directory(_)
        | Payload::Agent(_)
        | Payload::Exec(_)
        | Payload::Blob(_)
        | Payload::Desktop(_) => String::new(),
    }
}

fn budget(event: &BudgetEvent) -> String {
    match event {
        BudgetEvent::Set(e) => {
            let scope = e.scope.clone().unwrap_or_default();
            let limits = [
                e.tokens_max.map(|max| format!("{max} tokens")),
                e.micros_max.map(dollars),
            ];
            let limits: Vec<String> = limits.into_iter().flatten().collect();
            let span = if e.per_day { "a day" } else { "in total" };
            let by = if e.imposed { ", by an admin" } else { "" };
            format!(
                "{} for {}: {} {span}{by}",
                e.number,
                scoped(&scope),
                limits.join(" and ")
            )
        }
        BudgetEvent::Cleared(e) => e.number.to_string(),
        BudgetEvent::Reserved(e) => told(&e.model, &amount(e.amount)),
        BudgetEvent::Settled(e) => told(
            &amount(e.used),
            &format!("of {} reserved", amount(e.reserved)),
        ),
        BudgetEvent::Expired(e) => e.reservation_id.clone(),
        BudgetEvent::Exceeded(e) => format!(
            "{}: {} asked for {}, {} used and {} reserved",
            e.number,
            scoped(&e.by.clone().unwrap_or_default()),
            amount(e.asked),
            amount(e.used),
            amount(e.reserved),
        ),
    }
}

fn control(event: &ControlEvent) -> String {
    match event {
        ControlEvent::Taken(e) => told(&format!("lease {} by {}", e.fence, e.user_id), &e.label),
        ControlEvent::Renewed(e) => format!("lease {}", e.fence),
        ControlEvent::Released(e) => {
            let reason = match e.reason() {
                Reason::Unspecified => "ended",
                Reason::HandedBack => "handed back",
                Reason::Gone => "its viewer is gone",
                Reason::Stolen => "taken by another",
                Reason::Unfenced => "the box could not be told",
            };
            told(&format!("lease {}, {reason}", e.fence), &e.note)
        }
        ControlEvent::Expired(e) => format!("lease {}", e.fence),
    }
}

fn routine(event: &RoutineEvent) -> String {
    let defined = |definition: &Option<RoutineDefinition>| {
        let definition = definition.clone().unwrap_or_default();
        let when = match definition.cron.as_str() {
            "" => format!("once at {}", definition.at_us / 1_000),
            cron => format!("{cron} {}", definition.zone),
        };
        format!("{} in box {}, {when}", definition.name, definition.box_id)
    };
    match event {
        RoutineEvent::Created(e) => defined(&e.definition),
        RoutineEvent::Changed(e) => defined(&e.definition),
        RoutineEvent::PromptSet(e) => format!("{} bytes", e.prompt.len()),
        RoutineEvent::Paused(e) => e.reason().as_str_name().to_lowercase(),
        RoutineEvent::Resumed(e) => format!("due at {}", e.next_us / 1_000),
        RoutineEvent::RunStarted(e) if e.due_us == 0 => told(&e.run_id, "asked for"),
        RoutineEvent::RunStarted(e) => told(&e.run_id, &format!("due at {}", e.due_us / 1_000)),
        RoutineEvent::RunPrompted(e) => told(&e.run_id, &e.offset_key),
        RoutineEvent::RunEnded(e) => {
            let outcome = e.outcome().as_str_name().to_lowercase();
            told(&e.run_id, &told(&outcome, &e.reason))
        }
        RoutineEvent::Missed(e) => format!(
            "due at {}, {}",
            e.due_us / 1_000,
            e.reason().as_str_name().to_lowercase()
        ),
        RoutineEvent::Deleted(_) => String::new(),
    }
}

fn snapshot(event: &SnapshotEvent) -> String {
    match event {
        SnapshotEvent::SaveRequested(e) => told(&e.save_id, &e.reason),
        SnapshotEvent::SaveBegun(e) => e.save_id.clone(),
        SnapshotEvent::Committed(e) => format!(
            "{}: {} files, {} changed, {} bytes added",
            e.snapshot_id, e.files, e.files_changed, e.bytes_added
        ),
        SnapshotEvent::Unchanged(e) => format!("as in {}", e.snapshot_id),
        SnapshotEvent::Failed(e) => told(&e.save_id, &told(&e.reason, &e.detail)),
        SnapshotEvent::Pruned(e) => told(&format!("{} snapshots", e.snapshot_ids.len()), &e.reason),
        SnapshotEvent::RestoreRequested(e) => format!(
            "{} paths of {}{}",
            e.paths.len(),
            e.snapshot_id,
            if e.in_place { ", in place" } else { "" }
        ),
        SnapshotEvent::Restored(e) => {
            format!("{} files, {} replaced", e.files, e.replaced)
        }
        SnapshotEvent::RestoreFailed(e) => told(&e.restore_id, &told(&e.reason, &e.detail)),
        SnapshotEvent::Pinned(e) => e.snapshot_id.clone(),
        SnapshotEvent::Unpinned(e) => e.snapshot_id.clone(),
    }
}

fn capsule(event: &CapsuleEvent) -> String {
    match event {
        CapsuleEvent::RuleSet(e) => format!(
            "all of {} hours, hourly for {} days, daily for {}, weekly for {}",
            e.all_hours, e.hourly_days, e.daily_days, e.weekly_days
        ),
        CapsuleEvent::SweepRequested(e) => told(&e.sweep_id, &e.reason),
        CapsuleEvent::SweepPlanned(e) => format!(
            "{} packs given up, {} rewritten, {} deleted",
            e.packs_given_up, e.packs_rewritten, e.packs_deleted
        ),
        CapsuleEvent::Swept(e) => {
            format!("{} bytes given back, {} left", e.bytes_deleted, e.bytes)
        }
        CapsuleEvent::SweepFailed(e) => told(&e.sweep_id, &e.reason),
        CapsuleEvent::KeyExported(e) => format!("to the device of token {}", e.token_id),
        CapsuleEvent::Checked(e) => format!(
            "part {} of {}: {} packs, {} damaged",
            e.slice + 1,
            e.of,
            e.packs,
            e.damaged
        ),
    }
}

fn share(event: &ShareEvent) -> String {
    match event {
        ShareEvent::Created(e) if e.for_user.is_empty() => told(&e.share_id, &e.label),
        ShareEvent::Created(e) => told(
            &format!("{}, for user {} only", e.share_id, e.for_user),
            &e.label,
        ),
        ShareEvent::Opened(e) if e.user_id.is_empty() => e.share_id.clone(),
        ShareEvent::Opened(e) => told(&format!("{} by {}", e.share_id, e.user_id), &e.label),
        ShareEvent::Regenerated(e) => e.share_id.clone(),
        ShareEvent::Revoked(e) => e.share_id.clone(),
        ShareEvent::Expired(e) => e.share_id.clone(),
    }
}

fn scoped(scope: &BudgetScope) -> String {
    match (scope.box_id.as_str(), scope.agent_id.as_str()) {
        ("", _) => "all boxes".to_owned(),
        (of, "") => format!("box {of}"),
        (of, agent) => format!("agent {agent} of box {of}"),
    }
}

fn amount(amount: Option<BudgetAmount>) -> String {
    let amount = amount.unwrap_or_default();
    format!("{} tokens ({})", amount.tokens, dollars(amount.micros))
}

fn dollars(micros: u64) -> String {
    format!("${}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

fn erasure(event: &ErasureEvent) -> String {
    match event {
        ErasureEvent::Requested(e) => told(&format!("{} payloads", e.positions.len()), &e.reason),
        ErasureEvent::ReplicaErased(e) => e.request_id.clone(),
        ErasureEvent::BoxErased(e) => e.request_id.clone(),
        ErasureEvent::BoxGone(e) => e.request_id.clone(),
    }
}

fn user(event: &UserEvent) -> String {
    match event {
        UserEvent::Created(e) if e.admin => format!("{}, admin", e.name),
        UserEvent::Created(e) => e.name.clone(),
        UserEvent::Renamed(e) => e.name.clone(),
        UserEvent::TokenIssued(e) => told(&e.token_id, &e.label),
        UserEvent::TokenRevoked(e) => e.token_id.clone(),
        UserEvent::PasskeyAdded(e) => told(&e.passkey_id, &e.name),
        UserEvent::PasskeyUsed(e) => told(&e.passkey_id, &e.token_id),
        UserEvent::PasskeyRefused(e) => told(
            &e.passkey_id,
            "its count went back: it may have been copied",
        ),
        UserEvent::PasskeyRemoved(e) => e.passkey_id.clone(),
        UserEvent::Deleted(_) => String::new(),
    }
}

fn models(models: Option<&ModelRoles>) -> String {
    let main = models.and_then(|models| models.main.as_ref());
    main.map_or_else(String::new, |main| main.model.clone())
}

fn of_box(event: &BoxEvent) -> String {
    match event {
        BoxEvent::Created(e) => e.name.clone(),
        BoxEvent::Renamed(e) => e.name.clone(),
        BoxEvent::ModelsSet(e) => models(e.models.as_ref()),
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
        BoxEvent::KeptAwake(e) if e.until_ms == 0 => "no longer".to_owned(),
        BoxEvent::KeptAwake(e) => format!("until {}", e.until_ms),
        BoxEvent::MemoryExhausted(e) => format!("{} processes killed", e.killed),
        BoxEvent::Failed(e) => told(&e.operation_id, &told(&e.reason, &e.detail)),
        BoxEvent::DeleteRequested(e) => e.operation_id.clone(),
        BoxEvent::Deleted(e) => e.operation_id.clone(),
        BoxEvent::LogAnchored(e) => format!("at {}", e.pos),
        BoxEvent::LogRewound(e) => told(
            &format!("back to {} of {}", e.common, e.left_pos),
            &e.reason,
        ),
    }
}
