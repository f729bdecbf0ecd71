//! The connections to one database, and what is checked before they are trusted.

use std::{str::FromStr, time::Duration};

use sqlx::{
    PgConnection, PgPool, Row,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use zeroize::Zeroizing;

use crate::{
    error::OpenError,
    schema::{self, Roles},
};

/// A connection that cannot be had within this time is not waited for: callers have time limits too.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection that lay idle for longer is asked whether it lives before it is used.
const PING_AFTER: Duration = Duration::from_secs(1);
/// Replaced after this time, so that no server process grows for ever.
const LIFETIME: Duration = Duration::from_hours(1);

/// Limits of every session. A statement takes milliseconds; what takes longer than this holds others
/// up, and its caller has given up. A lock is held for one transaction of another replica.
const SESSION: &str = "
SET statement_timeout = '15s';
SET lock_timeout = '5s';
SET idle_in_transaction_session_timeout = '15s';
SET default_transaction_isolation = 'read committed';
";

/// How a database is used.
#[derive(Clone)]
pub struct Options {
    /// `postgres://role:password@host:port/database`, with the role that reads and writes.
    pub url: Zeroizing<String>,
    /// The same database with the role that owns the tables; given, the tables are brought up to
    /// date and the role of `url` gets its rights.
    pub owner_url: Option<Zeroizing<String>>,
    /// Whether doorbells go through LISTEN and NOTIFY. Without, replicas hear of each other's events
    /// by asking once a second.
    pub notify: bool,
    /// For tools that only look: tables are not brought up to date, whoever owns them, and no session
    /// can write. Tables of an older version are refused.
    pub read_only: bool,
    /// Connections that write logs: this many logs can be written at once.
    pub writers: u32,
    /// Connections that read logs.
    pub readers: u32,
}

/// The connections to one database; cheap to clone.
#[derive(Clone, Debug)]
pub struct Database {
    pub(crate) writers: PgPool,
    pub(crate) readers: PgPool,
    /// For what must not wait behind a burst of events: leases, tokens, keys, polls.
    pub(crate) control: PgPool,
    pub(crate) connect: PgConnectOptions,
    pub(crate) notify: bool,
}

impl Options {
    /// Options with the default sizes: 16 connections in all, counting the two of the doorbell.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: Zeroizing::new(url.into()),
            owner_url: None,
            notify: true,
            read_only: false,
            writers: 6,
            readers: 5,
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("url", &"***")
            .field("notify", &self.notify)
            .field("read_only", &self.read_only)
            .field("writers", &self.writers)
            .field("readers", &self.readers)
            .finish_non_exhaustive()
    }
}

impl Database {
    /// Connects, brings the tables up to date if it may, and checks what durability relies on.
    ///
    /// With an owner's URL the tables are migrated by that role. Without, the role of `url` does it
    /// when it owns them or may make them: a small installation has one role. Reading only, nobody does.
    pub async fn connect(options: &Options) -> Result<Self, OpenError> {
        let connect = PgConnectOptions::from_str(&options.url)
            .map_err(OpenError::Url)?
            .application_name("cocoonbox");
        let writer = connect.get_username().to_owned();
        let read_only = options.read_only;
        match &options.owner_url {
            _ if read_only => {}
            Some(owner_url) => {
                let owner = PgConnectOptions::from_str(owner_url).map_err(OpenError::Url)?;
                let is_same = owner.get_username() == writer;
                let roles = Roles {
                    writer: Some(writer).filter(|_| !is_same),
                    reader: None,
                };
                schema::migrate(owner_url, &roles).await?;
            }
            None => schema::migrate_own(&connect).await?,
        }
        let pool = |max| {
            PgPoolOptions::new()
                .max_connections(max)
                .acquire_timeout(ACQUIRE_TIMEOUT)
                .max_lifetime(LIFETIME)
                .test_before_acquire(false)
                .before_acquire(|conn, meta| {
                    Box::pin(async move {
                        if meta.idle_for > PING_AFTER {
                            sqlx::Connection::ping(conn).await?;
                        }
                        Ok(true)
                    })
                })
                .after_connect(move |conn, _| Box::pin(prepare(conn, read_only)))
                .connect_lazy_with(connect.clone())
        };
        let database = Self {
            writers: pool(options.writers.max(1)),
            readers: pool(options.readers.max(1)),
            control: pool(3),
            connect: connect.clone(),
            notify: options.notify,
        };
        database.check().await?;
        Ok(database)
    }

    /// Closes every connection, waiting for those in use.
    pub async fn close(&self) {
        tokio::join!(
            self.writers.close(),
            self.readers.close(),
            self.control.close()
        );
    }

    async fn check(&self) -> Result<(), OpenError> {
        let mut conn = self.control.acquire().await.map_err(OpenError::Connect)?;
        schema::check(&mut conn).await?;
        let found = synchronous_commit(&mut conn)
            .await
            .map_err(OpenError::Connect)?;
        if !is_durable(&found) {
            return Err(OpenError::Setting {
                name: "synchronous_commit",
                found,
                wanted: "on",
            });
        }
        let fsync = "SELECT setting FROM pg_settings WHERE name = 'fsync'";
        let fsync: Option<String> = sqlx::query_scalar(fsync)
            .fetch_optional(&mut *conn)
            .await
            .map_err(OpenError::Connect)?;
        match fsync {
            Some(found) if found != "on" => Err(OpenError::Setting {
                name: "fsync",
                found,
                wanted: "on",
            }),
            // Engines that only speak like PostgreSQL do not have it.
            _ => Ok(()),
        }
    }
}

/// Sets what a session must have. An acked event is on disk: nothing below `on` will do, and what an
/// operator set beyond it (`remote_apply`) stays.
async fn prepare(conn: &mut PgConnection, read_only: bool) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(SESSION).execute(&mut *conn).await?;
    if read_only {
        sqlx::raw_sql("SET default_transaction_read_only = on")
            .execute(&mut *conn)
            .await?;
    }
    if !is_durable(&synchronous_commit(conn).await?) {
        sqlx::raw_sql("SET synchronous_commit = 'on'")
            .execute(&mut *conn)
            .await?;
    }
    Ok(())
}

async fn synchronous_commit(conn: &mut PgConnection) -> Result<String, sqlx::Error> {
    let row = sqlx::raw_sql("SHOW synchronous_commit")
        .fetch_one(conn)
        .await?;
    row.try_get(0)
}

fn is_durable(synchronous_commit: &str) -> bool {
    matches!(synchronous_commit, "on" | "remote_apply")
}
