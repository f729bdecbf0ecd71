//! What an event makes of the state.

use cocoonbox_events::{Aggregate, IllegalTransition, Payload, RoutineEvent as Event};

use super::{
    command::{Command, Rejection},
    state::{Life, Prompted, Run, State, is_failure},
};

impl Aggregate for State {
    type Command = Command;
    type Event = Event;
    type Rejection = Rejection;

    fn decide(&self, command: &Command) -> Result<Vec<Event>, Rejection> {
        self.decided(command)
    }

    fn evolve(mut self, event: &Event) -> Result<Self, IllegalTransition> {
        if self.takes(event) {
            Ok(self)
        } else {
            let run = if self.run.is_some() { ", running" } else { "" };
            Err(IllegalTransition {
                state: format!("{:?}{run}", self.life).to_lowercase(),
                event: event.kind().name(),
            })
        }
    }

    fn pick(payload: Payload) -> Option<Event> {
        Event::pick(payload)
    }
}

impl State {
    /// Takes an event in, if it can follow.
    fn takes(&mut self, event: &Event) -> bool {
        let is_open = self.life == Life::Open;
        match event {
            Event::Created(created) if self.life == Life::Absent => {
                *self = Self {
                    life: Life::Open,
                    routine_id: created.routine_id.clone(),
                    agent_id: created.agent_id.clone(),
                    definition: created.definition.clone().unwrap_or_default(),
                    next_us: created.next_us,
                    ..Self::default()
                };
                true
            }
            Event::Changed(changed) if is_open => {
                self.definition = changed.definition.clone().unwrap_or_default();
                self.next_us = changed.next_us;
                self.failures = 0;
                true
            }
            Event::PromptSet(set) if is_open => {
                self.prompt.clone_from(&set.prompt);
                true
            }
            Event::Paused(paused) if is_open && self.paused.is_none() => {
                self.paused = Some(paused.reason());
                true
            }
            Event::Resumed(resumed) if is_open && self.paused.is_some() => {
                self.paused = None;
                self.failures = 0;
                self.next_us = resumed.next_us;
                true
            }
            Event::RunStarted(started) if is_open && self.run.is_none() => {
                self.run = Some(Run {
                    run_id: started.run_id.clone(),
                    due_us: started.due_us,
                    until_us: started.until_us,
                    wakes: started.wakes,
                    prompted: None,
                });
                self.next_us = started.next_us;
                true
            }
            Event::RunPrompted(prompted) => match &mut self.run {
                Some(run) if run.run_id == prompted.run_id && run.prompted.is_none() => {
                    run.prompted = Some(Prompted {
                        prompt_id: prompted.prompt_id.clone(),
                        offset_key: prompted.offset_key.clone(),
                    });
                    true
                }
                _ => false,
            },
            Event::RunEnded(ended) if self.run_of(&ended.run_id).is_some() => {
                self.run = None;
                self.runs = self.runs.saturating_add(1);
                self.failures = if is_failure(ended.outcome()) {
                    self.failures.saturating_add(1)
                } else {
                    0
                };
                true
            }
            Event::Missed(missed) if is_open => {
                self.next_us = missed.next_us;
                true
            }
            Event::Deleted(_) if is_open => {
                self.life = Life::Deleted;
                self.next_us = 0;
                true
            }
            Event::Created(_)
            | Event::Changed(_)
            | Event::PromptSet(_)
            | Event::Paused(_)
            | Event::Resumed(_)
            | Event::RunStarted(_)
            | Event::RunEnded(_)
            | Event::Missed(_)
            | Event::Deleted(_) => false,
        }
    }
}
