//! Leases in the database, by its clock.

use std::time::Duration;

use async_trait::async_trait;
use cocoonbox_events_postgres as postgres;

use super::{Holder, Lease, Leases, LeasesError, Taken};

/// Between id and place of a holder. Ids are hex.
const AT: char = '@';

/// One table for all processes.
pub struct PostgresLeases(postgres::Leases);

impl PostgresLeases {
    pub fn new(database: &postgres::Database) -> Self {
        Self(postgres::Leases::new(database))
    }
}

#[async_trait]
impl Leases for PostgresLeases {
    fn are_shared(&self) -> bool {
        true
    }

    async fn take(
        &self,
        name: &str,
        holder: &Holder,
        time_to_live: Duration,
    ) -> Result<Taken, LeasesError> {
        let id = known_as(holder);
        let taken = self.0.take(name, &id, &holder.address, time_to_live).await;
        Ok(match taken.map_err(unreachable)? {
            postgres::Taken::Mine(lease) => Taken::Granted { fence: lease.fence },
            postgres::Taken::Held(lease) => Taken::Held(lease.into()),
        })
    }

    async fn renew(
        &self,
        holder: &Holder,
        time_to_live: Duration,
    ) -> Result<Vec<Lease>, LeasesError> {
        let kept = self.0.renew_all(&known_as(holder), time_to_live).await;
        Ok(kept
            .map_err(unreachable)?
            .into_iter()
            .map(Into::into)
            .collect())
    }

    async fn release(&self, name: &str, holder: &Holder, fence: u64) -> Result<(), LeasesError> {
        let lease = postgres::Lease {
            name: name.to_owned(),
            holder: known_as(holder),
            address: holder.address.clone(),
            fence,
            remaining: Duration::ZERO,
        };
        self.0.release(&lease).await.map(drop).map_err(unreachable)
    }

    async fn raise(&self, holder: &Holder) -> Result<(), LeasesError> {
        self.0.raise(&known_as(holder)).await.map_err(unreachable)
    }

    async fn find(&self, name: &str) -> Result<Option<Lease>, LeasesError> {
        let found = self.0.last(name).await.map_err(unreachable)?;
        Ok(found.map(Into::into))
    }

    async fn live(&self) -> Result<Vec<Lease>, LeasesError> {
        let live = self.0.list().await.map_err(unreachable)?;
        Ok(live.into_iter().map(Into::into).collect())
    }
}

impl From<postgres::Lease> for Lease {
    fn from(lease: postgres::Lease) -> Self {
        let (id, place) = lease.holder.split_once(AT).unwrap_or((&lease.holder, ""));
        Self {
            name: lease.name,
            holder: Holder {
                id: id.to_owned(),
                address: lease.address,
                place: place.to_owned(),
            },
            fence: lease.fence,
            is_live: !lease.remaining.is_zero(),
        }
    }
}

fn known_as(holder: &Holder) -> String {
    format!("{}{AT}{}", holder.id, holder.place)
}

fn unreachable(error: postgres::DatabaseError) -> LeasesError {
    LeasesError::Unreachable(error.into())
}
