//! Ctrl-C: once to ask, twice to leave.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// Counts interrupts from when it is made; they do not end the process any more.
pub struct Interrupts {
    signal: Signal,
    count: u32,
}

impl Interrupts {
    pub fn catch() -> Result<Self, Failure> {
        let signal = signal(SignalKind::interrupt())
            .map_err(|error| Failure::local("listening for Ctrl-C", &error))?;
        Ok(Self { signal, count: 0 })
    }

    /// Waits for the next one and answers how many there were. Cancel-safe.
    pub async fn next(&mut self) -> u32 {
        if self.signal.recv().await.is_none() {
            // The runtime is going down; nobody can press anything any more.
            std::future::pending::<()>().await;
        }
        self.count += 1;
        self.count
    }
}
