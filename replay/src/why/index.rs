//! Which event is above which, over all logs of a store.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use cocoonbox_events::{EventId, LogId, LogKind, Recorded, Store, StreamName};

use super::{
    Place,
    links::{Name, Reader, Via, Whom},
};
use crate::{error::Error, pages::Pages};

/// Every event has one event above it at most. About a hundred bytes of each event are kept.
pub(super) struct Index {
    reader: Reader,
    tails: HashMap<LogId, u64>,
    /// By name, then in the order they were read in.
    names: Vec<(Name, Place)>,
    /// By the event below.
    above: Vec<(Place, Place, Via)>,
    /// By the event above.
    below: Vec<(Place, Place, Via)>,
}

/// What an event says of what is above it, before it is known where that is.
struct Claim {
    place: Place,
    cause: Option<Name>,
    /// The cause is no more than the event before it in its stream.
    is_previous: bool,
    follows: Option<(Whom, Via)>,
}

impl Index {
    pub(super) async fn build(
        store: &Arc<dyn Store>,
        see: &mut (dyn FnMut(u64) + Send),
    ) -> Result<Self, Error> {
        let mut reader = Reader::default();
        let (mut names, mut claims) = (Vec::new(), Vec::new());
        let mut count = 0;
        let mut logs = store.logs();
        // Account logs first: they say whose log is whose.
        logs.sort_by_key(|log| log.kind == LogKind::Box);
        for log in logs {
            let mut last: HashMap<StreamName, Name> = HashMap::new();
            // What a branch inherits is in its parent's log.
            let start = log.parent.map_or(0, |parent| parent.pos);
            let mut pages = Pages::of_log(store, log.id, start)?;
            while let Some(events) = pages.next().await? {
                for event in &events {
                    take(&mut reader, event, &mut last, &mut names, &mut claims);
                }
                count += events.len() as u64;
                see(count);
            }
        }
        // Stable: the first of a name stays the first.
        names.sort_by_key(|(name, _)| *name);
        let tails = store.logs();
        let tails = tails.iter().map(|log| (log.id, log.tail.pos));
        let mut index = Self {
            reader,
            tails: tails.collect(),
            names,
            above: Vec::new(),
            below: Vec::new(),
        };
        for claim in claims {
            if let Some((place, via)) = index.resolve(&claim) {
                index.above.push((claim.place, place, via));
                index.below.push((place, claim.place, via));
            }
        }
        index.above.sort_unstable();
        index.below.sort_unstable();
        Ok(index)
    }

    /// Where an event is. The first one counts: a box may repeat ids, which must not hide others' events.
    pub(super) fn find(&self, event: EventId) -> Option<Place> {
        self.first(self.reader.event(event.as_bytes()))
    }

    pub(super) fn above(&self, place: Place) -> Option<(Place, Via)> {
        let at = self.above.partition_point(|(below, ..)| *below < place);
        let (below, above, via) = self.above.get(at)?;
        (*below == place).then_some((*above, *via))
    }

    pub(super) fn below(&self, place: Place) -> impl Iterator<Item = (Place, Via)> {
        let at = self.below.partition_point(|(above, ..)| *above < place);
        self.below[at..]
            .iter()
            .take_while(move |(above, ..)| *above == place)
            .map(|(_, below, via)| (*below, *via))
    }

    fn resolve(&self, claim: &Claim) -> Option<(Place, Via)> {
        let cause = claim.cause.and_then(|name| self.first(name));
        let linked = || {
            let (whom, via) = claim.follows?;
            let place = match whom {
                Whom::Name(name) => self.last_before(name, claim.place)?,
                // What a log says of another's positions may be wrong.
                Whom::Place(place) => {
                    let tail = *self.tails.get(&place.0)?;
                    (place.1 > 0 && place.1 <= tail).then_some(place)?
                }
            };
            Some((place, via))
        };
        match cause {
            Some(cause) if claim.is_previous => linked().or(Some((cause, Via::Cause))),
            Some(cause) => Some((cause, Via::Cause)),
            None => linked(),
        }
    }

    fn first(&self, name: Name) -> Option<Place> {
        let at = self.names.partition_point(|(found, _)| *found < name);
        let (found, place) = self.names.get(at)?;
        (*found == name).then_some(*place)
    }

    /// The nearest of that name in front of `place`, or the first in another log: a vendor may use the
    /// id of a tool call again.
    fn last_before(&self, name: Name, place: Place) -> Option<Place> {
        let at = self.names.partition_point(|(found, _)| *found < name);
        let places = self.names[at..]
            .iter()
            .take_while(|(found, _)| *found == name)
            .map(|(_, place)| *place);
        let mut nearest = None;
        for found in places.filter(|found| *found != place) {
            match nearest {
                _ if found.0 == place.0 && found.1 < place.1 => nearest = Some(found),
                None if found.0 != place.0 => nearest = Some(found),
                _ => {}
            }
        }
        nearest
    }

    /// The line from `place` up to what has nothing above it, `place` first.
    pub(super) fn line(&self, place: Place, limit: usize) -> Vec<(Place, Via)> {
        let mut line = vec![(place, Via::Cause)];
        // A log may be written by a hostile box: it must not send us in circles.
        let mut seen = HashSet::from([place]);
        let mut at = place;
        while let Some((above, via)) = self.above(at)
            && seen.insert(above)
            && line.len() < limit
        {
            if let Some(last) = line.last_mut() {
                last.1 = via;
            }
            line.push((above, Via::Cause));
            at = above;
        }
        line
    }
}

fn take(
    reader: &mut Reader,
    event: &Recorded,
    last: &mut HashMap<StreamName, Name>,
    names: &mut Vec<(Name, Place)>,
    claims: &mut Vec<Claim>,
) {
    let place: Place = (event.log, event.pos);
    let header = event.header();
    let links = reader.read(event);
    names.extend(links.names.into_iter().map(|name| (name, place)));
    let own = (!header.event_id.is_empty()).then(|| reader.event(&header.event_id));
    names.extend(own.map(|name| (name, place)));
    let cause = (!header.cause.is_empty()).then(|| reader.event(&header.cause));
    let previous = match own {
        Some(own) => last.insert(event.stream.clone(), own),
        None => last.remove(&event.stream),
    };
    if cause.is_some() || links.follows.is_some() {
        claims.push(Claim {
            place,
            cause,
            is_previous: cause.is_some() && cause == previous,
            follows: links.follows,
        });
    }
}
