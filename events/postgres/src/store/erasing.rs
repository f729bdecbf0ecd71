//! Erasing: bodies, and what tells of them beside the events.

use cocoonbox_events::{LogId, replica};
use sqlx::PgPool;
use uuid::Uuid;

use super::rows;

/// `(log, positions, command ids)`, in one transaction and one round trip.
const ERASE: &str = "
WITH forgotten AS (
  UPDATE cocoonbox.command SET digest = NULL
  WHERE log_id = $1 AND command_id = ANY($3) AND digest IS NOT NULL
)
UPDATE cocoonbox.event SET body = NULL WHERE log_id = $1 AND pos = ANY($2) AND body IS NOT NULL";

/// Erases bodies and the digests of their commands: what a command asked for, hashed without a salt, is
/// enough to find short words out. A command goes whole, also if events of it are kept.
pub(crate) async fn erase(
    writers: &PgPool,
    log: LogId,
    positions: &[i64],
) -> Result<(), sqlx::Error> {
    let held = sqlx::query(rows::SELECT_AT)
        .bind(log.0)
        .bind(positions)
        .fetch_all(writers)
        .await?;
    // A header that cannot be read names no command.
    let events = held
        .iter()
        .filter_map(|row| rows::named(log, row).ok())
        .filter_map(|event| replica::command_of(&event));
    let mut commands: Vec<Uuid> = events.map(|command| command.0).collect();
    commands.sort_unstable();
    commands.dedup();
    sqlx::query(ERASE)
        .bind(log.0)
        .bind(positions)
        .bind(commands)
        .execute(writers)
        .await
        .map(drop)
}
