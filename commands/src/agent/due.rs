//! The step that is due in a state.

use cocoonbox_proto::log::v1::{
    AgentTodoSet, Effect, ModelChoice, ModelRole, Verdict, agent_model_failed::Reason,
    agent_tool_finished::Outcome, agent_turn_ended,
};

use super::{
    asked::{self, Question},
    repeats::{self, CALLS_LOOP_AT, LOOP_AT},
    state::State,
    tools,
    turn::{Failure, Squeezed, Stage, ToolUse, Turn, UseState},
};

const CANCELLED: &str = "not run: the turn was cancelled";
const REFUSED: &str = "not run: the rules of this agent do not allow it";
const NESTED: &str = "not run: a subagent cannot start another one. Do the work yourself.";

/// The step that is due.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Due {
    StartTurn,
    CallModel {
        role: ModelRole,
        model: ModelChoice,
        attempt: u32,
    },
    Compact {
        call_id: String,
        summary: String,
        entries: usize,
    },
    CallTools(Vec<usize>),
    Ask(usize),
    Question(usize, Question),
    /// Needs nobody to run it.
    Todo(usize, AgentTodoSet),
    Finish(Vec<usize>, Outcome, String),
    EndTurn {
        outcome: agent_turn_ended::Outcome,
        detail: String,
    },
}

impl State {
    pub(super) fn due(&self) -> Option<Due> {
        let Some(turn) = &self.turn else {
            return (!self.queued.is_empty()).then_some(Due::StartTurn);
        };
        match &turn.stage {
            Stage::EndDue { .. } | Stage::CallDue { .. } | Stage::Compacting { .. }
                if turn.cancelling =>
            {
                Some(end(agent_turn_ended::Outcome::Cancelled, String::new()))
            }
            // Somebody has said something while the model came to an end: it goes on.
            Stage::EndDue {
                outcome: agent_turn_ended::Outcome::Done,
                ..
            } if self.steering().next().is_some() && turn.steps < self.steps_max => {
                Some(self.call_due(turn, None))
            }
            Stage::EndDue { outcome, detail } => Some(end(*outcome, detail.clone())),
            Stage::CallDue { failure } => Some(self.call_due(turn, failure.as_ref())),
            Stage::Calling { .. } => None,
            Stage::Compacting {
                call_id,
                summary,
                entries,
            } => Some(Due::Compact {
                call_id: call_id.clone(),
                summary: summary.clone(),
                entries: *entries,
            }),
            Stage::Tools { uses, .. } => settled(uses).or_else(|| {
                if turn.cancelling {
                    let idle = indices(uses, |tool| {
                        !tool.is_finished() && tool.state != UseState::Called
                    });
                    let finish = || Due::Finish(idle.clone(), Outcome::Cancelled, CANCELLED.into());
                    (!idle.is_empty()).then(finish)
                } else {
                    self.tool_due(uses)
                }
            }),
        }
    }

    /// Returns the prompts that enter the conversation at the next model call.
    pub(super) fn steering(&self) -> impl Iterator<Item = &super::state::Prompt> {
        self.queued.iter().filter(|prompt| prompt.steer)
    }

    fn call_due(&self, turn: &Turn, failure: Option<&Failure>) -> Due {
        match failure {
            Some(failure) if failure.role == ModelRole::Summarize => {
                let summarize = self.call(turn, ModelRole::Summarize, failure.attempt + 1);
                return summarize.unwrap_or_else(|| self.cut_due(failure));
            }
            Some(failure) if failure.reason == Reason::TooLong => {
                match turn.squeezed {
                    Squeezed::Not if self.summarizable() > 0 => {
                        let summarize = self.call(turn, ModelRole::Summarize, 1);
                        return summarize.unwrap_or_else(|| self.cut_due(failure));
                    }
                    Squeezed::Not | Squeezed::Summed => return self.cut_due(failure),
                    // Perhaps another model has more room.
                    Squeezed::Cut => {}
                }
            }
            Some(_) => {
                // The model that is tried next may have less room than the one before.
                if let Some(due) = self.squeeze(turn) {
                    return due;
                }
            }
            None => {
                if let Some(due) = self.limit_reached(turn).or_else(|| self.squeeze(turn)) {
                    return due;
                }
            }
        }
        let attempt = failure.map_or(1, |failure| failure.attempt + 1);
        self.call(turn, self.role, attempt).unwrap_or_else(|| {
            let detail = failure.map_or_else(String::new, Failure::describe);
            end(agent_turn_ended::Outcome::Failed, detail)
        })
    }

    fn call(&self, turn: &Turn, role: ModelRole, attempt: u32) -> Option<Due> {
        let model = self.candidate(role, turn)?.clone();
        Some(Due::CallModel {
            role,
            model,
            attempt,
        })
    }

    fn limit_reached(&self, turn: &Turn) -> Option<Due> {
        use agent_turn_ended::Outcome;
        if turn.steps >= self.steps_max {
            let detail = format!("{} model calls were made", turn.steps);
            return Some(end(Outcome::StepLimit, detail));
        }
        if self.tokens_max > 0 && self.tokens_used >= self.tokens_max {
            let detail = format!(
                "{} of {} tokens are used",
                self.tokens_used, self.tokens_max
            );
            return Some(end(Outcome::TokenLimit, detail));
        }
        // A word from outside may lead out of the circle.
        if self.steering().next().is_some() {
            return None;
        }
        let row = repeats::at_end(&self.history);
        let detail = if row.results >= LOOP_AT {
            format!("the same call had the same result {LOOP_AT} times in a row")
        } else if row.calls >= CALLS_LOOP_AT {
            format!("the same call was made {CALLS_LOOP_AT} times in a row")
        } else {
            return None;
        };
        Some(end(Outcome::Loop, detail))
    }

    /// Makes room where the conversation is about to fill the model's.
    fn squeeze(&self, turn: &Turn) -> Option<Due> {
        if self.history.tokens() <= self.tokens_full() {
            return None;
        }
        match turn.squeezed {
            Squeezed::Not if self.is_worth_summing() => self.call(turn, ModelRole::Summarize, 1),
            Squeezed::Not | Squeezed::Summed | Squeezed::Cut => None,
        }
    }

    fn cut_due(&self, failure: &Failure) -> Due {
        match self.cut_down() {
            Some((summary, entries)) => Due::Compact {
                call_id: String::new(),
                summary,
                entries,
            },
            None => end(agent_turn_ended::Outcome::Failed, failure.describe()),
        }
    }

    /// Looks at the uses up to the first that all later ones have to wait for.
    fn tool_due(&self, uses: &[ToolUse]) -> Option<Due> {
        let first = uses.iter().position(|tool| !tool.is_finished())?;
        let group = match uses[first].effect {
            Effect::ReadOnly => uses[first..]
                .iter()
                .take_while(|tool| tool.effect == Effect::ReadOnly)
                .count(),
            Effect::SideEffect | Effect::Unspecified => 1,
        };
        let mut ready = Vec::new();
        let mut asked = None;
        for (index, tool) in uses.iter().enumerate().skip(first).take(group) {
            let gate = match &tool.state {
                UseState::Waiting => self.gate(tool),
                UseState::Allowed { .. } => Gate::Open,
                // Only a log that was cut leaves it so: nobody runs it.
                UseState::Called if tool.name == tools::TODO => Gate::Open,
                _ => continue,
            };
            match gate {
                Gate::Shut(why) => {
                    return Some(Due::Finish(vec![index], Outcome::Denied, why.to_owned()));
                }
                Gate::Ask => asked = asked.or(Some(index)),
                Gate::Open => match tool.name.as_str() {
                    tools::ASK_USER => return Some(question(index, tool)),
                    tools::TODO => return Some(todo(index, tool)),
                    _ => ready.push(index),
                },
            }
        }
        if ready.is_empty() {
            asked.map(Due::Ask)
        } else {
            Some(Due::CallTools(ready))
        }
    }

    fn gate(&self, tool: &ToolUse) -> Gate {
        if self.is_child() && tool.name == tools::TASK {
            return Gate::Shut(NESTED);
        }
        match self.rules.verdict(tool.risk, tool.effect) {
            Verdict::Deny => Gate::Shut(REFUSED),
            Verdict::Allow => Gate::Open,
            // To ask whether a question may be asked would be one question more.
            Verdict::Ask | Verdict::Unspecified if tool.name == tools::ASK_USER => Gate::Open,
            Verdict::Ask | Verdict::Unspecified => match self.granted.get(&tool.name) {
                Some(granted) if tool.risk <= *granted => Gate::Open,
                _ => Gate::Ask,
            },
        }
    }
}

/// Whether a tool call may run.
enum Gate {
    Open,
    Ask,
    Shut(&'static str),
}

/// Finishes what was decided or answered and is not finished, which only a log that was cut leaves.
fn settled(uses: &[ToolUse]) -> Option<Due> {
    uses.iter().enumerate().find_map(|(index, tool)| {
        let (outcome, content) = match &tool.state {
            UseState::Denied { content } => (Outcome::Denied, content),
            UseState::Answered { answer } => (Outcome::Ok, answer),
            _ => return None,
        };
        Some(Due::Finish(vec![index], outcome, content.clone()))
    })
}

fn question(index: usize, tool: &ToolUse) -> Due {
    match asked::question(&tool.args_json) {
        Ok(question) => Due::Question(index, question),
        Err(why) => Due::Finish(vec![index], Outcome::Error, why),
    }
}

fn todo(index: usize, tool: &ToolUse) -> Due {
    match asked::todo(&tool.args_json) {
        Ok(todo) => Due::Todo(index, todo),
        Err(why) => Due::Finish(vec![index], Outcome::Error, why),
    }
}

fn end(outcome: agent_turn_ended::Outcome, detail: String) -> Due {
    Due::EndTurn { outcome, detail }
}

fn indices(uses: &[ToolUse], wanted: impl Fn(&ToolUse) -> bool) -> Vec<usize> {
    uses.iter()
        .enumerate()
        .filter(|(_, tool)| wanted(tool))
        .map(|(index, _)| index)
        .collect()
}
