//! Is the log whole, and is it what it was?
//!
//! What a clean report proves: nobody changed, dropped or moved an event before the newest link that
//! is also held elsewhere (an anchor, a replica, an offset key that somebody kept). Not that the writer
//! recorded the truth.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use cocoonbox_events::{
    BoxEvent, ChainHash, DecodeError, LogId, LogInfo, LogKind, Payload, ReadError, Recorded, Store,
    StreamName, chain::Verifier, limits::PAGE_EVENTS_MAX,
};
use serde_json::{Value, json};

use crate::{aggregate::Known, error::Error};

/// Findings that a report names; more are only counted.
const FINDINGS_MAX: usize = 100;

/// What was found in one log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyReport {
    pub log: LogId,
    /// Events that were checked and are good.
    pub events: u64,
    /// How many of them are erased (or sealed with a key that is not here).
    pub erased: u64,
    /// How many of them are of a kind or version that this build does not know.
    pub unknown: u64,
    pub streams: usize,
    /// Where the log says that it ends, and the link there.
    pub tail: u64,
    pub tail_chain: ChainHash,
    /// Nothing behind it was looked at.
    pub first_break: Option<Break>,
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
    /// Whole logs that do not fit together, or do not fold.
    pub findings: Vec<Finding>,
    /// How many there are; more than `findings` holds if there are many.
    pub findings_count: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub log: LogId,
    pub pos: u64,
    pub what: String,
}

impl VerifyReport {
    pub fn is_good(&self) -> bool {
        self.first_break.is_none()
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
            "first_break": self.first_break.as_ref().map(|found| json!({"pos": found.pos, "what": found.what})),
            "events_per_second": self.rate(),
        })
    }
}

impl AllReport {
    pub fn is_good(&self) -> bool {
        self.findings_count == 0 && self.logs.iter().all(VerifyReport::is_good)
    }

    pub fn to_json(&self) -> Value {
        let findings = self.findings.iter().map(
            |found| json!({"log": found.log.to_string(), "pos": found.pos, "what": found.what}),
        );
        json!({
            "good": self.is_good(),
            "logs": self.logs.iter().map(VerifyReport::to_json).collect::<Vec<_>>(),
            "folded": self.folded,
            "anchors": self.anchors,
            "findings": findings.collect::<Vec<_>>(),
            "findings_count": self.findings_count,
        })
    }

    fn find(&mut self, log: LogId, pos: u64, what: String) {
        self.findings_count += 1;
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(Finding { log, pos, what });
        }
    }
}

/// Checks one log from its first event: positions, times, the chain, payloads against their hashes,
/// sequence numbers in each stream, and that payloads can be read. Keeps one number per stream.
///
/// A log that does not verify is an answer, not an error.
pub async fn verify(store: &Arc<dyn Store>, log: LogId) -> Result<VerifyReport, Error> {
    walk(store, log, &mut |_| {}).await
}

/// Checks every log, that each stream with an aggregate folds, and that every anchor in an account
/// log is the link that the box log has there. Keeps one aggregate per stream in memory.
pub async fn verify_all(store: &Arc<dyn Store>) -> Result<AllReport, Error> {
    let logs = store.logs();
    let mut report = AllReport::default();
    for info in &logs {
        let mut folds = Folds::default();
        let checked = walk(store, info.id, &mut |event| folds.take(info, event)).await?;
        report.logs.push(checked);
        report.folded += folds.streams.len() as u64;
        for (pos, what) in std::mem::take(&mut folds.broken) {
            report.find(info.id, pos, what);
        }
        for anchor in &folds.anchors {
            report.anchors += 1;
            if let Some(what) = anchor.check(store).await? {
                report.find(info.id, anchor.at, what);
            }
        }
    }
    Ok(report)
}

async fn walk(
    store: &Arc<dyn Store>,
    log: LogId,
    see: &mut (dyn FnMut(&Recorded) + Send),
) -> Result<VerifyReport, Error> {
    let began = Instant::now();
    let tail = store.tail(log).map_err(Error::read(log))?;
    let genesis = store.chain_at(log, 0).await.map_err(Error::read(log))?;
    let mut check = Check::new(genesis);
    let mut report = VerifyReport {
        log,
        events: 0,
        erased: 0,
        unknown: 0,
        streams: 0,
        tail: tail.pos,
        tail_chain: tail.chain,
        first_break: None,
        took: Duration::ZERO,
    };
    // A damaged row spoils the page that it is in; what is in front of it may be broken earlier.
    let mut limit = PAGE_EVENTS_MAX;
    'log: while report.events < tail.pos {
        let page = match store.read(log, report.events, limit).await {
            Ok(page) => page,
            Err(ReadError::Damaged { pos, .. }) if pos > report.events + 1 && limit > 1 => {
                let before = usize::try_from(pos - report.events - 1).unwrap_or(PAGE_EVENTS_MAX);
                limit = before.min(limit - 1);
                continue;
            }
            Err(ReadError::Damaged { pos, what }) => {
                let what = format!("the row is damaged: {what}");
                report.first_break = Some(Break { pos, what });
                break;
            }
            Err(source) => return Err(Error::Read { log, source }),
        };
        if page.events.is_empty() {
            let what = format!("the log ends here, but says that it ends at {}", tail.pos);
            report.first_break = Some(Break {
                pos: report.events + 1,
                what,
            });
            break;
        }
        for event in page.events {
            if report.events == tail.pos {
                break 'log;
            }
            if let Err(what) = check.take(log, &event, &mut report) {
                report.first_break = Some(Break {
                    pos: report.events + 1,
                    what,
                });
                break 'log;
            }
            report.events += 1;
            see(&event);
        }
    }
    if report.first_break.is_none() && check.verifier.chain() != tail.chain {
        let what = "the link here is not the one that the log says it ends with".to_owned();
        report.first_break = Some(Break {
            pos: tail.pos,
            what,
        });
    }
    report.streams = check.heads.len();
    report.took = began.elapsed();
    Ok(report)
}

/// The check of one event after the other.
struct Check {
    verifier: Verifier,
    heads: HashMap<StreamName, u64>,
}

impl Check {
    fn new(genesis: ChainHash) -> Self {
        Self {
            verifier: Verifier::after(0, genesis),
            heads: HashMap::new(),
        }
    }

    fn take(
        &mut self,
        log: LogId,
        event: &Recorded,
        report: &mut VerifyReport,
    ) -> Result<(), String> {
        if event.log != log {
            return Err(format!(
                "the event says that it belongs to log {}",
                event.log
            ));
        }
        self.verifier
            .check(event)
            .map_err(|found| found.to_string())?;
        let head = match self.heads.get_mut(&event.stream) {
            Some(head) => head,
            None => self.heads.entry(event.stream.clone()).or_default(),
        };
        if event.seq != *head + 1 {
            let (stream, seq, head) = (&event.stream, event.seq, *head);
            return Err(format!(
                "stream `{stream}` goes on with seq {seq} after {head}"
            ));
        }
        *head = event.seq;
        match event.payload() {
            Ok(Some(_)) => {}
            Ok(None) => report.erased += 1,
            Err(DecodeError::UnknownKind { .. } | DecodeError::NewerVersion { .. }) => {
                report.unknown += 1;
            }
            Err(error @ (DecodeError::Malformed { .. } | DecodeError::UnknownVersion { .. })) => {
                return Err(format!("unreadable: {error}"));
            }
        }
        Ok(())
    }
}

/// The aggregates of one log.
#[derive(Default)]
struct Folds {
    streams: BTreeMap<StreamName, Slot>,
    broken: Vec<(u64, String)>,
    anchors: Vec<Anchor>,
}

enum Slot {
    Live(Box<Known>),
    /// Nothing can follow; its state, with all output that was kept, is let go.
    Ended,
    /// Reported once; what follows says nothing.
    Broken,
}

impl Folds {
    fn take(&mut self, info: &LogInfo, event: &Recorded) {
        if info.kind == LogKind::Account
            && let Ok(Some(Payload::Box(BoxEvent::LogAnchored(anchored)))) = event.payload()
            && let Some(box_log) = LogId::from_slice(&anchored.box_log)
            && let Some(chain) = ChainHash::from_slice(&anchored.chain)
        {
            self.anchors.push(Anchor {
                at: event.pos,
                box_log,
                pos: anchored.pos,
                chain,
            });
        }
        let slot = match self.streams.get_mut(&event.stream) {
            Some(slot) => slot,
            None => {
                let Some(known) = Known::of(&event.stream) else {
                    return;
                };
                self.streams
                    .entry(event.stream.clone())
                    .or_insert_with(|| Slot::Live(Box::new(known)))
            }
        };
        let known = match slot {
            Slot::Live(known) => known,
            Slot::Broken => return,
            Slot::Ended => {
                let what = format!(
                    "event {} of stream `{}` follows its end",
                    event.pos, event.stream
                );
                self.broken.push((event.pos, what));
                *slot = Slot::Broken;
                return;
            }
        };
        match known.take(event) {
            Ok(()) if known.has_ended() => *slot = Slot::Ended,
            Ok(()) => {}
            // Said by the walk already, or counted as unknown.
            Err(Error::Decode { .. }) => *slot = Slot::Broken,
            Err(error) => {
                self.broken.push((event.pos, error.to_string()));
                *slot = Slot::Broken;
            }
        }
    }
}

/// What an account log says of a box log.
struct Anchor {
    /// Position in the account log.
    at: u64,
    box_log: LogId,
    pos: u64,
    chain: ChainHash,
}

impl Anchor {
    /// Returns what is wrong with it.
    async fn check(&self, store: &Arc<dyn Store>) -> Result<Option<String>, Error> {
        let Self {
            box_log,
            pos,
            chain,
            ..
        } = self;
        Ok(match store.chain_at(*box_log, *pos).await {
            Ok(found) if found == *chain => None,
            Ok(found) => Some(format!(
                "box log {box_log} has link {found} at {pos}, the anchor says {chain}"
            )),
            Err(ReadError::NoSuchLog { .. }) => Some(format!("box log {box_log} is not here")),
            Err(ReadError::AheadOfTail { tail, .. }) => Some(format!(
                "box log {box_log} ends at {tail}, before the anchor at {pos}"
            )),
            Err(ReadError::Damaged { pos, what }) => {
                Some(format!("box log {box_log} is damaged at {pos}: {what}"))
            }
            Err(source) => {
                return Err(Error::Read {
                    log: *box_log,
                    source,
                });
            }
        })
    }
}
