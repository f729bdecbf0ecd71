//! The last words of a part, which say why it ended.

use std::{
    collections::VecDeque,
    io::{self, Read},
    os::fd::OwnedFd,
    process::Stdio,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

/// So much of the end is kept.
const KEPT_BYTES_MAX: usize = 2 * 1024;

/// One pipe for all starts of a part. What a part has started itself may outlive it and goes on writing:
/// without a reader it would be ended by that.
#[derive(Debug)]
pub(super) struct Output {
    write: OwnedFd,
    kept: Arc<Mutex<VecDeque<u8>>>,
}

impl Output {
    pub(super) fn open() -> io::Result<Self> {
        let (mut read, write) = io::pipe()?;
        let kept = Arc::<Mutex<VecDeque<u8>>>::default();
        let keeping = kept.clone();
        // It ends with the last writer, or with this process.
        thread::Builder::new()
            .stack_size(64 * 1024)
            .spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(count @ 1..) = read.read(&mut buffer) {
                    let mut kept = lock(&keeping);
                    kept.extend(&buffer[..count]);
                    let excess = kept.len().saturating_sub(KEPT_BYTES_MAX);
                    kept.drain(..excess);
                }
            })?;
        Ok(Self {
            write: write.into(),
            kept,
        })
    }

    /// Returns an end to write to, and forgets what was written before.
    pub(super) fn begin(&self) -> io::Result<Stdio> {
        lock(&self.kept).clear();
        Ok(self.write.try_clone()?.into())
    }

    /// Returns the end of what was written, without control characters.
    pub(super) fn tail(&self) -> String {
        let bytes: Vec<u8> = lock(&self.kept).iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let plain = |c: &char| !c.is_control() || *c == '\n';
        text.chars()
            .filter(plain)
            .collect::<String>()
            .trim()
            .to_owned()
    }
}

fn lock(kept: &Mutex<VecDeque<u8>>) -> MutexGuard<'_, VecDeque<u8>> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}
