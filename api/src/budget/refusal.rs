//! A decider's no, in words for people and agents.

use cocoonbox_commands::budget::{Amount, Budget, Rejection, State};
use cocoonbox_events::day;

use crate::gateway::Refusal;

/// So often an agent may ask again: a budget may be raised at any time.
const RETRY_S_MAX: u64 = 300;
/// Calls under way end soon, and most use less than they reserved.
const RETRY_RESERVED_S: u64 = 5;
/// A log that cannot be read or written.
const RETRY_UNKNOWN_S: u64 = 5;

const SECOND_US: i64 = 1_000_000;

/// Words a rejection of a reservation.
pub(super) fn of_rejection(rejection: &Rejection, now_us: i64) -> Refusal {
    let (text, retry_after_s) = match rejection {
        Rejection::Exceeded {
            budget,
            used,
            reserved,
            asked,
        } => {
            let text = format!(
                "{} has no room for this call, which may take {}: {} used, {} held by calls under way{}",
                named(budget),
                amount(budget, *asked),
                amount(budget, *used),
                amount(budget, *reserved),
                hint(budget, *asked),
            );
            let waits_for_others = budget.limit.holds(used.plus(*asked));
            let retry = if waits_for_others {
                RETRY_RESERVED_S
            } else {
                patience(budget, now_us)
            };
            (text, retry)
        }
        Rejection::NoPrice { budget, model } => {
            let text = format!(
                "{} counts money, and this installation has no price for model `{}`: its operator adds one \
                 under [prices] in cocoonbox.toml",
                named(budget),
                model.escape_default(),
            );
            (text, RETRY_S_MAX)
        }
        other => (other.to_string(), RETRY_RESERVED_S),
    };
    Refusal {
        text,
        retry_after_s,
        is_budget: true,
    }
}

/// Words that a budget is used up.
pub(super) fn of_spent(state: &State, budget: &Budget, now_us: i64) -> Refusal {
    let (today, _) = day(now_us);
    let used = state.used(budget, &today);
    Refusal {
        text: format!(
            "{} is used up: {} used{}",
            named(budget),
            amount(budget, used),
            hint(budget, Amount::default()),
        ),
        retry_after_s: patience(budget, now_us),
        is_budget: true,
    }
}

/// Words that nobody knows whether there is a budget.
pub(super) fn unknown() -> Refusal {
    Refusal {
        text: "the user's budgets cannot be read or written at the moment, and no call is made without"
            .to_owned(),
        retry_after_s: RETRY_UNKNOWN_S,
        is_budget: false,
    }
}

fn patience(budget: &Budget, now_us: i64) -> u64 {
    if !budget.key.per_day {
        return RETRY_S_MAX;
    }
    let left_us = day(now_us).1.saturating_sub(now_us);
    let left_s = u64::try_from(left_us / SECOND_US).unwrap_or(0) + 1;
    left_s.min(RETRY_S_MAX)
}

fn named(budget: &Budget) -> String {
    let key = &budget.key;
    let limits = [
        budget.limit.tokens.map(|max| format!("{max} tokens")),
        budget.limit.micros.map(dollars),
    ];
    let limits: Vec<String> = limits.into_iter().flatten().collect();
    let of = match (key.box_id.as_str(), key.agent_id.as_str()) {
        ("", _) => "all boxes".to_owned(),
        (_, "") => "this box".to_owned(),
        (_, _) => "this agent".to_owned(),
    };
    let by = if key.imposed {
        ", set by an admin,"
    } else {
        ""
    };
    format!(
        "the budget of {} {} for {of}{by}",
        limits.join(" and "),
        if key.per_day { "a day" } else { "in total" },
    )
}

fn hint(budget: &Budget, asked: Amount) -> &'static str {
    if !budget.limit.holds(asked) {
        "; it is smaller than the call"
    } else if budget.key.per_day {
        "; a day begins at 00:00 UTC"
    } else {
        ""
    }
}

fn amount(budget: &Budget, amount: Amount) -> String {
    let parts = [
        budget
            .limit
            .tokens
            .map(|_| format!("{} tokens", amount.tokens)),
        budget.limit.micros.map(|_| dollars(amount.micros)),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join(" and ")
}

fn dollars(micros: u64) -> String {
    format!("${}.{:06}", micros / 1_000_000, micros % 1_000_000)
}
