//! What was found.

use std::time::Duration;

use cocoonbox_events::{ChainHash, LogId, checkpoint::VerifierKey};
use serde_json::{Value, json};

/// Findings that a report names; more are only counted.
const FINDINGS_MAX: usize = 100;

/// What was found in one log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyReport {
    pub log: LogId,
    /// Events that were checked and are good. A branch has only those behind where it parted.
    pub events: u64,
    /// How many of them are erased (or sealed with a key that is not here).
    pub erased: u64,
    /// How many of them are of a kind or version that this build does not know.
    pub unknown: u64,
    pub streams: usize,
    /// Where the log says that it ends, and the link there.
    pub tail: u64,
    pub tail_chain: ChainHash,
    /// Checkpoints that are signed by a trusted key and true.
    pub checkpoints: u64,
    /// The last position that one of them speaks of. What is behind it hangs together, no more.
    pub proved: u64,
    /// Nothing behind it was looked at.
    pub first_break: Option<Break>,
    /// Copies and checkpoints of this log that are not what they must be.
    pub findings: Findings,
    pub took: Duration,
}

/// The first position that is not what it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Break {
    pub pos: u64,
    pub what: String,
}

/// What was found in all logs of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllReport {
    pub logs: Vec<VerifyReport>,
    /// Streams that were folded with their aggregate.
    pub folded: u64,
    /// Anchors that were compared with the box log they name.
    pub anchors: u64,
    /// Keys that were trusted in the end.
    pub keys: Vec<VerifierKey>,
    /// Whether keys were given, and not only taken from the system log.
    pub is_key_given: bool,
    /// The database file is too large to be looked through in the time that there was.
    pub is_file_cut: bool,
    /// What does not fit together, or does not fold.
    pub findings: Findings,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub log: LogId,
    /// 0: not at a position.
    pub pos: u64,
    pub what: String,
}

/// Findings, bounded: damage can be as large as the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    first: Vec<Finding>,
    count: u64,
}

impl Findings {
    pub fn add(&mut self, log: LogId, pos: u64, what: impl Into<String>) {
        self.count += 1;
        if self.first.len() < FINDINGS_MAX {
            let what = what.into();
            self.first.push(Finding { log, pos, what });
        }
    }

    /// Returns those that are named.
    pub fn iter(&self) -> impl Iterator<Item = &Finding> {
        self.first.iter()
    }

    /// Returns how many there are, named or not.
    pub fn count(&self) -> u64 {
        self.count
    }

    fn to_json(&self) -> Value {
        let one = |found: &Finding| json!({"log": found.log.to_string(), "pos": found.pos, "what": found.what});
        self.iter().map(one).collect()
    }
}

impl VerifyReport {
    pub fn is_good(&self) -> bool {
        self.first_break.is_none() && self.findings.count() == 0
    }

    /// Events checked in a second.
    pub fn rate(&self) -> u64 {
        let micros = self.took.as_micros().max(1);
        u64::try_from(u128::from(self.events) * 1_000_000 / micros).unwrap_or(u64::MAX)
    }

    pub fn to_json(&self) -> Value {
        json!({
            "log": self.log.to_string(),
            "good": self.is_good(),
            "events": self.events,
            "erased": self.erased,
            "unknown": self.unknown,
            "streams": self.streams,
            "tail": self.tail,
            "tail_chain": self.tail_chain.to_string(),
            "checkpoints": self.checkpoints,
            "proved": self.proved,
            "first_break": self.first_break.as_ref().map(|found| json!({"pos": found.pos, "what": found.what})),
            "findings": self.findings.to_json(),
            "findings_count": self.findings.count(),
            "events_per_second": self.rate(),
        })
    }
}

impl AllReport {
    pub fn is_good(&self) -> bool {
        self.findings.count() == 0 && self.logs.iter().all(VerifyReport::is_good)
    }

    pub fn to_json(&self) -> Value {
        json!({
            "good": self.is_good(),
            "logs": self.logs.iter().map(VerifyReport::to_json).collect::<Vec<_>>(),
            "folded": self.folded,
            "anchors": self.anchors,
            "keys": self.keys.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "keys_given": self.is_key_given,
            "file_cut": self.is_file_cut,
            "findings": self.findings.to_json(),
            "findings_count": self.findings.count(),
        })
    }
}
