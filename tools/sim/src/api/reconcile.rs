//! Before a box may write: its history and the copy of it are brought to one end.
//!
//! A disk that is not the one before (restored, replaced) never goes on in the log that it has: what it
//! held behind that point may have been seen. The copy is rewound, the box opens the branch, and keys
//! into what was left are answered with where the branches part.

use std::{collections::BTreeMap, sync::Arc};

use cocoonbox_events::{
    ChainHash, CommandId, LogId, NewLog, Recorded, Store, Tail,
    store::{LogKind, Parent},
};

use super::{Api, machine::Fault};
use crate::{agent::Hello, broken::Broken, host::Standing, law::Law, ledger::short};

/// Events of one refill.
const REFILL_EVENTS_MAX: usize = 50;

impl Api {
    /// Releases a box to write, and copies its log from then on.
    pub(super) async fn reconcile(
        self: &Arc<Self>,
        box_id: &str,
        user: &str,
        (root, parent): (LogId, Option<Parent>),
        wake: &str,
        term: u64,
    ) -> Result<(), Fault> {
        let hello = self
            .ask(box_id, move |agent| async move {
                Ok((agent.hello(term)?, agent.log()))
            })
            .await?;
        let (hello, released) = hello;
        if let Some(log) = released {
            // Goes on as it is; a take-over only copies anew.
            self.adopt(box_id, user, (root, parent), &hello).await?;
            self.attach(box_id, wake, log);
            return Ok(());
        }
        let standing = self.host.get(box_id).ok_or(Fault::Down)?;
        let is_new = hello.incarnation == 0 && standing.generation == 1;
        let is_another = hello.incarnation != standing.generation && !is_new;
        self.adopt(box_id, user, (root, parent), &hello).await?;
        let line = self.line(root)?;
        let mut log = *line.last().ok_or(Fault::Down)?;
        if is_another && self.broken != Broken::SilentRestore {
            log = self
                .go_on_elsewhere(box_id, &line, &hello, &standing, term)
                .await?;
        } else if let Some(tail) = hello.tail {
            self.check_kept(box_id, log, tail);
        }
        self.bring_branches(box_id, root, log, term).await?;
        let incarnation = standing.generation;
        self.ask(box_id, move |agent| agent.release(term, log, incarnation))
            .await?;
        self.attach(box_id, wake, log);
        Ok(())
    }

    /// The branches from the root to the one that is written today.
    fn line(&self, root: LogId) -> Result<Vec<LogId>, Fault> {
        let current = self.store.current(root).map_err(store)?;
        let mut line = vec![current];
        let mut at = self.store.info(current).map_err(store)?;
        while let Some(parent) = at.parent {
            line.push(parent.log);
            at = self.store.info(parent.log).map_err(store)?;
        }
        line.reverse();
        Ok(line)
    }

    /// Opens in the copy what the box has and the copy has never heard of: the log of a new box, and
    /// branches that a promoted standby has lost.
    async fn adopt(
        self: &Arc<Self>,
        box_id: &str,
        user: &str,
        (root, parent): (LogId, Option<Parent>),
        hello: &Hello,
    ) -> Result<(), Fault> {
        self.open_copy(box_id, user, root, parent).await?;
        for (log, parent) in &hello.branches {
            let Some(parent) = parent else { continue };
            if self.store.info(*log).is_ok() {
                continue;
            }
            let current = self.store.current(parent.log).map_err(store)?;
            if current != parent.log {
                // The copy went on elsewhere: the box will be told.
                return Ok(());
            }
            self.pull(box_id, parent.log, parent.pos).await?;
            let new = NewLog {
                id: *log,
                kind: LogKind::Box,
                owner: user.to_owned(),
                parent: Some(*parent),
            };
            self.store.rewind(new).await.map_err(append)?;
            self.know(box_id, *log);
            self.note(|| format!("{box_id}: branch {} is taken over", short(*log)));
        }
        Ok(())
    }

    async fn open_copy(
        &self,
        box_id: &str,
        user: &str,
        log: LogId,
        parent: Option<Parent>,
    ) -> Result<(), Fault> {
        self.ledger.box_has(box_id, log);
        if self.store.info(log).is_ok() {
            return Ok(());
        }
        let new = NewLog {
            id: log,
            kind: LogKind::Box,
            owner: user.to_owned(),
            parent,
        };
        self.store.open(new).await.map_err(append)?;
        self.know(box_id, log);
        Ok(())
    }

    /// Tells the ledger of a log.
    fn know(&self, box_id: &str, log: LogId) {
        self.ledger.box_has(box_id, log);
        if let Ok(info) = self.store.info(log) {
            self.ledger.opened(&info);
        }
    }

    /// Copies a log from the box up to a position, where the copy is behind.
    async fn pull(&self, box_id: &str, log: LogId, to: u64) -> Result<(), Fault> {
        loop {
            let have = self.store.tail(log).map_err(store)?.pos;
            if have >= to {
                return Ok(());
            }
            let limit = usize::try_from(to - have).unwrap_or(usize::MAX);
            let limit = limit.min(REFILL_EVENTS_MAX);
            let events = self
                .ask(box_id, move |agent| async move {
                    let page = agent.store().read(log, have, limit).await;
                    page.map(|page| page.events)
                        .map_err(|error| crate::agent::Refusal::Store(error.to_string()))
                })
                .await?;
            if events.is_empty() {
                return Err(Fault::Store(format!("{} ends before {to}", short(log))));
            }
            let replicated = self.store.replicate(log, events).await;
            replicated.map_err(|error| Fault::Store(error.to_string()))?;
        }
    }

    /// A box whose disk is the one before has everything that the copy has.
    fn check_kept(&self, box_id: &str, log: LogId, tail: Tail) {
        let Ok(copy) = self.store.tail(tail.log) else {
            return;
        };
        if tail.log == log && tail.pos < copy.pos && self.broken != Broken::SilentRestore {
            let what = format!(
                "log {} ends at {} in the box, but {} events were copied",
                short(log),
                tail.pos,
                copy.pos
            );
            self.sim.fail(Law::Durable, box_id, what);
        }
    }

    /// Rewinds the copy for a disk that is another one than before; returns the log to go on in.
    async fn go_on_elsewhere(
        &self,
        box_id: &str,
        line: &[LogId],
        hello: &Hello,
        standing: &Standing,
        term: u64,
    ) -> Result<LogId, Fault> {
        let generation = standing.generation;
        let refill = standing.refill || hello.tail.is_none();
        let current = *line.last().ok_or(Fault::Down)?;
        let info = self.store.info(current).map_err(store)?;
        if let Some(parent) = info.parent
            && current == branch_id(parent.log, generation)
        {
            // An earlier attempt got this far.
            return Ok(current);
        }
        let at = match hello.tail {
            Some(tail) if tail.log == current && tail.pos > info.tail.pos => {
                self.pull(box_id, current, tail.pos).await?;
                tail.pos
            }
            Some(tail) if tail.log == current && !refill => tail.pos,
            // The log that the box has was left already, or everything is to come back.
            _ => {
                self.refill(box_id, line, hello, term).await?;
                info.tail.pos
            }
        };
        let base = info.parent.map_or(0, |parent| parent.pos);
        let at = at.max(base);
        let chain = self.link(current, at).await?;
        let parent = Parent {
            log: current,
            pos: at,
            chain,
        };
        let id = branch_id(current, generation);
        let new = NewLog {
            id,
            kind: LogKind::Box,
            owner: info.owner.clone(),
            parent: Some(parent),
        };
        self.store.rewind(new).await.map_err(append)?;
        self.know(box_id, id);
        self.note(|| {
            let (from, to) = (short(current), short(id));
            format!("{box_id}: log {from} goes on as {to} behind {at}")
        });
        Ok(id)
    }

    async fn link(&self, log: LogId, pos: u64) -> Result<ChainHash, Fault> {
        self.store.chain_at(log, pos).await.map_err(store)
    }

    /// Gives a box back what it has lost, branch by branch.
    async fn refill(
        &self,
        box_id: &str,
        line: &[LogId],
        hello: &Hello,
        term: u64,
    ) -> Result<(), Fault> {
        let held: BTreeMap<LogId, Option<Parent>> = hello.branches.iter().copied().collect();
        let mut parents = Vec::new();
        for log in line {
            parents.push(self.store.info(*log).map_err(store)?);
        }
        for (index, info) in parents.iter().enumerate() {
            if !held.contains_key(&info.id) {
                let (log, parent) = (info.id, info.parent);
                self.ask(box_id, move |agent| async move {
                    agent.branch(term, log, parent).await
                })
                .await?;
            }
            let next = parents.get(index + 1).and_then(|next| next.parent);
            let to = next.map_or(info.tail.pos, |parent| parent.pos);
            self.push(box_id, info.id, to, term).await?;
        }
        Ok(())
    }

    async fn push(&self, box_id: &str, log: LogId, to: u64, term: u64) -> Result<(), Fault> {
        loop {
            let have = self
                .ask(box_id, move |agent| async move {
                    let tail = agent.store().tail(log);
                    tail.map(|tail| tail.pos)
                        .map_err(|error| crate::agent::Refusal::Store(error.to_string()))
                })
                .await?;
            if have >= to {
                return Ok(());
            }
            let limit = usize::try_from(to - have).unwrap_or(usize::MAX);
            let page = self
                .store
                .read(log, have, limit.min(REFILL_EVENTS_MAX))
                .await;
            let events: Vec<Recorded> = page.map_err(store)?.events;
            self.ask(box_id, move |agent| {
                let events = events.clone();
                async move { agent.refill(term, log, events).await }
            })
            .await?;
        }
    }

    /// Opens in the box the branches between what it has and the log that it is to write.
    async fn bring_branches(
        &self,
        box_id: &str,
        root: LogId,
        log: LogId,
        term: u64,
    ) -> Result<(), Fault> {
        let mut line = Vec::new();
        let mut at = Some(log);
        while let Some(id) = at {
            let info = self.store.info(id).map_err(store)?;
            at = info.parent.map(|parent| parent.log);
            line.push((id, info.parent));
        }
        line.reverse();
        debug_assert!(
            line.first()
                .is_some_and(|(id, _)| *id == root || line.len() > 1)
        );
        for (log, parent) in line {
            self.ask(box_id, move |agent| async move {
                match agent.store().info(log) {
                    Ok(_) => Ok(()),
                    Err(_) => agent.branch(term, log, parent).await.map(drop),
                }
            })
            .await?;
        }
        Ok(())
    }

    /// Asks the box to write nothing more, and waits until the copy has everything.
    pub(super) async fn quiesce(
        self: &Arc<Self>,
        box_id: &str,
        root: LogId,
        wake: &str,
        term: u64,
    ) -> Result<(), Fault> {
        let tail = self
            .ask(
                box_id,
                move |agent| async move { agent.quiesce(term).await },
            )
            .await?;
        self.attach(box_id, wake, tail.log);
        debug_assert!(self.store.info(root).is_ok() || self.store.tail(root).is_err());
        loop {
            let reached = self.store.tail(tail.log).map_err(store)?;
            if reached.pos >= tail.pos {
                return Ok(());
            }
            self.sim.sleep_ms(30).await;
        }
    }
}

/// The branch that a log goes on in for a disk: the same whoever asks.
fn branch_id(log: LogId, generation: u64) -> LogId {
    let step = format!("disk {generation}");
    LogId(CommandId::derive(log.as_bytes(), &step).0)
}

fn store(error: cocoonbox_events::ReadError) -> Fault {
    Fault::Store(error.to_string())
}

fn append(error: cocoonbox_events::AppendError) -> Fault {
    Fault::Store(error.to_string())
}
