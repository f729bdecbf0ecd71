//! What a projection is, and the list of them.

use cocoonbox_events::{DecodeError, Kind, LogInfo, LogKind, Payload, Recorded};

use crate::{
    audit::Audit,
    awake::Awake,
    boxes::Boxes,
    desktops::Desktops,
    operations::Operations,
    routines::Routines,
    rows::{self, Rows, View},
    snapshots::Snapshots,
    transcript::Transcript,
    usage::Usage,
};

/// A fold from events to rows.
///
/// `apply` is a function of the rows and the event: no clock, no chance, no other projection's views.
/// So a view that is thrown away and rebuilt is equal to what it was, and `compare` proves it. Rows
/// that come from one log are reachable from that log alone, so that they can be cleared.
pub trait Projection: Send + Sync + 'static {
    /// Permanent; names the checkpoint.
    fn name(&self) -> &'static str;

    /// Another version means other rows from the same events: they are built from position 1 beside those
    /// that are there.
    fn version(&self) -> u32;

    /// Whether this build's questions can be answered from rows of another version. If so those rows go
    /// on answering, as they stood, until the rows of this version are built; if not there is no answer
    /// until then. Rows are bytes of a struct, so only say yes if neither keys nor structs differ.
    fn reads(&self, version: u32) -> bool {
        let _ = version;
        false
    }

    /// The views that belong to this projection and to no other.
    fn views(&self) -> &'static [View];

    /// Whether logs of this kind say anything to it.
    fn wants(&self, kind: LogKind) -> bool;

    /// Whether the rows of a log that a rewind has closed give way to those of the branch that goes on. True
    /// where rows are the owner's, so that two branches would mix; false where each log has rows of its
    /// own. A branch's events begin with those that it inherits, which keep the id of the log that holds
    /// them: rows of a log are named by `log`, never by the event.
    fn gives_way(&self) -> bool;

    /// Takes one event in. Events come in order, each once. Kinds that this build does not know and
    /// kinds that do not concern the view change nothing.
    fn apply(&self, rows: &mut dyn Rows, event: &Recorded, log: &LogInfo)
    -> Result<(), ApplyError>;

    /// Whether rows may hold something that came from the payload of this event, which was applied
    /// and has been erased since. If so the log is cleared and folded again. Saying yes too often
    /// costs time; saying no wrongly keeps what should be gone.
    fn holds(&self, rows: &dyn Rows, event: &Recorded, log: &LogInfo) -> Result<bool, rows::Error>;

    /// Deletes every row that came from this log.
    fn clear(&self, rows: &mut dyn Rows, log: &LogInfo) -> Result<(), rows::Error>;
}

/// Whether a projection takes in what is in a log.
pub(crate) fn takes(projection: &dyn Projection, log: &LogInfo) -> bool {
    projection.wants(log.kind) && !(log.moved_to.is_some() && projection.gives_way())
}

/// Why an event could not be taken in.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The event cannot be read by this build. It stops the projection for its log.
    #[error("the event cannot be read")]
    Decode(#[from] DecodeError),
    #[error("the rows cannot be read or written")]
    Rows(#[from] rows::Error),
}

/// An event as a projection reads it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Every field is at its default if the event was erased: what the envelope says (kind, stream,
    /// position, time) is never erased, so an erased event still counts as a step.
    pub(crate) payload: Payload,
    pub(crate) erased: bool,
}

impl Seen {
    /// Reads an event; `None` if this build does not know its kind.
    pub(crate) fn read(event: &Recorded) -> Result<Option<Self>, ApplyError> {
        let Some(kind) = Kind::from_number(event.kind) else {
            return Ok(None);
        };
        let seen = match event.payload()? {
            Some(payload) => Self {
                payload,
                erased: false,
            },
            None => Self {
                payload: Payload::decode(event.kind, kind.version(), &[])?,
                erased: true,
            },
        };
        Ok(Some(seen))
    }
}

/// Milliseconds since the epoch at which an event was recorded.
pub(crate) fn at_ms(event: &Recorded) -> i64 {
    event.recorded_us.div_euclid(1_000)
}

/// Every projection of this build.
pub fn all() -> Vec<Box<dyn Projection>> {
    vec![
        Box::new(Boxes),
        Box::new(Operations),
        Box::new(Transcript),
        Box::new(Desktops),
        Box::new(Snapshots),
        Box::new(Routines),
        Box::new(Audit),
        Box::new(Usage),
        Box::new(Awake),
    ]
}
