use std::collections::BTreeMap;

use cocoonbox_events::{Aggregate as _, BudgetEvent, day};
use cocoonbox_proto::log::v1::{BudgetScope, BudgetSettled};
use proptest::prelude::*;

use super::*;

const DAY: i64 = 86_400_000_000;
const HOUR: i64 = 3_600_000_000;
/// 2026-11-30, 00:00 UTC.
const START: i64 = 1_795_996_800_000_000;

fn by(box_id: &str, agent_id: &str) -> BudgetScope {
    BudgetScope {
        box_id: box_id.into(),
        agent_id: agent_id.into(),
    }
}

fn key(box_id: &str, agent_id: &str, per_day: bool) -> Key {
    Key {
        imposed: false,
        box_id: box_id.into(),
        agent_id: agent_id.into(),
        per_day,
    }
}

fn tokens(max: u64) -> Limit {
    Limit {
        tokens: Some(max),
        micros: None,
    }
}

fn run(state: State, command: &Command) -> Result<State, Rejection> {
    let events = state.decide(command)?;
    Ok(events
        .iter()
        .fold(state, |state, event| state.evolve(event).unwrap()))
}

fn with(budgets: &[(Key, Limit)]) -> State {
    budgets
        .iter()
        .fold(State::default(), |state, (key, limit)| {
            let key = key.clone();
            run(state, &Command::Set { key, limit: *limit }).unwrap()
        })
}

fn reserve(id: &str, by: BudgetScope, tokens: u64, now_us: i64) -> Command {
    Command::Reserve {
        reservation_id: id.into(),
        by,
        model: "m".into(),
        tokens,
        micros: Some(tokens * 2),
        now_us,
        expires_us: now_us + HOUR,
    }
}

fn settle(state: State, id: &str, reserved: &Reservation, used: u64) -> State {
    let used = Amount {
        tokens: used,
        micros: used * 2,
    };
    let event = BudgetEvent::Settled(BudgetSettled {
        reservation_id: id.into(),
        reserved: Some(reserved.amount.into()),
        numbers: reserved.numbers.clone(),
        day: reserved.day.clone(),
        used: Some(used.into()),
    });
    state.evolve(&event).unwrap()
}

#[test]
fn two_calls_cannot_have_what_is_there_once() {
    let state = with(&[(key("", "", true), tokens(100))]);
    let state = run(state, &reserve("a", by("b", "x"), 60, START)).unwrap();
    let held = state.reservations["a"].clone();
    let refused = run(state.clone(), &reserve("b", by("b", "y"), 60, START)).unwrap_err();
    let Rejection::Exceeded { used, reserved, .. } = refused else {
        panic!("{refused}")
    };
    assert_eq!((used.tokens, reserved.tokens), (0, 60));
    // The first used less than it might have.
    let state = settle(state, "a", &held, 30);
    let state = run(state, &reserve("b", by("b", "y"), 60, START)).unwrap();
    assert_eq!(state.budgets[&1].used.tokens, 30);
}

#[test]
fn every_budget_that_speaks_of_a_call_must_hold() {
    let state = with(&[
        (key("", "", false), tokens(1_000)),
        (key("b", "", true), tokens(500)),
        (key("b", "x", true), tokens(100)),
    ]);
    assert!(run(state.clone(), &reserve("1", by("b", "x"), 101, START)).is_err());
    assert!(run(state.clone(), &reserve("1", by("b", "y"), 501, START)).is_err());
    assert!(run(state.clone(), &reserve("1", by("c", "x"), 1_001, START)).is_err());
    let state = run(state, &reserve("1", by("b", "x"), 100, START)).unwrap();
    assert_eq!(state.reservations["1"].numbers, [1, 2, 3]);
    let state = run(state, &reserve("2", by("c", "x"), 900, START)).unwrap();
    assert_eq!(state.reservations["2"].numbers, [1]);
    assert!(run(state, &reserve("3", by("c", "x"), 1, START)).is_err());
}

#[test]
fn money_needs_a_price() {
    let limit = Limit {
        tokens: None,
        micros: Some(100),
    };
    let state = with(&[(key("", "", false), limit)]);
    let call = |micros| Command::Reserve {
        reservation_id: "1".into(),
        by: by("b", ""),
        model: "unknown".into(),
        tokens: 1,
        micros,
        now_us: START,
        expires_us: START + HOUR,
    };
    let refused = run(state.clone(), &call(None)).unwrap_err();
    assert!(refused.to_string().contains("no price for model `unknown`"));
    assert!(run(state.clone(), &call(Some(100))).is_ok());
    assert!(run(state, &call(Some(101))).is_err());
}

#[test]
fn a_day_begins_anew_and_a_clock_put_back_gives_nothing() {
    let state = with(&[
        (key("", "", true), tokens(100)),
        (key("", "", false), tokens(250)),
    ]);
    let use_up = |state: State, id: &str, now| {
        let state = run(state, &reserve(id, by("b", ""), 100, now))?;
        let held = state.reservations[id].clone();
        Ok::<_, Rejection>(settle(state, id, &held, 100))
    };
    let state = use_up(state, "1", START).unwrap();
    assert!(use_up(state.clone(), "2", START + DAY - 1).is_err());
    let state = use_up(state, "2", START + DAY).unwrap();
    // Yesterday's room is gone, and so is today's.
    assert!(use_up(state.clone(), "3", START).is_err());
    // The total is 250.
    assert!(use_up(state.clone(), "3", START + 2 * DAY).is_err());
    let state = run(state, &reserve("3", by("b", ""), 50, START + 2 * DAY)).unwrap();
    assert_eq!(state.reservations.len(), 1);
}

#[test]
fn over_midnight_a_call_counts_in_the_day_that_it_began_in() {
    let state = with(&[(key("", "", true), tokens(100))]);
    let late = START + DAY - 1;
    let state = run(state, &reserve("1", by("b", ""), 80, late)).unwrap();
    let held = state.reservations["1"].clone();
    let state = run(state, &reserve("2", by("b", ""), 100, START + DAY)).unwrap();
    let second = state.reservations["2"].clone();
    let state = settle(state, "2", &second, 90);
    let state = settle(state, "1", &held, 80);
    assert_eq!(state.budgets[&1].used.tokens, 90);
}

#[test]
fn what_nobody_settles_counts_as_used() {
    let state = with(&[(key("", "", false), tokens(100))]);
    let state = run(state, &reserve("dead", by("b", ""), 70, START)).unwrap();
    let held = state.reservations["dead"].clone();
    let state = run(state, &reserve("2", by("b", ""), 30, START + HOUR)).unwrap();
    assert!(!state.reservations.contains_key("dead"));
    assert_eq!(state.budgets[&1].used.tokens, 70);
    assert!(run(state.clone(), &reserve("3", by("b", ""), 1, START + HOUR)).is_err());
    // It was not dead, only slow.
    let state = settle(state, "dead", &held, 10);
    assert_eq!(state.budgets[&1].used.tokens, 10);
}

#[test]
fn a_refusal_is_told_once_until_there_is_room() {
    let state = with(&[(key("", "", true), tokens(100))]);
    let refuse = Command::Refuse {
        number: 1,
        by: by("b", "x"),
        model: "m".into(),
        asked: Amount {
            tokens: 200,
            micros: 0,
        },
        now_us: START,
    };
    assert_eq!(state.decide(&refuse).unwrap().len(), 1);
    let state = run(state, &refuse).unwrap();
    assert!(state.decide(&refuse).unwrap().is_empty());
    let state = run(state, &reserve("1", by("b", "x"), 10, START)).unwrap();
    assert_eq!(state.decide(&refuse).unwrap().len(), 1);
}

#[test]
fn a_limit_that_changes_keeps_its_count_and_one_that_is_cleared_does_not() {
    let everything = key("", "", false);
    let state = with(&[(everything.clone(), tokens(100))]);
    let state = run(state, &reserve("1", by("b", ""), 60, START)).unwrap();
    let held = state.reservations["1"].clone();
    let state = settle(state, "1", &held, 60);
    let set = |max| Command::Set {
        key: everything.clone(),
        limit: tokens(max),
    };
    let state = run(state, &set(50)).unwrap();
    assert!(run(state.clone(), &reserve("2", by("b", ""), 1, START)).is_err());
    let clear = Command::Clear {
        key: everything.clone(),
    };
    let state = run(state, &clear).unwrap();
    assert_eq!(run(state.clone(), &clear), Err(Rejection::NotFound));
    let state = run(state, &set(50)).unwrap();
    assert_eq!((state.budgets[&2].number, state.budgets.len()), (2, 1));
    assert!(run(state, &reserve("2", by("b", ""), 50, START)).is_ok());
}

#[test]
fn what_makes_no_sense_is_refused() {
    let set = |key, limit| State::default().decide(&Command::Set { key, limit });
    assert_eq!(
        set(key("", "", true), Limit::default()),
        Err(Rejection::NoLimit)
    );
    assert_eq!(set(key("", "x", true), tokens(1)), Err(Rejection::NoBox));
    let many: Vec<_> = (0..BUDGETS_MAX)
        .map(|n| (key(&format!("b{n}"), "", true), tokens(1)))
        .collect();
    let key = key("one more", "", true);
    let limit = tokens(1);
    let full = with(&many).decide(&Command::Set { key, limit });
    assert_eq!(full, Err(Rejection::TooMany));
}

/// What processes and vendors do, in any order.
#[derive(Clone, Debug)]
enum Step {
    /// A call that asks for so much and will use so much.
    Call {
        agent: u8,
        asks: u64,
        uses: u64,
    },
    /// The oldest, or another, of the calls under way ends.
    End {
        which: usize,
    },
    /// The process of one of them is killed: nobody settles it, though the vendor counted it.
    Kill {
        which: usize,
    },
    Later {
        us: i64,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0_u8..3, 0_u64..60, 0_u64..90)
            .prop_map(|(agent, asks, uses)| Step::Call { agent, asks, uses }),
        3 => any::<usize>().prop_map(|which| Step::End { which }),
        1 => any::<usize>().prop_map(|which| Step::Kill { which }),
        // Back, a moment, over the expiry, over midnight.
        1 => prop_oneof![Just(-HOUR), Just(1), Just(2 * HOUR), Just(DAY)]
            .prop_map(|us| Step::Later { us }),
    ];
    prop::collection::vec(step, 0..80)
}

struct Flight {
    held: Reservation,
    uses: u64,
}

proptest! {
    /// The law. `true_use` is what the vendor would bill, which the state never sees for a killed call.
    #[test]
    fn no_order_of_things_overspends(steps in steps(), limit in 50_u64..300) {
        let total = key("", "", false);
        let mut state = with(&[(total.clone(), tokens(limit)), (key("b", "0", true), tokens(limit / 2))]);
        let mut flights: BTreeMap<String, Flight> = BTreeMap::new();
        let (mut now, mut n) = (START, 0);
        let mut true_use = 0_u64;
        // Beyond their estimates: of calls under way when the last one was let through, and of killed ones.
        let (mut flying, mut killed) = (0_u64, 0_u64);
        for step in steps {
            match step {
                Step::Call { agent, asks, uses } => {
                    n += 1;
                    let id = format!("r{n}");
                    let by = by("b", &agent.to_string());
                    if let Ok(next) = run(state.clone(), &reserve(&id, by, asks, now)) {
                        state = next;
                        let held = state.reservations[&id].clone();
                        flights.insert(id, Flight { held, uses });
                        // Admitted only where there was room for all of it.
                        let budget = state.find(&total).unwrap();
                        let today = day(now).0;
                        let counted = state.used(budget, &today).plus(state.reserved(budget, &today));
                        prop_assert!(counted.tokens <= limit);
                        let over = flights.values();
                        flying = over.map(|one| one.uses.saturating_sub(one.held.amount.tokens)).sum();
                        true_use += uses;
                    }
                }
                Step::End { which } | Step::Kill { which } if !flights.is_empty() => {
                    let id = flights.keys().nth(which % flights.len()).unwrap().clone();
                    let flight = flights.remove(&id).unwrap();
                    if matches!(step, Step::End { .. }) {
                        state = settle(state, &id, &flight.held, flight.uses);
                    } else {
                        killed += flight.uses.saturating_sub(flight.held.amount.tokens);
                    }
                }
                Step::End { .. } | Step::Kill { .. } => {}
                Step::Later { us } => now += us,
            }
            // Exact estimates: no overspending at all. Else by what calls at the same time were off.
            let bound = limit + flying + killed;
            prop_assert!(true_use <= bound, "{true_use} of {limit} + {flying} + {killed}");
        }
    }
}
