//! What clients ask of an api replica.

use std::sync::Arc;

use cocoonbox_commands::{
    boxes::{self, Command},
    user,
};
use cocoonbox_events::{
    Aggregate, Append, AppendError, CommandId, Execute, Fold, LogId, Meta, NewEvent, NewLog,
    OffsetKey, ReadError, Recorded, Store, StreamName, UsageEvent, store::LogKind,
};
use cocoonbox_proto::log::v1::{Actor, UsageModelCalled, actor};

use super::{Api, machine::Fault};
use crate::{broken::Broken, law::Law, ledger::check_resumed, net::Receiver};

/// Events read for one client at once.
const PAGE_EVENTS: usize = 16;

/// What a stream carries.
#[derive(Clone, Debug)]
pub enum Item {
    Event(Box<Recorded>),
    /// The stream ends: the history goes on elsewhere.
    Moved,
}

/// Why a client does not get what it asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiError {
    BadKey,
    NoSuchLog,
    NoSuchBox,
    Moved {
        to: LogId,
        common: u64,
    },
    OtherLog,
    AheadOfTail,
    Diverged,
    Rejected(String),
    CommandReused,
    /// May work later; what was asked may have happened.
    Unavailable,
}

/// What is asked of a box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// By name; with the log that it branches off, for a fork.
    Ensure {
        name: String,
    },
    Hibernate {
        box_id: String,
    },
    Delete {
        box_id: String,
    },
}

impl ApiError {
    /// Whether the same call may get another answer later.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Unavailable | Self::AheadOfTail)
    }

    fn of_read(error: &ReadError) -> Self {
        match error {
            ReadError::NoSuchLog { .. } => Self::NoSuchLog,
            ReadError::AheadOfTail { .. } => Self::AheadOfTail,
            ReadError::Diverged { .. } => Self::Diverged,
            ReadError::Moved { to, common } => Self::Moved {
                to: *to,
                common: *common,
            },
            ReadError::OtherLog { .. } => Self::OtherLog,
            ReadError::Damaged { .. } | ReadError::Io(_) => Self::Unavailable,
        }
    }

    fn of_fault(fault: Fault) -> Self {
        use crate::agent::Refusal;
        match fault {
            Fault::Agent(Refusal::Rejected(why)) => Self::Rejected(why),
            _ => Self::Unavailable,
        }
    }
}

impl Api {
    /// Does something to a box. Returns the box's id, its log, and where the account log was then.
    pub async fn operate(
        self: Arc<Self>,
        user: String,
        command: CommandId,
        operation: Operation,
    ) -> Result<(String, OffsetKey), ApiError> {
        self.breathe().await;
        let root = *self.users.get(&user).ok_or(ApiError::NoSuchLog)?;
        let log = self.account(&user).map_err(|e| ApiError::of_read(&e))?;
        let operation_id = format!("o{}", &command.to_string()[..10]);
        let (box_id, asked) = match operation {
            Operation::Ensure { name } => {
                let known = self.find_box(log, &name).await?;
                let seed = [root.as_bytes().as_slice(), command.as_bytes()].concat();
                let derived = |step| CommandId::derive(&seed, step);
                let box_id =
                    known.unwrap_or_else(|| format!("b{}", &derived("box id").to_string()[..8]));
                let asked = Command::Ensure {
                    box_id: box_id.clone(),
                    flavor: 1,
                    name,
                    box_log: LogId(derived("box log").0),
                    user_id: user.clone(),
                    operation_id,
                };
                (box_id, asked)
            }
            Operation::Hibernate { box_id } => {
                let reason = "asked".to_owned();
                let asked = Command::Hibernate {
                    operation_id,
                    reason,
                };
                (box_id, asked)
            }
            Operation::Delete { box_id } => (box_id, Command::Delete { operation_id }),
        };
        let digest = *blake3::hash(format!("{asked:?}").as_bytes()).as_bytes();
        let key = self
            .execute::<boxes::State>(
                log,
                &format!("box/{box_id}"),
                &asked,
                &user,
                command,
                digest,
            )
            .await?;
        if let Command::Ensure { .. } = asked {
            self.open_replica(&user, log, &box_id).await?;
        }
        Ok((box_id, key))
    }

    /// Issues a token.
    pub async fn issue_token(
        self: Arc<Self>,
        user: String,
        command: CommandId,
        label: String,
    ) -> Result<OffsetKey, ApiError> {
        self.breathe().await;
        let log = self.account(&user).map_err(|e| ApiError::of_read(&e))?;
        let token_id = format!("t{}", &command.to_string()[..10]);
        let asked = user::Command::IssueToken {
            token_id,
            label,
            sign_in: false,
        };
        let digest = *blake3::hash(format!("{asked:?}").as_bytes()).as_bytes();
        let stream = format!("user/{user}");
        self.execute::<user::State>(log, &stream, &asked, &user, command, digest)
            .await
    }

    async fn execute<A: Aggregate>(
        &self,
        log: LogId,
        stream: &str,
        asked: &A::Command,
        user: &str,
        command: CommandId,
        digest: [u8; 32],
    ) -> Result<OffsetKey, ApiError> {
        let rejected = |why: String| ApiError::Rejected(why);
        let stream = StreamName::new(stream).map_err(|error| rejected(error.to_string()))?;
        let mut fold = Fold::<A>::new(log, stream);
        let meta = Meta {
            command,
            actor: Actor {
                kind: actor::Kind::User.into(),
                id: user.to_owned(),
            },
            cause: None,
        };
        match fold.execute(&self.store, asked, &meta, digest).await {
            Ok(executed) => {
                if let Ok(chain) = self.store.chain_at(log, executed.key.pos).await
                    && chain.short() == executed.key.chain
                {
                    self.ledger.acked(log, executed.key, chain);
                }
                Ok(executed.key)
            }
            Err(Execute::Rejected(rejection)) => Err(rejected(rejection.to_string())),
            Err(Execute::Append(AppendError::CommandReused)) => Err(ApiError::CommandReused),
            Err(Execute::Append(error @ AppendError::TooLarge { .. })) => {
                Err(rejected(error.to_string()))
            }
            Err(_) => Err(ApiError::Unavailable),
        }
    }

    /// Finds a box by its name, in the log itself: views may be behind.
    async fn find_box(&self, log: LogId, name: &str) -> Result<Option<String>, ApiError> {
        let mut after = 0;
        let mut streams = std::collections::BTreeSet::new();
        loop {
            let page = self.store.read(log, after, usize::MAX).await;
            let page = page.map_err(|error| ApiError::of_read(&error))?;
            let Some(last) = page.events.last() else {
                break;
            };
            after = last.pos;
            let boxes = page.events.into_iter().map(|event| event.stream);
            streams.extend(boxes.filter(|stream| stream.as_str().starts_with("box/")));
        }
        for stream in streams {
            let id = stream.id().to_owned();
            let mut fold = Fold::<boxes::State>::new(log, stream);
            let refreshed = fold.refresh(&self.store).await;
            refreshed.map_err(|_| ApiError::Unavailable)?;
            if fold.state.name == name && fold.state.phase != boxes::Phase::Deleted {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    async fn open_replica(&self, user: &str, log: LogId, box_id: &str) -> Result<(), ApiError> {
        let stream = StreamName::new(format!("box/{box_id}"));
        let stream = stream.map_err(|error| ApiError::Rejected(error.to_string()))?;
        let mut fold = Fold::<boxes::State>::new(log, stream);
        let refreshed = fold.refresh(&self.store).await;
        refreshed.map_err(|_| ApiError::Unavailable)?;
        let Some(id) = fold.state.box_log else {
            return Ok(());
        };
        let info = match self.store.info(id) {
            Ok(info) => info,
            Err(_) => {
                let new = NewLog {
                    id,
                    kind: LogKind::Box,
                    owner: user.to_owned(),
                    parent: None,
                };
                let opened = self.store.open(new).await;
                opened.map_err(|_| ApiError::Unavailable)?;
                self.store.info(id).map_err(|e| ApiError::of_read(&e))?
            }
        };
        self.ledger.opened(&info);
        Ok(())
    }

    /// Opens a stream in the history that a log belongs to, behind a key; an empty key is the start.
    /// Returns the log that is read.
    pub async fn open_stream(
        self: Arc<Self>,
        user: String,
        log: LogId,
        key: String,
        to: crate::net::Place,
    ) -> Result<(LogId, Receiver<Item>), ApiError> {
        self.breathe().await;
        let current = self
            .store
            .current(log)
            .map_err(|error| ApiError::of_read(&error))?;
        let info = self
            .store
            .info(current)
            .map_err(|error| ApiError::of_read(&error))?;
        self.ledger.opened(&info);
        if info.owner != user && self.broken != Broken::OpenDoor {
            // Not even that it is there.
            return Err(ApiError::NoSuchLog);
        }
        let after = if key.is_empty() {
            0
        } else {
            let key: OffsetKey = key.parse().map_err(|_| ApiError::BadKey)?;
            if self.broken == Broken::ResumeByPosition {
                key.pos
            } else {
                let resumed = self.store.resume(current, &key).await;
                if let Err(what) = check_resumed(&self.ledger, current, &key, &resumed) {
                    self.sim.fail(Law::Resume, &self.place.to_string(), what);
                }
                resumed.map_err(|error| ApiError::of_read(&error))?
            }
        };
        let (sender, receiver) = self.net.pipe(self.place, to);
        let api = Arc::clone(&self);
        self.sim.spawn(self.life, async move {
            let mut after = after;
            while sender.is_open() {
                api.breathe().await;
                let Ok(page) = api.store.read(current, after, PAGE_EVENTS).await else {
                    return;
                };
                let Some(last) = page.events.last() else {
                    if api.store.info(current).is_ok_and(|i| i.moved_to.is_some()) {
                        sender.send(Item::Moved).await;
                        return;
                    }
                    let Ok(mut bell) = api.store.doorbell(current) else {
                        return;
                    };
                    if api.store.tail(current).is_ok_and(|tail| tail.pos == after) {
                        api.sim.timeout_ms(800, bell.changed()).await;
                    }
                    continue;
                };
                after = last.pos;
                for event in page.events {
                    if !sender.send(Item::Event(Box::new(event))).await {
                        return;
                    }
                }
            }
        });
        Ok((current, receiver))
    }

    /// Hands a prompt to a box.
    pub async fn prompt(
        self: Arc<Self>,
        user: String,
        box_id: String,
        prompt_id: String,
        text: String,
    ) -> Result<OffsetKey, ApiError> {
        self.breathe().await;
        self.check_owner(&user, &box_id)?;
        let key = self
            .ask(&box_id, move |agent| {
                let (prompt_id, text) = (prompt_id.clone(), text.clone());
                async move { agent.prompt(prompt_id, text).await }
            })
            .await
            .map_err(ApiError::of_fault)?;
        self.meter(&user, &box_id, &key).await;
        Ok(key)
    }

    /// Ends the turn under way.
    pub async fn cancel(
        self: Arc<Self>,
        user: String,
        box_id: String,
        command: CommandId,
    ) -> Result<OffsetKey, ApiError> {
        self.check_owner(&user, &box_id)?;
        self.ask(
            &box_id,
            move |agent| async move { agent.cancel(command).await },
        )
        .await
        .map_err(ApiError::of_fault)
    }

    fn check_owner(&self, user: &str, box_id: &str) -> Result<(), ApiError> {
        let standing = self.host.get(box_id).ok_or(ApiError::Unavailable)?;
        if standing.owner != *user && self.broken != Broken::OpenDoor {
            return Err(ApiError::NoSuchBox);
        }
        Ok(())
    }

    /// Writes down what a prompt used. Once, however often the answer was lost.
    async fn meter(&self, user: &str, box_id: &str, key: &OffsetKey) {
        let Ok(log) = self.account(user) else { return };
        let Ok(stream) = StreamName::new("usage/2026-01-01") else {
            return;
        };
        let called = UsageModelCalled {
            box_id: box_id.to_owned(),
            call_id: key.to_string(),
            vendor: "anthropic".to_owned(),
            model: "scripted".to_owned(),
            input_tokens: key.pos,
            output_tokens: 1,
            status: 200,
            complete: true,
            ..UsageModelCalled::default()
        };
        let append = Append {
            command: CommandId::derive(key.to_string().as_bytes(), "usage"),
            digest: [0; 32],
            expect: Vec::new(),
            events: vec![NewEvent {
                stream,
                payload: UsageEvent::ModelCalled(called).into(),
            }],
            actor: Actor::default(),
            cause: None,
        };
        // Metering that fails is not the client's trouble; the same prompt asks again.
        drop(self.store.append(log, append).await);
    }
}
