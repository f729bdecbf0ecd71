//! Where each projection stands in each log, as this runner believes it.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use cocoonbox_events::{LogId, LogInfo, Store};

use crate::{
    database::{Checkpoint, Moved},
    runner::{RunError, fold::Poison},
    views::{Views, ViewsError, drop_projection},
};

/// One projection in one log.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// Index in the list of projections.
    pub(super) projection: usize,
    pub(super) checkpoint: Checkpoint,
}

#[derive(Debug, Default)]
pub(super) struct Standings {
    logs: HashMap<LogId, Vec<Member>>,
    /// Projections that stopped at an event, by index and log.
    stopped: HashSet<(usize, LogId)>,
}

impl Standings {
    /// Reads every checkpoint, after dropping projections that saw a log which the store does not have.
    pub(super) async fn load(views: &Views, store: &Arc<dyn Store>) -> Result<Self, ViewsError> {
        let (of, store) = (views.clone(), store.clone());
        let checkpoints = views
            .blocking(move |database| {
                database.write(|connection| {
                    let tx = connection.transaction()?;
                    let all = Checkpoint::load_all(&tx)?;
                    // In this order: a log has been there before it has a checkpoint. The other way
                    // round, one that another runner has just met would pass for lost.
                    let known: HashSet<LogId> = store.logs().iter().map(|log| log.id).collect();
                    let lost: HashSet<&str> = all
                        .iter()
                        .filter(|checkpoint| !known.contains(&checkpoint.log))
                        .map(|checkpoint| checkpoint.projection.as_str())
                        .collect();
                    for name in lost {
                        drop_projection(&tx, of.projections(), name)?;
                    }
                    let left = Checkpoint::load_all(&tx)?;
                    tx.commit()?;
                    Ok(left)
                })
            })
            .await?;
        let mut standings = Self::default();
        for checkpoint in checkpoints {
            standings.add(views, checkpoint);
        }
        Ok(standings)
    }

    /// Makes a checkpoint for every projection that wants this log and has none. Returns whether any
    /// projection wants it at all.
    pub(super) async fn meet(
        &mut self,
        views: &Views,
        log: &LogInfo,
        store: &dyn Store,
    ) -> Result<bool, RunError> {
        if self.logs.contains_key(&log.id) {
            return Ok(true);
        }
        let wanting: Vec<(String, u32)> = views
            .projections()
            .iter()
            .filter(|projection| projection.wants(log.kind))
            .map(|projection| (projection.name().to_owned(), projection.version()))
            .collect();
        if wanting.is_empty() {
            return Ok(false);
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
                    let tx = connection.transaction()?;
                    let mut found = Vec::new();
                    for (projection, version) in wanting {
                        let empty = Checkpoint {
                            projection,
                            version,
                            log: id,
                            pos: 0,
                            chain,
                            erased_to,
                        };
                        match empty.insert(&tx)? {
                            Moved::Yes => found.push(empty),
                            Moved::Contended => {
                                found.extend(Checkpoint::load(&tx, &empty.projection, id)?);
                            }
                        }
                    }
                    tx.commit()?;
                    Ok(found)
                })
            })
            .await?;
        for checkpoint in checkpoints {
            self.add(views, checkpoint);
        }
        views.ring();
        Ok(true)
    }

    /// Whether there is nothing to do in a log: the usual case, in each pass, for all logs but one.
    pub(super) fn is_current(&self, log: &LogInfo) -> bool {
        let (pos, chain) = (log.tail.pos, log.tail.chain);
        let members = self.logs.get(&log.id);
        members.is_some_and(|members| {
            members
                .iter()
                .all(|member| member.checkpoint.pos == pos && member.checkpoint.chain == chain)
        })
    }

    /// The projections that want a log, by the position that they are at.
    pub(super) fn groups(&self, log: LogId) -> BTreeMap<u64, Vec<Member>> {
        let mut groups: BTreeMap<u64, Vec<Member>> = BTreeMap::new();
        for member in self.logs.get(&log).into_iter().flatten() {
            groups
                .entry(member.checkpoint.pos)
                .or_default()
                .push(member.clone());
        }
        groups
    }

    /// Whether a projection has stopped in its log.
    pub(super) fn is_stopped(&self, member: &Member) -> bool {
        self.stopped
            .contains(&(member.projection, member.checkpoint.log))
    }

    /// Takes over where a projection is after a fold.
    pub(super) fn take(&mut self, views: &Views, member: Member, poison: Option<Poison>) {
        let log = member.checkpoint.log;
        let name = views.projections()[member.projection].name();
        let mut progress = views.progress();
        progress.set(name, log, member.checkpoint.pos);
        self.stopped.remove(&(member.projection, log));
        if let Some(poison) = poison {
            tracing::error!(
                projection = name, log = %log, pos = poison.pos, error = poison.error,
                "projection stopped at an event that it cannot take in",
            );
            progress.stop(name, log, poison.pos, poison.error);
            self.stopped.insert((member.projection, log));
        }
        drop(progress);
        let members = self.logs.entry(log).or_default();
        members.retain(|known| known.projection != member.projection);
        members.push(member);
    }

    /// Forgets a log, so that its checkpoints are read again.
    pub(super) fn forget(&mut self, log: LogId) {
        self.logs.remove(&log);
        self.stopped.retain(|(_, stopped)| *stopped != log);
    }

    fn add(&mut self, views: &Views, checkpoint: Checkpoint) {
        let named = views
            .projections()
            .iter()
            .position(|p| p.name() == checkpoint.projection);
        if let Some(projection) = named {
            self.take(
                views,
                Member {
                    projection,
                    checkpoint,
                },
                None,
            );
        }
    }
}
