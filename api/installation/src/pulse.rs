//! How well a database answers, and its processes hear of each other.

use std::{fmt, sync::Arc};

use cocoonbox_events_postgres::PgStore;

pub use cocoonbox_events_postgres::Health;

/// Looks at the store of an installation; cheap to clone.
#[derive(Clone, Default)]
pub struct Pulse(pub(crate) Option<Arc<PgStore>>);

impl Pulse {
    /// `None`: the store is a folder, which this process has to itself.
    pub fn health(&self) -> Option<Health> {
        self.0.as_ref().map(|store| store.health())
    }
}

impl fmt::Debug for Pulse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pulse").field(&self.health()).finish()
    }
}
