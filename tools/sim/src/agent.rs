//! A box's agent: its own store on the box's disk, and the protocol by which the api releases it.
//!
//! The turn loop in `turn` asks the real decider what to do; the store is [`SimStore`]. What is
//! modelled is what lies between: hello, release, refill, follow, quiesce.

mod turn;

use std::sync::{Arc, Mutex};

use cocoonbox_commands::agent::{Command, Next, State};
use cocoonbox_events::{
    Aggregate, AppendError, CommandId, Execute, Executed, Fold, Follower, Ids, LogId, Meta, NewLog,
    OffsetKey, Recorded, ReplicaError, Store, StreamName, Tail,
    store::{LogKind, Parent},
};
use cocoonbox_proto::log::v1::{Actor, actor, agent_approval_decided::Scope};
use tokio::sync::{Notify, RwLock};

use crate::{
    broken::Broken,
    clock::SeededIds,
    ledger::{Ledger, short},
    net::{Net, Place, Receiver},
    scheduler::{Life, Sim, lock},
    store::SimStore,
};

/// Repeats of an append whose store is busy or unsure, before the process gives up.
const REPEATS_MAX: u32 = 4;

/// One process in a box, from its start to its end.
pub struct Agent {
    pub sim: Sim,
    pub net: Net,
    pub ledger: Ledger,
    pub place: Place,
    pub life: Life,
    pub box_id: String,
    pub broken: Broken,
    store: SimStore,
    ids: Arc<SeededIds>,
    state: Mutex<Released>,
    /// Held shared for the length of an append; taken whole to close the log for this process.
    open: RwLock<bool>,
    wake: Notify,
}

#[derive(Default)]
struct Released {
    /// The log that is written. `None`: nothing is, until the api says so.
    log: Option<LogId>,
    /// The greatest term that told this process anything.
    term: u64,
}

/// What a box says of itself before it is released.
#[derive(Clone, Debug)]
pub struct Hello {
    /// From the root on; empty if the disk is.
    pub branches: Vec<(LogId, Option<Parent>)>,
    /// Of the last of them.
    pub tail: Option<Tail>,
    /// The life of the machine that this disk was released to.
    pub incarnation: u64,
}

/// Why the agent does not do it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    NotReleased,
    Closed,
    /// A reactor with a greater term has spoken since.
    Overtaken,
    Rejected(String),
    Store(String),
}

/// What a box is made of.
pub struct Parts {
    pub sim: Sim,
    pub net: Net,
    pub ledger: Ledger,
    pub place: Place,
    pub life: Life,
    pub box_id: String,
    pub broken: Broken,
    pub store: SimStore,
    pub ids: Arc<SeededIds>,
}

impl Agent {
    pub fn start(parts: Parts) -> Arc<Self> {
        let Parts {
            sim,
            net,
            ledger,
            place,
            life,
            box_id,
            broken,
            store,
            ids,
        } = parts;
        sim.spawn(life, store.clone().serve());
        Arc::new(Self {
            sim,
            net,
            ledger,
            place,
            life,
            box_id,
            broken,
            store,
            ids,
            state: Mutex::default(),
            open: RwLock::new(true),
            wake: Notify::new(),
        })
    }

    pub fn store(&self) -> &SimStore {
        &self.store
    }

    pub fn log(&self) -> Option<LogId> {
        lock(&self.state).log
    }

    /// Ends the process: its store cannot be written any more.
    fn die(&self, why: &str) {
        self.sim
            .note(&self.place.to_string(), || format!("agent ends: {why}"));
        self.sim.end(self.life);
    }

    fn fence(&self, term: u64) -> Result<(), Refusal> {
        let mut state = lock(&self.state);
        if term < state.term && self.broken != Broken::UnfencedLease {
            return Err(Refusal::Overtaken);
        }
        state.term = state.term.max(term);
        Ok(())
    }

    /// Says what is on the disk. Nothing is written before the release.
    pub fn hello(&self, term: u64) -> Result<Hello, Refusal> {
        self.fence(term)?;
        // The log that no other branched off last: branches of one disk are a line.
        let mut branches = Vec::new();
        let logs = self.store.logs();
        let mut at = logs.iter().find(|log| log.parent.is_none());
        while let Some(log) = at {
            branches.push((log.id, log.parent));
            at = logs.iter().rfind(|next| {
                next.parent.is_some_and(|parent| parent.log == log.id)
                    && !branches.iter().any(|(id, _)| *id == next.id)
            });
        }
        let last = branches.last().map(|(id, _)| *id);
        Ok(Hello {
            branches,
            tail: last.and_then(|id| self.store.tail(id).ok()),
            incarnation: self.store.incarnation(),
        })
    }

    /// Takes events back that the copy has and this disk has not.
    pub async fn refill(
        &self,
        term: u64,
        log: LogId,
        events: Vec<Recorded>,
    ) -> Result<u64, Refusal> {
        self.fence(term)?;
        let tail = self.store.replicate(log, events).await;
        tail.map(|tail| tail.pos)
            .map_err(|error| Refusal::Store(format!("{error:?}")))
    }

    /// Opens a branch, so that the history goes on in it.
    pub async fn branch(
        &self,
        term: u64,
        log: LogId,
        parent: Option<Parent>,
    ) -> Result<Tail, Refusal> {
        self.fence(term)?;
        let new = NewLog {
            id: log,
            kind: LogKind::Box,
            owner: String::new(),
            parent,
        };
        let tail = self.store.open(new).await;
        tail.map_err(|error| Refusal::Store(format!("{error:?}")))
    }

    /// Lets the box write to this log, and takes up what an earlier process left.
    pub async fn release(
        self: Arc<Self>,
        term: u64,
        log: LogId,
        incarnation: u64,
    ) -> Result<(), Refusal> {
        self.fence(term)?;
        if let Some(released) = self.log() {
            return if released == log {
                Ok(())
            } else {
                Err(Refusal::Overtaken)
            };
        }
        if self.store.incarnation() != incarnation {
            let kept = self.store.set_incarnation(incarnation).await;
            kept.map_err(|error| Refusal::Store(format!("{error:?}")))?;
        }
        if self.store.info(log).is_err() {
            self.branch(term, log, None).await?;
        }
        {
            let mut state = lock(&self.state);
            if state.log.is_some() {
                return Ok(());
            }
            state.log = Some(log);
        }
        self.sim.note(&self.place.to_string(), || {
            format!("released to write log {}", short(log))
        });
        self.sim.spawn(self.life, Arc::clone(&self).work());
        self.sim.spawn(self.life, Arc::clone(&self).tidy());
        Ok(())
    }

    pub fn is_released(&self) -> bool {
        self.log().is_some()
    }

    /// Streams this box's log to the api. `None`: the copy has more than this log.
    pub fn follow(
        self: &Arc<Self>,
        to: Place,
        log: LogId,
        after: u64,
    ) -> Option<Receiver<Vec<Recorded>>> {
        let tail = self.store.tail(log).ok()?;
        if after > tail.pos {
            return None;
        }
        let store: Arc<dyn Store> = Arc::new(self.store.clone());
        let mut follower = Follower::new(store, log, after).ok()?;
        let mut bell = self.store.doorbell(log).ok()?;
        let (sender, receiver) = self.net.shuffled_pipe(self.place, to);
        let agent = Arc::clone(self);
        self.sim.spawn(self.life, async move {
            loop {
                bell.mark_unchanged();
                let Ok(page) = follower.poll().await else {
                    return;
                };
                if page.events.is_empty() {
                    let rung = agent.sim.timeout_ms(1_000, bell.changed()).await;
                    if rung.is_none() && !sender.is_open() {
                        return;
                    }
                    continue;
                }
                // In small batches, so that there is something to shuffle.
                for batch in page.events.chunks(5) {
                    if !sender.send(batch.to_vec()).await {
                        return;
                    }
                }
            }
        });
        Some(receiver)
    }

    /// Writes nothing any more, and says where the log ends.
    pub async fn quiesce(&self, term: u64) -> Result<Tail, Refusal> {
        self.fence(term)?;
        let log = self.log().ok_or(Refusal::NotReleased)?;
        *self.open.write().await = false;
        self.store
            .tail(log)
            .map_err(|error| Refusal::Store(format!("{error:?}")))
    }

    /// Takes a prompt of a person. The same id is one prompt, whoever asks how often.
    pub async fn prompt(&self, prompt_id: String, text: String) -> Result<OffsetKey, Refusal> {
        let id = CommandId::derive(prompt_id.as_bytes(), "prompt");
        let asked = text.clone();
        let command = Command::Prompt {
            prompt_id,
            text,
            steer: false,
            images: Vec::new(),
        };
        self.tell(command, id, asked.as_bytes()).await
    }

    pub async fn cancel(&self, command_id: CommandId) -> Result<OffsetKey, Refusal> {
        let turn_id = format!("t{}", &command_id.to_string()[..12]);
        let command = Command::Cancel { turn_id };
        self.tell(command, command_id, b"cancel").await
    }

    /// Answers every question that is open.
    pub async fn approve(&self, allowed: bool) -> Result<(), Refusal> {
        let mut fold = self.fold::<State>("agent/main")?;
        fold.refresh(&self.store)
            .await
            .map_err(|error| Refusal::Store(format!("{error:?}")))?;
        let Next::Wait(asked) = fold.state.next() else {
            return Ok(());
        };
        for approval_id in asked.approvals.into_iter().map(|asked| asked.approval_id) {
            let command = Command::Approve {
                approval_id: approval_id.clone(),
                allowed,
                comment: String::new(),
                scope: Scope::Once,
                now_us: 0,
            };
            let id = CommandId::derive(approval_id.as_bytes(), if allowed { "yes" } else { "no" });
            self.tell(command, id, b"approve").await?;
        }
        Ok(())
    }

    async fn tell(
        &self,
        command: Command,
        id: CommandId,
        asked: &[u8],
    ) -> Result<OffsetKey, Refusal> {
        let mut fold = self.fold::<State>("agent/main")?;
        let executed = self.execute(&mut fold, &command, id, asked).await?;
        self.wake.notify_one();
        Ok(executed.key)
    }

    fn fold<A: Aggregate>(&self, stream: &str) -> Result<Fold<A>, Refusal> {
        let log = self.log().ok_or(Refusal::NotReleased)?;
        let stream =
            StreamName::new(stream).map_err(|error| Refusal::Rejected(error.to_string()))?;
        Ok(Fold::new(log, stream))
    }

    /// Executes a command as the agent's journal does: repeated while the store is unsure, and the end
    /// of the process when it stays so.
    async fn execute<A: Aggregate>(
        &self,
        fold: &mut Fold<A>,
        command: &A::Command,
        id: CommandId,
        asked: &[u8],
    ) -> Result<Executed<A::Event>, Refusal> {
        let meta = Meta {
            command: id,
            actor: Actor {
                kind: actor::Kind::Box.into(),
                id: self.box_id.clone(),
            },
            cause: fold.last,
        };
        let digest = *blake3::hash(asked).as_bytes();
        let open = self.open.read().await;
        if !*open {
            return Err(Refusal::Closed);
        }
        for repeat in 0..=REPEATS_MAX {
            match fold.execute(&self.store, command, &meta, digest).await {
                Ok(executed) => {
                    self.acked(fold.log, executed.key).await;
                    return Ok(executed);
                }
                Err(Execute::Rejected(rejection)) => {
                    return Err(Refusal::Rejected(rejection.to_string()));
                }
                Err(Execute::Append(error)) if error.is_retryable() && repeat < REPEATS_MAX => {
                    self.sim.sleep_ms(50 << repeat).await;
                }
                Err(Execute::Append(AppendError::CommandReused)) => {
                    return Err(Refusal::Rejected("command id was used before".to_owned()));
                }
                Err(error) => {
                    self.die(&format!("{error}"));
                    return Err(Refusal::Store(error.to_string()));
                }
            }
        }
        Err(Refusal::Closed)
    }

    /// Remembers what was answered as durable.
    async fn acked(&self, log: LogId, key: OffsetKey) {
        if let Ok(chain) = self.store.chain_at(log, key.pos).await {
            self.ledger.acked(log, key, chain);
        }
    }

    fn draw(&self) -> String {
        self.ids.draw().simple().to_string()[..12].to_owned()
    }
}

/// Whether a replica's refusal says that the log goes on elsewhere.
pub fn is_moved(error: &ReplicaError) -> bool {
    matches!(error, ReplicaError::Store(AppendError::Moved { .. }))
}
