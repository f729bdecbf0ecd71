//! What an event makes of the state.

use cocoonbox_events::{Aggregate, ControlEvent, IllegalTransition, Payload};
use cocoonbox_proto::log::v1::control_released::Reason;

use super::{
    decide::{Command, Rejection},
    state::{HandBack, Lease, State},
};

impl Aggregate for State {
    type Command = Command;
    type Event = ControlEvent;
    type Rejection = Rejection;

    fn decide(&self, command: &Command) -> Result<Vec<ControlEvent>, Rejection> {
        self.decided(command)
    }

    fn evolve(mut self, event: &ControlEvent) -> Result<Self, IllegalTransition> {
        let fits = match event {
            ControlEvent::Taken(taken) if self.lease.is_none() && taken.fence > self.fence => {
                self.fence = taken.fence;
                self.lease = Some(Lease {
                    lease_id: taken.lease_id.clone(),
                    fence: taken.fence,
                    user_id: taken.user_id.clone(),
                    label: taken.label.clone(),
                    idle_ms: taken.idle_ms,
                    until_us: taken.until_us,
                });
                true
            }
            ControlEvent::Taken(_) => false,
            ControlEvent::Renewed(renewed) => match &mut self.lease {
                Some(lease) if lease.fence == renewed.fence => {
                    lease.until_us = renewed.until_us;
                    true
                }
                Some(_) | None => false,
            },
            ControlEvent::Released(released) => {
                self.end(released.fence, Some(released.reason()), &released.note)
            }
            ControlEvent::Expired(expired) => self.end(expired.fence, None, ""),
        };
        if fits {
            Ok(self)
        } else {
            Err(IllegalTransition {
                state: match &self.lease {
                    Some(lease) => format!("held by lease {}", lease.fence),
                    None => format!("free after lease {}", self.fence),
                },
                event: event.kind().name(),
            })
        }
    }

    fn pick(payload: Payload) -> Option<ControlEvent> {
        ControlEvent::pick(payload)
    }
}

impl State {
    fn end(&mut self, fence: u64, reason: Option<Reason>, note: &str) -> bool {
        let Some(lease) = self.lease.take_if(|lease| lease.fence == fence) else {
            return false;
        };
        self.last = Some(HandBack {
            lease,
            reason,
            note: note.to_owned(),
        });
        true
    }
}
