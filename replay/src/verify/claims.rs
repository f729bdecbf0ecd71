//! Checkpoints of one log, judged where the walk through it comes by.

use std::sync::Arc;

use cocoonbox_events::{
    ChainHash, Checkpoint, LogId, ReadError, Store,
    checkpoint::{Note, VerifierKey},
    limits::PAGE_EVENTS_MAX,
};

use super::report::{Break, VerifyReport};
use crate::{
    checkpoint::{Kept, Keys, Source},
    error::Error,
};

/// What is said of one position of the log.
enum Claim<'a> {
    Row(Checkpoint),
    Outside(&'a Kept),
}

/// The checkpoints of a log in the order of their sizes: those that the store keeps, page by page, and
/// those from outside.
pub(super) struct Claims<'a> {
    log: LogId,
    /// Position behind which the log begins.
    base: u64,
    outside: &'a [Kept],
    /// The next ones of the store, last first.
    rows: Vec<Checkpoint>,
    /// Size of the last row that was read; none are behind it if `is_done`.
    after: u64,
    is_done: bool,
    /// True ones that are signed by keys which are known, and not trusted so far.
    pending: Vec<Pending>,
}

struct Pending {
    size: u64,
    source: Source,
    is_true: bool,
    signers: Vec<VerifierKey>,
}

impl<'a> Claims<'a> {
    pub(super) fn new(log: LogId, base: u64, outside: &'a [Kept]) -> Self {
        Self {
            log,
            base,
            outside,
            rows: Vec::new(),
            after: 0,
            is_done: false,
            pending: Vec::new(),
        }
    }

    /// Reads what the store keeps of sizes up to `to`.
    pub(super) async fn load(
        &mut self,
        store: &Arc<dyn Store>,
        to: u64,
        report: &mut VerifyReport,
    ) -> Result<(), Error> {
        let mut limit = PAGE_EVENTS_MAX;
        while !self.is_done && self.after < to {
            match store.checkpoints(self.log, self.after, limit).await {
                Ok(rows) => {
                    let Some(last) = rows.last() else {
                        self.is_done = true;
                        break;
                    };
                    self.after = last.size;
                    self.rows.splice(0..0, rows.into_iter().rev());
                }
                // What is in front of the damaged one is read alone.
                Err(ReadError::Damaged { .. }) if limit > 1 => limit = 1,
                Err(ReadError::Damaged { pos, .. }) => {
                    self.after = pos.max(self.after + 1);
                    limit = PAGE_EVENTS_MAX;
                    let what = format!("the row of the checkpoint of size {pos} is damaged");
                    report.findings.add(self.log, pos, what);
                }
                Err(source) => {
                    let log = self.log;
                    return Err(Error::Read { log, source });
                }
            }
        }
        Ok(())
    }

    /// Whether anything is said of this position; needs [`Claims::load`] up to there.
    pub(super) fn speak_of(&self, pos: u64) -> bool {
        self.next_size().is_some_and(|size| size <= pos)
    }

    /// Judges all that is said of positions up to `pos`, where the link is `chain`. What is said of
    /// positions before it is of none that the log has.
    pub(super) fn judge(
        &mut self,
        pos: u64,
        chain: ChainHash,
        keys: &mut Keys,
        report: &mut VerifyReport,
    ) -> Result<(), Break> {
        while let Some(claim) = self.take(pos) {
            self.judge_one(claim, Some((pos, chain)), keys, report)?;
        }
        Ok(())
    }

    /// Judges all that is left: it is of positions that the log does not have.
    pub(super) async fn end(
        mut self,
        store: &Arc<dyn Store>,
        keys: &mut Keys,
        report: &mut VerifyReport,
    ) -> Result<Option<Break>, Error> {
        self.load(store, u64::MAX, report).await?;
        let mut first = None;
        while let Some(claim) = self.take(u64::MAX) {
            if let Err(found) = self.judge_one(claim, None, keys, report) {
                first.get_or_insert(found);
            }
        }
        if first.is_some() {
            return Ok(first);
        }
        // Keys that became trusted further on speak for what they signed before.
        for one in std::mem::take(&mut self.pending) {
            let is_trusted = one.signers.iter().any(|key| keys.is_trusted(key));
            match (is_trusted, one.is_true) {
                (true, true) => report.checkpoints += 1,
                (true, false) => return Ok(Some(self.rewritten(one.size, &one.source, report))),
                (false, _) => {
                    let what = format!(
                        "the checkpoint of size {} {} is signed by no trusted key",
                        one.size, one.source
                    );
                    report.findings.add(self.log, one.size, what);
                }
            }
        }
        Ok(None)
    }

    fn judge_one(
        &mut self,
        claim: Claim<'_>,
        found: Option<(u64, ChainHash)>,
        keys: &mut Keys,
        report: &mut VerifyReport,
    ) -> Result<(), Break> {
        let (note, source, size) = match &claim {
            Claim::Outside(kept) => (
                Ok(kept.note.clone()),
                kept.source.clone(),
                kept.note.statement.size,
            ),
            Claim::Row(row) => (Note::parse(&row.note), Source::Store, row.size),
        };
        let log = self.log;
        let mut say = |what: String| {
            let what = format!("the checkpoint of size {size} {source}: {what}");
            report.findings.add(log, size, what);
        };
        let note = match note {
            Ok(note) => note,
            Err(error) => {
                say(error.to_string());
                return Ok(());
            }
        };
        let said = &note.statement;
        if let Claim::Row(row) = &claim
            && (said.log, said.size, said.chain) != (log, row.size, row.chain)
        {
            say("its note says something else than its row".to_owned());
            return Ok(());
        }
        // A redacted export does not say which keys there were: nothing is proved then.
        if keys.is_empty() {
            return Ok(());
        }
        let signers: Vec<VerifierKey> = match note.signers(keys.known()) {
            Ok(signers) => signers.into_iter().cloned().collect(),
            Err(error) => {
                say(error.to_string());
                return Ok(());
            }
        };
        // Outside, witnesses may have added their word; what the store keeps is as it was made.
        if matches!(claim, Claim::Row(_)) && signers.len() < note.signatures().len() {
            say("a key that the system log does not know has signed it too".to_owned());
            return Ok(());
        }
        if signers.iter().all(|key| keys.was_retired(key, log, size)) {
            say("it is signed by a key that was retired before".to_owned());
            return Ok(());
        }
        let is_true = found == Some((said.size, said.chain));
        if !signers.iter().any(|key| keys.is_trusted(key)) {
            self.pending.push(Pending {
                size,
                source,
                is_true,
                signers,
            });
            return Ok(());
        }
        if !is_true {
            return Err(match found {
                Some(_) => self.rewritten(size, &source, report),
                None => Break {
                    pos: report.tail + 1,
                    what: format!(
                        "the log ends at {}, but there is a checkpoint of size {size} {source}",
                        report.tail
                    ),
                },
            });
        }
        report.checkpoints += 1;
        report.proved = size;
        keys.vouch(log, size);
        Ok(())
    }

    /// The links fit each other, and are not those that were signed.
    fn rewritten(&self, size: u64, source: &Source, report: &VerifyReport) -> Break {
        let pos = report.proved.max(self.base) + 1;
        let between = if pos == size {
            format!("position {size} is")
        } else {
            format!("positions {pos} to {size} are")
        };
        Break {
            pos: pos.min(size),
            what: format!("{between} not what the checkpoint of size {size} {source} speaks of"),
        }
    }

    fn next_size(&self) -> Option<u64> {
        let outside = self.outside.first().map(|kept| kept.note.statement.size);
        let row = self.rows.last().map(|row| row.size);
        outside.into_iter().chain(row).min()
    }

    fn take(&mut self, to: u64) -> Option<Claim<'a>> {
        let size = self.next_size().filter(|size| *size <= to)?;
        if self.rows.last().is_some_and(|row| row.size == size) {
            return self.rows.pop().map(Claim::Row);
        }
        let (first, rest) = self.outside.split_first()?;
        self.outside = rest;
        Some(Claim::Outside(first))
    }
}
