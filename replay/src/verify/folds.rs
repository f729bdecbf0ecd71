//! The aggregates of one log, and what its events say of other logs.

use std::collections::BTreeMap;

use cocoonbox_events::{
    BoxEvent, ChainHash, Kind, LogId, LogInfo, LogKind, Payload, Recorded, StreamName,
    erasure::Erasable,
};

use super::anchors::Anchor;
use crate::aggregate::Known;

#[derive(Default)]
pub(super) struct Folds {
    streams: BTreeMap<StreamName, Slot>,
    pub(super) broken: Vec<(u64, String)>,
    pub(super) anchors: Vec<Anchor>,
}

enum Slot {
    Live(Box<Known>),
    /// Nothing can follow; its state, with all output that was kept, is let go.
    Ended,
    /// Reported once, or with an event that cannot be read: what follows says nothing.
    Broken,
}

impl Folds {
    /// Streams with an aggregate.
    pub(super) fn count(&self) -> u64 {
        self.streams.len() as u64
    }

    pub(super) fn take(&mut self, info: &LogInfo, event: &Recorded, payload: Option<&Payload>) {
        if info.kind == LogKind::Account
            && let Some(Payload::Box(BoxEvent::LogAnchored(anchored))) = payload
            && let Some(box_log) = LogId::from_slice(&anchored.box_log)
            && let Some(chain) = ChainHash::from_slice(&anchored.chain)
        {
            self.anchors.push(Anchor {
                at: event.pos,
                box_log,
                pos: anchored.pos,
                chain,
            });
        }
        // A branch begins in the middle of its streams: what is before it is the parent's.
        if info.parent.is_some() {
            return;
        }
        let slot = match self.streams.get_mut(&event.stream) {
            Some(slot) => slot,
            None => {
                let Some(known) = Known::of(&event.stream) else {
                    return;
                };
                self.streams
                    .entry(event.stream.clone())
                    .or_insert_with(|| Slot::Live(Box::new(known)))
            }
        };
        let known = match slot {
            Slot::Live(known) => known,
            Slot::Broken => return,
            Slot::Ended => {
                let what = format!(
                    "event {} of stream `{}` follows its end",
                    event.pos, event.stream
                );
                self.broken.push((event.pos, what));
                *slot = Slot::Broken;
                return;
            }
        };
        let Some(payload) = payload else {
            // Of an unknown kind, or erased with nothing left: what follows may stand on it.
            if !is_loose(event) {
                *slot = Slot::Broken;
            }
            return;
        };
        match known.apply(event, payload.clone()) {
            Ok(()) if known.has_ended() => *slot = Slot::Ended,
            Ok(()) => {}
            Err(error) => {
                self.broken.push((event.pos, error.to_string()));
                *slot = Slot::Broken;
            }
        }
    }
}

/// Whether nothing stands on the payload of this kind.
fn is_loose(event: &Recorded) -> bool {
    let kind = Kind::from_number(event.kind);
    kind.is_some_and(|kind| kind.erasable() == Erasable::Loose)
}
