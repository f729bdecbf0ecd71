//! The tables: made and changed in numbered steps, each in one transaction, by their owner.

use std::str::FromStr;

use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection, postgres::PgConnectOptions};

use crate::error::{Failure, OpenError};

/// Steps in order; their numbers are their places. Added to, never edited.
const STEPS: &[(&str, &str)] = &[
    ("log", include_str!("schema/1_log.sql")),
    ("erase", include_str!("schema/2_erase.sql")),
    ("shares", include_str!("schema/3_shares.sql")),
];

const RIGHTS_WRITER: &str = include_str!("schema/writer.sql");
const RIGHTS_READER: &str = include_str!("schema/reader.sql");

/// Roles that are given rights. They must be there; an operator makes them.
#[derive(Clone, Debug, Default)]
pub struct Roles {
    /// Appends, and erases bodies. Can neither change nor delete an event.
    pub writer: Option<String>,
    /// Only reads: for backups, audits and the replay tool.
    pub reader: Option<String>,
}

/// Brings the tables up to date as their owner and gives the roles their rights. Idempotent; several
/// may do it at once.
pub async fn migrate(owner_url: &str, roles: &Roles) -> Result<(), OpenError> {
    let options = PgConnectOptions::from_str(owner_url).map_err(OpenError::Url)?;
    let mut conn = options.connect().await.map_err(OpenError::Connect)?;
    step_up(&mut conn).await?;
    for (role, rights) in [
        (&roles.writer, RIGHTS_WRITER),
        (&roles.reader, RIGHTS_READER),
    ] {
        if let Some(role) = role {
            grant(&mut conn, role, rights).await?;
        }
    }
    close(conn).await;
    Ok(())
}

/// Brings the tables up to date if this role owns them, or there are none and it may make them.
pub(crate) async fn migrate_own(options: &PgConnectOptions) -> Result<(), OpenError> {
    let mut conn = options.connect().await.map_err(OpenError::Connect)?;
    let found = version(&mut conn).await?;
    if found < known() {
        let may = "SELECT coalesce(
               (SELECT pg_has_role(nspowner, 'USAGE') FROM pg_namespace WHERE nspname = 'cocoonbox'),
               has_database_privilege(current_database(), 'CREATE'))";
        let may: bool = sqlx::query_scalar(may)
            .fetch_one(&mut conn)
            .await
            .map_err(OpenError::Connect)?;
        if may {
            step_up(&mut conn).await?;
        }
    }
    close(conn).await;
    Ok(())
}

/// Checks that the tables are those of this build.
pub(crate) async fn check(conn: &mut PgConnection) -> Result<(), OpenError> {
    let (found, known) = (version(conn).await?, known());
    match found.cmp(&known) {
        std::cmp::Ordering::Less => Err(OpenError::NotMigrated { found, known }),
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => Err(OpenError::NewerTables { found, known }),
    }
}

/// What it was for is done; an error of closing says nothing.
async fn close(conn: PgConnection) {
    if let Err(error) = conn.close().await {
        tracing::debug!(%error, "owner's connection not closed");
    }
}

fn known() -> i32 {
    i32::try_from(STEPS.len()).unwrap_or(i32::MAX)
}

/// The version of the tables; 0 if there are none, or none that this role may see.
async fn version(conn: &mut PgConnection) -> Result<i32, OpenError> {
    let is_there = "SELECT count(*) FROM information_schema.tables
                    WHERE table_schema = 'cocoonbox' AND table_name = 'migration'";
    let is_there: i64 = sqlx::query_scalar(is_there)
        .fetch_one(&mut *conn)
        .await
        .map_err(OpenError::Connect)?;
    if is_there == 0 {
        return Ok(0);
    }
    sqlx::query_scalar("SELECT coalesce(max(version), 0) FROM cocoonbox.migration")
        .fetch_one(conn)
        .await
        .map_err(OpenError::Connect)
}

async fn step_up(conn: &mut PgConnection) -> Result<(), OpenError> {
    let failed = |version| move |source| OpenError::Migrate { version, source };
    let namespace = "SELECT count(*) FROM pg_namespace WHERE nspname = 'cocoonbox'";
    let namespaces: i64 = sqlx::query_scalar(namespace)
        .fetch_one(&mut *conn)
        .await
        .map_err(failed(0))?;
    let first = [
        "CREATE SCHEMA IF NOT EXISTS cocoonbox",
        "CREATE TABLE IF NOT EXISTS cocoonbox.migration (
           version int PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL)",
        // Whoever holds this row migrates.
        "INSERT INTO cocoonbox.migration (version, name, applied_at)
         VALUES (0, 'none', clock_timestamp()) ON CONFLICT DO NOTHING",
    ];
    // An operator may have made the schema for an owner who may not make schemas.
    let skipped = usize::from(namespaces > 0);
    for sql in first.into_iter().skip(skipped) {
        match sqlx::raw_sql(sql).execute(&mut *conn).await {
            Ok(_) => {}
            // `IF NOT EXISTS` does not see what another has made and not yet committed.
            Err(error) if Failure::of(&error) == Failure::Duplicate => {}
            Err(error) => return Err(failed(0)(error)),
        }
    }
    let mut tx = conn.begin().await.map_err(failed(0))?;
    sqlx::query("SELECT version FROM cocoonbox.migration WHERE version = 0 FOR UPDATE")
        .execute(&mut *tx)
        .await
        .map_err(failed(0))?;
    // Its own statement, after the lock: what another has done meanwhile is seen.
    let found: i32 = sqlx::query_scalar("SELECT max(version) FROM cocoonbox.migration")
        .fetch_one(&mut *tx)
        .await
        .map_err(failed(0))?;
    for (version, (name, sql)) in (1..).zip(STEPS).skip(usize::try_from(found).unwrap_or(0)) {
        sqlx::raw_sql(*sql)
            .execute(&mut *tx)
            .await
            .map_err(failed(version))?;
        sqlx::query("INSERT INTO cocoonbox.migration VALUES ($1, $2, clock_timestamp())")
            .bind(version)
            .bind(name)
            .execute(&mut *tx)
            .await
            .map_err(failed(version))?;
        tracing::info!(version, name, "log tables migrated");
    }
    tx.commit().await.map_err(failed(known()))
}

async fn grant(conn: &mut PgConnection, role: &str, rights: &str) -> Result<(), OpenError> {
    let quoted = format!("\"{}\"", role.replace('"', "\"\""));
    // In one transaction: it is one string of the simple protocol.
    let sql = rights.replace("ROLE_NAME", &quoted);
    sqlx::raw_sql(AssertSqlSafe(sql))
        .execute(conn)
        .await
        .map(drop)
        .map_err(|source| OpenError::Grant {
            role: role.to_owned(),
            source,
        })
}
