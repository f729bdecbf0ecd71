//! What an event makes of the state.

use cocoonbox_events::{Aggregate, BudgetEvent, IllegalTransition, Payload};
use cocoonbox_proto::log::v1 as log;

use super::{
    decide::{Command, Rejection},
    state::{Amount, Budget, Key, Limit, Reservation, State},
};

impl Aggregate for State {
    type Command = Command;
    type Event = BudgetEvent;
    type Rejection = Rejection;

    fn decide(&self, command: &Command) -> Result<Vec<BudgetEvent>, Rejection> {
        self.decided(command)
    }

    fn evolve(mut self, event: &BudgetEvent) -> Result<Self, IllegalTransition> {
        let fits = match event {
            BudgetEvent::Set(event) => self.take_set(event),
            BudgetEvent::Cleared(event) => self.budgets.remove(&event.number).is_some(),
            BudgetEvent::Reserved(event) => self.take_reserved(event),
            BudgetEvent::Settled(event) => {
                self.take_settled(event);
                true
            }
            BudgetEvent::Expired(event) => match self.reservations.remove(&event.reservation_id) {
                Some(held) => {
                    self.count(&held.numbers, &held.day, held.amount, Amount::default());
                    true
                }
                None => false,
            },
            BudgetEvent::Exceeded(event) => match self.budgets.get_mut(&event.number) {
                Some(budget) => {
                    budget.exceeded = Some(event.day.clone());
                    true
                }
                None => false,
            },
        };
        if fits {
            Ok(self)
        } else {
            Err(IllegalTransition {
                state: format!("{} budgets", self.budgets.len()),
                event: event.kind().name(),
            })
        }
    }

    fn pick(payload: Payload) -> Option<BudgetEvent> {
        BudgetEvent::pick(payload)
    }
}

impl State {
    fn take_set(&mut self, event: &log::BudgetSet) -> bool {
        let scope = event.scope.clone().unwrap_or_default();
        let key = Key {
            imposed: event.imposed,
            box_id: scope.box_id,
            agent_id: scope.agent_id,
            per_day: event.per_day,
        };
        let limit = Limit {
            tokens: event.tokens_max,
            micros: event.micros_max,
        };
        if let Some(budget) = self.budgets.get_mut(&event.number) {
            budget.limit = limit;
            budget.exceeded = None;
            return budget.key == key;
        }
        if event.number <= self.numbers {
            return false;
        }
        self.numbers = event.number;
        let budget = Budget {
            number: event.number,
            key,
            limit,
            ..Budget::default()
        };
        self.budgets.insert(event.number, budget);
        true
    }

    fn take_reserved(&mut self, event: &log::BudgetReserved) -> bool {
        for number in &event.numbers {
            if let Some(budget) = self.budgets.get_mut(number) {
                budget.exceeded = None;
            }
        }
        let held = Reservation {
            amount: event.amount.into(),
            numbers: event.numbers.clone(),
            day: event.day.clone(),
            expires_us: event.expires_us,
        };
        let id = event.reservation_id.clone();
        self.reservations.insert(id, held).is_none()
    }

    /// A reservation that has expired was counted in full, so its settlement takes that back.
    fn take_settled(&mut self, event: &log::BudgetSettled) {
        let is_open = self.reservations.remove(&event.reservation_id).is_some();
        let counted = if is_open {
            Amount::default()
        } else {
            event.reserved.into()
        };
        self.count(&event.numbers, &event.day, event.used.into(), counted);
    }

    fn count(&mut self, numbers: &[u32], day: &str, used: Amount, counted: Amount) {
        for number in numbers {
            let Some(budget) = self.budgets.get_mut(number) else {
                continue; // Cleared since.
            };
            if budget.key.per_day && day < budget.day.as_str() {
                continue; // Of a day that is over.
            }
            if budget.key.per_day && day > budget.day.as_str() {
                budget.used = Amount::default();
            }
            if day > budget.day.as_str() {
                day.clone_into(&mut budget.day);
            }
            budget.used = budget.used.plus(used).minus(counted);
        }
    }
}
