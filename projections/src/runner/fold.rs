//! One page of one log into the projections that stand in front of it, in one transaction.

use cocoonbox_events::{
    ChainHash, Kind, LogEvent, LogInfo, Payload, ReadError, Recorded, Store,
    limits::PAGE_EVENTS_MAX,
};
use rusqlite::{Connection, Savepoint, TransactionBehavior};

use crate::{
    database::{Checkpoint, Moved},
    projection::{ApplyError, Projection},
    rows::{self, SqliteRows},
    runner::{causes, standing::Member},
    views::ViewsError,
};

/// What is to be done in one transaction.
pub(super) struct Work {
    pub(super) log: LogInfo,
    /// All at the position in front of the first event.
    pub(super) members: Vec<Member>,
    pub(super) events: Vec<Recorded>,
    pub(super) erasures: Erasures,
    pub(super) fresh: Fresh,
}

/// Where a projection begins.
#[derive(Clone, Copy)]
pub(super) struct Fresh {
    /// The log's genesis link.
    pub(super) chain: ChainHash,
    pub(super) erased_to: u64,
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
pub(super) struct Poison {
    pub(super) pos: u64,
    pub(super) error: String,
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
            erasures,
            fresh,
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

/// Does the work. On an error nothing has happened.
pub(super) fn fold(
    connection: &mut Connection,
    projections: &[Box<dyn Projection>],
    work: Work,
) -> Result<Folded, ViewsError> {
    let Work {
        log,
        members,
        events,
        erasures,
        fresh,
    } = work;
    let mut tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut moved = Vec::with_capacity(members.len());
    for member in members {
        let projection = projections[member.projection].as_ref();
        let mut savepoint = tx.savepoint()?;
        let from = member.checkpoint;
        let concern = erasures.concern(projection, &SqliteRows(&savepoint), &from, &log)?;
        let (to, poison) = if concern {
            projection.clear(&mut SqliteRows(&savepoint), &log)?;
            let Fresh { chain, erased_to } = fresh;
            (
                Checkpoint {
                    pos: 0,
                    chain,
                    erased_to,
                    ..from.clone()
                },
                None,
            )
        } else {
            take_in(&mut savepoint, projection, &log, &events, &from)?
        };
        if from.advance(&savepoint, &to)? == Moved::Contended {
            return Ok(Folded::Contended);
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

/// Applies a page; up to the event that cannot be taken in, if there is one.
fn take_in(
    savepoint: &mut Savepoint<'_>,
    projection: &dyn Projection,
    log: &LogInfo,
    events: &[Recorded],
    from: &Checkpoint,
) -> Result<(Checkpoint, Option<Poison>), ViewsError> {
    let mut taken = events;
    let mut poison = None;
    for (index, event) in events.iter().enumerate() {
        match projection.apply(&mut SqliteRows(savepoint), event, log) {
            Ok(()) => {}
            Err(ApplyError::Rows(error @ rows::Error::Database(_))) => return Err(error.into()),
            Err(error) => {
                poison = Some(Poison {
                    pos: event.pos,
                    error: causes(&error),
                });
                taken = &events[..index];
                break;
            }
        }
    }
    if poison.is_some() {
        // The event may have written some of its rows before it failed.
        savepoint.rollback()?;
        for event in taken {
            match projection.apply(&mut SqliteRows(savepoint), event, log) {
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
            chain: last.chain,
            ..from.clone()
        },
    );
    Ok((to, poison))
}
