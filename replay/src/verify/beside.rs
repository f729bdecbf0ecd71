//! What is kept beside the events of a log, held against them: stream heads and commands.
//!
//! Commands are as many as appends. They are compared by a sum over both sides, which does not depend
//! on their order; only where the sums differ are they laid side by side.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use cocoonbox_events::{
    CommandId, LogId, Recorded, Store, StreamName,
    limits::PAGE_EVENTS_MAX,
    tables::{CommandRow, Tables},
};

use super::{answered, report::Findings};
use crate::{error::Error, pages::Pages};

/// The last event of a stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Head {
    pub(super) seq: u64,
    pub(super) pos: u64,
}

/// Commands as the headers of events name them.
pub(super) struct Commands {
    sum: Sum,
    run: Option<CommandRow>,
}

/// A sum over rows. Keyed anew in each process: nobody can choose rows that cancel out.
struct Sum {
    keys: [RandomState; 2],
    of: [u64; 2],
    count: u64,
}

impl Default for Commands {
    fn default() -> Self {
        let keys = [RandomState::new(), RandomState::new()];
        let (of, count) = ([0; 2], 0);
        Self {
            sum: Sum { keys, of, count },
            run: None,
        }
    }
}

impl Sum {
    fn add(&mut self, row: &CommandRow) {
        for (sum, key) in self.of.iter_mut().zip(&self.keys) {
            *sum = sum.wrapping_add(key.hash_one(row));
        }
        self.count += 1;
    }

    fn empty(&self) -> Self {
        let (keys, of, count) = (self.keys.clone(), [0; 2], 0);
        Self { keys, of, count }
    }
}

impl Commands {
    pub(super) fn take(&mut self, event: &Recorded) {
        if let Some(ended) = extend(&mut self.run, event) {
            self.sum.add(&ended);
        }
    }
}

/// Goes on with the run of events of one command; returns the run before, when another begins.
fn extend(run: &mut Option<CommandRow>, event: &Recorded) -> Option<CommandRow> {
    let command = command_of(&event.header);
    match (run.as_mut(), command) {
        (Some(run), Some(command)) if run.command == command => {
            run.last = event.pos;
            None
        }
        _ => {
            let (first, last) = (event.pos, event.pos);
            let next = command.map(|command| CommandRow {
                command,
                first,
                last,
            });
            std::mem::replace(run, next)
        }
    }
}

/// Reads the command out of an encoded header. Ours begin with an event id and a command id of 16 bytes
/// each, which need no decoding.
fn command_of(header: &[u8]) -> Option<CommandId> {
    if let [0x0a, 16, rest @ ..] = header
        && let Some([0x12, 16, rest @ ..]) = rest.get(16..)
        && let Some(id) = rest.get(..16)
        // Another field with the same number, further on, would count instead.
        && rest.get(16).is_none_or(|tag| *tag > 0x12)
    {
        return CommandId::from_slice(id);
    }
    let header = <cocoonbox_proto::log::v1::Header as prost::Message>::decode(header).ok()?;
    CommandId::from_slice(&header.command_id)
}

/// Compares what is kept beside the events with what the walk has seen of them.
pub(super) async fn check(
    store: &Arc<dyn Store>,
    log: LogId,
    heads: &HashMap<StreamName, Head>,
    mut commands: Commands,
    findings: &mut Findings,
) -> Result<(), Error> {
    let Some(tables) = store.tables() else {
        return Ok(());
    };
    check_heads(tables, log, heads, findings).await?;
    if let Some(last) = commands.run.take() {
        commands.sum.add(&last);
    }
    let mut kept = commands.sum.empty();
    let mut after = None;
    let info = store.info(log).map_err(Error::read(log))?;
    let within = (info.parent.map_or(0, |parent| parent.pos), info.tail.pos);
    loop {
        let rows = tables.commands(log, after, PAGE_EVENTS_MAX).await;
        let Ok(rows) = answered(rows, log)? else {
            break;
        };
        let Some(last) = rows.last() else { break };
        after = Some(last.command);
        for row in &rows {
            if row.is_without_events() {
                check_remembered(row, within, log, findings);
            } else {
                kept.add(row);
            }
        }
    }
    if (kept.of, kept.count) != (commands.sum.of, commands.sum.count) {
        compare_commands(store, tables, log, findings).await?;
    }
    Ok(())
}

/// A command without events stands in the table alone; all that can be said of it is where.
fn check_remembered(
    row: &CommandRow,
    (base, tail): (u64, u64),
    log: LogId,
    findings: &mut Findings,
) {
    if row.last < base || row.last > tail {
        let what = format!(
            "command {} is kept as without effect at {}, where the log is not",
            row.command, row.last
        );
        findings.add(log, row.last, what);
    }
}

async fn check_heads(
    tables: &dyn Tables,
    log: LogId,
    heads: &HashMap<StreamName, Head>,
    findings: &mut Findings,
) -> Result<(), Error> {
    let (mut after, mut kept) = (String::new(), 0);
    loop {
        let rows = tables.streams(log, &after, PAGE_EVENTS_MAX).await;
        let rows = rows.map_err(Error::read(log))?;
        let Some(last) = rows.last() else { break };
        after.clone_from(&last.stream);
        for row in &rows {
            let name = StreamName::new(row.stream.clone()).ok();
            match name.and_then(|name| heads.get(&name)) {
                Some(head) => {
                    kept += 1;
                    if row.seq != head.seq || row.pos.is_some_and(|pos| pos != head.pos) {
                        let at = row.pos.map_or(String::new(), |pos| format!(" at {pos}"));
                        let what = format!(
                            "stream `{}` ends with event {} at {}, but its head is kept as {}{at}",
                            row.stream, head.seq, head.pos, row.seq
                        );
                        findings.add(log, head.pos, what);
                    }
                }
                None => {
                    let what = format!("stream `{}` is kept, but has no event", row.stream);
                    findings.add(log, row.pos.unwrap_or(0), what);
                }
            }
        }
    }
    if kept < heads.len() {
        let missing = heads.len() - kept;
        findings.add(
            log,
            0,
            format!("the heads of {missing} streams are not kept"),
        );
    }
    Ok(())
}

/// Finds the rows that differ. Keeps all commands of the log in memory: this is the way out of a
/// difference that is already known to be there.
async fn compare_commands(
    store: &Arc<dyn Store>,
    tables: &dyn Tables,
    log: LogId,
    findings: &mut Findings,
) -> Result<(), Error> {
    let mut kept = HashMap::new();
    let mut after = None;
    loop {
        let rows = tables.commands(log, after, PAGE_EVENTS_MAX).await;
        let rows = rows.map_err(Error::read(log))?;
        let Some(last) = rows.last() else { break };
        after = Some(last.command);
        kept.extend(rows.iter().map(|row| (row.command, *row)));
    }
    let base = store.info(log).map_err(Error::read(log))?.parent;
    let mut pages = Pages::of_log(store, log, base.map_or(0, |parent| parent.pos))?;
    let mut seen = HashSet::new();
    let mut run = None;
    let mut judge = |row: CommandRow, kept: &HashMap<CommandId, CommandRow>| {
        // What a box says twice is remembered as it was the first time.
        if !seen.insert(row.command) {
            return;
        }
        match kept.get(&row.command) {
            Some(known) if *known == row => {}
            Some(known) => {
                let what = format!(
                    "command {} wrote {} to {}, but is kept as {} to {}",
                    row.command, row.first, row.last, known.first, known.last
                );
                findings.add(log, row.first, what);
            }
            None => {
                let what = format!("command {} is not kept: it could happen again", row.command);
                findings.add(log, row.first, what);
            }
        }
    };
    while let Some(events) = pages.next().await? {
        for event in &events {
            if let Some(ended) = extend(&mut run, event) {
                judge(ended, &kept);
            }
        }
    }
    if let Some(last) = run {
        judge(last, &kept);
    }
    let mut strange: Vec<_> = kept
        .values()
        .filter(|row| !row.is_without_events() && !seen.contains(&row.command))
        .collect();
    strange.sort_by_key(|row| row.first);
    for row in strange {
        let what = format!("command {} is kept, but wrote nothing", row.command);
        findings.add(log, row.first, what);
    }
    Ok(())
}
