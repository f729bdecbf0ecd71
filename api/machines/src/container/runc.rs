//! The OCI runtime, called as a program.

use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde::Deserialize;

use super::layout::{BoxLayout, Layout, gone};
use super::program;
use crate::Error;

const NAME: &str = "runc";
const HINT: &str = "apt-get install --no-install-recommends runc";

/// What a box's init prints is for whoever debugs the init; more than this is cut.
const CONSOLE_BYTES_MAX: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct Runc {
    root: PathBuf,
}

/// Only the state that tells a started container from one that waits to be.
#[derive(Deserialize)]
struct State {
    status: String,
}

/// A line of runc's own log.
#[derive(Deserialize)]
struct Logged {
    level: String,
    msg: String,
}

impl Runc {
    pub(super) fn find(layout: &Layout) -> Result<Self, Error> {
        let probe = program::run(
            Command::new(NAME)
                .arg("--version")
                .stdout(Stdio::null())
                .stderr(Stdio::null()),
            program::TIMEOUT,
        );
        match probe {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(Error::MissingProgram {
                program: NAME,
                hint: HINT,
            }),
            Err(source) => Err(Error::Host {
                doing: "run runc",
                source,
            }),
            Ok(_) => Ok(Self {
                root: layout.runc_root(),
            }),
        }
    }

    /// Makes the container and starts its init, which belongs to nobody from then on: it outlives the api.
    pub(super) fn start(&self, of: &BoxLayout) -> Result<(), Error> {
        let doing = "start the container";
        gone(std::fs::remove_file(of.runc_log())).map_err(|e| io_error(of, doing, e))?;
        let console = open_console(of, true).map_err(|e| io_error(of, doing, e))?;
        let errors = console.try_clone().map_err(|e| io_error(of, doing, e))?;
        let mut create = self.command(of);
        create.arg("create").arg("--bundle").arg(of.bundle());
        create
            .arg("--pid-file")
            .arg(of.pid_file())
            .arg(of.id.as_str());
        // The container inherits these.
        create.stdout(console).stderr(errors);
        run(of, doing, &mut create)?;
        let mut start = self.command(of);
        start
            .arg("start")
            .arg(of.id.as_str())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        run(of, doing, &mut start).map(drop)
    }

    /// Whether the container of this box was started. It may have ended since.
    pub(super) fn is_started(&self, of: &BoxLayout) -> Result<bool, Error> {
        let mut command = self.command(of);
        command
            .arg("state")
            .arg(of.id.as_str())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let output = program::run(&mut command, program::TIMEOUT)
            .map_err(|e| io_error(of, "ask runc for the state", e))?;
        // There is no such container, or a half-made one.
        if !output.status.success() {
            return Ok(false);
        }
        let state: State = serde_json::from_slice(&output.stdout)
            .map_err(|e| io_error(of, "read the state that runc prints", e.into()))?;
        Ok(matches!(
            state.status.as_str(),
            "running" | "paused" | "pausing"
        ))
    }

    /// Removes what runc keeps of the container. Its processes are dead already.
    pub(super) fn forget(&self, of: &BoxLayout) -> Result<(), Error> {
        let folder = self.root.join(of.id.as_str());
        if !folder.is_dir() {
            return Ok(());
        }
        let mut command = self.command(of);
        command
            .args(["delete", "--force", of.id.as_str()])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // A state cut short by a kill is one that runc refuses to read. What is left then is this folder.
        let deleted = run(of, "remove the container", &mut command);
        if folder.is_dir() {
            std::fs::remove_dir_all(&folder).map_err(|e| io_error(of, "remove runc's state", e))?;
            if let Err(error) = deleted {
                tracing::info!(r#box = %of.id, %error, "removed a broken container state");
            }
        }
        Ok(())
    }

    fn command(&self, of: &BoxLayout) -> Command {
        let mut command = Command::new(NAME);
        command.arg("--root").arg(&self.root);
        // A box that was never made has no folder for a log.
        if of.run().is_dir() {
            command
                .arg("--log")
                .arg(of.runc_log())
                .args(["--log-format", "json"]);
        }
        command
    }
}

fn run(of: &BoxLayout, doing: &'static str, command: &mut Command) -> Result<Output, Error> {
    let output = program::run(command, program::TIMEOUT).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => Error::MissingProgram {
            program: NAME,
            hint: HINT,
        },
        _ => io_error(of, doing, e),
    })?;
    if output.status.success() {
        return Ok(output);
    }
    let stderr = last_error(&of.runc_log()).unwrap_or_else(|| output.status.to_string());
    Err(Error::Program {
        program: NAME,
        doing,
        box_id: of.id.to_string(),
        stderr,
    })
}

/// Cuts the console's file if the box has filled it. The writer appends, so it goes on from the start.
pub(super) fn bound_console(of: &BoxLayout) -> io::Result<()> {
    match of.console().symlink_metadata() {
        Ok(facts) if facts.len() > CONSOLE_BYTES_MAX => open_console(of, true).map(drop),
        Ok(_) => Ok(()),
        Err(e) => gone(Err(e)),
    }
}

fn open_console(of: &BoxLayout, truncate: bool) -> io::Result<std::fs::File> {
    let file = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(of.console())?;
    if truncate {
        file.set_len(0)?;
    }
    Ok(file)
}

fn last_error(log: &Path) -> Option<String> {
    let text = std::fs::read_to_string(log).ok()?;
    let lines = text
        .lines()
        .rev()
        .filter_map(|line| serde_json::from_str::<Logged>(line).ok());
    lines
        .filter(|line| line.level == "error")
        .map(|line| line.msg)
        .next()
}

fn io_error(of: &BoxLayout, doing: &'static str, source: io::Error) -> Error {
    Error::Io {
        box_id: of.id.to_string(),
        doing,
        source,
    }
}
