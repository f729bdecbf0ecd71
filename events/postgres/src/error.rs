//! What a database answers when it does not do what it was asked.

use sqlx::postgres::PgDatabaseError;

/// Why a database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the database's URL is not one")]
    Url(#[source] sqlx::Error),
    #[error("connecting to the database")]
    Connect(#[source] sqlx::Error),
    #[error("bringing the tables to version {version}")]
    Migrate {
        version: i32,
        #[source]
        source: sqlx::Error,
    },
    #[error("granting rights to role `{role}`")]
    Grant {
        role: String,
        #[source]
        source: sqlx::Error,
    },
    /// The role may not make tables, or was not asked to.
    #[error(
        "the tables have version {found}, this build needs {known}; migrate them as their owner"
    )]
    NotMigrated { found: i32, known: i32 },
    #[error("the tables have version {found}, this build knows {known}")]
    NewerTables { found: i32, known: i32 },
    #[error("setting `{name}` is `{found}`; it must be `{wanted}`")]
    Setting {
        name: &'static str,
        found: String,
        wanted: &'static str,
    },
    #[error("reading the logs")]
    Read(#[source] cocoonbox_events::ReadError),
}

/// A question to the database went wrong. Nothing is known of its outcome if it was to change
/// something.
#[derive(Debug, thiserror::Error)]
#[error("asking the database")]
pub struct DatabaseError(#[from] sqlx::Error);

impl DatabaseError {
    /// Whether the same question may be answered later.
    pub fn is_retryable(&self) -> bool {
        Failure::of(&self.0) != Failure::Refused
    }

    pub(crate) fn is_lost(&self) -> bool {
        Failure::of(&self.0) == Failure::Lost
    }
}

/// What an error says of the statement that met it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The connection is gone, or could not be made; or the server is stopping.
    Lost,
    /// Somebody else was in the way for too long: a time limit of a statement, a lock, a transaction.
    Busy,
    /// Two transactions met; the same again may go through.
    Again,
    DiskFull,
    /// The database cannot be written: a standby, or a role without the right.
    ReadOnly,
    /// A row of that key, or a thing of that name, is there already.
    Duplicate,
    /// Anything else that the server says no to.
    Refused,
}

impl Failure {
    pub(crate) fn of(error: &sqlx::Error) -> Self {
        match error {
            sqlx::Error::Database(error) => error
                .try_downcast_ref::<PgDatabaseError>()
                .map_or(Self::Refused, |error| Self::of_code(error.code())),
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::BeginFailed
            | sqlx::Error::WorkerCrashed => Self::Lost,
            _ => Self::Refused,
        }
    }

    fn of_code(code: &str) -> Self {
        match code {
            "57014" | "55P03" | "25P03" | "25P04" => Self::Busy,
            // Serialisation, deadlock.
            "40001" | "40P01" => Self::Again,
            "53100" => Self::DiskFull,
            "25006" | "42501" => Self::ReadOnly,
            // A key; or a schema, table, or its type, made by another at the same moment.
            "23505" | "42P06" | "42P07" | "42710" => Self::Duplicate,
            // Shutdown, crash, starting up, too many connections, unknown completion.
            "57P01" | "57P02" | "57P03" | "57P05" | "53300" | "40003" => Self::Lost,
            code if code.starts_with("08") => Self::Lost,
            _ => Self::Refused,
        }
    }
}
