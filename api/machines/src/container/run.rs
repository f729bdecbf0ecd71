//! One run of a box: which wake it was started for, and the process that is its PID 1.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal};
use serde::{Deserialize, Serialize};

use super::cgroup::Cgroup;
use super::layout::{BoxLayout, gone, replace};
use super::program::ends_within;
use crate::WakeId;

/// How often an init that cannot hear yet is asked to stop.
const ASK_STEP: Duration = Duration::from_millis(20);

/// `wake.json`. Written when nothing runs, so whatever runs was started for what it says.
#[derive(Serialize, Deserialize)]
struct Recorded {
    wake_id: WakeId,
}

pub(super) fn record_wake(of: &BoxLayout, wake: &WakeId) -> io::Result<()> {
    let recorded = serde_json::to_vec(&Recorded {
        wake_id: wake.clone(),
    })?;
    replace(&of.wake_file(), &recorded)
}

/// Returns the wake of the last run. It is not synced: a power loss ends the run it tells of.
pub(super) fn recorded_wake(of: &BoxLayout) -> io::Result<Option<WakeId>> {
    match std::fs::read(of.wake_file()) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes)
            .ok()
            .map(|read: Recorded| read.wake_id)),
        Err(e) => gone(Err(e)).map(|()| None),
    }
}

/// A box's PID 1, held by a handle that cannot come to mean another process.
pub(super) struct Init {
    pub(super) pid: Pid,
    pub(super) handle: OwnedFd,
}

impl Init {
    /// Finds the init that lives, whoever started it.
    ///
    /// The pid file may be of a run before a reboot: the process is the box's only if it is in the box's
    /// cgroup, and was so while the handle was held.
    pub(super) fn find(of: &BoxLayout, cgroup: &Cgroup<'_>) -> io::Result<Option<Self>> {
        let text = match std::fs::read_to_string(of.pid_file()) {
            Ok(text) => text,
            Err(e) => return gone(Err(e)).map(|()| None),
        };
        let Some(pid) = text.trim().parse().ok().and_then(Pid::from_raw) else {
            return Ok(None);
        };
        let handle = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            // Nobody, or a thread's number by now.
            Err(rustix::io::Errno::SRCH | rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => {
                return Ok(None);
            }
            other => other?,
        };
        let init = Self { pid, handle };
        let is_ours = cgroup.holds(pid);
        Ok((is_ours && init.lives()?).then_some(init))
    }

    /// A zombie that nobody has reaped yet counts as dead.
    pub(super) fn lives(&self) -> io::Result<bool> {
        Ok(!self.ended_within(Duration::ZERO)?)
    }

    pub(super) fn ended_within(&self, timeout: Duration) -> io::Result<bool> {
        ends_within(&self.handle, timeout)
    }

    /// Sends SIGTERM and waits; `false` if init still runs after `grace`.
    ///
    /// A signal that a PID 1 has no handler for is dropped, so one that came up just now is asked again
    /// until it can hear.
    pub(super) fn ask_to_stop(&self, grace: Duration) -> io::Result<bool> {
        let deadline = Instant::now() + grace;
        loop {
            let heard = self.hears_term();
            self.signal(Signal::TERM)?;
            let left = deadline.saturating_duration_since(Instant::now());
            let ended = self.ended_within(if heard { left } else { left.min(ASK_STEP) })?;
            if ended || heard || left.is_zero() {
                return Ok(ended);
            }
        }
    }

    /// Whether SIGTERM has a handler, or is kept for one that reads it from a descriptor.
    fn hears_term(&self) -> bool {
        let path = format!("/proc/{}/status", self.pid.as_raw_nonzero());
        let Ok(status) = std::fs::read_to_string(path) else {
            return false;
        };
        // What the runtime does before it becomes the init would swallow the signal.
        if status.starts_with("Name:\trunc:") {
            return false;
        }
        let masks = status.lines().filter_map(|line| {
            line.strip_prefix("SigCgt:")
                .or_else(|| line.strip_prefix("SigBlk:"))
        });
        masks
            .filter_map(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .any(|mask| mask & (1 << (Signal::TERM.as_raw() - 1)) != 0)
    }

    pub(super) fn signal(&self, signal: Signal) -> io::Result<()> {
        match rustix::process::pidfd_send_signal(self.handle.as_fd(), signal) {
            Err(rustix::io::Errno::SRCH) => Ok(()),
            other => Ok(other?),
        }
    }
}
