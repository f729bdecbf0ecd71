//! What a command leads to.

use cocoonbox_events::RoutineEvent as Event;
use cocoonbox_proto::log::v1::{self as log, RoutineDefinition, routine_paused::Reason};

use super::{
    CRON_BYTES_MAX, FAILURES_MAX, PROMPT_BYTES_MAX, REASON_BYTES_MAX, RUN_MS_MAX, RUN_MS_MIN,
    ZONE_BYTES_MAX,
    command::{Command, Rejection},
    state::{Life, State, is_failure},
};
use crate::{bounded, name};

/// Checks what can be said of a definition without a clock and the rules of time zones.
pub fn check(definition: &RoutineDefinition, prompt: &str) -> Result<(), Rejection> {
    name::check_label(&definition.name)?;
    if prompt.is_empty() || prompt.len() > PROMPT_BYTES_MAX {
        return Err(Rejection::BadPrompt);
    }
    let recurs = !definition.cron.is_empty();
    let fits = definition.cron.len() <= CRON_BYTES_MAX && definition.zone.len() <= ZONE_BYTES_MAX;
    if !fits || recurs == (definition.at_us > 0) || definition.at_us < 0 {
        return Err(Rejection::BadTime);
    }
    if !(RUN_MS_MIN..=RUN_MS_MAX).contains(&definition.run_ms_max) {
        return Err(Rejection::BadLimit);
    }
    Ok(())
}

impl State {
    pub(super) fn decided(&self, command: &Command) -> Result<Vec<Event>, Rejection> {
        if let Command::Create {
            routine_id,
            agent_id,
            definition,
            prompt,
            next_us,
        } = command
        {
            if self.life != Life::Absent {
                return Err(Rejection::Exists);
            }
            check(definition, prompt)?;
            let created = Event::Created(log::RoutineCreated {
                routine_id: routine_id.clone(),
                definition: Some(*definition.clone()),
                agent_id: agent_id.clone(),
                next_us: *next_us,
            });
            return Ok(vec![created, prompt_set(prompt)]);
        }
        match (self.life, command) {
            (Life::Absent, _) => return Err(Rejection::NotFound),
            (Life::Deleted, Command::Delete) => return Ok(Vec::new()),
            // What was under way when it was deleted has an end.
            (Life::Open, _) | (Life::Deleted, Command::Prompted { .. } | Command::End { .. }) => {}
            (Life::Deleted, _) => return Err(Rejection::Deleted),
        }
        match command {
            Command::Create { .. } => Err(Rejection::Exists),
            Command::Change {
                definition,
                prompt,
                next_us,
            } => self.change(definition, prompt, *next_us),
            Command::Pause { reason }
                if self.paused.is_some() || *reason == Reason::Unspecified =>
            {
                Ok(Vec::new())
            }
            Command::Pause { reason } => Ok(vec![paused(*reason)]),
            Command::Resume { .. } if self.paused.is_none() => Ok(Vec::new()),
            Command::Resume { .. } if self.is_erased() => Err(Rejection::Erased),
            Command::Resume { next_us } => Ok(vec![Event::Resumed(log::RoutineResumed {
                next_us: *next_us,
            })]),
            Command::Start {
                run_id,
                due_us,
                next_us,
                until_us,
                wakes,
            } => self.start(log::RoutineRunStarted {
                run_id: run_id.clone(),
                due_us: *due_us,
                next_us: *next_us,
                until_us: *until_us,
                wakes: *wakes,
            }),
            Command::Miss {
                due_us,
                next_us,
                reason,
            } => {
                if self.due_us() != Some(*due_us) {
                    return Err(Rejection::NotDue);
                }
                Ok(vec![Event::Missed(log::RoutineMissed {
                    due_us: *due_us,
                    next_us: *next_us,
                    reason: (*reason).into(),
                })])
            }
            Command::Prompted {
                run_id,
                prompt_id,
                offset_key,
            } => Ok(match self.run_of(run_id) {
                Some(run) if run.prompted.is_none() => {
                    vec![Event::RunPrompted(log::RoutineRunPrompted {
                        run_id: run_id.clone(),
                        prompt_id: prompt_id.clone(),
                        offset_key: offset_key.clone(),
                    })]
                }
                _ => Vec::new(),
            }),
            Command::End {
                run_id,
                outcome,
                turn,
                reason,
            } => Ok(self.end(log::RoutineRunEnded {
                run_id: run_id.clone(),
                outcome: (*outcome).into(),
                turn: (*turn).into(),
                reason: bounded::prefix(reason, REASON_BYTES_MAX).to_owned(),
            })),
            Command::Delete => Ok(vec![Event::Deleted(log::RoutineDeleted {})]),
        }
    }

    fn change(
        &self,
        definition: &RoutineDefinition,
        prompt: &str,
        next_us: i64,
    ) -> Result<Vec<Event>, Rejection> {
        check(definition, prompt)?;
        if definition.box_id != self.definition.box_id {
            return Err(Rejection::OtherBox);
        }
        let mut events = Vec::new();
        if *definition != self.definition || next_us != self.next_us {
            events.push(Event::Changed(log::RoutineChanged {
                definition: Some(definition.clone()),
                next_us,
            }));
        }
        if prompt != self.prompt {
            events.push(prompt_set(prompt));
        }
        Ok(events)
    }

    fn start(&self, started: log::RoutineRunStarted) -> Result<Vec<Event>, Rejection> {
        if self.run_of(&started.run_id).is_some() {
            return Ok(Vec::new());
        }
        let by_clock = started.due_us != 0;
        if by_clock && self.due_us() != Some(started.due_us) {
            return Err(Rejection::NotDue);
        }
        if let Some(run) = &self.run {
            let run_id = run.run_id.clone();
            return Err(Rejection::Running { run_id });
        }
        if self.is_erased() {
            // Nobody is there whom a refusal would tell.
            let pause = by_clock.then(|| vec![paused(Reason::Erased)]);
            return pause.ok_or(Rejection::Erased);
        }
        Ok(vec![Event::RunStarted(started)])
    }

    fn end(&self, ended: log::RoutineRunEnded) -> Vec<Event> {
        if self.run_of(&ended.run_id).is_none() {
            return Vec::new();
        }
        let is_too_much = is_failure(ended.outcome()) && self.failures + 1 >= FAILURES_MAX;
        let mut events = vec![Event::RunEnded(ended)];
        if is_too_much && self.life == Life::Open && self.paused.is_none() {
            events.push(paused(Reason::Failing));
        }
        events
    }
}

fn prompt_set(prompt: &str) -> Event {
    Event::PromptSet(log::RoutinePromptSet {
        prompt: prompt.to_owned(),
    })
}

fn paused(reason: Reason) -> Event {
    Event::Paused(log::RoutinePaused {
        reason: reason.into(),
    })
}
