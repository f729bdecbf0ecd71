//! The boxes of each user, as the last event left them.

use cocoonbox_events::{BoxEvent, Kind, LogInfo, LogKind, Payload, Recorded};
use cocoonbox_proto::{
    control::v1::{self as control, State},
    log::v1::ModelRoles,
};
use prost::Message;
use serde::{Deserialize, Serialize, Serializer};

use crate::{
    projection::{ApplyError, Projection, Seen, at_ms},
    row_key,
    rows::{self, Rows, View},
};

pub struct Boxes;

/// One box.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoxRow {
    pub id: String,
    pub user_id: String,
    /// Number of [`State`].
    pub state: i32,
    pub name: String,
    /// Number of [`control::Flavor`].
    pub flavor: i32,
    /// The image of the last start; empty before the first.
    pub image: String,
    /// The operation under way; empty if none is.
    pub operation_id: String,
    /// Why the box is failed, or why its machine is gone; empty otherwise.
    pub failure: String,
    pub created_at_ms: i64,
    /// Text form of the offset key of the last change.
    pub offset_key: String,
    /// Id of the box's own log, hex.
    pub box_log: String,
    /// The wake id of the running (or starting) machine; empty otherwise.
    pub wake_id: String,
    pub agent_version: String,
    /// That and where the box's log was rewound last, and why; empty if it never was.
    pub notice: String,
    /// Processes of the last machine that were killed because its memory was full.
    pub memory_kills: u64,
    /// Until when it is not put to sleep for being idle; 0 = nobody asked for that.
    pub awake_until_ms: i64,
    /// The box's own models, encoded; empty if it has none.
    #[serde(serialize_with = "readable")]
    pub models: Vec<u8>,
}

/// People who compare rows are shown fields, not bytes.
fn readable<S: Serializer>(models: &Vec<u8>, serializer: S) -> Result<S::Ok, S::Error> {
    if serializer.is_human_readable()
        && let Some(fields) = cocoonbox_proto::json::render("cocoonbox.log.v1.ModelRoles", models)
    {
        return fields.serialize(serializer);
    }
    models.serialize(serializer)
}

impl BoxRow {
    pub fn state(&self) -> State {
        State::try_from(self.state).unwrap_or_default()
    }
}

impl From<BoxRow> for control::Box {
    /// Leaves out what only the api knows: promises, the installation's models, and whether there is a newer image;
    /// and the desktop and what agents want of a person, which are other views'.
    fn from(row: BoxRow) -> Self {
        Self {
            id: row.id,
            state: row.state,
            image: row.image,
            flavor: row.flavor,
            image_update_available: false,
            name: row.name,
            operation_id: row.operation_id,
            failure: row.failure,
            created_at_ms: row.created_at_ms,
            offset_key: row.offset_key,
            promises: None,
            log_id: row.box_log,
            notice: notice(row.notice, row.memory_kills),
            // What this cannot read was written by nobody.
            models: ModelRoles::decode(row.models.as_slice()).ok(),
            models_in_use: None,
            desktop: None,
            awake_until_ms: row.awake_until_ms,
            spoke_at_ms: 0,
            agents_waiting: 0,
        }
    }
}

impl Projection for Boxes {
    fn name(&self) -> &'static str {
        "boxes"
    }

    fn version(&self) -> u32 {
        6
    }

    fn views(&self) -> &'static [View] {
        &[View::Boxes, View::BoxOwners]
    }

    fn wants(&self, kind: LogKind) -> bool {
        kind == LogKind::Account
    }

    fn gives_way(&self) -> bool {
        true
    }

    fn apply(
        &self,
        rows: &mut dyn Rows,
        event: &Recorded,
        log: &LogInfo,
    ) -> Result<(), ApplyError> {
        let Some(Seen {
            payload: Payload::Box(payload),
            ..
        }) = Seen::read(event)?
        else {
            return Ok(());
        };
        let id = event.stream.id();
        let key = row_key::key(&[&log.owner, id]);
        if matches!(payload, BoxEvent::Deleted(_)) {
            rows.delete(View::Boxes, &key)?;
            rows.delete(View::BoxOwners, &owner_key(id, &log.owner))?;
            return Ok(());
        }
        let found: Option<BoxRow> = rows::get(rows, View::Boxes, &key)?;
        let known = found.is_some();
        let row = found.unwrap_or_else(|| BoxRow {
            id: id.to_owned(),
            user_id: log.owner.clone(),
            created_at_ms: at_ms(event),
            ..BoxRow::default()
        });
        let Some(mut row) = step(row, payload) else {
            return Ok(());
        };
        row.offset_key = event.offset_key().to_string();
        rows::put(rows, View::Boxes, &key, &row)?;
        if !known {
            rows::put(
                rows,
                View::BoxOwners,
                &owner_key(id, &log.owner),
                &log.owner,
            )?;
        }
        Ok(())
    }

    fn holds(&self, _: &dyn Rows, event: &Recorded, _: &LogInfo) -> Result<bool, rows::Error> {
        Ok(Kind::from_number(event.kind).is_some_and(|kind| kind.name().starts_with("box.")))
    }

    fn clear(&self, rows: &mut dyn Rows, log: &LogInfo) -> Result<(), rows::Error> {
        let all = row_key::prefix(&[&log.owner]);
        for (_, row) in rows::scan_all::<BoxRow>(rows, View::Boxes, &all)? {
            rows.delete(View::BoxOwners, &owner_key(&row.id, &log.owner))?;
        }
        rows.delete_prefix(View::Boxes, &all)
    }
}

/// The row by which a box's owner is found. With the owner in it, no account's log touches another's row, in
/// whatever order logs are read.
fn owner_key(id: &str, owner: &str) -> String {
    row_key::key(&[id, owner])
}

/// Moves a box one event on; `None` if the event is no change of the box.
fn step(mut row: BoxRow, event: BoxEvent) -> Option<BoxRow> {
    match event {
        BoxEvent::Created(created) => {
            row.name = created.name;
            row.flavor = i32::try_from(created.flavor).unwrap_or_default();
            row.box_log = hex(&created.box_log);
            row.state = State::Absent.into();
        }
        BoxEvent::Renamed(renamed) => row.name = renamed.name,
        BoxEvent::ModelsSet(set) => {
            row.models = set.models.unwrap_or_default().encode_to_vec();
        }
        BoxEvent::EnsureRequested(asked) => {
            under_way(&mut row, State::Starting, asked.operation_id);
        }
        // Asked of a box that is going to sleep, it is done once the box sleeps.
        BoxEvent::WakeRequested(asked) if row.state() == State::Hibernating => {
            row.operation_id = asked.operation_id;
        }
        BoxEvent::WakeRequested(asked) => under_way(&mut row, State::Starting, asked.operation_id),
        BoxEvent::Starting(starting) => {
            under_way(&mut row, State::Starting, starting.operation_id);
            row.image = starting.image;
            row.memory_kills = 0;
            row.wake_id = starting.wake_id;
        }
        BoxEvent::Running(running) => {
            settled(&mut row, State::Running);
            row.wake_id = running.wake_id;
            row.agent_version = running.agent_version;
        }
        BoxEvent::HibernateRequested(asked) => {
            under_way(&mut row, State::Hibernating, asked.operation_id);
        }
        BoxEvent::Hibernated(slept) => {
            let waits = !slept.operation_id.is_empty() && slept.operation_id != row.operation_id;
            if waits && row.state() == State::Hibernating {
                row.state = State::Starting.into();
            } else {
                settled(&mut row, State::Hibernated);
            }
            row.wake_id.clear();
        }
        // The disks are kept, so it is a box that sleeps; what was asked of it goes on being owed.
        BoxEvent::MachineLost(lost) => {
            if row.state() == State::Running {
                row.state = State::Hibernated.into();
            }
            row.failure = lost.detail;
            row.wake_id.clear();
        }
        BoxEvent::Failed(failed) => {
            settled(&mut row, State::Failed);
            row.failure = told(&failed.reason, &failed.detail);
            row.wake_id.clear();
        }
        BoxEvent::DeleteRequested(asked) => {
            under_way(&mut row, State::Deleting, asked.operation_id);
        }
        BoxEvent::KeptAwake(kept) => row.awake_until_ms = kept.until_ms,
        BoxEvent::MemoryExhausted(exhausted) => row.memory_kills = exhausted.killed,
        // The old log's events stay where they are; who reads the box reads the branch.
        BoxEvent::LogRewound(rewound) => {
            let reason = rewound.reason.to_ascii_lowercase().replace('_', " ");
            row.notice = format!(
                "history rewound to {} of {}: {reason}",
                rewound.common, rewound.left_pos
            );
            row.box_log = hex(&rewound.new_log);
        }
        // Says how far the box log is, not how the box is.
        BoxEvent::LogAnchored(_) | BoxEvent::Deleted(_) => return None,
    }
    Some(row)
}

fn notice(history: String, memory_kills: u64) -> String {
    let killed = match memory_kills {
        0 => return history,
        1 => "its memory was full: a process was killed".to_owned(),
        more => format!("its memory was full: {more} processes were killed"),
    };
    if history.is_empty() {
        killed
    } else {
        format!("{history}; {killed}")
    }
}

fn under_way(row: &mut BoxRow, state: State, operation: String) {
    row.state = state.into();
    row.operation_id = operation;
    row.failure.clear();
}

fn settled(row: &mut BoxRow, state: State) {
    row.state = state.into();
    row.operation_id.clear();
    row.failure.clear();
}

/// A reason code with what is known about it.
pub(crate) fn told(reason: &str, detail: &str) -> String {
    match (reason.is_empty(), detail.is_empty()) {
        (false, false) => format!("{reason}: {detail}"),
        (true, _) => detail.to_owned(),
        (false, true) => reason.to_owned(),
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
            let _ = write!(out, "{byte:02x}");
            out
        })
}
