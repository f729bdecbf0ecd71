//! From a command to events: load, decide, append, and again on conflict.

use cocoonbox_proto::log::v1::Actor;

use crate::{
    erasure::Husks,
    id::{CommandId, EventId, LogId, StreamName},
    offset_key::OffsetKey,
    record::{Append, NewEvent, Recorded},
    registry::{DecodeError, Payload},
    store::{AppendError, Appended, Expect, Range, ReadError, Store},
};

/// Attempts before a conflict is given to the caller. Three: a fourth loser in a row means that
/// somebody is writing in a loop.
const ATTEMPTS_MAX: u32 = 3;

/// A pure state machine over one stream. No clock, no randomness, no I/O: those come in with commands.
pub trait Aggregate: Clone + Default + Send + Sync + 'static {
    type Command: Send + Sync;
    type Event: Clone + Into<Payload> + Send + Sync;
    type Rejection: std::error::Error + Send + Sync + 'static;

    /// Says what the command leads to. No events: it is fulfilled already.
    fn decide(&self, command: &Self::Command) -> Result<Vec<Self::Event>, Self::Rejection>;

    /// Takes one event in. An event that cannot follow is an error, never ignored.
    fn evolve(self, event: &Self::Event) -> Result<Self, IllegalTransition>;

    /// Picks this aggregate's event out of a payload.
    fn pick(payload: Payload) -> Option<Self::Event>;
}

/// An event stands where it cannot: the log was written by another build, or a decider has a bug.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{event}` cannot follow in state `{state}`")]
pub struct IllegalTransition {
    pub state: String,
    pub event: &'static str,
}

/// Who asks, and why.
#[derive(Clone, Debug)]
pub struct Meta {
    pub command: CommandId,
    pub actor: Actor,
    pub cause: Option<EventId>,
}

/// An aggregate's state with the position it was folded up to.
#[derive(Clone, Debug)]
pub struct Fold<A> {
    pub log: LogId,
    pub stream: StreamName,
    pub state: A,
    /// Sequence number of the last event folded; 0 = the stream is empty.
    pub seq: u64,
    /// Event id of the last event folded.
    pub last: Option<EventId>,
    /// What is left of erased payloads of this log, as far as one was met.
    pub husks: Husks,
    /// A position up to which all of the stream is in `state`.
    seen: Option<u64>,
}

/// What a command led to.
#[derive(Clone, Debug)]
pub struct Executed<E> {
    /// The events, or none if nothing had to be written or the command had happened before.
    pub events: Vec<E>,
    /// Where the log was once the command was fulfilled: everything of it is at or before this.
    pub key: OffsetKey,
    pub replayed: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("reading stream `{stream}`")]
    Read {
        stream: StreamName,
        #[source]
        source: ReadError,
    },
    #[error("event {pos} of stream `{stream}`")]
    Decode {
        stream: StreamName,
        pos: u64,
        #[source]
        source: DecodeError,
    },
    #[error("event {pos} of stream `{stream}`")]
    Illegal {
        stream: StreamName,
        pos: u64,
        #[source]
        source: IllegalTransition,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum Execute<R: std::error::Error + 'static> {
    /// The decider says no.
    #[error(transparent)]
    Rejected(R),
    #[error(transparent)]
    Load(LoadError),
    #[error(transparent)]
    Append(AppendError),
}

impl<A: Aggregate> Fold<A> {
    pub fn new(log: LogId, stream: StreamName) -> Self {
        Self {
            log,
            stream,
            state: A::default(),
            seq: 0,
            last: None,
            husks: Husks::default(),
            seen: None,
        }
    }

    /// Folds what the stream has got since.
    pub async fn refresh(&mut self, store: &dyn Store) -> Result<(), LoadError> {
        if self.seen.is_some_and(|seen| store.ends_at(self.log, seen)) {
            return Ok(());
        }
        let tail = store.tail(self.log).ok();
        loop {
            let page = store
                .read_stream(
                    self.log,
                    &self.stream,
                    self.seq,
                    crate::limits::PAGE_EVENTS_MAX,
                )
                .await
                .map_err(|source| self.unread(source))?;
            if page.events.is_empty() {
                self.seen = tail.map(|tail| tail.pos);
                return Ok(());
            }
            if page.events.iter().any(|event| event.body.is_none()) {
                let husks = self.husks.refresh(store, self.log).await;
                husks.map_err(|source| self.unread(source))?;
            }
            for event in &page.events {
                self.take(event)?;
            }
        }
    }

    /// Takes one recorded event of this stream in. An erased payload counts as its husk, if it left
    /// one that [`Fold::refresh`] has met or that is in `husks`, and else as no change: only content is
    /// erased, never what a decider stands on.
    pub fn take(&mut self, event: &Recorded) -> Result<(), LoadError> {
        let payload = self.husks.payload(event);
        let payload = payload.map_err(|source| LoadError::Decode {
            stream: self.stream.clone(),
            pos: event.pos,
            source,
        })?;
        if let Some(event_of) = payload.and_then(A::pick) {
            self.evolve(&event_of, event.pos)?;
        }
        self.seq = event.seq;
        self.last = event.event_id();
        Ok(())
    }

    /// Takes in what was appended behind all that is in the state, and is the end of the log: nothing has to be read.
    fn take_own(
        &mut self,
        events: &[A::Event],
        range: Range,
        last: EventId,
    ) -> Result<(), LoadError> {
        for (pos, event) in (range.first..).zip(events) {
            self.evolve(event, pos)?;
            self.seq += 1;
        }
        self.last = Some(last);
        self.seen = Some(range.last);
        Ok(())
    }

    fn evolve(&mut self, event: &A::Event, pos: u64) -> Result<(), LoadError> {
        let state = std::mem::take(&mut self.state);
        let evolved = state.evolve(event);
        self.state = evolved.map_err(|source| LoadError::Illegal {
            stream: self.stream.clone(),
            pos,
            source,
        })?;
        Ok(())
    }

    /// Decides and appends; on a conflict folds what came in between and decides again, and after a
    /// rewind does so in the branch.
    ///
    /// A command id that was used before answers as it did then and writes nothing. On return the
    /// fold has the new events in it.
    pub async fn execute(
        &mut self,
        store: &dyn Store,
        command: &A::Command,
        meta: &Meta,
        digest: [u8; 32],
    ) -> Result<Executed<A::Event>, Execute<A::Rejection>> {
        self.run(store, command, meta, digest, false).await
    }

    /// As [`Fold::execute`], and a command that leads to nothing is remembered as well: repeated later, it
    /// leads to nothing still. For commands whose ids were chosen by who may repeat them; each costs a row.
    pub async fn execute_remembered(
        &mut self,
        store: &dyn Store,
        command: &A::Command,
        meta: &Meta,
        digest: [u8; 32],
    ) -> Result<Executed<A::Event>, Execute<A::Rejection>> {
        self.run(store, command, meta, digest, true).await
    }

    async fn run(
        &mut self,
        store: &dyn Store,
        command: &A::Command,
        meta: &Meta,
        digest: [u8; 32],
        is_remembered: bool,
    ) -> Result<Executed<A::Event>, Execute<A::Rejection>> {
        self.refresh(store).await.map_err(Execute::Load)?;
        let mut attempt = 1;
        loop {
            let events = match self.state.decide(command) {
                Ok(events) => events,
                // A command that is repeated is often one that its own events rule out.
                Err(rejection) => {
                    return match self.happened(store, meta.command, digest).await? {
                        Some(executed) => Ok(executed),
                        None => Err(Execute::Rejected(rejection)),
                    };
                }
            };
            if events.is_empty() && !is_remembered {
                if let Some(executed) = self.happened(store, meta.command, digest).await? {
                    return Ok(executed);
                }
                let tail = store.tail(self.log).map_err(|source| {
                    Execute::Load(LoadError::Read {
                        stream: self.stream.clone(),
                        source,
                    })
                })?;
                let key = OffsetKey::new(tail.log, tail.pos, tail.chain);
                return Ok(Executed {
                    events,
                    key,
                    replayed: false,
                });
            }
            let append = Append {
                command: meta.command,
                digest,
                expect: vec![(self.stream.clone(), Expect::Exactly(self.seq))],
                events: events
                    .iter()
                    .map(|event| NewEvent {
                        stream: self.stream.clone(),
                        payload: event.clone().into(),
                    })
                    .collect(),
                actor: meta.actor.clone(),
                cause: meta.cause,
            };
            match store.append(self.log, append).await {
                Ok(appended) => {
                    match appended {
                        // Nobody else has written since either.
                        Appended::Committed(range, Some(last))
                            if store.ends_at(self.log, range.last) =>
                        {
                            self.take_own(&events, range, last)
                        }
                        _ => self.refresh(store).await,
                    }
                    .map_err(Execute::Load)?;
                    let range = appended.range();
                    let key = OffsetKey::new(self.log, range.last, range.chain);
                    let replayed = matches!(appended, Appended::Replayed(_));
                    let events = if replayed { Vec::new() } else { events };
                    return Ok(Executed {
                        events,
                        key,
                        replayed,
                    });
                }
                Err(AppendError::Conflict { .. }) if attempt < ATTEMPTS_MAX => {
                    attempt += 1;
                    self.refresh(store).await.map_err(Execute::Load)?;
                }
                // The log was rewound: what the command is decided on is what the branch says.
                Err(AppendError::Moved { to, .. }) if attempt < ATTEMPTS_MAX => {
                    attempt += 1;
                    *self = Self::new(to, self.stream.clone());
                    self.refresh(store).await.map_err(Execute::Load)?;
                }
                Err(error) => return Err(Execute::Append(error)),
            }
        }
    }

    fn unread(&self, source: ReadError) -> LoadError {
        LoadError::Read {
            stream: self.stream.clone(),
            source,
        }
    }

    async fn happened(
        &self,
        store: &dyn Store,
        command: CommandId,
        digest: [u8; 32],
    ) -> Result<Option<Executed<A::Event>>, Execute<A::Rejection>> {
        let happened = store.happened(self.log, command).await.map_err(|source| {
            let stream = self.stream.clone();
            Execute::Load(LoadError::Read { stream, source })
        })?;
        let Some(happened) = happened else {
            return Ok(None);
        };
        if happened.digest.is_some_and(|then| then != digest) {
            return Err(Execute::Append(AppendError::CommandReused));
        }
        let key = OffsetKey::new(self.log, happened.range.last, happened.range.chain);
        Ok(Some(Executed {
            events: Vec::new(),
            key,
            replayed: true,
        }))
    }
}
