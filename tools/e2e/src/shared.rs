//! One installation for the tests of a module that do it no harm.

use std::sync::{Arc, Weak};

use tokio::sync::Mutex;

use crate::{Installation, Setup};

/// Starts an installation for the first test that asks, hands the same one to those that run beside it,
/// and lets go of it with the last of them.
#[derive(Debug)]
pub struct Shared {
    setup: fn() -> Setup,
    running: Mutex<Weak<Installation>>,
}

impl Shared {
    pub const fn new(setup: fn() -> Setup) -> Self {
        Self {
            setup,
            running: Mutex::const_new(Weak::new()),
        }
    }

    pub async fn get(&self) -> Arc<Installation> {
        let mut running = self.running.lock().await;
        if let Some(installation) = running.upgrade() {
            return installation;
        }
        let installation = Arc::new((self.setup)().start().await);
        *running = Arc::downgrade(&installation);
        installation
    }
}
