//! What the run knows and no part of the system does: everything that anybody ever saw.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use cocoonbox_events::{
    ChainHash, LogId, LogInfo, OffsetKey, ReadError, Recorded,
    store::{LogKind, Parent},
};

use crate::{
    law::Law,
    scheduler::{Sim, lock},
};

/// Checks what is seen against what was seen before.
#[derive(Clone)]
pub struct Ledger {
    sim: Sim,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    seen: BTreeMap<(LogId, u64), ChainHash>,
    events: u64,
    branches: BTreeMap<LogId, Branch>,
    acks: Vec<Ack>,
    /// Behind these positions an operator gave up what a log held: a promotion, or a disk that went back.
    given_up: BTreeMap<LogId, u64>,
    effects: BTreeMap<(LogId, String), u32>,
    terms: BTreeMap<String, u64>,
    prompts: BTreeSet<String>,
    /// Signed positions that the auditor holds.
    signed: Vec<(LogId, u64, ChainHash)>,
    /// What stood in payloads that were erased, by where.
    erased: BTreeMap<(LogId, u64), Vec<u8>>,
    boxes: BTreeMap<String, BTreeSet<LogId>>,
}

#[derive(Clone)]
struct Branch {
    kind: LogKind,
    owner: String,
    parent: Option<Parent>,
}

/// An answer that said: this is on disk.
#[derive(Clone, Debug)]
pub struct Ack {
    pub log: LogId,
    pub pos: u64,
    pub chain: ChainHash,
}

/// What has to come of a key that is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Reading goes on behind the key.
    On,
    /// The branches part here.
    Moved {
        common: u64,
    },
    OtherLog,
}

impl Ledger {
    pub fn new(sim: Sim) -> Self {
        Self {
            sim,
            state: Arc::default(),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Takes in a log that somebody opened. Only what is true of it for ever.
    pub fn opened(&self, info: &LogInfo) {
        let branch = Branch {
            kind: info.kind,
            owner: info.owner.clone(),
            parent: info.parent,
        };
        self.state().branches.entry(info.id).or_insert(branch);
    }

    /// Checks an event that somebody was shown: what is at a position never changes.
    pub fn saw(&self, who: &str, event: &Recorded) {
        let before = {
            let mut state = self.state();
            let before = state.seen.insert((event.log, event.pos), event.chain);
            if before.is_none() {
                state.events += 1;
            }
            before
        };
        if let Some(before) = before
            && before != event.chain
        {
            let what = format!(
                "event {} of log {} is another than was seen before ({} was {})",
                event.pos,
                short(event.log),
                link(event.chain),
                link(before)
            );
            self.sim.fail(Law::Durable, who, what);
        }
    }

    /// Counts events that were seen.
    pub fn events(&self) -> u64 {
        self.state().events
    }

    pub fn acked(&self, log: LogId, key: OffsetKey, chain: ChainHash) {
        let pos = key.pos;
        self.state().acks.push(Ack { log, pos, chain });
    }

    pub fn acks(&self) -> Vec<Ack> {
        self.state().acks.clone()
    }

    pub fn sign(&self, log: LogId, pos: u64, chain: ChainHash) {
        self.state().signed.push((log, pos, chain));
    }

    pub fn signed(&self) -> Vec<(LogId, u64, ChainHash)> {
        self.state().signed.clone()
    }

    /// An operator gives up what a log has behind `pos`.
    pub fn give_up(&self, log: LogId, pos: u64) {
        let mut state = self.state();
        let at = state.given_up.entry(log).or_insert(u64::MAX);
        *at = (*at).min(pos);
    }

    /// Whether what stands at a position may be gone.
    pub fn is_given_up(&self, log: LogId, pos: u64) -> bool {
        let state = self.state();
        state.given_up.get(&log).is_some_and(|kept| pos > *kept)
    }

    /// Returns the log that holds a position of a branch.
    pub fn holder(&self, log: LogId, pos: u64) -> LogId {
        let state = self.state();
        let mut at = log;
        while let Some(parent) = state.branches.get(&at).and_then(|branch| branch.parent)
            && pos <= parent.pos
        {
            at = parent.log;
        }
        at
    }

    pub fn owner(&self, log: LogId) -> Option<String> {
        self.state().branches.get(&log).map(|b| b.owner.clone())
    }

    pub fn kind(&self, log: LogId) -> Option<LogKind> {
        self.state().branches.get(&log).map(|b| b.kind)
    }

    /// Says what has to come of a key when reading goes on in `log`.
    pub fn due(&self, log: LogId, key: &OffsetKey) -> Due {
        let state = self.state();
        let mut common = u64::MAX;
        let mut at = log;
        while at != key.log {
            let Some(parent) = state.branches.get(&at).and_then(|branch| branch.parent) else {
                return Due::OtherLog;
            };
            common = common.min(parent.pos);
            at = parent.log;
        }
        if key.pos > common {
            Due::Moved { common }
        } else {
            Due::On
        }
    }

    /// A tool did something to the world.
    pub fn effect(&self, who: &str, log: LogId, tool_call_id: &str) {
        let times = {
            let mut state = self.state();
            let times = state
                .effects
                .entry((log, tool_call_id.to_owned()))
                .or_default();
            *times += 1;
            *times
        };
        if times > 1 {
            let what = format!("tool call {tool_call_id} had its effect {times} times");
            self.sim.fail(Law::Once, who, what);
        }
    }

    /// A machine did what a reactor with this term asked for.
    pub fn driven(&self, box_id: &str, term: u64, what: &str) {
        let before = {
            let mut state = self.state();
            let last = state.terms.entry(box_id.to_owned()).or_default();
            let before = *last;
            *last = before.max(term);
            before
        };
        if term < before {
            let what = format!("{what} by a reactor with term {term} after one with term {before}");
            self.sim.fail(Law::Once, box_id, what);
        }
    }

    /// A prompt that a person typed once.
    pub fn prompted(&self, text: String) {
        self.state().prompts.insert(text);
    }

    pub fn prompts(&self) -> BTreeSet<String> {
        self.state().prompts.clone()
    }

    /// What stood in a payload that was erased.
    pub fn erased(&self, log: LogId, pos: u64, body: Vec<u8>) {
        self.state().erased.insert((log, pos), body);
    }

    pub fn erased_bodies(&self) -> BTreeMap<(LogId, u64), Vec<u8>> {
        self.state().erased.clone()
    }

    /// A log is one of a box's.
    pub fn box_has(&self, box_id: &str, log: LogId) {
        let mut state = self.state();
        state
            .boxes
            .entry(box_id.to_owned())
            .or_default()
            .insert(log);
    }

    pub fn logs_of_box(&self, box_id: &str) -> BTreeSet<LogId> {
        self.state().boxes.get(box_id).cloned().unwrap_or_default()
    }

    /// Every log that anybody opened.
    pub fn logs(&self) -> Vec<LogId> {
        self.state().branches.keys().copied().collect()
    }
}

/// Checks an answer to a key that was given back.
pub fn check_resumed(
    ledger: &Ledger,
    log: LogId,
    key: &OffsetKey,
    answer: &Result<u64, ReadError>,
) -> Result<(), String> {
    let due = ledger.due(log, key);
    let fits = match (answer, due) {
        (Ok(pos), Due::On) => *pos == key.pos,
        (Err(ReadError::Moved { to, common: said }), Due::Moved { common }) => {
            *to == log && *said == common
        }
        // Ahead: the log has not got there yet, or never will, as what it had was given up.
        (Err(ReadError::OtherLog { .. }), Due::OtherLog)
        | (Err(ReadError::AheadOfTail { .. }), Due::On)
        | (Err(ReadError::Io(_) | ReadError::NoSuchLog { .. }), _) => true,
        _ => false,
    };
    if fits {
        return Ok(());
    }
    Err(format!(
        "key {}.{} in log {} was answered with {answer:?}, due is {due:?}",
        short(key.log),
        key.pos,
        short(log)
    ))
}

/// Names a log in a trace.
pub fn short(log: LogId) -> String {
    log.to_string()[..6].to_owned()
}

/// Names a link in a trace.
pub fn link(chain: ChainHash) -> String {
    hex::encode(chain.short())
}
