//! The walk through one log, from its first event to its end.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use cocoonbox_events::{
    ChainHash, DecodeError, LogId, LogInfo, Page, Payload, ReadError, Recorded, Store, StreamName,
    chain::Verifier, erasure::Husks, limits::PAGE_EVENTS_MAX, tables::Readable,
};

use super::{
    answered,
    beside::{self, Commands, Head},
    claims::Claims,
    erased::Erased,
    report::{Break, Findings, VerifyReport},
};
use crate::{
    checkpoint::{Kept, Keys},
    error::Error,
};

/// Is shown each good event, with its payload or what is left of it.
pub(super) type See<'a> = dyn FnMut(&Recorded, Option<&Payload>) + Send + 'a;

/// Checks one log. A page is checked while the next one is read and opened.
pub(super) async fn walk(
    store: &Arc<dyn Store>,
    info: &LogInfo,
    keys: &mut Keys,
    outside: &[Kept],
    see: &mut See<'_>,
) -> Result<VerifyReport, Error> {
    let began = Instant::now();
    let (log, tail) = (info.id, info.tail);
    let base = info.parent.map_or(0, |parent| parent.pos);
    let mut husks = Husks::default();
    // What is damaged there is found on the way.
    drop(answered(husks.refresh(&**store, log).await, log)?);
    let mut report = VerifyReport {
        log,
        events: 0,
        erased: 0,
        unknown: 0,
        streams: 0,
        tail: tail.pos,
        tail_chain: tail.chain,
        checkpoints: 0,
        proved: 0,
        first_break: None,
        findings: Findings::default(),
        took: Duration::ZERO,
    };
    let genesis = ChainHash::genesis(log, info.parent.map(|parent| parent.chain));
    let mut check = Check::new(info, base, genesis, husks);
    let mut claims = Claims::new(log, base, outside);
    let mut reader = Reader::new(store, log, tail.pos);
    claims.load(store, base, &mut report).await?;
    let mut found = claims.judge(base, genesis, keys, &mut report).err();
    let mut page = reader.read(base).await?;
    while found.is_none() {
        let events = match page {
            Ok(Some(page)) => page.events,
            Ok(None) => break,
            Err(broken) => {
                found = Some(broken);
                break;
            }
        };
        let Some(last) = events.last().map(|event| event.pos) else {
            break;
        };
        claims.load(store, last, &mut report).await?;
        let checking = async {
            for event in &events {
                check.take(event, &mut report, see)?;
                if claims.speak_of(event.pos) {
                    claims.judge(event.pos, event.chain, keys, &mut report)?;
                }
            }
            Ok(())
        };
        // The reader's threads work while this one checks.
        let (next, checked): (_, Result<(), Break>) = tokio::join!(reader.read(last), checking);
        found = checked.err();
        if found.is_none() {
            found = check.inherited(store, info).await?;
        }
        page = next?;
    }
    if found.is_none() {
        found = check.ended(tail.pos, tail.chain);
    }
    if found.is_none() {
        found = claims.end(store, keys, &mut report).await?;
    }
    report.streams = check.heads.len();
    if found.is_none() {
        let Check {
            heads,
            commands,
            erased,
            ..
        } = check;
        beside::check(store, log, &heads, commands, &mut report.findings).await?;
        let readable = match store.tables() {
            Some(tables) => {
                let readable = tables.readable(log).await;
                readable.map_err(Error::read(log))?
            }
            // An export says nothing of keys: a redacted one, or one of a log whose key is gone, has no
            // payload at all.
            None if report.erased == report.events => Readable::NoKey,
            None => Readable::Yes,
        };
        if readable == Readable::OtherKey {
            let what = "it was sealed with another key than its owner's";
            report.findings.add(log, 0, what);
        }
        if readable == Readable::Yes {
            for pos in erased.unaccounted(store, info).await? {
                let what = format!("the payload at {pos} is gone, and no event says why");
                report.findings.add(log, pos, what);
            }
        }
    }
    report.first_break = found;
    report.took = began.elapsed();
    Ok(report)
}

/// Pages of one log up to an end that does not move.
struct Reader<'a> {
    store: &'a Arc<dyn Store>,
    log: LogId,
    to: u64,
    limit: usize,
}

impl<'a> Reader<'a> {
    fn new(store: &'a Arc<dyn Store>, log: LogId, to: u64) -> Self {
        let limit = PAGE_EVENTS_MAX;
        Self {
            store,
            log,
            to,
            limit,
        }
    }

    /// Reads what follows `after`; nothing at the end.
    async fn read(&mut self, after: u64) -> Result<Result<Option<Page>, Break>, Error> {
        while after < self.to {
            match self.store.read(self.log, after, self.limit).await {
                Ok(mut page) => {
                    page.events.retain(|event| event.pos <= self.to);
                    if !page.events.is_empty() {
                        return Ok(Ok(Some(page)));
                    }
                    let what = format!("the log ends here, but says that it ends at {}", self.to);
                    let pos = after + 1;
                    return Ok(Err(Break { pos, what }));
                }
                // A damaged row spoils the page that it is in; what is in front of it may be broken
                // earlier.
                Err(ReadError::Damaged { pos, .. }) if pos > after + 1 && self.limit > 1 => {
                    let before = usize::try_from(pos - after - 1).unwrap_or(PAGE_EVENTS_MAX);
                    self.limit = before.min(self.limit - 1);
                }
                Err(ReadError::Damaged { pos, what }) => {
                    // A row whose number is damaged lies where it does not belong.
                    let pos = pos.max(after + 1);
                    let what = format!("the row is damaged: {what}");
                    return Ok(Err(Break { pos, what }));
                }
                Err(source) => {
                    let log = self.log;
                    return Err(Error::Read { log, source });
                }
            }
        }
        Ok(Ok(None))
    }
}

/// The check of one event after the other.
struct Check {
    log: LogId,
    is_branch: bool,
    verifier: Verifier,
    husks: Husks,
    heads: HashMap<StreamName, Head>,
    /// Streams of a branch that have not been held against the parent's, with their first events here.
    begun: Vec<(StreamName, Head)>,
    commands: Commands,
    erased: Erased,
}

impl Check {
    fn new(info: &LogInfo, base: u64, genesis: ChainHash, husks: Husks) -> Self {
        Self {
            log: info.id,
            is_branch: info.parent.is_some(),
            verifier: Verifier::after(base, genesis),
            husks,
            heads: HashMap::new(),
            begun: Vec::new(),
            commands: Commands::default(),
            erased: Erased::default(),
        }
    }

    fn take(
        &mut self,
        event: &Recorded,
        report: &mut VerifyReport,
        see: &mut See<'_>,
    ) -> Result<(), Break> {
        let broken = |what: String| Break {
            pos: self.verifier.pos() + 1,
            what,
        };
        if event.log != self.log {
            return Err(broken(format!(
                "the event says that it belongs to log {}",
                event.log
            )));
        }
        let pos = self.verifier.pos() + 1;
        self.verifier.check(event).map_err(|found| Break {
            pos,
            what: found.to_string(),
        })?;
        self.follow(event).map_err(|what| Break { pos, what })?;
        self.commands.take(event);
        let payload = match self.husks.payload(event) {
            Ok(payload) => payload,
            Err(DecodeError::UnknownKind { .. } | DecodeError::NewerVersion { .. }) => {
                report.unknown += 1;
                None
            }
            Err(error @ (DecodeError::Malformed { .. } | DecodeError::UnknownVersion { .. })) => {
                let what = format!("unreadable: {error}");
                return Err(Break { pos, what });
            }
        };
        if event.body.is_none() {
            report.erased += 1;
            self.erased.gone(event.pos);
        } else if let Some(payload) = &payload {
            self.erased.take(payload);
        }
        report.events += 1;
        see(event, payload.as_ref());
        Ok(())
    }

    /// Checks that the event is the next one of its stream.
    fn follow(&mut self, event: &Recorded) -> Result<(), String> {
        let (seq, pos) = (event.seq, event.pos);
        let head = Head { seq, pos };
        let Some(kept) = self.heads.get_mut(&event.stream) else {
            if self.is_branch {
                self.begun.push((event.stream.clone(), head));
            } else if seq != 1 {
                return Err(format!("stream `{}` begins with seq {seq}", event.stream));
            }
            self.heads.insert(event.stream.clone(), head);
            return Ok(());
        };
        if seq != kept.seq + 1 {
            return Err(format!(
                "stream `{}` goes on with seq {seq} after {}",
                event.stream, kept.seq
            ));
        }
        *kept = head;
        Ok(())
    }

    /// Checks that the streams that a branch has gone on with do so where its parent's were.
    async fn inherited(
        &mut self,
        store: &Arc<dyn Store>,
        info: &LogInfo,
    ) -> Result<Option<Break>, Error> {
        let Some(parent) = info.parent else {
            return Ok(None);
        };
        for (stream, first) in std::mem::take(&mut self.begun) {
            let before = first.seq.saturating_sub(2);
            let page = store.read_stream(parent.log, &stream, before, 2).await;
            // A parent that cannot be read says so itself.
            let Ok(page) = answered(page, parent.log)? else {
                continue;
            };
            let inherited = page.events.iter().filter(|event| event.pos <= parent.pos);
            let head = inherited.map(|event| event.seq).max().unwrap_or(0);
            if head + 1 != first.seq {
                let what = format!(
                    "stream `{stream}` goes on with seq {} after {head} of the parent",
                    first.seq
                );
                return Ok(Some(Break {
                    pos: first.pos,
                    what,
                }));
            }
        }
        Ok(None)
    }

    /// Checks that the log ends as it says.
    fn ended(&self, tail: u64, chain: ChainHash) -> Option<Break> {
        if self.verifier.chain() == chain {
            return None;
        }
        let what = "the link here is not the one that the log says it ends with".to_owned();
        Some(Break { pos: tail, what })
    }
}
