//! The api's process: found, started in a session of its own, ended.

use std::{
    fs,
    os::{
        fd::OwnedFd,
        unix::{fs::OpenOptionsExt, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal, setsid},
};

use super::remembered::Serve;
use crate::{cli::boxes::ServeDetached, exit::Exit, failure::Failure};

const PROGRAM: &str = "cocoonbox-api";

/// A running api, held so that its number cannot pass to another process.
pub(super) struct Process {
    handle: OwnedFd,
}

/// Finds the api that a pid file names. A number that belongs to something else by now is nobody.
pub(super) fn find(pid_file: &Path) -> Result<Option<Process>, Failure> {
    let Ok(text) = fs::read_to_string(pid_file) else {
        return Ok(None);
    };
    let Some(pid) = text.trim().parse().ok().and_then(Pid::from_raw) else {
        return Ok(None);
    };
    let handle = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => handle,
        Err(rustix::io::Errno::SRCH) => return Ok(None),
        Err(error) => return Err(Failure::local("looking for the api", &error)),
    };
    // After the handle was taken: if the name is right, the handle is of this process.
    let name = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
    let program = name.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(program
        .ends_with(PROGRAM.as_bytes())
        .then_some(Process { handle }))
}

impl Process {
    pub(super) fn terminate(&self) -> Result<(), Failure> {
        match pidfd_send_signal(&self.handle, Signal::TERM) {
            // It ended by itself in the meantime.
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(Failure::local("stopping the api", &error)
                .advise("only the user that runs the api, or root, can stop it")),
        }
    }

    /// Waits until it has ended; `false` if it has not in time.
    pub(super) fn wait(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).ok();
            let mut handles = [PollFd::new(&self.handle, PollFlags::IN)];
            match poll(&mut handles, left.as_ref()) {
                Ok(count) => return count > 0,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }
}

/// Starts the api by way of ourselves: we leave the terminal's session and become it.
pub(super) fn spawn(data: &Path, log_file: &Path, serve: &Serve) -> Result<Child, Failure> {
    let us = std::env::current_exe().map_err(|error| Failure::local("finding myself", &error))?;
    let program = find_program(&us)?;
    let log = fs::File::options()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(log_file);
    let log = log.and_then(|log| log.try_clone().map(|again| (log, again)));
    let (log, again) =
        log.map_err(|error| Failure::local(format!("opening `{}`", log_file.display()), &error))?;
    let mut command = Command::new(us);
    // A token for us is none of the api's business.
    command
        .env_remove("COCOONBOX_TOKEN")
        .env_remove("COCOONBOX_API");
    command
        .args(["serve-detached", "--"])
        .arg(program)
        .arg("serve");
    command
        .arg("--data-dir")
        .arg(data)
        .arg("--listen")
        .arg(&serve.listen);
    command.arg("--image").arg(&serve.image);
    if let Some(agent) = &serve.agent {
        command.arg("--agent").arg(agent);
    }
    command
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(again);
    command
        .spawn()
        .map_err(|error| Failure::local("starting the api", &error))
}

/// Leaves the session of whoever called us and becomes the program. Returns only if that fails.
pub fn serve_detached(args: &ServeDetached) -> Failure {
    let [program, rest @ ..] = args.argv.as_slice() else {
        return Failure::usage("no program");
    };
    if let Err(error) = setsid() {
        return Failure::local("leaving the session", &error);
    }
    let error = Command::new(program).args(rest).exec();
    Failure::local(format!("`{}`", program.display()), &error)
}

/// Beside us first: the two were built together.
fn find_program(us: &Path) -> Result<PathBuf, Failure> {
    let beside = us.parent().map(Path::to_path_buf);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = beside.into_iter().chain(std::env::split_paths(&path));
    folders
        .map(|folder| folder.join(PROGRAM))
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| {
            Failure::new(
                Exit::Failure,
                format!("`{PROGRAM}` is neither beside this program nor in PATH"),
            )
        })
}
