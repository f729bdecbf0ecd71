//! Leases: which replica looks after what, for how long, by the database's clock.
//!
//! A lease has a fencing number that grows with each change of holder and each loss: whoever acts for
//! a lease hands it on, and whoever is acted upon refuses a smaller one than it has seen.

use std::time::Duration;

use sqlx::{Row, postgres::PgRow};

use crate::{database::Database, error::DatabaseError};

/// More than a lease changes hands while a standby lags or a backup grows old: a change takes seconds.
pub const RAISE: i64 = 1 << 24;

/// The row whose number new leases start above. Nobody takes it.
const FLOOR: &str = "floor";

/// The leases of an installation.
#[derive(Clone, Debug)]
pub struct Leases {
    database: Database,
}

/// A lease as the database had it when it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub name: String,
    /// Who holds it: an id that a process draws at its start.
    pub holder: String,
    /// Where the holder can be reached.
    pub address: String,
    /// Greater than that of every earlier holding of this name.
    pub fence: u64,
    /// What was left of it. Counted from before the question was sent, so that a slow answer does not
    /// make it longer.
    pub remaining: Duration,
}

/// The answer to who wants a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is the asker's from here on.
    Mine(Lease),
    /// Another holds it.
    Held(Lease),
}

impl Leases {
    pub fn new(database: &Database) -> Self {
        Self {
            database: database.clone(),
        }
    }

    /// Takes a lease that nobody holds. One that is held by the same holder is prolonged.
    pub async fn take(
        &self,
        name: &str,
        holder: &str,
        address: &str,
        duration: Duration,
    ) -> Result<Taken, DatabaseError> {
        loop {
            let row = sqlx::query(
                "INSERT INTO cocoonbox.lease AS l (name, holder, address, fence, expires_at)
                 VALUES ($1, $2, $3,
                   1 + coalesce((SELECT fence FROM cocoonbox.lease WHERE name = $5), 0),
                   clock_timestamp() + $4 * interval '1 millisecond')
                 ON CONFLICT (name) DO UPDATE SET holder = $2, address = $3,
                   fence = l.fence + CASE WHEN l.holder = $2 AND l.expires_at > clock_timestamp()
                     THEN 0 ELSE 1 END,
                   expires_at = clock_timestamp() + $4 * interval '1 millisecond'
                 WHERE l.holder = $2 OR l.expires_at <= clock_timestamp()
                 RETURNING name, holder, address, fence, ($4)::bigint",
            )
            .bind(name)
            .bind(holder)
            .bind(address)
            .bind(milliseconds(duration))
            .bind(FLOOR)
            .fetch_optional(&self.database.control)
            .await?;
            if let Some(row) = row {
                return Ok(Taken::Mine(lease(&row)?));
            }
            // Lost between the two questions: ask again.
            if let Some(held) = self.find(name).await? {
                return Ok(Taken::Held(held));
            }
        }
    }

    /// Prolongs a lease. `None` if it is lost: it ran out, or another has it.
    pub async fn renew(
        &self,
        held: &Lease,
        duration: Duration,
    ) -> Result<Option<Lease>, DatabaseError> {
        let row = sqlx::query(
            "UPDATE cocoonbox.lease
             SET expires_at = clock_timestamp() + $4 * interval '1 millisecond'
             WHERE name = $1 AND holder = $2 AND fence = $3 AND expires_at > clock_timestamp()
             RETURNING name, holder, address, fence, ($4)::bigint",
        )
        .bind(&held.name)
        .bind(&held.holder)
        .bind(signed(held.fence))
        .bind(milliseconds(duration))
        .fetch_optional(&self.database.control)
        .await?;
        Ok(row.as_ref().map(lease).transpose()?)
    }

    /// Prolongs everything that a holder has not lost, and returns it.
    pub async fn renew_all(
        &self,
        holder: &str,
        duration: Duration,
    ) -> Result<Vec<Lease>, DatabaseError> {
        let rows = sqlx::query(
            "UPDATE cocoonbox.lease
             SET expires_at = clock_timestamp() + $2 * interval '1 millisecond'
             WHERE holder = $1 AND expires_at > clock_timestamp()
             RETURNING name, holder, address, fence, ($2)::bigint",
        )
        .bind(holder)
        .bind(milliseconds(duration))
        .fetch_all(&self.database.control)
        .await?;
        Ok(rows.iter().map(lease).collect::<Result<_, _>>()?)
    }

    /// Gives a lease back. `false` if it was lost before.
    pub async fn release(&self, held: &Lease) -> Result<bool, DatabaseError> {
        // The row stays: the next holder's fencing number goes on from it.
        let done = sqlx::query(
            "UPDATE cocoonbox.lease SET expires_at = clock_timestamp()
             WHERE name = $1 AND holder = $2 AND fence = $3 AND expires_at > clock_timestamp()",
        )
        .bind(&held.name)
        .bind(&held.holder)
        .bind(signed(held.fence))
        .execute(&self.database.control)
        .await?;
        Ok(done.rows_affected() == 1)
    }

    /// Raises the fencing number of every lease but those of `holder`, and of all that are still to be made,
    /// by [`RAISE`]. For a database that was put back: what was fenced by the numbers that it has lost
    /// refuses the lower ones that it would give out.
    pub async fn raise(&self, holder: &str) -> Result<(), DatabaseError> {
        let mut tx = self.database.control.begin().await?;
        sqlx::query(
            "INSERT INTO cocoonbox.lease (name, holder, address, fence, expires_at)
             VALUES ($1, '', '', 0, clock_timestamp()) ON CONFLICT DO NOTHING",
        )
        .bind(FLOOR)
        .execute(&mut *tx)
        .await?;
        sqlx::query("UPDATE cocoonbox.lease SET fence = fence + $2 WHERE holder <> $1")
            .bind(holder)
            .bind(RAISE)
            .execute(&mut *tx)
            .await?;
        Ok(tx.commit().await?)
    }

    /// Returns who holds a lease, if anybody does.
    pub async fn find(&self, name: &str) -> Result<Option<Lease>, DatabaseError> {
        let row = sqlx::query(
            "SELECT name, holder, address, fence,
               (extract(epoch FROM expires_at - clock_timestamp()) * 1000)::bigint
             FROM cocoonbox.lease WHERE name = $1 AND expires_at > clock_timestamp()",
        )
        .bind(name)
        .fetch_optional(&self.database.control)
        .await?;
        Ok(row.as_ref().map(lease).transpose()?)
    }

    /// Returns who holds a lease or held it last; nothing remains of one that has run out.
    pub async fn last(&self, name: &str) -> Result<Option<Lease>, DatabaseError> {
        let row = sqlx::query(
            "SELECT name, holder, address, fence,
               (extract(epoch FROM expires_at - clock_timestamp()) * 1000)::bigint
             FROM cocoonbox.lease WHERE name = $1",
        )
        .bind(name)
        .fetch_optional(&self.database.control)
        .await?;
        Ok(row.as_ref().map(lease).transpose()?)
    }

    /// Returns every lease that is held, by name.
    pub async fn list(&self) -> Result<Vec<Lease>, DatabaseError> {
        let rows = sqlx::query(
            "SELECT name, holder, address, fence,
               (extract(epoch FROM expires_at - clock_timestamp()) * 1000)::bigint
             FROM cocoonbox.lease WHERE expires_at > clock_timestamp() ORDER BY name",
        )
        .fetch_all(&self.database.control)
        .await?;
        Ok(rows.iter().map(lease).collect::<Result<_, _>>()?)
    }
}

fn lease(row: &PgRow) -> Result<Lease, sqlx::Error> {
    let (fence, remaining_ms): (i64, i64) = (row.try_get(3)?, row.try_get(4)?);
    Ok(Lease {
        name: row.try_get(0)?,
        holder: row.try_get(1)?,
        address: row.try_get(2)?,
        fence: u64::try_from(fence).unwrap_or(0),
        remaining: Duration::from_millis(u64::try_from(remaining_ms).unwrap_or(0)),
    })
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
