//! What a command leads to.

use cocoonbox_events::{BudgetEvent, day};
use cocoonbox_proto::log::v1 as log;

use super::state::{Amount, BUDGETS_MAX, Budget, Key, Limit, RESERVATIONS_MAX, State};

/// Reservations that one command tells the end of: an append has its limits, and the next command goes on.
const EXPIRED_MAX: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Set {
        key: Key,
        limit: Limit,
    },
    Clear {
        key: Key,
    },
    /// Before a call. Without any budget that speaks of it there is nothing to reserve.
    Reserve {
        reservation_id: String,
        by: log::BudgetScope,
        model: String,
        tokens: u64,
        /// `None`: the model has no price.
        micros: Option<u64>,
        now_us: i64,
        expires_us: i64,
    },
    /// A call was refused for this. Writes it down once until the budget has room again.
    Refuse {
        number: u32,
        by: log::BudgetScope,
        model: String,
        asked: Amount,
        now_us: i64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("a budget needs a limit: tokens, money or both")]
    NoLimit,
    #[error("an agent is named but no box")]
    NoBox,
    #[error("an account has at most {BUDGETS_MAX} budgets")]
    TooMany,
    #[error("there is no such budget")]
    NotFound,
    #[error("budget {} does not allow it", .budget.number)]
    Exceeded {
        budget: Box<Budget>,
        used: Amount,
        reserved: Amount,
        asked: Amount,
    },
    #[error("budget {} counts money, and there is no price for model `{model}`", .budget.number)]
    NoPrice { budget: Box<Budget>, model: String },
    #[error("{RESERVATIONS_MAX} calls are under way")]
    Busy,
}

impl State {
    pub(super) fn decided(&self, command: &Command) -> Result<Vec<BudgetEvent>, Rejection> {
        match command {
            Command::Set { key, limit } => self.set(key, *limit),
            Command::Clear { key } => {
                let budget = self.find(key).ok_or(Rejection::NotFound)?;
                let number = budget.number;
                Ok(vec![BudgetEvent::Cleared(log::BudgetCleared { number })])
            }
            Command::Reserve {
                reservation_id,
                by,
                model,
                tokens,
                micros,
                now_us,
                expires_us,
            } => {
                let numbers = self.admit(by, model, *tokens, *micros, *now_us)?;
                if numbers.is_empty() {
                    return Ok(Vec::new());
                }
                let mut events = self.expired(*now_us);
                if self.reservations.len() - events.len() >= RESERVATIONS_MAX {
                    return Err(Rejection::Busy);
                }
                let amount = Amount {
                    tokens: *tokens,
                    micros: micros.unwrap_or(0),
                };
                events.push(BudgetEvent::Reserved(log::BudgetReserved {
                    reservation_id: reservation_id.clone(),
                    by: Some(by.clone()),
                    model: model.clone(),
                    amount: Some(amount.into()),
                    numbers,
                    day: day(*now_us).0,
                    expires_us: *expires_us,
                }));
                Ok(events)
            }
            Command::Refuse {
                number,
                by,
                model,
                asked,
                now_us,
            } => Ok(self.refuse(*number, by, model, *asked, *now_us)),
        }
    }

    fn set(&self, key: &Key, limit: Limit) -> Result<Vec<BudgetEvent>, Rejection> {
        if limit == Limit::default() {
            return Err(Rejection::NoLimit);
        }
        if key.box_id.is_empty() && !key.agent_id.is_empty() {
            return Err(Rejection::NoBox);
        }
        let number = match self.find(key) {
            Some(budget) if budget.limit == limit => return Ok(Vec::new()),
            Some(budget) => budget.number,
            None if self.budgets.len() >= BUDGETS_MAX => return Err(Rejection::TooMany),
            None => self.numbers.saturating_add(1),
        };
        Ok(vec![BudgetEvent::Set(log::BudgetSet {
            number,
            scope: Some(key.scope()),
            per_day: key.per_day,
            imposed: key.imposed,
            tokens_max: limit.tokens,
            micros_max: limit.micros,
        })])
    }

    /// Returns the budgets that a call counts in, if each has room for it.
    fn admit(
        &self,
        by: &log::BudgetScope,
        model: &str,
        tokens: u64,
        micros: Option<u64>,
        now_us: i64,
    ) -> Result<Vec<u32>, Rejection> {
        let (today, _) = day(now_us);
        let mut numbers = Vec::new();
        for budget in self.budgets.values().filter(|one| one.key.covers(by)) {
            if budget.limit.micros.is_some() && micros.is_none() {
                return Err(Rejection::NoPrice {
                    budget: Box::new(budget.clone()),
                    model: model.to_owned(),
                });
            }
            let asked = Amount {
                tokens,
                micros: micros.unwrap_or(0),
            };
            let used = self.used(budget, &today);
            let reserved = self.reserved(budget, &today);
            if !budget.limit.holds(used.plus(reserved).plus(asked)) {
                return Err(Rejection::Exceeded {
                    budget: Box::new(budget.clone()),
                    used,
                    reserved,
                    asked,
                });
            }
            numbers.push(budget.number);
        }
        Ok(numbers)
    }

    fn expired(&self, now_us: i64) -> Vec<BudgetEvent> {
        let expired = self
            .reservations
            .iter()
            .filter(|(_, held)| held.expires_us <= now_us);
        let event = |id: &String| {
            BudgetEvent::Expired(log::BudgetExpired {
                reservation_id: id.clone(),
            })
        };
        expired.map(|(id, _)| event(id)).take(EXPIRED_MAX).collect()
    }

    fn refuse(
        &self,
        number: u32,
        by: &log::BudgetScope,
        model: &str,
        asked: Amount,
        now_us: i64,
    ) -> Vec<BudgetEvent> {
        let (today, _) = day(now_us);
        let told = |one: &&Budget| {
            let days = one.exceeded.as_ref();
            days.is_some_and(|day| !one.key.per_day || day.as_str() >= today.as_str())
        };
        let Some(budget) = self.budgets.get(&number).filter(|one| !told(one)) else {
            return Vec::new();
        };
        vec![BudgetEvent::Exceeded(log::BudgetExceeded {
            number,
            by: Some(by.clone()),
            model: model.to_owned(),
            asked: Some(asked.into()),
            used: Some(self.used(budget, &today).into()),
            reserved: Some(self.reserved(budget, &today).into()),
            day: today,
        })]
    }
}
