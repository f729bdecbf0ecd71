//! Budgets and reservations as they stand.

use std::collections::BTreeMap;

use cocoonbox_events::day;
use cocoonbox_proto::log::v1 as log;

/// Budgets of one account. Each reservation looks at all of them.
pub const BUDGETS_MAX: usize = 100;
/// Calls of one account that are under way, or were when their process died less than an hour ago.
pub const RESERVATIONS_MAX: usize = 1_000;

/// Tokens of all four sorts together, and millionths of a dollar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    pub tokens: u64,
    pub micros: u64,
}

impl Amount {
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            micros: self.micros.saturating_add(other.micros),
        }
    }

    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_sub(other.tokens),
            micros: self.micros.saturating_sub(other.micros),
        }
    }
}

impl From<Option<log::BudgetAmount>> for Amount {
    fn from(amount: Option<log::BudgetAmount>) -> Self {
        let log::BudgetAmount { tokens, micros } = amount.unwrap_or_default();
        Self { tokens, micros }
    }
}

impl From<Amount> for log::BudgetAmount {
    fn from(Amount { tokens, micros }: Amount) -> Self {
        Self { tokens, micros }
    }
}

/// At most so much of each; `None`: any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    pub tokens: Option<u64>,
    pub micros: Option<u64>,
}

impl Limit {
    /// Whether an amount is within it.
    pub fn holds(self, amount: Amount) -> bool {
        self.tokens.is_none_or(|max| amount.tokens <= max)
            && self.micros.is_none_or(|max| amount.micros <= max)
    }
}

/// What a budget is for. There is at most one for each.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// An admin's.
    pub imposed: bool,
    /// Empty: all boxes.
    pub box_id: String,
    /// Empty: all agents.
    pub agent_id: String,
    pub per_day: bool,
}

impl Key {
    /// Whether calls of this agent in this box count in it.
    pub fn covers(&self, by: &log::BudgetScope) -> bool {
        (self.box_id.is_empty() || self.box_id == by.box_id)
            && (self.agent_id.is_empty() || self.agent_id == by.agent_id)
    }

    pub(super) fn scope(&self) -> log::BudgetScope {
        log::BudgetScope {
            box_id: self.box_id.clone(),
            agent_id: self.agent_id.clone(),
        }
    }
}

/// A limit and what was counted against it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    pub number: u32,
    pub key: Key,
    pub limit: Limit,
    /// Of `day` alone if it is per day.
    pub used: Amount,
    /// The newest day that something was counted in.
    pub day: String,
    /// The day in which a call was refused, if none has been let through since.
    pub exceeded: Option<String>,
}

/// What a call under way may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reservation {
    pub amount: Amount,
    pub numbers: Vec<u32>,
    pub day: String,
    pub expires_us: i64,
}

/// One account's budgets, folded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// By number.
    pub budgets: BTreeMap<u32, Budget>,
    /// Calls under way, by the reservation's id.
    pub reservations: BTreeMap<String, Reservation>,
    /// How many budgets there ever were.
    pub numbers: u32,
}

impl State {
    /// Returns the budget for something.
    pub fn find(&self, key: &Key) -> Option<&Budget> {
        self.budgets.values().find(|budget| budget.key == *key)
    }

    /// Returns what was used of a budget, as it counts on a day.
    pub fn used(&self, budget: &Budget, day: &str) -> Amount {
        // A day that is over counts no more. One that is ahead is another process's clock or one that was put
        // back: what was used in it goes on counting, since room must not come of a clock.
        if budget.key.per_day && budget.day.as_str() < day {
            Amount::default()
        } else {
            budget.used
        }
    }

    /// Returns what calls under way hold of a budget on a day.
    pub fn reserved(&self, budget: &Budget, day: &str) -> Amount {
        let held = self.reservations.values().filter(|held| {
            held.numbers.contains(&budget.number)
                && (!budget.key.per_day || held.day.as_str() >= day)
        });
        held.fold(Amount::default(), |sum, held| sum.plus(held.amount))
    }

    /// Returns a budget that has no room for any call of this agent in this box.
    pub fn spent(&self, by: &log::BudgetScope, now_us: i64) -> Option<&Budget> {
        let (today, _) = day(now_us);
        let one = Amount {
            tokens: 1,
            micros: 1,
        };
        self.budgets
            .values()
            .filter(|budget| budget.key.covers(by))
            .find(|budget| !budget.limit.holds(self.used(budget, &today).plus(one)))
    }

    /// Whether any budget speaks of calls of this agent in this box.
    pub fn speaks_of(&self, by: &log::BudgetScope) -> bool {
        self.budgets.values().any(|budget| budget.key.covers(by))
    }
}
