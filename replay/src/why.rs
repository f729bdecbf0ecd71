//! What led to an event, and what it led to.

mod index;
mod links;

use std::{collections::HashSet, sync::Arc};

use cocoonbox_events::{EventId, LogId, Store};
use serde_json::{Value, json};

use self::index::Index;
pub use self::links::Via;
use crate::{error::Error, line::Line};

/// Events in one tree: more than anybody reads. A tree that is cut says so.
const NODES_MAX: usize = 1_000;

type Place = (LogId, u64);

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
    /// What is first says a cause that is in no log here.
    pub missing_cause: Option<EventId>,
    pub effects: Vec<Effect>,
    /// There are more causes or effects than are named here.
    pub more: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub log: LogId,
    /// How it is tied to what is above it.
    pub via: Via,
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

    /// Draws the tree with the names of the logs; the event that was asked about is marked with `*`.
    ///
    /// `│` goes on from the line above it; where several things came of one event, each has a branch.
    pub fn text(&self, name: &dyn Fn(LogId) -> String) -> String {
        let mut lines = Vec::new();
        if let Some(cause) = self.missing_cause {
            lines.push(format!("  (caused by {cause}, which is in no log here)"));
        }
        let last = self.causes.len().saturating_sub(1);
        for (depth, node) in self.causes.iter().enumerate() {
            let mark = if depth == last { '*' } else { ' ' };
            let branch = if depth == 0 { "" } else { "│ " };
            lines.push(format!("{mark} {branch}{}", node.text(name)));
        }
        draw(&self.effects, "", name, &mut lines);
        if self.more {
            lines.push(format!("  (and more; {NODES_MAX} are shown)"));
        }
        lines.join("\n")
    }
}

impl Node {
    fn text(&self, name: &dyn Fn(LogId) -> String) -> String {
        let via = match self.via.as_str() {
            "" => String::new(),
            via => format!("({via}) "),
        };
        let line = self.line.to_string();
        format!("{via}{} {}", name(self.log), line.trim_start())
    }

    fn to_json(&self) -> Value {
        json!({
            "log": self.log.to_string(),
            "via": self.via_json(),
            "event": self.line.to_json(),
        })
    }

    fn via_json(&self) -> &'static str {
        match self.via {
            Via::Cause => "cause",
            via => via.as_str(),
        }
    }
}

impl Effect {
    fn to_json(&self) -> Value {
        let mut value = self.node.to_json();
        let effects: Vec<_> = self.effects.iter().map(Self::to_json).collect();
        value["effects"] = Value::Array(effects);
        value
    }
}

fn draw(effects: &[Effect], indent: &str, name: &dyn Fn(LogId) -> String, lines: &mut Vec<String>) {
    if let [only] = effects {
        lines.push(format!("  {indent}│ {}", only.node.text(name)));
        draw(&only.effects, indent, name, lines);
        return;
    }
    for (index, effect) in effects.iter().enumerate() {
        let (branch, below) = if index + 1 == effects.len() {
            ("└─ ", "   ")
        } else {
            ("├─ ", "│  ")
        };
        lines.push(format!("  {indent}{branch}{}", effect.node.text(name)));
        draw(&effect.effects, &format!("{indent}{below}"), name, lines);
    }
}

/// Builds the causation tree of one event over all logs of the store, by the causes that headers name
/// and, where they name none, by ids. Reads every log and keeps about 100 bytes of each event in
/// memory: ten million events take a gigabyte.
pub async fn why(
    store: &Arc<dyn Store>,
    target: Target,
    see: &mut (dyn FnMut(u64) + Send),
) -> Result<Why, Error> {
    let index = Index::build(store, see).await?;
    let target = match target {
        Target::Pos(log, pos) => {
            let tail = store.tail(log).map_err(Error::read(log))?.pos;
            if pos == 0 || pos > tail {
                return Err(Error::NoSuchPosition { log, pos, tail });
            }
            (log, pos)
        }
        Target::Event(event) => index.find(event).ok_or(Error::NoSuchEvent { event })?,
    };
    let line = index.line(target, NODES_MAX);
    let mut seen: HashSet<Place> = line.iter().map(|(place, _)| *place).collect();
    let mut causes = Vec::with_capacity(line.len());
    for (place, via) in line.iter().rev() {
        causes.push(read(store, *place, *via).await?);
    }
    let is_whole = line.last().is_none_or(|(first, _)| {
        index
            .above(*first)
            .is_none_or(|(above, _)| seen.contains(&above))
    });
    let missing_cause = match causes.first() {
        Some(first) if index.above((first.log, first.line.pos)).is_none() => {
            first.line.cause.parse().ok()
        }
        _ => None,
    };
    let (effects, more) = grow(store, &index, target, &mut seen).await?;
    Ok(Why {
        causes,
        missing_cause,
        effects,
        more: more || !is_whole,
    })
}

/// Returns all that came of the event at `root`, breadth first up to the limit.
async fn grow(
    store: &Arc<dyn Store>,
    index: &Index,
    root: Place,
    seen: &mut HashSet<Place>,
) -> Result<(Vec<Effect>, bool), Error> {
    let mut order: Vec<(Place, usize)> = vec![(root, 0)];
    let mut nodes = Vec::new();
    let mut more = false;
    let mut at = 0;
    while at < order.len() && !more {
        for (next, via) in index.below(order[at].0) {
            if nodes.len() == NODES_MAX {
                more = true;
                break;
            }
            if seen.insert(next) {
                order.push((next, at));
                nodes.push(read(store, next, via).await?);
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
    Ok((effects.swap_remove(0), more))
}

async fn read(store: &Arc<dyn Store>, (log, pos): Place, via: Via) -> Result<Node, Error> {
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
        via,
        line: Line::of(event),
    })
}
