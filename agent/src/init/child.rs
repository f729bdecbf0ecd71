//! One of the processes that init keeps running.

use std::{
    collections::HashMap,
    io,
    os::{
        fd::OwnedFd,
        unix::{net::UnixListener, process::CommandExt},
    },
    process::{Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, WaitStatus};
use tokio::time::Instant;

use super::folders::{AGENT_ID, USER_ID};
use crate::{desktop::handed, toolhost};

const HOME: &str = "/home/user";
const DOOR: &str = "http://127.0.0.1:3128";

/// Wait before the first restart; doubles with each that follows soon.
const BACKOFF_FIRST: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// After so long it counts as having run well.
const UP: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Serve,
    Toolhost,
    /// Only where the image has a plan.
    Desktop,
}

pub(super) struct Child {
    role: Role,
    /// Its socket, held here so that connections to it outlive it.
    listener: Option<OwnedFd>,
    /// Others by name: those of what it starts on demand.
    also: Vec<(String, OwnedFd)>,
    pid: Option<Pid>,
    started: Instant,
    /// When to start it; `None` while it runs.
    due: Option<Instant>,
    backoff: Duration,
}

impl Child {
    pub(super) fn new(role: Role, listener: Option<UnixListener>) -> Self {
        let now = Instant::now();
        Self {
            role,
            listener: listener.map(OwnedFd::from),
            also: Vec::new(),
            pid: None,
            started: now,
            due: Some(now),
            backoff: BACKOFF_FIRST,
        }
    }

    /// With another socket, which its standard output gives it.
    pub(super) fn also(mut self, name: String, listener: UnixListener) -> Self {
        self.also.push((name, listener.into()));
        self
    }

    pub(super) fn role(&self) -> Role {
        self.role
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    pub(super) fn is(&self, pid: Pid) -> bool {
        self.pid == Some(pid)
    }

    pub(super) fn is_running(&self) -> bool {
        self.pid.is_some()
    }

    pub(super) fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid {
            // We are its parent and have not collected it, so the id is still its own.
            rustix::process::kill_process(pid, signal).ok();
        }
    }

    pub(super) fn start_if_due(&mut self, now: Instant) {
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        self.started = now;
        match self.spawn() {
            Ok(pid) => {
                tracing::info!(role = ?self.role, pid = pid.as_raw_nonzero(), "started");
                self.pid = Some(pid);
                self.due = None;
            }
            Err(error) => {
                tracing::error!(role = ?self.role, %error, "not started");
                self.wait(now);
            }
        }
    }

    pub(super) fn died(&mut self, status: WaitStatus, now: Instant) {
        let (code, signal) = (status.exit_status(), status.terminating_signal());
        if code == Some(0) {
            tracing::info!(role = ?self.role, "ended");
        } else {
            tracing::warn!(role = ?self.role, code, signal, "ended");
        }
        if let (Role::Desktop, Some(pid)) = (self.role, self.pid) {
            // Its successor starts all parts, so none may be left of it. They are in its group.
            rustix::process::kill_process_group(pid, Signal::KILL).ok();
        }
        self.pid = None;
        if now.duration_since(self.started) >= UP {
            self.backoff = BACKOFF_FIRST;
        }
        self.wait(now);
    }

    fn wait(&mut self, now: Instant) {
        self.due = Some(now + self.backoff);
        self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
    }

    fn spawn(&self) -> io::Result<Pid> {
        let mut command = Command::new("/proc/self/exe");
        command.env_clear().current_dir("/").process_group(0);
        match self.role {
            // Groups are cleared by the change of the user.
            Role::Serve => command
                .arg("serve")
                .uid(AGENT_ID)
                .gid(AGENT_ID)
                .stdin(Stdio::null()),
            Role::Toolhost => command
                .args(["toolhost", "--socket-on-stdin"])
                .uid(USER_ID)
                .gid(USER_ID)
                .env("HOME", HOME)
                .stdin(self.socket()?),
            Role::Desktop => command
                .args(["desktop", "--socket-on-stdin"])
                .uid(USER_ID)
                .gid(USER_ID)
                .current_dir(HOME)
                .envs(toolhost::environment(HOME, DOOR, true, HashMap::new()))
                .stdin(self.socket()?),
        };
        if !self.also.is_empty() {
            command.arg("--sockets-on-stdout");
            command.stdout(handed::give(&self.also)?);
        }
        let child = command.spawn()?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        pid.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn socket(&self) -> io::Result<Stdio> {
        let listener = self.listener.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        Ok(listener.try_clone()?.into())
    }
}
