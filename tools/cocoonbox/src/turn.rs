//! A turn, from its events to what a person sees: a pure fold.
//!
//! The text of a reply arrives in chunks and then whole. Whatever the chunks, wherever the stream was
//! resumed and however often an event comes, each part of the text comes out once.

mod children;
mod reply;

use std::collections::HashMap;

use cocoonbox_proto::log::v1::{
    Event, Image, Risk, agent_model_failed, agent_output_streamed::Part, agent_todo_set,
    agent_tool_finished::Outcome, agent_turn_ended, block,
};

use cocoonbox_events::{AgentEvent, ExecEvent, Kind, Payload};

use crate::text;

pub use agent_turn_ended::Outcome as Ending;
pub use reply::Reply;

use children::Children;

/// Wide enough for a command, narrow enough for a terminal.
const LINE: usize = 96;
/// So much of a command's line is kept while its end is not there.
const LINE_BYTES_MAX: usize = 4096;
/// Lines of a tool's result that are shown.
const RESULT_LINES: usize = 3;

/// What to do with an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// The model's own words, for standard output.
    Text(String),
    /// What happens meanwhile, for standard error.
    Note(String),
    /// A person must decide.
    Approval {
        id: String,
        /// The agent, or the subagent of it, that asks.
        agent_id: String,
        call: String,
        risk: Risk,
    },
    /// A person must answer.
    Question {
        id: String,
        agent_id: String,
        question: String,
        /// Empty: any text.
        choices: Vec<String>,
    },
    /// Somebody decided or answered, or nobody did for too long.
    Decided {
        id: String,
    },
    Ended {
        outcome: Ending,
        detail: String,
    },
}

/// Folds the events of one agent into one turn: the one that answers our prompt.
#[derive(Debug)]
pub struct Turn {
    agent_stream: String,
    prompt_id: String,
    /// Whether to show what the turn's commands print.
    verbose: bool,
    id: Option<String>,
    /// Model calls of this turn that are still out.
    calls: HashMap<String, Reply>,
    /// What the calls of this step have shown; a repeated call does not show it again.
    shown: String,
    /// Tool calls of this turn, as lines.
    tools: HashMap<String, String>,
    children: Children,
    /// Commands that run for this turn's tool calls, each with a line that is not whole yet.
    execs: HashMap<String, Vec<u8>>,
    seq: u64,
    ended: bool,
}

impl Turn {
    pub fn new(agent_id: &str, prompt_id: &str, verbose: bool) -> Self {
        Self {
            agent_stream: format!("agent/{agent_id}"),
            prompt_id: prompt_id.to_owned(),
            verbose,
            id: None,
            calls: HashMap::new(),
            shown: String::new(),
            tools: HashMap::new(),
            children: Children::default(),
            execs: HashMap::new(),
            seq: 0,
            ended: false,
        }
    }

    /// Whether the turn that answers our prompt is under way.
    pub fn is_running(&self) -> bool {
        self.id.is_some() && !self.ended
    }

    /// Takes an event and answers what is to be shown for it.
    pub fn apply(&mut self, event: &Event) -> Vec<Piece> {
        let mut pieces = Vec::new();
        if event.erased && event.stream == self.agent_stream {
            // What it said is in the whole reply, which comes; what follows must not come before it.
            self.calls.values_mut().for_each(Reply::hold);
        }
        let Some(payload) = decode(event).filter(|_| !event.erased && !self.ended) else {
            return pieces;
        };
        match payload {
            // An event that comes again says nothing further.
            Payload::Agent(agent) if event.stream == self.agent_stream && event.seq > self.seq => {
                self.seq = event.seq;
                self.agent(agent, &mut pieces);
            }
            Payload::Agent(agent) if self.is_running() => {
                if let Some(child) = self.child(&event.stream) {
                    self.children.apply(child, event.seq, agent, &mut pieces);
                }
            }
            Payload::Exec(exec) if self.verbose => self.exec(&event.stream, exec, &mut pieces),
            _ => {}
        }
        pieces
    }

    fn agent(&mut self, event: AgentEvent, pieces: &mut Vec<Piece>) {
        match event {
            AgentEvent::TurnStarted(m) if m.prompt_ids.contains(&self.prompt_id) => {
                self.id = Some(m.turn_id);
            }
            AgentEvent::TurnEnded(m) if self.is_ours(&m.turn_id) => {
                self.break_line(pieces);
                self.ended = true;
                pieces.push(Piece::Ended {
                    outcome: m.outcome(),
                    detail: m.detail,
                });
            }
            // It was told to a turn that was under way.
            AgentEvent::ModelCalled(m) if m.prompt_ids.contains(&self.prompt_id) => {
                self.id = Some(m.turn_id);
                self.calls.insert(m.call_id, Reply::default());
            }
            AgentEvent::ModelCalled(m) if self.is_ours(&m.turn_id) => {
                self.calls.insert(m.call_id, Reply::default());
            }
            AgentEvent::OutputStreamed(m) if m.part() == Part::Text => {
                if let Some(reply) = self.calls.get_mut(&m.call_id) {
                    reply.chunk(m.block, m.offset, &m.text);
                    let visible = reply.visible();
                    self.show(&visible, pieces);
                }
            }
            AgentEvent::ModelReplied(m) => {
                if let Some(mut reply) = self.calls.remove(&m.call_id) {
                    for (index, whole) in (0..).zip(m.blocks) {
                        match whole.block {
                            Some(block::Block::Text(text)) => reply.whole(index, text.text),
                            Some(block::Block::ToolUse(tool)) => {
                                let line = call_line(&tool.name, &tool.args_json);
                                self.tools.insert(tool.tool_call_id, line);
                            }
                            Some(block::Block::Thinking(_) | block::Block::Vendor(_)) | None => {}
                        }
                    }
                    let visible = reply.visible();
                    self.show(&visible, pieces);
                    self.break_line(pieces);
                    self.shown.clear();
                }
            }
            AgentEvent::ModelFailed(m) => {
                if self.calls.remove(&m.call_id).is_some() {
                    let (reason, detail) =
                        (failure_words(m.reason()), text::short(&m.detail, LINE));
                    let then = match (m.retryable, m.retry_after_ms) {
                        (false, _) => String::new(),
                        (true, 0) => "; asking again".to_owned(),
                        (true, ms) => format!("; asking again in {} s", ms.div_ceil(1000)),
                    };
                    let detail = if detail.is_empty() {
                        detail
                    } else {
                        format!(" ({detail})")
                    };
                    pieces.push(Piece::Note(format!("▪ {reason}{detail}{then}")));
                }
            }
            AgentEvent::ToolCalled(m) if self.is_ours(&m.turn_id) => {
                let line = call_line(&m.name, &m.args_json);
                pieces.push(Piece::Note(format!("▸ {line}")));
                self.tools.insert(m.tool_call_id, line);
            }
            AgentEvent::ToolFinished(m) if self.tools.contains_key(&m.tool_call_id) => {
                let lines = result_lines(m.outcome(), &m.content);
                pieces.extend(lines.into_iter().map(Piece::Note));
                pieces.extend(m.images.iter().map(picture_line).map(Piece::Note));
            }
            AgentEvent::ApprovalRequested(m) => {
                if let Some(call) = self.tools.get(&m.tool_call_id) {
                    pieces.push(Piece::Approval {
                        risk: m.risk(),
                        id: m.approval_id,
                        agent_id: self.agent_id().to_owned(),
                        call: call.clone(),
                    });
                }
            }
            AgentEvent::ApprovalExpired(m) if self.is_running() => {
                let note = "▪ nobody answered in time, so it is not run".to_owned();
                pieces.extend([Piece::Note(note), Piece::Decided { id: m.approval_id }]);
            }
            AgentEvent::QuestionAsked(m) if self.tools.contains_key(&m.tool_call_id) => {
                pieces.push(Piece::Question {
                    id: m.question_id,
                    agent_id: self.agent_id().to_owned(),
                    question: m.question,
                    choices: m.choices,
                });
            }
            AgentEvent::QuestionAnswered(m) if self.is_running() => {
                let note = format!("▪ answered: {}", text::short(&m.answer, LINE));
                pieces.extend([Piece::Note(note), Piece::Decided { id: m.question_id }]);
            }
            AgentEvent::TodoSet(m) if self.is_running() => {
                let lines = m.items.iter().map(todo_line);
                pieces.extend(lines.map(|line| Piece::Note(format!("  {line}"))));
            }
            AgentEvent::Compacted(m) if self.is_ours(&m.turn_id) => {
                let note = "▪ summed up what was said before, to have room".to_owned();
                pieces.push(Piece::Note(note));
            }
            AgentEvent::PromptWithdrawn(m) if m.prompt_id == self.prompt_id => {
                self.ended = true;
                let detail = "the prompt was taken back".to_owned();
                pieces.push(Piece::Ended {
                    outcome: Ending::Cancelled,
                    detail,
                });
            }
            AgentEvent::ApprovalDecided(m) if self.is_running() => {
                let word = if m.allowed { "allowed" } else { "denied" };
                pieces.push(Piece::Note(
                    format!("▪ {word} {}", m.comment).trim_end().to_owned(),
                ));
                pieces.push(Piece::Decided { id: m.approval_id });
            }
            AgentEvent::CancelRequested(m) if self.is_ours(&m.turn_id) => {
                pieces.push(Piece::Note("▪ cancelling".to_owned()));
            }
            AgentEvent::Closed(_) => {
                self.ended = true;
                let detail = "the agent was closed".to_owned();
                pieces.push(Piece::Ended {
                    outcome: Ending::Cancelled,
                    detail,
                });
            }
            AgentEvent::TurnStarted(_)
            | AgentEvent::TurnEnded(_)
            | AgentEvent::ModelCalled(_)
            | AgentEvent::OutputStreamed(_)
            | AgentEvent::ToolCalled(_)
            | AgentEvent::ToolFinished(_)
            | AgentEvent::ApprovalDecided(_)
            | AgentEvent::CancelRequested(_)
            | AgentEvent::Created(_)
            | AgentEvent::Renamed(_)
            | AgentEvent::ModelsSet(_)
            | AgentEvent::RulesSet(_)
            | AgentEvent::PromptReceived(_)
            | AgentEvent::PromptWithdrawn(_)
            | AgentEvent::Branched(_)
            | AgentEvent::BranchSelected(_)
            | AgentEvent::Instructed(_)
            | AgentEvent::Compacted(_)
            | AgentEvent::ApprovalExpired(_)
            | AgentEvent::QuestionAsked(_)
            | AgentEvent::QuestionAnswered(_)
            | AgentEvent::TodoSet(_) => {}
        }
    }

    fn exec(&mut self, stream: &str, event: ExecEvent, pieces: &mut Vec<Piece>) {
        let line = |bytes: &[u8]| Piece::Note(format!("  │ {}", String::from_utf8_lossy(bytes)));
        match event {
            ExecEvent::Started(m) if self.tools.contains_key(&m.tool_call_id) => {
                self.execs.insert(stream.to_owned(), Vec::new());
            }
            ExecEvent::OutputStreamed(m) => {
                let Some(rest) = self.execs.get_mut(stream) else {
                    return;
                };
                rest.extend(m.data);
                let end = rest
                    .iter()
                    .rposition(|byte| *byte == b'\n')
                    .map_or(0, |at| at + 1);
                // A program that prints no line ends is shown all the same.
                let end = if rest.len() > LINE_BYTES_MAX {
                    rest.len()
                } else {
                    end
                };
                let whole: Vec<u8> = rest.drain(..end).collect();
                let whole = whole.strip_suffix(b"\n").unwrap_or(&whole);
                if end > 0 {
                    pieces.extend(whole.split(|byte| *byte == b'\n').map(line));
                }
            }
            ExecEvent::Exited(_) => {
                let rest = self.execs.remove(stream).filter(|rest| !rest.is_empty());
                pieces.extend(rest.map(|rest| line(&rest)));
            }
            ExecEvent::Started(_) => {}
        }
    }

    fn agent_id(&self) -> &str {
        let id = self.agent_stream.split_once('/');
        id.map_or("", |(_, id)| id)
    }

    /// The id of the subagent of ours that a stream is of.
    fn child<'a>(&self, stream: &'a str) -> Option<&'a str> {
        let rest = stream.strip_prefix(self.agent_stream.as_str())?;
        rest.starts_with('.').then(|| &stream["agent/".len()..])
    }

    fn is_ours(&self, turn_id: &str) -> bool {
        self.id.as_deref() == Some(turn_id)
    }

    /// Shows what of `visible` was not shown before.
    fn show(&mut self, visible: &str, pieces: &mut Vec<Piece>) {
        if self.shown.starts_with(visible) {
            return;
        }
        if let Some(rest) = visible.strip_prefix(self.shown.as_str()) {
            pieces.push(Piece::Text(rest.to_owned()));
        } else {
            self.break_line(pieces);
            pieces.push(Piece::Note("▪ the answer begins again".to_owned()));
            pieces.push(Piece::Text(visible.to_owned()));
        }
        visible.clone_into(&mut self.shown);
    }

    /// Ends a line of text before something else is shown.
    fn break_line(&mut self, pieces: &mut Vec<Piece>) {
        if !self.shown.is_empty() && !self.shown.ends_with('\n') {
            pieces.push(Piece::Text("\n".to_owned()));
        }
    }
}

/// The payload of an event as a client gets it; `None` for one this build does not know.
pub fn decode(event: &Event) -> Option<Payload> {
    let kind = Kind::from_name(&event.kind)?;
    Payload::decode(kind.number(), event.version, &event.payload).ok()
}

/// A tool call on a line: the one argument that says most, else all of them.
pub fn call_line(name: &str, args_json: &str) -> String {
    let args: serde_json::Value = serde_json::from_str(args_json).unwrap_or_default();
    let argument = [
        "command",
        "cmd",
        "pattern",
        "path",
        "question",
        "description",
        "name",
    ]
    .iter()
    .find_map(|key| args.get(key).and_then(serde_json::Value::as_str))
    .unwrap_or(args_json);
    text::short(&format!("{name} {argument}"), LINE)
}

/// An item of a list of things to do.
pub fn todo_line(item: &agent_todo_set::Item) -> String {
    use agent_todo_set::item::State;
    let mark = match item.state() {
        State::Pending => ' ',
        State::InProgress => '>',
        State::Completed => 'x',
    };
    format!("[{mark}] {}", text::short(&item.text, LINE))
}

fn picture_line(image: &Image) -> String {
    let (width, height) = (image.width_px, image.height_px);
    format!(
        "  [picture, {width} x {height}; `cocoonbox agent blob {}`]",
        image.blob
    )
}

/// The first lines of a tool's result.
pub fn result_lines(outcome: Outcome, content: &str) -> Vec<String> {
    let mark = match outcome {
        Outcome::Ok => None,
        Outcome::Error => Some("failed"),
        Outcome::Interrupted => Some("interrupted, outcome unknown"),
        Outcome::Cancelled => Some("cancelled"),
        Outcome::Denied => Some("denied"),
        Outcome::Unspecified => Some("ended in a way this build does not know"),
    };
    let mut lines: Vec<String> = mark.into_iter().map(|mark| format!("  ✗ {mark}")).collect();
    let mut rest = content.lines().filter(|line| !line.trim().is_empty());
    lines.extend(
        rest.by_ref()
            .take(RESULT_LINES)
            .map(|l| format!("  {}", text::short(l, LINE))),
    );
    match rest.count() {
        0 => {}
        1 => lines.push("  … 1 more line".to_owned()),
        more => lines.push(format!("  … {more} more lines")),
    }
    lines
}

fn failure_words(reason: agent_model_failed::Reason) -> &'static str {
    use agent_model_failed::Reason;
    match reason {
        Reason::Unspecified => "the model call went wrong",
        Reason::Unreachable => "the model cannot be reached",
        Reason::RateLimited => "the model's rate limit is reached",
        Reason::Overloaded => "the model is overloaded",
        Reason::Rejected => "the model's vendor refused the request",
        Reason::Cut => "the model's answer was cut off",
        Reason::Stalled => "the model fell silent",
        Reason::Garbled => "the model's answer was garbled",
        Reason::AgentRestarted => "the agent was restarted",
        Reason::ServerError => "the model's vendor has an error",
        Reason::Budget => "waiting for budget",
        Reason::TooLong => "the conversation is too long for the model",
        Reason::NotConfigured => "no model is configured, or its key was refused",
    }
}

/// How a turn ended, in words.
pub fn ending_words(outcome: Ending) -> &'static str {
    match outcome {
        Ending::Unspecified => "the turn ended in a way this build does not know",
        Ending::Done => "done",
        Ending::Cancelled => "the turn was cancelled",
        Ending::Failed => "the turn failed",
        Ending::Refused => "the model refused",
        Ending::StepLimit => "the turn reached its limit of model calls",
        Ending::Loop => "the model went in circles",
        Ending::TokenLimit => "the agent's tokens are used up",
        Ending::OutputLimit => "the reply was cut at its output limit",
    }
}

#[cfg(test)]
mod tests;
