//! One process owns everything.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;

use super::{Holder, Lease, Leases, LeasesError, Taken};

/// Grants every lease. That there is one process is seen to elsewhere: by the lock of the log's file.
#[derive(Debug, Default)]
pub struct EmbeddedLeases {
    held: Mutex<BTreeMap<String, Holder>>,
}

impl EmbeddedLeases {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Holder>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lease(name: &str, holder: &Holder) -> Lease {
    Lease {
        name: name.to_owned(),
        holder: holder.clone(),
        fence: 0,
        is_live: true,
    }
}

#[async_trait]
impl Leases for EmbeddedLeases {
    fn are_shared(&self) -> bool {
        false
    }

    async fn take(&self, name: &str, holder: &Holder, _: Duration) -> Result<Taken, LeasesError> {
        self.lock().insert(name.to_owned(), holder.clone());
        Ok(Taken::Granted { fence: 0 })
    }

    async fn renew(&self, _: &Holder, _: Duration) -> Result<Vec<Lease>, LeasesError> {
        self.live().await
    }

    async fn release(&self, name: &str, _: &Holder, _: u64) -> Result<(), LeasesError> {
        self.lock().remove(name);
        Ok(())
    }

    async fn raise(&self, _: &Holder) -> Result<(), LeasesError> {
        Ok(())
    }

    async fn find(&self, name: &str) -> Result<Option<Lease>, LeasesError> {
        Ok(self.lock().get(name).map(|holder| lease(name, holder)))
    }

    async fn live(&self) -> Result<Vec<Lease>, LeasesError> {
        let held = self.lock();
        Ok(held
            .iter()
            .map(|(name, holder)| lease(name, holder))
            .collect())
    }
}
