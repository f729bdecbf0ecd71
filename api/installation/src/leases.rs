//! Leases: which of several processes does a piece of work.
//!
//! A lease has a name, a holder and a fence number that grows with every new holder. It runs out by the
//! clock of whoever keeps the leases, never by the clock of a holder; a holder stops by its own monotonic
//! clock before that can be.

mod embedded;
mod postgres;

use std::time::Duration;

use async_trait::async_trait;

pub use embedded::EmbeddedLeases;
pub use postgres::PostgresLeases;

/// The name of the lease by which a copy says that it reads or writes the whole installation.
pub const COPY: &str = "copy";

/// A process that holds leases.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    /// Drawn at its start: a process that was restarted is another holder.
    pub id: String,
    /// Where the others reach it, `host:port`.
    pub address: String,
    /// Where it does its work. Work that is bound to a place can be taken over only there.
    pub place: String,
}

/// A lease as it is at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub name: String,
    /// Who holds it, or held it last.
    pub holder: Holder,
    pub fence: u64,
    /// Whether it holds. One that has run out or was given back stays known, for its place.
    pub is_live: bool,
}

/// The answer to who asks for a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is the asker's, from before it was asked until the time to live has passed.
    Granted { fence: u64 },
    /// Somebody else has it.
    Held(Lease),
}

/// Keeps leases.
#[async_trait]
pub trait Leases: Send + Sync + 'static {
    /// Whether other processes may be holders too. If not, every lease is granted, for ever, and fences
    /// are 0.
    fn are_shared(&self) -> bool;

    /// Takes a lease that is free, or the asker's own already (under the same fence then).
    async fn take(
        &self,
        name: &str,
        holder: &Holder,
        time_to_live: Duration,
    ) -> Result<Taken, LeasesError>;

    /// Prolongs every lease that the holder has not lost, and returns them.
    async fn renew(
        &self,
        holder: &Holder,
        time_to_live: Duration,
    ) -> Result<Vec<Lease>, LeasesError>;

    /// Gives a lease back. Fine if it is not the holder's any more.
    async fn release(&self, name: &str, holder: &Holder, fence: u64) -> Result<(), LeasesError>;

    /// Lifts the fences of all leases but `holder`'s, also of those that are not known here, above all that a
    /// lost part of the database can have given out.
    async fn raise(&self, holder: &Holder) -> Result<(), LeasesError>;

    /// Returns a lease, whether it holds or not; `None` if it was never taken.
    async fn find(&self, name: &str) -> Result<Option<Lease>, LeasesError>;

    /// Returns the leases that hold.
    async fn live(&self) -> Result<Vec<Lease>, LeasesError>;
}

#[derive(Debug, thiserror::Error)]
pub enum LeasesError {
    /// Whether it happened is not known. Asking again is fine.
    #[error("the leases cannot be reached")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
}
