//! Variants that are wrong on purpose, to prove that the laws would notice.

/// What is broken in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Broken {
    /// Nothing: the system as it is meant.
    #[default]
    Nothing,
    /// The store answers and shows before the disk has it.
    AckBeforeSync,
    /// A replicator takes what comes for what is next: it numbers and links by itself.
    BlindReplica,
    /// A stream looks at the position of a key only.
    ResumeByPosition,
    /// A reactor believes in its lease, and nobody checks its term.
    UnfencedLease,
    /// A projection passes over an event now and then.
    SkippedEvent,
    /// A client that got no answer asks again under a new command id.
    FreshRetryId,
    /// A disk that went back is written on under the same log.
    SilentRestore,
    /// A promoted standby goes on in the logs that it was behind in.
    SilentPromotion,
    /// A tool with effects is run again after a crash.
    RepeatedEffect,
    /// An api answers for the log that a client names, whoever's it is.
    OpenDoor,
    /// The copy of a log keeps what the box has erased.
    ForgottenErasure,
}

impl Broken {
    /// Every variant but the one that is right.
    pub const ALL: [Self; 11] = [
        Self::AckBeforeSync,
        Self::BlindReplica,
        Self::ResumeByPosition,
        Self::UnfencedLease,
        Self::SkippedEvent,
        Self::FreshRetryId,
        Self::SilentRestore,
        Self::SilentPromotion,
        Self::RepeatedEffect,
        Self::OpenDoor,
        Self::ForgottenErasure,
    ];
}
