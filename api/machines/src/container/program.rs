//! Runs other programs for a bounded time.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags};

use super::kernel;

/// Nothing that is started here takes a second on an idle machine; a program that hangs must not hold
/// the box's lock for good.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);

/// Runs `command` to its end, or kills it after `timeout`. It dies with this thread.
///
/// Pipes are read after the end: for programs that write less than a pipe holds.
pub(super) fn run(command: &mut Command, timeout: Duration) -> io::Result<Output> {
    kernel::die_with_parent(command);
    // A group of its own: Ctrl-C in the api's terminal is the api's to handle.
    let mut child = command.stdin(Stdio::null()).process_group(0).spawn()?;
    let pid = Pid::from_child(&child);
    let ended = rustix::process::pidfd_open(pid, PidfdFlags::empty())
        .map_err(io::Error::from)
        .and_then(|handle| ends_within(&handle, timeout));
    match ended {
        Ok(true) => child.wait_with_output(),
        other => {
            child.kill()?;
            child.wait()?;
            other.and(Err(io::ErrorKind::TimedOut.into()))
        }
    }
}

/// Waits for the process behind a pidfd; `false` if it still runs after `timeout`.
pub(super) fn ends_within(handle: &impl std::os::fd::AsFd, timeout: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + timeout;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = left
            .try_into()
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        match rustix::event::poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_hangs_is_killed() {
        let began = Instant::now();
        let error = run(Command::new("sleep").arg("60"), Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn output_and_status_are_returned() {
        let output = run(
            Command::new("sh")
                .args(["-c", "echo out; echo err >&2; exit 3"])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped()),
            TIMEOUT,
        )
        .unwrap();
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(
            (&output.stdout[..], &output.stderr[..]),
            (&b"out\n"[..], &b"err\n"[..])
        );
    }
}
