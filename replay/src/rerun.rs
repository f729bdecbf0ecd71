//! A recorded conversation, decided again.
//!
//! Everything that came from outside (prompts, replies, chunks, failures, results, answers, cancels,
//! restarts) is taken from the record, with the ids that were drawn then, and sent through this build's
//! decider. What it decides must be what is recorded, byte for byte. So a change of the decider shows
//! in every recorded history that it would have changed.

use std::{collections::VecDeque, fmt::Write, sync::Arc};

use cocoonbox_commands::agent::{Chunk, Command, State, UseState};
use cocoonbox_events::{AgentEvent, Aggregate, LogId, Payload, Recorded, Store, StreamName};
use cocoonbox_proto::{json, log::v1 as log};
use serde_json::{Value, json};

use crate::{error::Error, line::Line, pages::Pages};

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

impl Rerun {
    pub fn is_same(&self) -> bool {
        self.divergence.is_none()
    }

    pub fn to_json(&self) -> Value {
        let divergence = self.divergence.as_ref().map(|found| {
            let produced = match &found.produced {
                Produced::Event { kind, payload } => json!({"kind": kind, "payload": payload}),
                Produced::Nothing => Value::Null,
                Produced::Rejected(why) => json!({ "rejected": why }),
            };
            json!({
                "pos": found.pos,
                "command": found.command,
                "recorded": found.recorded.to_json(),
                "produced": produced,
            })
        });
        json!({
            "log": self.log.to_string(),
            "stream": self.stream.as_str(),
            "same": self.is_same(),
            "events": self.same,
            "erased": self.erased,
            "cut": self.cut,
            "divergence": divergence,
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
            let produced = match &found.produced {
                Produced::Event { kind, payload } => format!("{kind} {payload}"),
                Produced::Nothing => "nothing".to_owned(),
                Produced::Rejected(why) => format!("a rejection: {why}"),
            };
            let _ = write!(
                text,
                "\nrecorded {} {}\nproduced {produced}",
                found.recorded, found.recorded.payload
            );
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
        let commands = commands_for(&self.state, &recorded);
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
        let (kind, bytes) = payload.encode();
        let payload = json::render(kind.message(), &bytes).unwrap_or(Value::Null);
        Produced::Event {
            kind: kind.name(),
            payload,
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

/// Returns what can have led to an event in this state, the likelier first.
fn commands_for(state: &State, event: &AgentEvent) -> Vec<(&'static str, Command)> {
    let advance = |turn_id: &str, call_id: &str, approval_id: &str| {
        let (turn_id, call_id) = (turn_id.to_owned(), call_id.to_owned());
        (
            "advance",
            Command::Advance {
                turn_id,
                call_id,
                approval_id: approval_id.to_owned(),
            },
        )
    };
    match event.clone() {
        AgentEvent::Created(e) => {
            let approval = e.approval();
            let log::AgentCreated {
                agent_id,
                name,
                model,
                steps_max,
                ..
            } = e;
            let model = model.unwrap_or_default();
            vec![(
                "create",
                Command::Create {
                    agent_id,
                    name,
                    model,
                    approval,
                    steps_max,
                },
            )]
        }
        AgentEvent::Renamed(e) => vec![("rename", Command::Rename { name: e.name })],
        AgentEvent::Closed(_) => vec![("close", Command::Close)],
        AgentEvent::PromptReceived(e) => {
            vec![(
                "prompt",
                Command::Prompt {
                    prompt_id: e.prompt_id,
                    text: e.text,
                },
            )]
        }
        AgentEvent::TurnStarted(e) => vec![advance(&e.turn_id, "", "")],
        AgentEvent::ModelCalled(e) => vec![advance("", &e.call_id, "")],
        AgentEvent::OutputStreamed(e) => {
            let chunk = Chunk {
                block: e.block,
                part: e.part(),
                offset: e.offset,
                text: e.text.clone(),
            };
            vec![(
                "streamed",
                Command::Streamed {
                    call_id: e.call_id,
                    chunks: vec![chunk],
                },
            )]
        }
        AgentEvent::ModelReplied(e) => {
            let stop = e.stop();
            vec![(
                "replied",
                Command::Replied {
                    call_id: e.call_id,
                    blocks: e.blocks,
                    stop,
                    vendor_stop: e.vendor_stop,
                    usage: e.usage.unwrap_or_default(),
                    vendor_request_id: e.vendor_request_id,
                },
            )]
        }
        AgentEvent::ModelFailed(e) => {
            let reason = e.reason();
            let reported = (
                "model_failed",
                Command::ModelFailed {
                    call_id: e.call_id,
                    reason,
                    detail: e.detail,
                    retryable: e.retryable,
                    retry_after_ms: e.retry_after_ms,
                },
            );
            if reason == log::agent_model_failed::Reason::AgentRestarted {
                vec![("restarted", Command::Restarted), reported]
            } else {
                vec![reported]
            }
        }
        AgentEvent::ToolCalled(_) | AgentEvent::TurnEnded(_) => vec![advance("", "", "")],
        AgentEvent::ToolFinished(e) => tool_finished(state, e),
        AgentEvent::ApprovalRequested(e) => vec![advance("", "", &e.approval_id)],
        AgentEvent::ApprovalDecided(e) => {
            let log::AgentApprovalDecided {
                approval_id,
                allowed,
                comment,
            } = e;
            vec![(
                "approve",
                Command::Approve {
                    approval_id,
                    allowed,
                    comment,
                },
            )]
        }
        AgentEvent::CancelRequested(e) => vec![("cancel", Command::Cancel { turn_id: e.turn_id })],
    }
}

fn tool_finished(state: &State, event: log::AgentToolFinished) -> Vec<(&'static str, Command)> {
    let uses = state
        .turn
        .as_ref()
        .map(cocoonbox_commands::agent::Turn::uses)
        .unwrap_or_default();
    let called = uses
        .iter()
        .any(|tool| tool.tool_call_id == event.tool_call_id && tool.state == UseState::Called);
    let nothing = String::new;
    let advance = Command::Advance {
        turn_id: nothing(),
        call_id: nothing(),
        approval_id: nothing(),
    };
    if !called {
        return vec![("advance", advance)];
    }
    let outcome = event.outcome();
    let reported = (
        "tool_finished",
        Command::ToolFinished {
            tool_call_id: event.tool_call_id,
            outcome,
            content: event.content,
            exec_id: event.exec_id,
        },
    );
    if outcome == log::agent_tool_finished::Outcome::Interrupted {
        vec![("restarted", Command::Restarted), reported]
    } else {
        vec![reported]
    }
}
