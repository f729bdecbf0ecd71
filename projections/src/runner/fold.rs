//! One page of one log into the projections that stand in front of it, in one transaction.

use std::sync::Arc;

use cocoonbox_events::{
    ChainHash, Kind, LogEvent, LogId, LogInfo, Payload, ReadError, Recorded, Store,
    limits::PAGE_EVENTS_MAX,
};
use rusqlite::{Connection, Savepoint, TransactionBehavior};
use tokio::runtime::Handle;

use crate::{
    database::{Checkpoint, Edition, Moved, State, Stop},
    projection::{ApplyError, Projection},
    rows::{self, SqliteRows},
    runner::{causes, standing::Member},
    views::ViewsError,
};

/// A log with at most this many events is folded again in the transaction that clears it, so that nobody
/// sees it half: about a second. A longer one is gone on with page by page, like any log.
pub(crate) const REFOLD_EVENTS_MAX: u64 = 100_000;

/// What is to be done in one transaction.
pub(super) struct Work {
    pub(super) log: LogInfo,
    /// All at the position in front of the first event.
    pub(super) members: Vec<Member>,
    pub(super) events: Vec<Recorded>,
    /// The log's own link at the last of them. Where a branch parts from its parent it is not the
    /// event's.
    pub(super) link: ChainHash,
    pub(super) erasures: Erasures,
    pub(super) fresh: Fresh,
}

/// Where a projection begins.
#[derive(Clone, Copy)]
pub(crate) struct Fresh {
    /// The log's genesis link.
    pub(crate) chain: ChainHash,
    pub(crate) erased_to: u64,
}

/// Reads a log within a transaction, on a thread that may block.
#[derive(Clone)]
pub(crate) struct Pages {
    store: Arc<dyn Store>,
    runtime: Handle,
}

/// Payloads that were erased after they had been taken in, by what a page of the log says.
#[derive(Default)]
pub(super) struct Erasures {
    /// Each with the position of the event that says so.
    events: Vec<(u64, Recorded)>,
    /// Positions of events that say so but cannot be read.
    unreadable: Vec<u64>,
    /// Everything, whatever is in the page.
    all: bool,
}

/// An event that a projection cannot take in.
#[derive(Debug)]
pub(crate) struct Poison {
    pub(crate) pos: u64,
    pub(crate) kind: u32,
    pub(crate) kind_version: u32,
    pub(crate) error: String,
}

pub(super) enum Folded {
    Moved(Vec<(Member, Option<Poison>)>),
    Contended,
}

impl Work {
    /// Clears what these projections have from the log; they begin again.
    pub(super) fn clear(log: LogInfo, members: Vec<Member>, fresh: Fresh) -> Self {
        let erasures = Erasures {
            all: true,
            ..Erasures::default()
        };
        Self {
            log,
            members,
            events: Vec::new(),
            link: fresh.chain,
            erasures,
            fresh,
        }
    }

    /// Clears and folds again what holds any of these events, which another branch says were erased.
    pub(super) fn erased(
        log: LogInfo,
        members: Vec<Member>,
        events: Vec<Recorded>,
        fresh: Fresh,
    ) -> Self {
        let erasures = Erasures {
            events: events.into_iter().map(|event| (u64::MAX, event)).collect(),
            ..Erasures::default()
        };
        Self {
            erasures,
            ..Self::clear(log, members, fresh)
        }
    }
}

impl Erasures {
    /// Finds what the events of a page say was erased at or before `applied`. What was erased behind
    /// it was read as erased already: an erasure is done before it is said.
    pub(super) async fn find(
        store: &dyn Store,
        log: &LogInfo,
        applied: u64,
        members: &[Member],
        page: &[Recorded],
    ) -> Result<Self, ReadError> {
        let seen = members
            .iter()
            .map(|member| member.checkpoint.erased_to)
            .min()
            .unwrap_or(0);
        let mut found = Self::default();
        for event in page.iter().filter(|event| event.pos > seen) {
            if event.kind != Kind::LogErasureDone.number() {
                continue;
            }
            let Ok(Some(Payload::Log(LogEvent::ErasureDone(done)))) = event.payload() else {
                found.unreadable.push(event.pos);
                continue;
            };
            let mut positions = done.positions;
            positions.retain(|pos| (1..=applied).contains(pos));
            positions.sort_unstable();
            positions.dedup();
            let mut positions = positions.into_iter().peekable();
            while let Some(first) = positions.next() {
                let read = store.read(log.id, first - 1, PAGE_EVENTS_MAX).await?;
                let last = read.events.last().map_or(first, |event| event.pos);
                let mut wanted = vec![first];
                while let Some(next) = positions.next_if(|pos| *pos <= last) {
                    wanted.push(next);
                }
                found.events.extend(
                    read.events
                        .into_iter()
                        .filter(|erased| wanted.binary_search(&erased.pos).is_ok())
                        .map(|erased| (event.pos, erased)),
                );
            }
        }
        Ok(found)
    }

    /// The events that were erased.
    pub(super) fn erased(&self) -> impl Iterator<Item = &Recorded> {
        self.events.iter().map(|(_, event)| event)
    }

    /// The last event that says something was erased; 0 if none does.
    pub(super) fn to(&self) -> u64 {
        let said = self.events.iter().map(|(said, _)| *said);
        said.chain(self.unreadable.iter().copied())
            .max()
            .unwrap_or(0)
    }

    /// Whether the rows may hold something that is erased.
    fn concern(
        &self,
        projection: &dyn Projection,
        rows: &SqliteRows<'_>,
        checkpoint: &Checkpoint,
        log: &LogInfo,
    ) -> Result<bool, rows::Error> {
        if self.all
            || self
                .unreadable
                .iter()
                .any(|said| *said > checkpoint.erased_to)
        {
            return Ok(true);
        }
        for (said, event) in &self.events {
            if *said > checkpoint.erased_to && projection.holds(rows, event, log)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Pages {
    /// Must be called within a runtime.
    pub(crate) fn of(store: Arc<dyn Store>) -> Self {
        let runtime = Handle::current();
        Self { store, runtime }
    }

    /// Returns what is known of a log at the moment.
    pub(crate) fn info(&self, log: LogId) -> Option<LogInfo> {
        self.store.info(log).ok()
    }

    /// Returns a page with the log's link at its end.
    fn read(&self, log: &LogInfo, after: u64) -> Result<(Vec<Recorded>, ChainHash), ReadError> {
        let read = self.store.read(log.id, after, PAGE_EVENTS_MAX);
        let mut events = self.runtime.block_on(read)?.events;
        events.retain(|event| event.pos <= log.tail.pos);
        let end = events.last().map_or(after, |last| last.pos);
        let link = self.runtime.block_on(self.store.chain_at(log.id, end))?;
        Ok((events, link))
    }
}

/// Does the work. On an error nothing has happened.
pub(super) fn fold(
    connection: &mut Connection,
    projections: &[Box<dyn Projection>],
    work: Work,
    pages: &Pages,
) -> Result<Folded, ViewsError> {
    let Work {
        log,
        members,
        events,
        link,
        erasures,
        fresh,
    } = work;
    let mut tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if !erasures.events.is_empty() || !erasures.unreadable.is_empty() {
        give_up_foreign(&tx, projections, &erasures, &log)?;
    }
    let mut moved = Vec::with_capacity(members.len());
    for member in members {
        let projection = projections[member.projection].as_ref();
        let mut savepoint = tx.savepoint()?;
        let from = member.checkpoint;
        let edition = from.edition;
        let concern = {
            let rows = SqliteRows::of(&savepoint, edition);
            erasures.concern(projection, &rows, &from, &log)?
        };
        let (to, poison) = if concern {
            refold(&mut savepoint, projection, &log, &from, fresh, pages)?
        } else {
            take_in(&mut savepoint, projection, &log, &events, link, &from)?
        };
        if from.advance(&savepoint, &to)? == Moved::Contended {
            return Ok(Folded::Contended);
        }
        match &poison {
            Some(poison) => poison.stop(&to).put(&savepoint)?,
            None => Stop::remove(&savepoint, edition, log.id)?,
        }
        savepoint.commit()?;
        moved.push((
            Member {
                projection: member.projection,
                checkpoint: to,
            },
            poison,
        ));
    }
    tx.commit()?;
    Ok(Folded::Moved(moved))
}

/// Has the rows of a log that was left give way to those of the branch that goes on, in one transaction.
pub(super) fn give_way(
    connection: &mut Connection,
    projections: &[Box<dyn Projection>],
    (log, members): (&LogInfo, &[Member]),
    branch: &LogInfo,
    fresh: Fresh,
    pages: &Pages,
) -> Result<Folded, ViewsError> {
    let mut tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut moved = Vec::with_capacity(members.len());
    for member in members {
        let projection = projections[member.projection].as_ref();
        let mut savepoint = tx.savepoint()?;
        let edition = member.checkpoint.edition;
        projection.clear(&mut SqliteRows::of(&savepoint, edition), log)?;
        if member.checkpoint.remove(&savepoint)? == Moved::Contended {
            return Ok(Folded::Contended);
        }
        Stop::remove(&savepoint, edition, log.id)?;
        let empty = Checkpoint {
            edition,
            log: branch.id,
            pos: 0,
            chain: fresh.chain,
            erased_to: fresh.erased_to,
            epoch: 0,
        };
        let from = match Checkpoint::load(&savepoint, edition, branch.id)? {
            Some(checkpoint) => checkpoint,
            None if empty.insert(&savepoint)? == Moved::Yes => empty,
            None => return Ok(Folded::Contended),
        };
        let (to, poison) = refold(&mut savepoint, projection, branch, &from, fresh, pages)?;
        if from.advance(&savepoint, &to)? == Moved::Contended {
            return Ok(Folded::Contended);
        }
        if let Some(poison) = &poison {
            poison.stop(&to).put(&savepoint)?;
        }
        savepoint.commit()?;
        moved.push((
            Member {
                projection: member.projection,
                checkpoint: to,
            },
            poison,
        ));
    }
    tx.commit()?;
    Ok(Folded::Moved(moved))
}

/// Clears what a projection has from a log and folds it again from what can still be read, as far as one
/// transaction may go.
pub(crate) fn refold(
    savepoint: &mut Savepoint<'_>,
    projection: &dyn Projection,
    log: &LogInfo,
    from: &Checkpoint,
    fresh: Fresh,
    pages: &Pages,
) -> Result<(Checkpoint, Option<Poison>), ViewsError> {
    projection.clear(&mut SqliteRows::of(savepoint, from.edition), log)?;
    let mut at = Checkpoint {
        pos: 0,
        chain: fresh.chain,
        erased_to: fresh.erased_to,
        epoch: from.epoch + 1,
        ..from.clone()
    };
    if log.tail.pos > REFOLD_EVENTS_MAX {
        return Ok((at, None));
    }
    while at.pos < log.tail.pos {
        // A log that cannot be read now is gone on with when it can.
        let Ok((events, link)) = pages.read(log, at.pos) else {
            break;
        };
        if events.is_empty() {
            break;
        }
        let mut page = savepoint.savepoint()?;
        let (to, poison) = take_in(&mut page, projection, log, &events, link, &at)?;
        page.commit()?;
        at = to;
        if poison.is_some() {
            return Ok((at, poison));
        }
    }
    Ok((at, None))
}

/// Editions of other builds cannot be folded here: those that may hold what was erased go as a whole.
fn give_up_foreign(
    connection: &Connection,
    projections: &[Box<dyn Projection>],
    erasures: &Erasures,
    log: &LogInfo,
) -> Result<(), ViewsError> {
    for edition in Edition::load_all(connection)? {
        let known = projections.iter().find(|p| p.name() == edition.projection);
        if edition.state == State::Dropped
            || known.is_some_and(|known| known.version() == edition.version)
        {
            continue;
        }
        let Some(at) = Checkpoint::load(connection, edition.id, log.id)? else {
            continue;
        };
        let rows = SqliteRows::of(connection, edition.id);
        let holds = !erasures.unreadable.is_empty()
            || erasures.events.iter().any(|(_, event)| {
                // Rows that this build cannot read may hold anything.
                let asked = known.map(|known| known.holds(&rows, event, log));
                event.pos <= at.pos && asked.is_none_or(|asked| asked.unwrap_or(true))
            });
        if holds {
            Edition::give_up(connection, edition.id)?;
        }
    }
    Ok(())
}

impl Poison {
    fn of(event: &Recorded, error: &ApplyError) -> Self {
        Self {
            pos: event.pos,
            kind: event.kind,
            kind_version: event.version,
            error: causes(error),
        }
    }

    pub(crate) fn stop(&self, at: &Checkpoint) -> Stop {
        Stop {
            edition: at.edition,
            log: at.log,
            pos: self.pos,
            kind: self.kind,
            kind_version: self.kind_version,
            error: self.error.clone(),
        }
    }
}

/// Applies a page; up to the event that cannot be taken in, if there is one.
fn take_in(
    savepoint: &mut Savepoint<'_>,
    projection: &dyn Projection,
    log: &LogInfo,
    events: &[Recorded],
    link: ChainHash,
    from: &Checkpoint,
) -> Result<(Checkpoint, Option<Poison>), ViewsError> {
    let mut taken = events;
    let mut poison = None;
    for (index, event) in events.iter().enumerate() {
        match projection.apply(&mut SqliteRows::of(savepoint, from.edition), event, log) {
            Ok(()) => {}
            Err(ApplyError::Rows(error @ rows::Error::Database(_))) => return Err(error.into()),
            Err(error) => {
                poison = Some(Poison::of(event, &error));
                taken = &events[..index];
                break;
            }
        }
    }
    if poison.is_some() {
        // The event may have written some of its rows before it failed.
        savepoint.rollback()?;
        for event in taken {
            match projection.apply(&mut SqliteRows::of(savepoint, from.edition), event, log) {
                Ok(()) => {}
                Err(ApplyError::Rows(error)) => return Err(error.into()),
                Err(ApplyError::Decode(_)) => unreachable!("it was taken in a moment ago"),
            }
        }
    }
    let to = taken.last().map_or_else(
        || from.clone(),
        |last| Checkpoint {
            pos: last.pos,
            chain: if taken.len() == events.len() {
                link
            } else {
                last.chain
            },
            ..from.clone()
        },
    );
    Ok((to, poison))
}
