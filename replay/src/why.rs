//! What led to an event, and what it led to.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use cocoonbox_events::{EventId, LogId, Recorded, Store};
use serde_json::{Value, json};

use crate::{error::Error, line::Line, pages::Pages};

/// Events in one tree: more than anybody reads. A tree that is cut says so.
const NODES_MAX: usize = 1_000;

/// The event that is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Pos(LogId, u64),
    Event(EventId),
}

/// A causation tree: the line of causes from the first down to the target, and all that came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Why {
    /// The first cause first, the target last.
    pub causes: Vec<Node>,
    /// The target says a cause that is in no log here.
    pub missing_cause: Option<EventId>,
    pub effects: Vec<Effect>,
    /// There are more effects than are named here.
    pub more: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub log: LogId,
    pub line: Line,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    pub node: Node,
    pub effects: Vec<Effect>,
}

impl Why {
    pub fn to_json(&self) -> Value {
        json!({
            "causes": self.causes.iter().map(Node::to_json).collect::<Vec<_>>(),
            "missing_cause": self.missing_cause.map(|id| id.to_string()),
            "effects": self.effects.iter().map(Effect::to_json).collect::<Vec<_>>(),
            "more": self.more,
        })
    }

    /// Draws the tree; the event that was asked about is marked with `*`.
    pub fn text(&self) -> String {
        let mut lines = Vec::new();
        if let Some(cause) = self.missing_cause {
            lines.push(format!("  (caused by {cause}, which is in no log here)"));
        }
        let last = self.causes.len().saturating_sub(1);
        for (depth, node) in self.causes.iter().enumerate() {
            let indent = "   ".repeat(depth.saturating_sub(1));
            let branch = if depth == 0 { "" } else { "└─ " };
            let mark = if depth == last { '*' } else { ' ' };
            lines.push(format!("{mark} {indent}{branch}{}", node.text()));
        }
        draw(&self.effects, &"   ".repeat(last), &mut lines);
        if self.more {
            lines.push(format!("  (and more; {NODES_MAX} are shown)"));
        }
        lines.join("\n")
    }
}

impl Node {
    fn text(&self) -> String {
        let log = self.log.to_string();
        format!(
            "{} {}",
            &log[log.len() - 8..],
            self.line.to_string().trim_start()
        )
    }

    fn to_json(&self) -> Value {
        json!({"log": self.log.to_string(), "event": self.line.to_json()})
    }
}

impl Effect {
    fn to_json(&self) -> Value {
        let effects: Vec<_> = self.effects.iter().map(Self::to_json).collect();
        json!({"log": self.node.log.to_string(), "event": self.node.line.to_json(), "effects": effects})
    }
}

fn draw(effects: &[Effect], indent: &str, lines: &mut Vec<String>) {
    for (index, effect) in effects.iter().enumerate() {
        let is_last = index + 1 == effects.len();
        let (branch, below) = if is_last {
            ("└─ ", "   ")
        } else {
            ("├─ ", "│  ")
        };
        lines.push(format!("  {indent}{branch}{}", effect.node.text()));
        draw(&effect.effects, &format!("{indent}{below}"), lines);
    }
}

/// Builds the causation tree of one event over all logs of the store. Keeps about 100 bytes of each
/// event in memory.
pub async fn why(store: &Arc<dyn Store>, target: Target) -> Result<Why, Error> {
    let index = Index::build(store).await?;
    let target = match target {
        Target::Pos(log, pos) => {
            let tail = store.tail(log).map_err(Error::read(log))?.pos;
            if pos == 0 || pos > tail {
                return Err(Error::NoSuchPosition { log, pos, tail });
            }
            (log, pos)
        }
        Target::Event(event) => *index
            .places
            .get(&event)
            .ok_or(Error::NoSuchEvent { event })?,
    };
    let mut chain = vec![target];
    let mut missing_cause = None;
    // A log may be written by a hostile box: it must not send us in circles.
    let mut seen = HashSet::from([target]);
    let mut place = target;
    while let Some(cause) = index.causes.get(&place) {
        match index.places.get(cause) {
            Some(found) if seen.insert(*found) && chain.len() < NODES_MAX => {
                chain.push(*found);
                place = *found;
            }
            Some(_) => break,
            None => {
                missing_cause = Some(*cause);
                break;
            }
        }
    }
    chain.reverse();
    let mut causes = Vec::with_capacity(chain.len());
    for place in chain {
        causes.push(read(store, place).await?);
    }
    let mut grown = Grown {
        nodes: 0,
        more: false,
        seen,
    };
    let effects = grown.grow(store, &index, target).await?;
    Ok(Why {
        causes,
        missing_cause,
        effects,
        more: grown.more,
    })
}

type Place = (LogId, u64);

/// Which event is where, and what caused it.
#[derive(Default)]
struct Index {
    places: HashMap<EventId, Place>,
    ids: HashMap<Place, EventId>,
    causes: HashMap<Place, EventId>,
    effects: HashMap<EventId, Vec<Place>>,
}

impl Index {
    async fn build(store: &Arc<dyn Store>) -> Result<Self, Error> {
        let mut index = Self::default();
        for log in store.logs() {
            let mut pages = Pages::of_log(store, log.id, 0)?;
            while let Some(events) = pages.next().await? {
                for event in &events {
                    index.take(event);
                }
            }
        }
        Ok(index)
    }

    fn take(&mut self, event: &Recorded) {
        let place = (event.log, event.pos);
        let header = event.header();
        if let Some(id) = EventId::from_slice(&header.event_id) {
            // The first one counts: a box may repeat ids, which must not hide others' events.
            self.places.entry(id).or_insert(place);
            self.ids.insert(place, id);
        }
        if let Some(cause) = EventId::from_slice(&header.cause) {
            self.causes.insert(place, cause);
            self.effects.entry(cause).or_default().push(place);
        }
    }
}

struct Grown {
    nodes: usize,
    more: bool,
    seen: HashSet<Place>,
}

impl Grown {
    /// Returns all that came of the event at `root`, breadth first up to the limit.
    async fn grow(
        &mut self,
        store: &Arc<dyn Store>,
        index: &Index,
        root: Place,
    ) -> Result<Vec<Effect>, Error> {
        let mut order: Vec<(Place, usize)> = vec![(root, 0)];
        let mut nodes = Vec::new();
        let mut at = 0;
        while at < order.len() {
            let (place, _) = order[at];
            for next in index
                .ids
                .get(&place)
                .and_then(|id| index.effects.get(id))
                .into_iter()
                .flatten()
            {
                if self.nodes == NODES_MAX {
                    self.more = true;
                    break;
                }
                if self.seen.insert(*next) {
                    self.nodes += 1;
                    order.push((*next, at));
                    nodes.push(read(store, *next).await?);
                }
            }
            at += 1;
        }
        // From the last to the first: each one's effects are whole before it is hung up itself.
        let mut effects: Vec<Vec<Effect>> = order.iter().map(|_| Vec::new()).collect();
        for (at, node) in nodes.into_iter().enumerate().rev() {
            let (_, parent) = order[at + 1];
            let of = std::mem::take(&mut effects[at + 1]);
            effects[parent].insert(0, Effect { node, effects: of });
        }
        Ok(effects.swap_remove(0))
    }
}

async fn read(store: &Arc<dyn Store>, (log, pos): Place) -> Result<Node, Error> {
    let page = store
        .read(log, pos - 1, 1)
        .await
        .map_err(Error::read(log))?;
    let tail = pos - 1;
    let event = page
        .events
        .first()
        .ok_or(Error::NoSuchPosition { log, pos, tail })?;
    Ok(Node {
        log,
        line: Line::of(event),
    })
}
