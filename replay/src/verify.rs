//! Is the log whole, and is it what it was?
//!
//! What a clean report proves: nobody changed, dropped or moved an event up to
//! [`VerifyReport::proved`], as far as the keys are trusted and the newest checkpoints were kept where
//! the log's operator could not reach them. What it does not: that the writer recorded the truth, and
//! what happened behind that position.

mod anchors;
mod beside;
mod claims;
mod erased;
mod folds;
mod names;
mod report;
mod rewinds;
mod walk;

use std::{sync::Arc, time::Duration};

use cocoonbox_events::{LogId, LogInfo, LogKind, ReadError, Store, checkpoint::VerifierKey};

pub use self::report::{AllReport, Break, Finding, Findings, VerifyReport};
use self::{folds::Folds, names::Names, rewinds::Rewinds, walk::walk};
use crate::{
    checkpoint::{Keys, Outside},
    error::Error,
};

/// Rows that belong to nothing are named up to here.
const STRAYS_MAX: usize = 20;
/// What is wrong with a file is named up to here: one bad page is wrong in many ways.
const DAMAGES_MAX: usize = 20;

/// What the logs are held against, besides themselves.
#[derive(Clone, Debug, Default)]
pub struct Against {
    /// Keys that are trusted whatever the logs say. None: the keys that the system log names.
    pub trust: Vec<VerifierKey>,
    /// Checkpoints that were kept elsewhere.
    pub outside: Outside,
    /// Look through the database file as well, for at most this long; only when all logs are checked.
    pub file: Option<Duration>,
}

/// Checks one log: positions, times, the chain, payloads against their hashes, sequence numbers in each
/// stream, that payloads can be read, its checkpoints, and what is kept beside the events. Keeps one
/// number per stream and per erased payload.
///
/// A log that does not verify is an answer, not an error.
pub async fn verify(store: &Arc<dyn Store>, log: LogId) -> Result<VerifyReport, Error> {
    verify_against(store, log, &Against::default()).await
}

/// Checks one log as [`verify`] does, also against what is known from elsewhere.
pub async fn verify_against(
    store: &Arc<dyn Store>,
    log: LogId,
    against: &Against,
) -> Result<VerifyReport, Error> {
    let info = store.info(log).map_err(Error::read(log))?;
    let mut keys = Keys::read(store, &against.trust).await;
    // Keys are trusted through the system log, which has to be walked for it.
    if !against.trust.is_empty()
        && info.kind != LogKind::System
        && let Some(system) = system(&store.logs())
    {
        let outside = against.outside.of(system.id);
        walk(store, system, &mut keys, outside, &mut |_, _| {}).await?;
    }
    let outside = against.outside.of(log);
    let mut report = walk(store, &info, &mut keys, outside, &mut |_, _| {}).await?;
    if let Some(what) = anchors::parent(store, &info).await? {
        report
            .findings
            .add(log, info.parent.map_or(0, |at| at.pos), what);
    }
    Ok(report)
}

/// Checks every log with nothing to hold them against.
pub async fn verify_all(store: &Arc<dyn Store>) -> Result<AllReport, Error> {
    verify_all_against(store, &Against::default()).await
}

/// Checks every log; that each stream with an aggregate folds; that every anchor in an account log is
/// the link that the box log has there, and that branches hang where they say; that logs were left for a
/// branch just where an event tells so; and that logs are what the logs above them call them. Keeps one aggregate per stream of one log in memory.
pub async fn verify_all_against(
    store: &Arc<dyn Store>,
    against: &Against,
) -> Result<AllReport, Error> {
    let mut logs = store.logs();
    // The system log first: it says which keys are to be trusted.
    logs.sort_by_key(|log| (rank(log.kind), log.id));
    let mut keys = Keys::read(store, &against.trust).await;
    let mut report = AllReport {
        is_key_given: !against.trust.is_empty(),
        ..AllReport::default()
    };
    let mut names = Names::default();
    let mut rewinds = Rewinds::default();
    for info in &logs {
        let mut folds = Folds::default();
        let outside = against.outside.of(info.id);
        let checked = walk(store, info, &mut keys, outside, &mut |event, payload| {
            names.take(info, event, payload);
            rewinds.take(info, event, payload);
            folds.take(info, event, payload);
        })
        .await?;
        report.logs.push(checked);
        report.folded += folds.count();
        for (pos, what) in folds.broken {
            report.findings.add(info.id, pos, what);
        }
        for anchor in &folds.anchors {
            report.anchors += 1;
            if let Some(what) = anchor.check(store).await? {
                report.findings.add(info.id, anchor.at, what);
            }
        }
        if let Some(what) = anchors::parent(store, info).await? {
            let pos = info.parent.map_or(0, |at| at.pos);
            report.findings.add(info.id, pos, what);
        }
    }
    for (log, what) in names.check(store, &logs).await? {
        report.findings.add(log, 0, what);
    }
    for (log, pos, what) in rewinds.check(store, &logs)? {
        report.findings.add(log, pos, what);
    }
    strays(store, &logs, against, &mut report).await?;
    report.keys = keys.trusted().cloned().collect();
    Ok(report)
}

/// What belongs to no log that is here: rows, and checkpoints that somebody kept.
async fn strays(
    store: &Arc<dyn Store>,
    logs: &[LogInfo],
    against: &Against,
    report: &mut AllReport,
) -> Result<(), Error> {
    let nowhere = LogId(uuid::Uuid::nil());
    let somewhere = system(logs).map_or(nowhere, |log| log.id);
    if let Some(tables) = store.tables() {
        let strays = tables.strays(STRAYS_MAX).await;
        for stray in strays.map_err(Error::read(somewhere))? {
            let what = format!(
                "table `{}` has a row that no log has: {}",
                stray.table, stray.row
            );
            report.findings.add(somewhere, 0, what);
        }
        if let Some(time) = against.file {
            let looked = tables.integrity(DAMAGES_MAX, time).await;
            let looked = looked.map_err(Error::read(somewhere))?;
            report.is_file_cut = looked.is_cut;
            for wrong in looked.wrong {
                let what = format!("the database file is damaged: {wrong}");
                report.findings.add(somewhere, 0, what);
            }
        }
    }
    for kept in against.outside.all() {
        let said = &kept.note.statement;
        if logs.iter().all(|log| log.id != said.log) {
            let what = format!(
                "the log is not here, but was at {} {}",
                said.size, kept.source
            );
            report.findings.add(said.log, said.size, what);
        }
    }
    for file in against.outside.unreadable() {
        let what = format!(
            "`{}` is not a checkpoint: {}",
            file.path.display(),
            file.why
        );
        report.findings.add(somewhere, 0, what);
    }
    Ok(())
}

fn system(logs: &[LogInfo]) -> Option<&LogInfo> {
    // A rewound one goes on in another, which has its history as well.
    let mut branches = logs.iter().filter(|log| log.kind == LogKind::System);
    branches.find(|log| log.moved_to.is_none())
}

fn rank(kind: LogKind) -> u8 {
    match kind {
        LogKind::System => 0,
        LogKind::Account => 1,
        LogKind::Box => 2,
    }
}

/// Tells what the store has at a place from what cannot be asked.
fn answered<T>(answer: Result<T, ReadError>, log: LogId) -> Result<Result<T, ReadError>, Error> {
    match answer {
        Err(source @ ReadError::Io(_)) => Err(Error::Read { log, source }),
        answer => Ok(answer),
    }
}
