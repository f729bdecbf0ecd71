//! PostgreSQL's programs, and whom they run as.

use std::{
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::error::ClusterError;

/// Where Debian and its kin put each major version.
const INSTALLED: &str = "/usr/lib/postgresql";

/// The programs of one installed version.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    folder: PathBuf,
    /// Set when this process is root, as which PostgreSQL refuses to run.
    user: Option<(u32, u32)>,
}

impl Programs {
    /// Finds the newest installed version.
    pub(crate) fn find() -> Result<Self, ClusterError> {
        let mut folders: Vec<(u32, PathBuf)> = std::fs::read_dir(INSTALLED)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                let version = entry.file_name().to_str()?.parse().ok()?;
                Some((version, entry.path().join("bin")))
            })
            .collect();
        folders.sort();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut candidates: Vec<PathBuf> = std::env::split_paths(&path).collect();
        candidates.extend(folders.into_iter().rev().map(|(_, folder)| folder));
        let has_all = |folder: &PathBuf| {
            ["initdb", "pg_ctl", "pg_dump", "postgres", "psql"]
                .iter()
                .all(|program| folder.join(program).is_file())
        };
        let folder = candidates.into_iter().find(has_all);
        Ok(Self {
            folder: folder.ok_or(ClusterError::NotInstalled)?,
            user: if is_root()? { Some(nobody()?) } else { None },
        })
    }

    pub(crate) fn user(&self) -> Option<(u32, u32)> {
        self.user
    }

    /// A program with nothing of this process's environment but what it needs.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.folder.join(program));
        self.confine(&mut command);
        command
    }

    pub(crate) fn confine(&self, command: &mut Command) {
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("LC_ALL", "C")
            .current_dir("/")
            .stdin(Stdio::null());
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
    }
}

/// Runs a program to its end and returns what it printed.
pub(crate) fn run(command: &mut Command) -> Result<String, ClusterError> {
    let program = PathBuf::from(command.get_program());
    let output = command.output().map_err(|source| ClusterError::Run {
        program: program.clone(),
        source,
    })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    Err(ClusterError::Failed {
        program,
        output: text(&output.stderr) + &text(&output.stdout),
    })
}

fn is_root() -> Result<bool, ClusterError> {
    use std::os::unix::fs::MetadataExt;
    let path = Path::new("/proc/self");
    let metadata = std::fs::metadata(path).map_err(|source| ClusterError::Folder {
        path: path.to_owned(),
        source,
    })?;
    Ok(metadata.uid() == 0)
}

fn nobody() -> Result<(u32, u32), ClusterError> {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let user = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let is_it = fields.next() == Some("nobody");
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        is_it.then_some((uid, gid))
    });
    user.ok_or(ClusterError::NoUser)
}
