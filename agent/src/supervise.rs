//! One small process between the toolhost and each command it runs.
//!
//! The supervisor is a child subreaper: whatever the command leaves behind, daemons and `setsid`
//! children included, has the supervisor as an ancestor and can be found and killed. It reports how the
//! command ended, and stays until the last descendant is gone, so that there are no zombies.
//!
//! Its standard input is a socket to the toolhost: first a [`RunStart`] with the three descriptors of
//! the command beside it, then words of six bytes in both directions.
//!
//! [`RunStart`]: cocoonbox_proto::toolhost::v1::RunStart

mod child;
pub(crate) mod tree;
pub(crate) mod word;

use std::{
    io::{self, Read, Write},
    os::{fd::AsFd, unix::net::UnixStream},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, WaitOptions};

use self::word::{LEN, Word};

/// The name (argument zero) under which the binary acts as a supervisor.
pub const NAME: &str = "cocoonbox-run";

/// Between asking the tree to end and killing it: half of the second that a cancel may take.
const GRACE: Duration = Duration::from_millis(400);

/// How often a tree is looked at while it is expected to go.
const LOOK: Duration = Duration::from_millis(10);

/// Runs as a supervisor until the command and all of its descendants are gone.
pub fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        // Nobody reads our standard error; the toolhost sees the socket close without an ending.
        Err(_) => ExitCode::FAILURE,
    }
}

fn run() -> io::Result<()> {
    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let (start, stdio) = word::receive_start(&control)?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    // A session of its own: no signal of ours reaches it by accident, and it has no terminal.
    rustix::process::setsid()?;
    child::reset_limits();
    go_first();
    let pid = match child::spawn(&start, stdio) {
        Ok(pid) => pid,
        Err(text) => return word::send_text(&control, &text),
    };
    // The writes of a cancelled caller's supervisor fail: that is the other thread's business.
    (&control).write_all(&Word::Started(pid).encode()).ok();
    let exited = Arc::new(AtomicBool::new(false));
    let listener = control.try_clone()?;
    let seen = Arc::clone(&exited);
    thread::Builder::new()
        .stack_size(128 * 1024)
        .spawn(move || listen(&listener, pid, &seen))?;
    reap(&control, pid, &exited);
    Ok(())
}

/// When the box's memory is full the kernel kills what has most of it, and counts this much of the box's on top: what
/// a user runs goes before the box's agent and what holds the user's sessions. The command inherits it.
fn go_first() {
    const THOUSANDTHS: &[u8] = b"200";
    // A kernel that does not take it decides by size alone.
    std::fs::write("/proc/self/oom_score_adj", THOUSANDTHS).ok();
}

/// Reaps until there are no children left, and reports the command's own end.
fn reap(control: &UnixStream, pid: i32, exited: &AtomicBool) {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((gone, status))) if gone.as_raw_nonzero().get() == pid => {
                exited.store(true, Ordering::SeqCst);
                // No children at all is answered by an error: then nothing was left running.
                let left = loop {
                    match rustix::process::wait(WaitOptions::NOHANG) {
                        Ok(Some(_)) => {}
                        Ok(None) => break true,
                        Err(_) => break false,
                    }
                };
                let ending = match (status.exit_status(), status.terminating_signal()) {
                    (Some(code), _) => Word::Exited { code, left },
                    (None, signal) => Word::Signalled {
                        signal: signal.unwrap_or(9),
                        left,
                    },
                };
                (&*control).write_all(&ending.encode()).ok();
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// Obeys the toolhost. Its silence (a closed socket) before the command has ended is a cancel.
fn listen(control: &UnixStream, pid: i32, exited: &AtomicBool) {
    let me = rustix::process::getpid().as_raw_nonzero().get();
    let mut bytes = [0; LEN];
    while (&*control).read_exact(&mut bytes).is_ok() {
        match Word::decode(bytes) {
            Some(Word::Signal(number)) => signal_group(pid, number),
            Some(Word::Cancel) => end_tree(me),
            Some(Word::Kill) => tree::kill(me, LOOK),
            _ => {}
        }
    }
    if !exited.load(Ordering::SeqCst) {
        end_tree(me);
    }
}

fn signal_group(pid: i32, number: i32) {
    if let (Some(pid), Some(signal)) = (Pid::from_raw(pid), Signal::from_named_raw(number)) {
        // It may be gone already.
        let _ = rustix::process::kill_process_group(pid, signal);
    }
}

fn end_tree(me: i32) {
    for process in tree::descendants(me) {
        tree::signal(&process, Signal::TERM);
        // A stopped process does not see the request.
        tree::signal(&process, Signal::CONT);
    }
    let mut waited = Duration::ZERO;
    while waited < GRACE {
        if tree::descendants(me).is_empty() {
            return;
        }
        thread::sleep(LOOK);
        waited += LOOK;
    }
    tree::kill(me, LOOK);
}
