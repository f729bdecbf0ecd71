//! Routines and runs in words.

use cocoonbox_proto::{
    control::v1::{Routine, RoutineRun},
    log::v1::{
        agent_turn_ended, routine_missed,
        routine_run_ended::{self, Outcome},
    },
};

use super::plan;
use crate::text;

/// When it is due next, and why it may not be.
pub(super) fn when(routine: &Routine) -> String {
    match (routine.state.as_str(), routine.next_ms) {
        ("running", 0) => "it runs".to_owned(),
        ("running", next) => format!("it runs, and is due again at {}", text::moment(next)),
        ("paused", _) if routine.paused_because.is_empty() => "it is paused".to_owned(),
        ("paused", _) => format!("it is paused: {}", because(&routine.paused_because)),
        (_, 0) => "it is over".to_owned(),
        (_, next) => format!("it is due at {}", text::moment(next)),
    }
}

fn because(why: &str) -> &str {
    match why {
        "failing" => "five runs in a row came to nothing",
        "erased" => "its prompt was erased",
        other => other,
    }
}

pub(super) fn row(routine: &Routine) -> Vec<String> {
    let plan = plan(routine);
    let due = match routine.next_ms {
        0 => "-".to_owned(),
        next => text::moment(next),
    };
    let last = routine.last_run.as_ref();
    vec![
        plan.name.clone(),
        routine.state.clone(),
        due,
        schedule(routine),
        last.map_or_else(|| "never".to_owned(), outcome),
        routine.box_id.clone(),
    ]
}

fn schedule(routine: &Routine) -> String {
    let plan = plan(routine);
    match (plan.cron.as_str(), plan.zone.as_str()) {
        ("", _) => format!("once, {}", text::moment(plan.at_ms)),
        (cron, "") => format!("{cron} (UTC)"),
        (cron, zone) => format!("{cron} ({zone})"),
    }
}

pub(super) fn lines(routine: &Routine) -> Vec<String> {
    let plan = plan(routine);
    vec![
        format!("name    {}", plan.name),
        format!("id      {}", routine.id),
        format!("box     {}", routine.box_id),
        format!("agent   {}", routine.agent_id),
        format!("state   {}", when(routine)),
        format!("when    {}", schedule(routine)),
        format!("limit   {} s", plan.run_ms_max / 1_000),
        format!("prompt  {}", text::short(&text::plain(&plan.prompt), 200)),
    ]
}

pub(super) fn run(run: &RoutineRun) -> Vec<String> {
    let due = match run.due_ms {
        0 => "asked for".to_owned(),
        due => text::moment(due),
    };
    let started = match run.started_ms {
        0 => "-".to_owned(),
        at => text::moment(at),
    };
    let took = match (run.started_ms, run.ended_ms) {
        (0, _) | (_, 0) => "-".to_owned(),
        (started, ended) => format!("{} s", (ended - started).max(0) / 1_000),
    };
    vec![due, started, took, outcome(run)]
}

fn outcome(run: &RoutineRun) -> String {
    match run.missed() {
        routine_missed::Reason::Unspecified => {}
        routine_missed::Reason::Late => return "missed: too late".to_owned(),
        routine_missed::Reason::Busy => return "missed: the run before went on".to_owned(),
    }
    let word = match run.outcome() {
        Outcome::Unspecified => return "runs".to_owned(),
        Outcome::Done => "done",
        Outcome::Failed => "failed",
        Outcome::Cancelled => "cancelled",
        Outcome::TimedOut => "timed out",
        Outcome::Waiting => "waits for a person or a budget",
        Outcome::Unreached => "the box was not reached",
        Outcome::Lost => "undone by a rewind",
    };
    let turn = run.turn();
    let why = match (run.outcome(), turn) {
        (routine_run_ended::Outcome::Failed, agent_turn_ended::Outcome::Failed) => String::new(),
        (routine_run_ended::Outcome::Failed, _) => turn.as_str_name().to_lowercase(),
        _ => run.reason.clone(),
    };
    if why.is_empty() {
        word.to_owned()
    } else {
        format!("{word}: {why}")
    }
}
