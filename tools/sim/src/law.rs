//! The laws that a run must not break, and how a broken one is told.

use std::fmt;

/// The laws of the architecture that a run checks, by their number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Law {
    /// An acked event is on disk. An event is never changed, only erased.
    Durable,
    /// A stream resumed from any key goes on without gap or repeat, or says exactly why it cannot.
    Resume,
    /// A projection that is rebuilt is equal to the one that was kept.
    Rebuild,
    /// One user's call never reaches another user's log.
    Isolation,
    /// Take-over is fenced. A command with the same id happens once.
    Once,
    /// Bad input gets a typed error, and nothing comes of it.
    BadInput,
    /// Verification finds what was tampered with, and nothing else.
    Verify,
    /// What is owed is done once faults have stopped.
    Liveness,
    /// What is erased is nowhere any more.
    Erased,
}

impl Law {
    pub const ALL: [Self; 9] = [
        Self::Durable,
        Self::Resume,
        Self::Rebuild,
        Self::Isolation,
        Self::Once,
        Self::BadInput,
        Self::Verify,
        Self::Liveness,
        Self::Erased,
    ];

    /// The number in the architecture's list; the last two are of other documents.
    pub fn number(self) -> &'static str {
        match self {
            Self::Durable => "1 (durable)",
            Self::Resume => "2 (resume)",
            Self::Rebuild => "3 (rebuild)",
            Self::Isolation => "5 (isolation)",
            Self::Once => "6 (once, fenced)",
            Self::BadInput => "8 (bad input)",
            Self::Verify => "verify",
            Self::Liveness => "liveness",
            Self::Erased => "1 (erased)",
        }
    }
}

/// A law that was broken, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub law: Law,
    /// What it concerns: a log, a box, a place.
    pub about: String,
    pub what: String,
    pub at_us: i64,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, law) = (self.at_us, self.law.number());
        write!(
            f,
            "law {law} broken at {}.{:06} s, {}: {}",
            at / 1_000_000,
            at % 1_000_000,
            self.about,
            self.what
        )
    }
}
