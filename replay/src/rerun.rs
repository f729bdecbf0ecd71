//! A recorded conversation, decided again.
//!
//! Everything that came from outside (prompts, replies, chunks, failures, results, answers, cancels,
//! restarts) is taken from the record, with the ids that were drawn then, and sent through this build's
//! decider. What it decides must be what is recorded, byte for byte. So a change of the decider shows
//! in every recorded history that it would have changed.

mod commands;

use std::{collections::VecDeque, fmt::Write, sync::Arc};

use cocoonbox_commands::agent::State;
use cocoonbox_events::{AgentEvent, Aggregate, LogId, Payload, Recorded, Store, StreamName};
use serde_json::{Value, json};

use self::commands::commands_for;
use crate::{
    error::Error,
    fields::{FieldChange, compare},
    line::{Line, event_json},
    pages::Pages,
};

/// Events that one command can lead to: so far ahead has to be read before it is compared.
const LOOK_AHEAD: usize = cocoonbox_events::limits::APPEND_EVENTS_MAX;

/// What came of a rerun.
#[derive(Clone, Debug, PartialEq)]
pub struct Rerun {
    pub log: LogId,
    pub stream: StreamName,
    /// Events that were decided again and are the same.
    pub same: u64,
    /// Events whose payload is erased: passed over.
    pub erased: u64,
    /// Appends that are recorded only in part, as the end of a replica leaves them.
    pub cut: u64,
    /// Nothing behind it was looked at.
    pub divergence: Option<Box<Divergence>>,
}

/// The first event that would be another one.
#[derive(Clone, Debug, PartialEq)]
pub struct Divergence {
    pub pos: u64,
    /// What was sent to the decider.
    pub command: &'static str,
    pub recorded: Line,
    pub produced: Produced,
}

/// What this build decides in its place.
#[derive(Clone, Debug, PartialEq)]
pub enum Produced {
    Event { kind: &'static str, payload: Value },
    Nothing,
    Rejected(String),
}

impl Divergence {
    /// What is otherwise in the event, where both are of one kind; empty where they are not.
    pub fn fields(&self) -> Vec<FieldChange> {
        match &self.produced {
            Produced::Event { kind, payload } if *kind == self.recorded.kind => {
                compare(&self.recorded.payload, payload)
            }
            Produced::Event { .. } | Produced::Nothing | Produced::Rejected(_) => Vec::new(),
        }
    }

    fn to_json(&self) -> Value {
        let produced = match &self.produced {
            Produced::Event { kind, payload } => json!({"kind": kind, "payload": payload}),
            Produced::Nothing => Value::Null,
            Produced::Rejected(why) => json!({ "rejected": why }),
        };
        json!({
            "pos": self.pos,
            "command": self.command,
            "recorded": self.recorded.to_json(),
            "produced": produced,
            "fields": self.fields().iter().map(FieldChange::to_json).collect::<Vec<_>>(),
        })
    }

    fn text(&self) -> String {
        let got = match &self.produced {
            Produced::Event { kind, payload } => format!("{kind} {payload}"),
            Produced::Nothing => "nothing".to_owned(),
            Produced::Rejected(why) => format!("a rejection: {why}"),
        };
        let Self {
            pos,
            command,
            recorded,
            ..
        } = self;
        let mut text = format!("at {pos}, `{command}` was decided otherwise");
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  expected {} {}", recorded.kind, recorded.payload);
        let _ = write!(text, "\n  got      {got}");
        for field in self.fields() {
            let path = if field.path.is_empty() {
                String::new()
            } else {
                format!("{}: ", field.path)
            };
            for (mark, value) in [('-', &field.before), ('+', &field.after)] {
                if !value.is_null() {
                    let _ = write!(text, "\n    {mark} {path}{value}");
                }
            }
        }
        text
    }
}

impl Rerun {
    pub fn is_same(&self) -> bool {
        self.divergence.is_none()
    }

    pub fn to_json(&self) -> Value {
        json!({
            "log": self.log.to_string(),
            "stream": self.stream.as_str(),
            "same": self.is_same(),
            "events": self.same,
            "erased": self.erased,
            "cut": self.cut,
            "divergence": self.divergence.as_ref().map(|found| found.to_json()),
        })
    }

    /// Says it for people.
    pub fn text(&self) -> String {
        let mut text = match &self.divergence {
            None => format!("same: {} events", self.same),
            Some(_) => format!("parts after {} events", self.same),
        };
        // Writing to a string cannot fail.
        if self.erased > 0 {
            let _ = write!(text, ", {} erased", self.erased);
        }
        if self.cut > 0 {
            let _ = write!(text, ", {} appends cut", self.cut);
        }
        if let Some(found) = &self.divergence {
            let _ = write!(text, "\n{}", found.text());
        }
        text
    }
}

/// Decides a recorded agent stream again.
pub async fn rerun(
    store: &Arc<dyn Store>,
    log: LogId,
    stream: &StreamName,
) -> Result<Rerun, Error> {
    if !stream.as_str().starts_with("agent/") {
        return Err(Error::NotAnAggregate {
            stream: stream.clone(),
        });
    }
    let mut pages = Pages::of_stream(store, log, stream)?;
    let mut run = Run {
        state: State::default(),
        report: Rerun {
            log,
            stream: stream.clone(),
            same: 0,
            erased: 0,
            cut: 0,
            divergence: None,
        },
        ahead: VecDeque::new(),
    };
    let mut more = true;
    let mut any = false;
    loop {
        while more && run.ahead.len() < LOOK_AHEAD {
            match pages.next().await? {
                Some(events) => run.ahead.extend(events),
                None => more = false,
            }
        }
        any |= !run.ahead.is_empty();
        if !run.step()? {
            break;
        }
    }
    if any {
        Ok(run.report)
    } else {
        Err(Error::NoSuchStream {
            log,
            stream: stream.clone(),
        })
    }
}

struct Run {
    state: State,
    report: Rerun,
    ahead: VecDeque<Recorded>,
}

impl Run {
    /// Decides what led to the next recorded event; `false` at the end or where they part.
    fn step(&mut self) -> Result<bool, Error> {
        let Some(first) = self.ahead.front() else {
            return Ok(false);
        };
        let Some(recorded) = agent_event(first)? else {
            self.report.erased += 1;
            self.ahead.pop_front();
            return Ok(true);
        };
        let then = match self.ahead.get(1) {
            Some(then) => agent_event(then)?,
            None => None,
        };
        let commands = commands_for(&self.state, &recorded, then.as_ref());
        let mut last = None;
        for (name, command) in commands {
            match self.state.decide(&command) {
                Ok(events) if self.matching(&events) > 0 => return self.accept(name, &events),
                other => last = Some((name, other)),
            }
        }
        let (name, produced) = match last {
            Some((name, Ok(events))) => (name, produced(events.first())),
            Some((name, Err(why))) => (name, Produced::Rejected(why.to_string())),
            None => ("none", Produced::Nothing),
        };
        self.part(0, name, produced);
        Ok(false)
    }

    /// Returns how many of the events are recorded next, one after the other.
    fn matching(&self, events: &[AgentEvent]) -> usize {
        let same = |(event, recorded): &(&AgentEvent, &Recorded)| {
            let payload: Payload = (*event).clone().into();
            let (kind, bytes) = payload.encode();
            kind.number() == recorded.kind
                && recorded
                    .body
                    .as_ref()
                    .is_some_and(|body| body.payload == bytes)
        };
        events.iter().zip(&self.ahead).take_while(same).count()
    }

    fn accept(&mut self, name: &'static str, events: &[AgentEvent]) -> Result<bool, Error> {
        let count = self.matching(events);
        let whole = count == events.len();
        // The rest of an append that was never recorded, or another decision in the middle of it.
        let is_cut = match (self.ahead.get(count - 1), self.ahead.get(count)) {
            (Some(last), Some(next)) => last.header().command_id != next.header().command_id,
            _ => true,
        };
        for event in &events[..count] {
            let Some(recorded) = self.ahead.front() else {
                break;
            };
            self.state = std::mem::take(&mut self.state)
                .evolve(event)
                .map_err(|illegal| Error::Illegal {
                    stream: self.report.stream.clone(),
                    pos: recorded.pos,
                    event: illegal.event,
                    state: illegal.state,
                })?;
            self.report.same += 1;
            self.ahead.pop_front();
        }
        if whole {
            return Ok(true);
        }
        if is_cut {
            self.report.cut += 1;
            return Ok(true);
        }
        self.part(0, name, produced(events.get(count)));
        Ok(false)
    }

    fn part(&mut self, ahead: usize, command: &'static str, produced: Produced) {
        let Some(recorded) = self.ahead.get(ahead) else {
            return;
        };
        let (pos, recorded) = (recorded.pos, Line::of(recorded));
        self.report.divergence = Some(Box::new(Divergence {
            pos,
            command,
            recorded,
            produced,
        }));
    }
}

fn produced(event: Option<&AgentEvent>) -> Produced {
    event.map_or(Produced::Nothing, |event| {
        let payload: Payload = event.clone().into();
        Produced::Event {
            kind: payload.kind().name(),
            payload: event_json(&payload),
        }
    })
}

fn agent_event(recorded: &Recorded) -> Result<Option<AgentEvent>, Error> {
    let (log, pos) = (recorded.log, recorded.pos);
    let payload = recorded
        .payload()
        .map_err(|source| Error::Decode { log, pos, source })?;
    Ok(payload.and_then(AgentEvent::pick))
}
