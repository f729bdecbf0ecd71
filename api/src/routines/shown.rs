//! Routines and runs as callers see them.

use cocoonbox_commands::routine::State;
use cocoonbox_events::{Payload, Recorded, RoutineEvent};
use cocoonbox_projections::{RoutineRow, RunRow};
use cocoonbox_proto::{
    control::v1::{Routine, RoutinePlan, RoutineRun},
    log::v1::routine_paused::Reason,
};

pub(super) fn routine(state: &State, row: &RoutineRow) -> Routine {
    let definition = &state.definition;
    let shown = if state.run.is_some() {
        "running"
    } else if state.paused.is_some() {
        "paused"
    } else if state.next_us == 0 {
        "over"
    } else {
        "scheduled"
    };
    let because = match state.paused {
        Some(Reason::Failing) => "failing",
        Some(Reason::Erased) => "erased",
        Some(Reason::Asked | Reason::Unspecified) | None => "",
    };
    Routine {
        id: state.routine_id.clone(),
        box_id: definition.box_id.clone(),
        plan: Some(RoutinePlan {
            name: definition.name.clone(),
            prompt: state.prompt.clone(),
            cron: definition.cron.clone(),
            zone: definition.zone.clone(),
            at_ms: definition.at_us / 1_000,
            run_ms_max: definition.run_ms_max,
        }),
        agent_id: state.agent_id.clone(),
        state: shown.to_owned(),
        paused_because: because.to_owned(),
        next_ms: state.due_us().unwrap_or(0) / 1_000,
        last_run: row.last.as_ref().map(last),
        offset_key: row.offset_key.clone(),
    }
}

fn last(run: &RunRow) -> RoutineRun {
    RoutineRun {
        run_id: run.run_id.clone(),
        due_ms: run.due_us / 1_000,
        started_ms: run.started_ms,
        ended_ms: run.ended_ms,
        outcome: run.outcome,
        turn: run.turn,
        reason: run.reason.clone(),
        ..RoutineRun::default()
    }
}

/// Puts runs together from the events of a routine, oldest first.
pub(super) fn runs(events: &[Recorded]) -> Vec<RoutineRun> {
    let mut runs: Vec<RoutineRun> = Vec::new();
    for event in events {
        let at_ms = event.recorded_us / 1_000;
        let Ok(Some(Payload::Routine(of_routine))) = event.payload() else {
            continue;
        };
        match of_routine {
            RoutineEvent::RunStarted(started) => runs.push(RoutineRun {
                run_id: started.run_id,
                due_ms: started.due_us / 1_000,
                started_ms: at_ms,
                ..RoutineRun::default()
            }),
            RoutineEvent::RunPrompted(prompted) => {
                if let Some(run) = find(&mut runs, &prompted.run_id) {
                    run.box_offset_key = prompted.offset_key;
                }
            }
            RoutineEvent::RunEnded(ended) => {
                if let Some(run) = find(&mut runs, &ended.run_id) {
                    run.ended_ms = at_ms;
                    run.outcome = ended.outcome;
                    run.turn = ended.turn;
                    run.reason = ended.reason;
                }
            }
            RoutineEvent::Missed(missed) => runs.push(RoutineRun {
                due_ms: missed.due_us / 1_000,
                ended_ms: at_ms,
                missed: missed.reason,
                ..RoutineRun::default()
            }),
            RoutineEvent::Created(_)
            | RoutineEvent::PromptSet(_)
            | RoutineEvent::Changed(_)
            | RoutineEvent::Paused(_)
            | RoutineEvent::Resumed(_)
            | RoutineEvent::Deleted(_) => {}
        }
    }
    runs
}

fn find<'a>(runs: &'a mut [RoutineRun], run_id: &str) -> Option<&'a mut RoutineRun> {
    runs.iter_mut().rev().find(|run| run.run_id == run_id)
}
