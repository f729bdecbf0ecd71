//! From commands to events.

use cocoonbox_events::CapsuleEvent;
use cocoonbox_proto::log::v1 as log;

use super::{Command, Rejection, SLICES, State};

type Decision = Result<Vec<CapsuleEvent>, Rejection>;

pub(super) fn decide(state: &State, command: &Command) -> Decision {
    match command {
        Command::SetRule(rule) if !rule.is_sound() => Err(Rejection::BadRule),
        Command::SetRule(rule) if *rule == state.rule => Ok(Vec::new()),
        Command::SetRule(rule) => Ok(vec![CapsuleEvent::RuleSet(log::CapsuleRuleSet {
            all_hours: rule.all_hours,
            hourly_days: rule.hourly_days,
            daily_days: rule.daily_days,
            weekly_days: rule.weekly_days,
        })]),
        Command::RequestSweep { sweep_id, reason } => {
            if sweep_id.is_empty() {
                return Err(Rejection::Empty { field: "sweep_id" });
            }
            if state.owed.is_some() {
                return Ok(Vec::new());
            }
            let requested = log::CapsuleSweepRequested {
                sweep_id: sweep_id.clone(),
                reason: (*reason).to_owned(),
            };
            Ok(vec![CapsuleEvent::SweepRequested(requested)])
        }
        Command::ExportKey { token_id } if token_id.is_empty() => {
            Err(Rejection::Empty { field: "token_id" })
        }
        Command::ExportKey { token_id } => {
            let exported = log::CapsuleKeyExported {
                token_id: token_id.clone(),
            };
            Ok(vec![CapsuleEvent::KeyExported(exported)])
        }
        Command::Plan(planned) => {
            owed(state, &planned.sweep_id)?;
            Ok(vec![CapsuleEvent::SweepPlanned(planned.clone())])
        }
        Command::Swept(swept) => {
            owed(state, &swept.sweep_id)?;
            Ok(vec![CapsuleEvent::Swept(swept.clone())])
        }
        Command::Fail {
            sweep_id,
            reason,
            ended_ms,
        } => {
            owed(state, sweep_id)?;
            Ok(vec![CapsuleEvent::SweepFailed(log::CapsuleSweepFailed {
                sweep_id: sweep_id.clone(),
                reason: (*reason).to_owned(),
                ended_ms: *ended_ms,
            })])
        }
        Command::Checked(checked) => {
            if checked.of != SLICES || checked.slice != state.next_slice {
                let slice = checked.slice;
                return Err(Rejection::NotNext { slice });
            }
            Ok(vec![CapsuleEvent::Checked(checked.clone())])
        }
    }
}

fn owed(state: &State, sweep_id: &str) -> Result<(), Rejection> {
    let is_owed = state.owed.as_ref().is_some_and(|owed| owed.id == sweep_id);
    let id = sweep_id.to_owned();
    is_owed.then_some(()).ok_or(Rejection::NotOwed { id })
}
