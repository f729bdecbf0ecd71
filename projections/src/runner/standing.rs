//! Where each edition stands in each log, as this runner believes it.

use std::collections::{BTreeMap, HashMap, HashSet};

use cocoonbox_events::{LogId, LogInfo, Store};
use rusqlite::{Connection, TransactionBehavior};

use crate::{
    database::{Checkpoint, Edition, EditionId, Moved, State},
    projection::{Projection, takes},
    runner::{RunError, fold::Poison},
    views::{Degraded, Progress, Views, ViewsError},
};

/// One edition in one log.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// Index in the list of projections.
    pub(super) projection: usize,
    pub(super) checkpoint: Checkpoint,
}

/// How an edition takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// It answers, or nothing does: it takes in every event first.
    Leading,
    /// It is built beside the one that answers, when there is nothing else to do.
    Beside,
    /// It is as far as the one that answers and goes on in the same transactions.
    InStep,
}

/// An edition of a projection of this build.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) edition: Edition,
    /// Index in the list of projections.
    pub(super) projection: usize,
    pub(super) part: Part,
}

#[derive(Debug, Default)]
pub(super) struct Standings {
    kept: BTreeMap<EditionId, Kept>,
    /// Editions of other builds.
    foreign: Vec<Edition>,
    /// How far the foreign editions that answer are, by projection.
    frozen: HashMap<usize, HashMap<LogId, u64>>,
    logs: HashMap<LogId, Vec<Member>>,
    /// Editions that stopped at an event.
    stopped: HashMap<(EditionId, LogId), Degraded>,
}

impl Standings {
    /// Reads every edition and checkpoint; begins editions of projections that have none of their
    /// version. Editions that saw a log which the store does not have are given up.
    pub(super) async fn load(views: &Views, store: &dyn Store) -> Result<Self, ViewsError> {
        let of = views.clone();
        let known: HashSet<LogId> = store.logs().iter().map(|log| log.id).collect();
        let (editions, checkpoints, unknown) = views
            .blocking(move |database| {
                database.write(|connection| {
                    let tx =
                        connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
                    let unknown = unknown_logs(&tx, &known)?;
                    prepare(&tx, of.projections())?;
                    let found = (Edition::load_all(&tx)?, Checkpoint::load_all(&tx)?, unknown);
                    tx.commit()?;
                    Ok(found)
                })
            })
            .await?;
        // Asked again, behind the checkpoints: a log has been there before it has a checkpoint. In the
        // other order one that another runner has just met would pass for lost.
        let known: HashSet<LogId> = store.logs().iter().map(|log| log.id).collect();
        let lost: HashSet<EditionId> = unknown
            .into_iter()
            .filter(|(_, log)| !known.contains(log))
            .map(|(edition, _)| edition)
            .collect();
        if !lost.is_empty() {
            give_up(views, lost).await?;
            return Box::pin(Self::load(views, store)).await;
        }
        let mut standings = Self::default();
        standings.take_over(views, editions, checkpoints);
        Ok(standings)
    }

    fn take_over(&mut self, views: &Views, editions: Vec<Edition>, checkpoints: Vec<Checkpoint>) {
        let mut progress = views.progress();
        for edition in editions.into_iter().filter(|e| e.state != State::Dropped) {
            let own = views
                .projections()
                .iter()
                .position(|p| p.name() == edition.projection && p.version() == edition.version);
            match own {
                Some(projection) => {
                    let part = Part::Leading;
                    let kept = Kept {
                        edition,
                        projection,
                        part,
                    };
                    self.kept.insert(kept.edition.id, kept);
                }
                None => self.foreign.push(edition),
            }
        }
        for (index, projection) in views.projections().iter().enumerate() {
            let name = projection.name();
            progress.forget(name);
            progress.built(name);
            let serving = serving(&self.kept, &self.foreign, index, &**projection);
            progress.set_served(name, serving.is_some());
            let Some(serving) = serving.map(|edition| edition.id) else {
                continue;
            };
            for kept in self.kept.values_mut().filter(|k| k.projection == index) {
                if kept.edition.id != serving {
                    kept.part = Part::Beside;
                }
            }
            if !self.kept.contains_key(&serving) {
                let at = checkpoints.iter().filter(|at| at.edition == serving);
                let frozen: HashMap<_, _> = at.map(|at| (at.log, at.pos)).collect();
                for (log, pos) in &frozen {
                    progress.set(name, *log, *pos);
                }
                self.frozen.insert(index, frozen);
            }
        }
        drop(progress);
        for checkpoint in checkpoints {
            self.add(views, checkpoint);
        }
    }

    /// Makes a checkpoint for every edition that wants this log and has none. Returns whether any
    /// edition wants it at all.
    pub(super) async fn meet(
        &mut self,
        views: &Views,
        log: &LogInfo,
        store: &dyn Store,
    ) -> Result<bool, RunError> {
        let members = self.logs.get(&log.id).map_or(&[][..], Vec::as_slice);
        let missing: Vec<EditionId> = self
            .kept
            .values()
            .filter(|kept| takes(&*views.projections()[kept.projection], log))
            .map(|kept| kept.edition.id)
            .filter(|id| {
                !members
                    .iter()
                    .any(|member| member.checkpoint.edition == *id)
            })
            .collect();
        if missing.is_empty() {
            return Ok(!members.is_empty());
        }
        let id = log.id;
        // What was erased so far will be read as erased.
        let erased_to = log.tail.pos;
        let chain = store
            .chain_at(id, 0)
            .await
            .map_err(|source| RunError::Read { log: id, source })?;
        let checkpoints = views
            .blocking(move |database| {
                database.write(|connection| {
                    let tx =
                        connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
                    let mut found = Vec::new();
                    for edition in missing {
                        let empty = Checkpoint {
                            edition,
                            log: id,
                            pos: 0,
                            chain,
                            erased_to,
                            epoch: 0,
                        };
                        match empty.insert(&tx)? {
                            Moved::Yes => found.push(empty),
                            Moved::Contended => match Checkpoint::load(&tx, edition, id)? {
                                Some(checkpoint) => found.push(checkpoint),
                                None => return Ok(None),
                            },
                        }
                    }
                    tx.commit()?;
                    Ok(Some(found))
                })
            })
            .await?
            .ok_or(RunError::GivenUp)?;
        expect(views, log);
        for checkpoint in checkpoints {
            self.add(views, checkpoint);
        }
        views.ring();
        Ok(true)
    }

    /// Whether the editions that go first have nothing to do in a log: the usual case, in each pass, for
    /// all logs but one.
    pub(super) fn is_current(&self, log: &LogInfo) -> bool {
        let (pos, chain) = (log.tail.pos, log.tail.chain);
        let members = self.logs.get(&log.id);
        members.is_some_and(|members| {
            members
                .iter()
                .filter(|member| self.part(member) != Part::Beside)
                .all(|member| member.checkpoint.pos == pos && member.checkpoint.chain == chain)
        })
    }

    /// Editions in a log, by the position that they are at: those that go first, or one of the others.
    pub(super) fn groups(
        &self,
        log: LogId,
        beside: Option<EditionId>,
    ) -> BTreeMap<u64, Vec<Member>> {
        let mut groups: BTreeMap<u64, Vec<Member>> = BTreeMap::new();
        for member in self.logs.get(&log).into_iter().flatten() {
            let taken = match beside {
                None => self.part(member) != Part::Beside,
                Some(edition) => member.checkpoint.edition == edition,
            };
            if taken {
                let group = groups.entry(member.checkpoint.pos).or_default();
                group.push(member.clone());
            }
        }
        groups
    }

    /// Members of a log that a rewind closed whose rows have to give way.
    pub(super) fn leaving(&self, views: &Views, log: &LogInfo) -> Vec<Member> {
        let members = self.logs.get(&log.id).into_iter().flatten();
        let leaving = members.filter(|m| !takes(&*views.projections()[m.projection], log));
        leaving.cloned().collect()
    }

    /// The member of an edition in a log, if it has met it.
    pub(super) fn member(&self, edition: EditionId, log: LogId) -> Option<&Member> {
        let mut members = self.logs.get(&log)?.iter();
        members.find(|member| member.checkpoint.edition == edition)
    }

    /// Every member in a log.
    pub(super) fn members(&self, log: LogId) -> Vec<Member> {
        self.logs.get(&log).cloned().unwrap_or_default()
    }

    /// Takes over that an edition has left a log.
    pub(super) fn leave(&mut self, views: &Views, member: &Member) {
        let Checkpoint { edition, log, .. } = member.checkpoint;
        if self.part(member) == Part::Leading {
            let name = views.projections()[member.projection].name();
            views.progress().leave(name, log);
        }
        self.stopped.remove(&(edition, log));
        if let Some(members) = self.logs.get_mut(&log) {
            members.retain(|known| known.checkpoint.edition != edition);
        }
    }

    fn part(&self, member: &Member) -> Part {
        self.kept
            .get(&member.checkpoint.edition)
            .map_or(Part::Beside, |kept| kept.part)
    }

    pub(super) fn kept(&self) -> impl Iterator<Item = &Kept> {
        self.kept.values()
    }

    pub(super) fn foreign(&self) -> &[Edition] {
        &self.foreign
    }

    pub(super) fn set_part(&mut self, edition: EditionId, part: Part) {
        if let Some(kept) = self.kept.get_mut(&edition) {
            kept.part = part;
        }
    }

    /// Position of an edition in a log; 0 if it has not met it.
    pub(super) fn pos(&self, edition: EditionId, log: LogId) -> u64 {
        self.member(edition, log)
            .map_or(0, |member| member.checkpoint.pos)
    }

    /// How far the foreign edition is that answers for a projection, if one does.
    pub(super) fn frozen(&self, projection: usize, log: LogId) -> u64 {
        self.frozen
            .get(&projection)
            .and_then(|logs| logs.get(&log))
            .copied()
            .unwrap_or(0)
    }

    /// Where an edition stopped in a log.
    pub(super) fn stop(&self, edition: EditionId, log: LogId) -> Option<&Degraded> {
        self.stopped.get(&(edition, log))
    }

    pub(super) fn is_stopped(&self, member: &Member) -> bool {
        let checkpoint = &member.checkpoint;
        self.stop(checkpoint.edition, checkpoint.log).is_some()
    }

    /// Takes over where an edition is after a fold.
    pub(super) fn take(&mut self, views: &Views, member: Member, poison: Option<Poison>) {
        let Checkpoint {
            edition, log, pos, ..
        } = member.checkpoint;
        let name = views.projections()[member.projection].name();
        let mut progress = views.progress();
        let leads = self.part(&member) == Part::Leading;
        if let Some(before) = self.member(edition, log) {
            let events = pos.saturating_sub(before.checkpoint.pos);
            progress.add_folded(name, events, leads);
        }
        if leads {
            progress.set(name, log, pos);
        }
        self.stopped.remove(&(edition, log));
        if let Some(poison) = poison {
            let stopped = Degraded {
                projection: name,
                log,
                pos: poison.pos,
                kind: poison.kind,
                kind_version: poison.kind_version,
                error: poison.error,
            };
            tracing::error!(
                projection = name, log = %log, pos = stopped.pos, kind = stopped.kind_name(),
                error = stopped.error,
                "projection stopped at an event that it cannot take in",
            );
            if leads {
                progress.stop(stopped.clone());
            }
            self.stopped.insert((edition, log), stopped);
        }
        drop(progress);
        let members = self.logs.entry(log).or_default();
        members.retain(|known| known.checkpoint.edition != edition);
        members.push(member);
    }

    /// Tells where an edition is that answers from now on.
    pub(super) fn lead(&mut self, views: &Views, edition: EditionId, instead: Option<EditionId>) {
        if let Some(instead) = instead {
            self.kept.remove(&instead);
            for members in self.logs.values_mut() {
                members.retain(|member| member.checkpoint.edition != instead);
            }
            self.stopped.retain(|(of, _), _| *of != instead);
        }
        let Some(kept) = self.kept.get_mut(&edition) else {
            return;
        };
        kept.part = Part::Leading;
        kept.edition.state = State::Complete;
        let (index, name) = (kept.projection, views.projections()[kept.projection].name());
        self.frozen.remove(&index);
        let mut progress: std::sync::MutexGuard<'_, Progress> = views.progress();
        progress.forget(name);
        for member in self.logs.values().flatten() {
            if member.checkpoint.edition == edition {
                progress.set(name, member.checkpoint.log, member.checkpoint.pos);
            }
        }
        for ((of, _), stopped) in &self.stopped {
            if *of == edition {
                progress.stop(stopped.clone());
            }
        }
        progress.set_served(name, true);
        progress.built(name);
    }

    pub(super) fn forget_foreign(&mut self) {
        self.foreign.clear();
    }

    /// Forgets a log, so that its checkpoints are read again.
    pub(super) fn forget(&mut self, log: LogId) {
        self.logs.remove(&log);
        self.stopped.retain(|(_, stopped), _| *stopped != log);
    }

    fn add(&mut self, views: &Views, checkpoint: Checkpoint) {
        if let Some(kept) = self.kept.get(&checkpoint.edition) {
            let projection = kept.projection;
            let member = Member {
                projection,
                checkpoint,
            };
            self.take(views, member, None);
        }
    }
}

/// Notes who takes a log in.
fn expect(views: &Views, log: &LogInfo) {
    let taking = views.projections().iter().filter(|p| takes(&***p, log));
    views.progress().expect(log.id, taking.map(|p| p.name()));
}

/// Gives editions up; they are begun again when the editions are looked at next.
async fn give_up(views: &Views, editions: HashSet<EditionId>) -> Result<(), ViewsError> {
    views
        .blocking(move |database| {
            database.write(|connection| {
                let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
                for edition in editions {
                    Edition::give_up(&tx, edition)?;
                }
                Ok(tx.commit()?)
            })
        })
        .await
}

/// Checkpoints in logs that are not known.
fn unknown_logs(
    connection: &Connection,
    known: &HashSet<LogId>,
) -> Result<Vec<(EditionId, LogId)>, rusqlite::Error> {
    let all = Checkpoint::load_all(connection)?;
    let unknown = all.into_iter().filter(|at| !known.contains(&at.log));
    Ok(unknown.map(|at| (at.edition, at.log)).collect())
}

/// Begins what is missing and gives up what is of no use.
fn prepare(
    connection: &Connection,
    projections: &[Box<dyn Projection>],
) -> Result<(), rusqlite::Error> {
    let editions = Edition::load_all(connection)?;
    let live = editions.iter().filter(|e| e.state != State::Dropped);
    for edition in live.clone() {
        if !projections.iter().any(|p| p.name() == edition.projection) {
            Edition::give_up(connection, edition.id)?;
        }
    }
    for projection in projections {
        let (name, version) = (projection.name(), projection.version());
        let own = live
            .clone()
            .filter(|e| e.projection == name && e.version == version);
        if own.clone().next().is_none() {
            tracing::info!(projection = name, version, "views are built from the start");
            Edition::begin(connection, name, version, false)?;
        }
    }
    Ok(())
}

/// The edition that answers for a projection of this build.
fn serving<'a>(
    kept: &'a BTreeMap<EditionId, Kept>,
    foreign: &'a [Edition],
    index: usize,
    projection: &dyn Projection,
) -> Option<&'a Edition> {
    let own = kept
        .values()
        .filter(|kept| kept.projection == index)
        .map(|kept| &kept.edition)
        .rfind(|edition| edition.state == State::Complete);
    own.or_else(|| {
        foreign.iter().rfind(|edition| {
            edition.projection == projection.name()
                && edition.state == State::Complete
                && projection.reads(edition.version)
        })
    })
}
