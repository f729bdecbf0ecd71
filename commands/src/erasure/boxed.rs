//! What an account wants erased in a box's log, stream `erasure/<box log>` of the account log.

use std::collections::BTreeMap;

use cocoonbox_events::{
    Aggregate, ErasureEvent, IllegalTransition, LogId, Payload, erasure::POSITIONS_MAX,
};
use cocoonbox_proto::log::v1 as log;

use super::own::{Rejection as OwnRejection, check_reason};

/// Requests of one box log, by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    requests: BTreeMap<String, Request>,
}

/// One request and where it is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub request_id: String,
    pub box_id: String,
    pub box_log: LogId,
    pub positions: Vec<u64>,
    pub reason: String,
    pub in_replica: bool,
    pub in_box: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// The same request id a second time changes nothing.
    Request {
        request_id: String,
        box_id: String,
        box_log: LogId,
        positions: Vec<u64>,
        reason: String,
    },
    /// Report: the replica's rows hold no payload any more, nor do the views.
    ReplicaErased { request_id: String },
    /// Report: nor does the box.
    BoxErased { request_id: String },
    /// Report: the box was deleted.
    BoxGone { request_id: String },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("field `{field}` is empty")]
    Empty { field: &'static str },
    #[error("{positions} positions in one request; {POSITIONS_MAX} fit")]
    TooMany { positions: usize },
    #[error(transparent)]
    Reason(#[from] OwnRejection),
    #[error("there is no request `{request_id}`")]
    NotFound { request_id: String },
}

impl State {
    pub fn request(&self, request_id: &str) -> Option<&Request> {
        self.requests.get(request_id)
    }

    /// Returns what is not done everywhere, oldest ids first.
    pub fn owed(&self) -> impl Iterator<Item = &Request> {
        self.requests
            .values()
            .filter(|request| !request.in_replica || !request.in_box)
    }

    fn known(&self, request_id: &str) -> Result<&Request, Rejection> {
        self.request(request_id).ok_or_else(|| Rejection::NotFound {
            request_id: request_id.to_owned(),
        })
    }
}

impl Aggregate for State {
    type Command = Command;
    type Event = ErasureEvent;
    type Rejection = Rejection;

    fn decide(&self, command: &Command) -> Result<Vec<ErasureEvent>, Rejection> {
        let event = match command {
            Command::Request { request_id, .. } if request_id.is_empty() => {
                let field = "request_id";
                return Err(Rejection::Empty { field });
            }
            Command::Request { request_id, .. } if self.requests.contains_key(request_id) => None,
            Command::Request { positions, .. } if positions.is_empty() => {
                return Err(Rejection::Empty { field: "positions" });
            }
            Command::Request { positions, .. } if positions.len() > POSITIONS_MAX => {
                let positions = positions.len();
                return Err(Rejection::TooMany { positions });
            }
            Command::Request {
                request_id,
                box_id,
                box_log,
                positions,
                reason,
            } => {
                check_reason(reason)?;
                Some(ErasureEvent::Requested(log::ErasureRequested {
                    request_id: request_id.clone(),
                    box_id: box_id.clone(),
                    box_log: box_log.as_bytes().to_vec(),
                    positions: positions.clone(),
                    reason: reason.clone(),
                }))
            }
            Command::ReplicaErased { request_id } => {
                (!self.known(request_id)?.in_replica).then(|| {
                    ErasureEvent::ReplicaErased(log::ErasureReplicaErased {
                        request_id: request_id.clone(),
                    })
                })
            }
            Command::BoxErased { request_id } => (!self.known(request_id)?.in_box).then(|| {
                ErasureEvent::BoxErased(log::ErasureBoxErased {
                    request_id: request_id.clone(),
                })
            }),
            Command::BoxGone { request_id } => (!self.known(request_id)?.in_box).then(|| {
                ErasureEvent::BoxGone(log::ErasureBoxGone {
                    request_id: request_id.clone(),
                })
            }),
        };
        Ok(event.into_iter().collect())
    }

    fn evolve(mut self, event: &ErasureEvent) -> Result<Self, IllegalTransition> {
        let taken = match event {
            ErasureEvent::Requested(asked) => self.requested(asked),
            ErasureEvent::ReplicaErased(done) => self
                .requests
                .get_mut(&done.request_id)
                .map(|request| request.in_replica = true),
            ErasureEvent::BoxErased(log::ErasureBoxErased { request_id })
            | ErasureEvent::BoxGone(log::ErasureBoxGone { request_id }) => self
                .requests
                .get_mut(request_id)
                .map(|request| request.in_box = true),
        };
        match taken {
            Some(()) => Ok(self),
            None => Err(IllegalTransition {
                state: format!("{} requests", self.requests.len()),
                event: event.kind().name(),
            }),
        }
    }

    fn pick(payload: Payload) -> Option<ErasureEvent> {
        ErasureEvent::pick(payload)
    }
}

impl State {
    fn requested(&mut self, asked: &log::ErasureRequested) -> Option<()> {
        let request = Request {
            request_id: asked.request_id.clone(),
            box_id: asked.box_id.clone(),
            box_log: LogId::from_slice(&asked.box_log)?,
            positions: asked.positions.clone(),
            reason: asked.reason.clone(),
            in_replica: false,
            in_box: false,
        };
        let known = self.requests.insert(asked.request_id.clone(), request);
        known.is_none().then_some(())
    }
}
