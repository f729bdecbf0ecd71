//! What a projection is, and the list of them.

use cocoonbox_events::{DecodeError, Kind, LogInfo, LogKind, Payload, Recorded};

use crate::{
    audit::Audit,
    boxes::Boxes,
    operations::Operations,
    rows::{self, Rows, View},
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

    /// Another version means other rows from the same events: everything is rebuilt from position 1.
    fn version(&self) -> u32;

    /// The views that belong to this projection and to no other.
    fn views(&self) -> &'static [View];

    /// Whether logs of this kind say anything to it.
    fn wants(&self, kind: LogKind) -> bool;

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
        Box::new(Audit),
        Box::new(Usage),
    ]
}
