//! Time and chance come in as values; this is where they come from.

use std::sync::atomic::{AtomicI64, Ordering};

use uuid::Uuid;

/// Tells the time.
pub trait Clock: Send + Sync + 'static {
    /// Microseconds since the Unix epoch.
    fn now_us(&self) -> i64;
}

/// The machine's own clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place")]
    fn now_us(&self) -> i64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |d| i64::try_from(d.as_micros()).unwrap_or(i64::MAX))
    }
}

/// A clock that moves only when told to.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    pub fn at(now_us: i64) -> Self {
        Self(AtomicI64::new(now_us))
    }

    pub fn set(&self, now_us: i64) {
        self.0.store(now_us, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_us(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Draws ids.
pub trait Ids: Send + Sync + 'static {
    /// A fresh UUID; time-ordered, so that indexes stay local.
    fn draw(&self) -> Uuid;

    /// Bytes that nobody can guess, for the salt of one payload; `None` if there are none to be had.
    /// A run that has to be repeated bit for bit draws them from its seed.
    fn salt(&self) -> Option<[u8; 16]> {
        let mut salt = [0; 16];
        getrandom::fill(&mut salt).ok().map(|()| salt)
    }
}

/// UUIDv7 from the machine's clock and random source.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemIds;

impl Ids for SystemIds {
    fn draw(&self) -> Uuid {
        Uuid::now_v7()
    }
}
