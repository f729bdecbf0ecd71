//! A cluster: made, started, killed, started again.

use std::{
    fs::{DirBuilder, Permissions},
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{
    error::ClusterError,
    guard::Guard,
    programs::{Programs, run},
};

/// The superuser of every cluster.
const SUPERUSER: &str = "postgres";

/// Durable as in life (fsync stays on), small, and loud about nothing but errors.
const CONFIG: &str = "
listen_addresses = ''
max_connections = 200
shared_buffers = '64MB'
log_min_messages = 'error'
autovacuum = off
";

/// Orphans of a killed server are gone within a second, unless the machine is very busy.
const STARTS_MAX: u32 = 100;
const START_AGAIN: Duration = Duration::from_millis(100);

/// A PostgreSQL with its own data. Stopped and removed when dropped, and when this process ends.
#[derive(Debug)]
pub struct Cluster {
    programs: Programs,
    folder: PathBuf,
    databases: AtomicU64,
    _guard: Guard,
}

/// The one cluster of this process, made when first asked for.
///
/// # Panics
///
/// If there can be none; the message says what is missing.
pub fn shared() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| match Cluster::start() {
        Ok(cluster) => cluster,
        Err(error) => {
            let source = std::error::Error::source(&error);
            panic!("no PostgreSQL to test with: {error} {source:?}")
        }
    })
}

impl Cluster {
    /// Makes a cluster and starts it.
    pub fn start() -> Result<Self, ClusterError> {
        let programs = Programs::find()?;
        let folder = make_folder(&programs)?;
        let guard = Guard::watch(&programs, &folder)?;
        let cluster = Self {
            programs,
            folder,
            databases: AtomicU64::new(0),
            _guard: guard,
        };
        let mut initdb = cluster.programs.command("initdb");
        initdb
            .args([
                "--no-sync",
                "--auth=trust",
                "--encoding=UTF8",
                "--no-locale",
            ])
            .arg(format!("--username={SUPERUSER}"))
            .arg("-D")
            .arg(cluster.data());
        run(&mut initdb)?;
        cluster.start_again()?;
        Ok(cluster)
    }

    /// Starts a server that was stopped or killed, and waits until it answers.
    pub fn start_again(&self) -> Result<(), ClusterError> {
        let options = CONFIG.lines().filter_map(|line| line.split_once(" = "));
        let options = options.fold(
            format!("-k {}", self.folder.display()),
            |all, (name, value)| all + " -c " + name + "=" + value,
        );
        let mut pg_ctl = self.pg_ctl("start");
        pg_ctl.arg("-o").arg(options);
        pg_ctl.arg("-l").arg(self.folder.join("log"));
        let mut tries = 1;
        loop {
            match run(&mut pg_ctl) {
                Ok(_) => return Ok(()),
                // The last processes of a killed server still have its memory.
                Err(_) if tries < STARTS_MAX => tries += 1,
                Err(error) => return Err(error),
            }
            std::thread::sleep(START_AGAIN);
        }
    }

    /// Stops the server without a word to its clients, as if it had crashed; what was committed is
    /// recovered at the next start.
    pub fn stop_immediately(&self) -> Result<(), ClusterError> {
        run(self.pg_ctl("stop").args(["-m", "immediate"])).map(drop)
    }

    /// Stops the server as an operator does: clients are thrown out, everything is written.
    pub fn stop(&self) -> Result<(), ClusterError> {
        run(self.pg_ctl("stop").args(["-m", "fast"])).map(drop)
    }

    /// Kills the server's first process with SIGKILL. The others notice and end.
    pub fn kill(&self) -> Result<(), ClusterError> {
        let path = self.data().join("postmaster.pid");
        let text = std::fs::read_to_string(&path)
            .map_err(|source| ClusterError::Folder { path, source })?;
        let pid = text.lines().next().unwrap_or_default().to_owned();
        let mut kill = Command::new("/bin/kill");
        self.programs.confine(&mut kill);
        run(kill.args(["-9", &pid])).map(drop)
    }

    /// Makes an empty database and returns its URL, with the superuser as the role.
    pub fn database(&self) -> Result<String, ClusterError> {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{number}");
        self.sql(SUPERUSER, &format!("CREATE DATABASE {name}"))?;
        Ok(self.url(SUPERUSER, &name))
    }

    /// Copies a database that nobody is connected to, and returns the copy's URL.
    pub fn copy_of(&self, url: &str) -> Result<String, ClusterError> {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{number}");
        let template = database_of(url);
        self.sql(
            SUPERUSER,
            &format!("CREATE DATABASE {name} TEMPLATE {template}"),
        )?;
        Ok(self.url(SUPERUSER, &name))
    }

    /// The same database with another role.
    pub fn url_as(&self, url: &str, role: &str) -> String {
        self.url(role, database_of(url))
    }

    /// Runs SQL as the superuser in a database, and returns what it answers, a line a row.
    pub fn run_sql(&self, url: &str, sql: &str) -> Result<String, ClusterError> {
        self.sql(database_of(url), sql)
    }

    /// Dumps a database with everything in it, as a backup does: SQL, bytes in hex.
    pub fn dump(&self, url: &str) -> Result<String, ClusterError> {
        let mut dump = self.programs.command("pg_dump");
        dump.arg("-h").arg(&self.folder);
        dump.args(["-U", SUPERUSER, "-d", database_of(url)]);
        run(&mut dump)
    }

    fn sql(&self, database: &str, sql: &str) -> Result<String, ClusterError> {
        let mut psql = self.programs.command("psql");
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h"])
            .arg(&self.folder)
            .args(["-U", SUPERUSER, "-d", database, "-c", sql]);
        run(&mut psql)
    }

    fn url(&self, role: &str, database: &str) -> String {
        let host = self.folder.display().to_string().replace('/', "%2F");
        format!("postgres://{role}@{host}/{database}")
    }

    fn pg_ctl(&self, action: &str) -> Command {
        let mut command = self.programs.command("pg_ctl");
        command.args([action, "-w", "-s", "-D"]).arg(self.data());
        command
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }
}

/// A URL's last part.
fn database_of(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or(url)
}

/// Makes the private folder; its path has to be short, a socket's name has at most 107 bytes.
fn make_folder(programs: &Programs) -> Result<PathBuf, ClusterError> {
    let mut suffix = [0; 8];
    getrandom::fill(&mut suffix).map_err(|_| ClusterError::NoRandomness)?;
    let folder = Path::new("/tmp").join(format!("cocoonbox-pg-{}", hex::encode(suffix)));
    let failed = |source| ClusterError::Folder {
        path: folder.clone(),
        source,
    };
    DirBuilder::new()
        .mode(0o700)
        .create(&folder)
        .map_err(failed)?;
    // The umask may have taken from the mode.
    std::fs::set_permissions(&folder, Permissions::from_mode(0o700)).map_err(failed)?;
    if let Some((uid, gid)) = programs.user() {
        std::os::unix::fs::chown(&folder, Some(uid), Some(gid)).map_err(failed)?;
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_survives_a_kill_and_goes() {
        let cluster = Cluster::start().unwrap();
        let url = cluster.database().unwrap();
        let sql = "CREATE TABLE kept AS SELECT 42 AS answer";
        cluster.run_sql(&url, sql).unwrap();
        cluster.kill().unwrap();
        cluster.start_again().unwrap();
        let copy = cluster.copy_of(&url).unwrap();
        let kept = cluster.run_sql(&copy, "SELECT answer FROM kept").unwrap();
        assert_eq!(kept.trim(), "42");
        cluster.stop_immediately().unwrap();
        cluster.start_again().unwrap();
        assert!(cluster.run_sql(&url, "SELECT nothing").is_err());
        let folder = cluster.folder.clone();
        assert!(folder.exists());
        drop(cluster);
        assert!(!folder.exists());
    }
}
