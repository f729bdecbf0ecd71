//! What an erasure would do, before it does anything.

use cocoonbox_proto::log::v1::Husk;

use super::{ERASED, Erasable, POSITIONS_MAX, husk};
use crate::{
    id::{LogId, StreamName},
    limits::{PAGE_EVENTS_MAX, PAYLOAD_BYTES_MAX},
    record::Recorded,
    registry::Kind,
    store::{ReadError, Store},
};

/// What of the positions asked for goes, what stays, and what is left of what goes.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub erased: Vec<Erased>,
    pub kept: Vec<Kept>,
    pub husks: Vec<Husk>,
}

/// An event whose payload goes.
#[derive(Clone, Debug)]
pub struct Erased {
    pub event: Recorded,
    pub kind: Kind,
}

/// An event whose payload stays.
#[derive(Clone, Debug)]
pub struct Kept {
    pub event: Recorded,
    pub why: Refusal,
}

/// Why a payload is not erased.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("`{kind}` is structure: {why}")]
    Structure {
        kind: &'static str,
        why: &'static str,
    },
    /// What is under way stands on every word.
    #[error("stream `{stream}` is at work; erase once that has ended")]
    AtWork { stream: StreamName },
    /// The other log is written on, and has to say itself what is gone of it.
    #[error("it was written in log {log}, from which this one branched off; erase it there")]
    Inherited { log: LogId },
    #[error("this build does not know what stands on it")]
    Unknown,
}

#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error("{positions} positions in one request; {POSITIONS_MAX} fit")]
    TooMany { positions: usize },
    #[error(
        "what is left of these payloads has {bytes} bytes and does not fit an event; ask for fewer at once"
    )]
    TooLarge { bytes: usize },
    #[error("reading the log")]
    Read(#[from] ReadError),
}

/// Looks at the positions. Those outside of the log and those that are erased already are passed over.
/// What was inherited of a log that was left goes as well: this branch speaks for it.
pub async fn plan(
    store: &dyn Store,
    log: LogId,
    mut positions: Vec<u64>,
) -> Result<Plan, PlanError> {
    if positions.len() > POSITIONS_MAX {
        return Err(PlanError::TooMany {
            positions: positions.len(),
        });
    }
    positions.sort_unstable();
    positions.dedup();
    let mut plan = Plan::default();
    let mut positions = positions.into_iter().filter(|pos| *pos > 0).peekable();
    while let Some(first) = positions.next() {
        let page = store.read(log, first - 1, PAGE_EVENTS_MAX).await?;
        let Some(last) = page.events.last().map(|event| event.pos) else {
            break;
        };
        let mut wanted = vec![first];
        while let Some(next) = positions.next_if(|pos| *pos <= last) {
            wanted.push(next);
        }
        for event in page.events {
            if wanted.binary_search(&event.pos).is_ok() && event.body.is_some() {
                let speaks = event.log == log || store.info(event.log)?.moved_to.is_some();
                plan.add(speaks, event);
            }
        }
    }
    Ok(plan)
}

impl Plan {
    pub fn positions(&self) -> Vec<u64> {
        self.erased.iter().map(|erased| erased.event.pos).collect()
    }

    /// Checks that what is left fits an event. Half of one: the positions and the reason have to fit, too.
    pub fn check_size(&self) -> Result<(), PlanError> {
        let bytes = self.husks.iter().map(husk_bytes).sum();
        if bytes > PAYLOAD_BYTES_MAX / 2 {
            return Err(PlanError::TooLarge { bytes });
        }
        Ok(())
    }

    /// Keeps an event that was planned to go.
    pub fn keep(&mut self, refuse: impl Fn(&Recorded) -> Option<Refusal>) {
        let mut going = Vec::with_capacity(self.erased.len());
        for erased in self.erased.drain(..) {
            match refuse(&erased.event) {
                None => going.push(erased),
                Some(why) => {
                    self.husks.retain(|husk| husk.pos != erased.event.pos);
                    self.kept.push(Kept {
                        event: erased.event,
                        why,
                    });
                }
            }
        }
        self.erased = going;
        self.kept.sort_by_key(|kept| kept.event.pos);
    }

    fn add(&mut self, speaks: bool, event: Recorded) {
        if !speaks {
            let why = Refusal::Inherited { log: event.log };
            return self.kept.push(Kept { event, why });
        }
        let Some(kind) = Kind::from_number(event.kind) else {
            return self.kept.push(Kept {
                event,
                why: Refusal::Unknown,
            });
        };
        match kind.erasable() {
            Erasable::Structure { why } => {
                let kind = kind.name();
                self.kept.push(Kept {
                    event,
                    why: Refusal::Structure { kind, why },
                });
            }
            Erasable::Loose => self.erased.push(Erased { event, kind }),
            Erasable::Husk => {
                let left = event.payload().ok().flatten();
                let Some(left) = left.as_ref().and_then(husk) else {
                    return self.kept.push(Kept {
                        event,
                        why: Refusal::Unknown,
                    });
                };
                let (_, payload) = left.encode();
                self.husks.push(Husk {
                    pos: event.pos,
                    version: kind.version(),
                    payload,
                });
                self.erased.push(Erased { event, kind });
            }
        }
    }
}

fn husk_bytes(husk: &Husk) -> usize {
    husk.payload.len() + 2 * ERASED.len()
}
