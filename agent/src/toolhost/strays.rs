//! Processes whose supervisor was killed: they belong to nobody and end.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use rustix::process::{Pid, WaitOptions};

use crate::supervise::tree;

/// How often the killed are looked at until they are gone.
const LOOK: Duration = Duration::from_millis(10);

/// Our own supervisors. Every other child of ours is a stray: as the next subreaper above a killed
/// supervisor we inherit its descendants.
#[derive(Debug, Default)]
pub(crate) struct Strays {
    own: Mutex<HashSet<i32>>,
}

impl Strays {
    /// Starts a supervisor; under the lock, so that it is never taken for a stray.
    pub(crate) fn start<T>(
        &self,
        spawn: impl FnOnce() -> std::io::Result<(T, i32)>,
    ) -> std::io::Result<(T, i32)> {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let (child, pid) = spawn()?;
        own.insert(pid);
        Ok((child, pid))
    }

    pub(crate) fn ended(&self, pid: i32) {
        self.own
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&pid);
    }

    /// Kills and reaps every stray. Blocks for as long as they take to die.
    pub(crate) fn kill(&self) {
        let me = rustix::process::getpid().as_raw_nonzero().get();
        loop {
            let own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
            let strays: Vec<_> = tree::children(me)
                .into_iter()
                .filter(|p| !own.contains(&p.pid))
                .collect();
            for stray in &strays {
                // Its own children become ours next, and the next round finds them.
                tree::signal(stray, rustix::process::Signal::KILL);
                let _ = rustix::process::waitpid(Pid::from_raw(stray.pid), WaitOptions::NOHANG);
            }
            drop(own);
            if strays.is_empty() {
                return;
            }
            std::thread::sleep(LOOK);
        }
    }
}
