//! Budgets, from a box's door to the log: one process, two, killed ones, and those whose disk is full.

mod processes;
mod through_the_door;

use std::sync::atomic::Ordering;
use std::time::Duration;

use cocoonbox_api::gateway::{Ask, Estimate, Hold, Refusal, UsageSink as _};
use cocoonbox_commands::budget::{Key, Limit};
use cocoonbox_proto::log::v1::{BudgetScope, UsageModelCalled};
use tokio::task::JoinSet;

use crate::door::channel;
use processes::{Process, Shared};

const HOUR_US: i64 = 3_600_000_000;
const DAY_US: i64 = 24 * HOUR_US;

fn everything(per_day: bool) -> Key {
    Key {
        per_day,
        ..Key::default()
    }
}

fn tokens(max: u64) -> Limit {
    Limit {
        tokens: Some(max),
        micros: None,
    }
}

fn ask(tokens: u64) -> Ask {
    Ask {
        by: BudgetScope {
            box_id: "box-1".into(),
            agent_id: "agent-1".into(),
        },
        model: "claude-sonnet-4-5".into(),
        estimate: Estimate {
            input_tokens: tokens,
            output_tokens: 0,
        },
    }
}

fn used(tokens: u64) -> UsageModelCalled {
    UsageModelCalled {
        box_id: "box-1".into(),
        vendor: "anthropic".into(),
        model: "claude-sonnet-4-5".into(),
        input_tokens: tokens,
        status: 200,
        complete: true,
        ..UsageModelCalled::default()
    }
}

impl Process {
    async fn reserve(&self, tokens: u64) -> Result<Hold, Refusal> {
        let hold = self.ledger.reserve(ask(tokens), &channel()).await?;
        Ok(hold.expect("a budget speaks of it"))
    }

    async fn settle(&self, hold: Hold, tokens: u64) {
        self.ledger
            .settle(used(tokens), Some(hold), &channel())
            .await;
    }

    /// Returns the tokens used and reserved of the only budget.
    async fn counted(&self) -> (u64, u64) {
        let state = self.books.state("ada").await.unwrap();
        let budget = state.budgets.values().next().unwrap();
        let (today, _) = cocoonbox_events::day(self.now_us());
        let (used, reserved) = (state.used(budget, &today), state.reserved(budget, &today));
        (used.tokens, reserved.tokens)
    }
}

/// Both ask for ten times what there is, at the same time; what is settled gives room, and never too much.
async fn no_two_can_have_what_is_there_once(one: Process, two: Process) {
    one.set(everything(true), tokens(1_000)).await;
    for round in 1..=2 {
        let mut asking = JoinSet::new();
        for n in 0..24 {
            let process = if n % 2 == 0 { one.clone() } else { two.clone() };
            asking.spawn(async move { process.reserve(100).await });
        }
        let mut holds = Vec::new();
        while let Some(asked) = asking.join_next().await {
            match asked.unwrap() {
                Ok(hold) => holds.push(hold),
                Err(refusal) => {
                    assert!(refusal.is_budget, "{refusal:?}");
                    assert!(refusal.text.contains("1000 tokens a day"), "{refusal:?}");
                }
            }
        }
        // The second round finds the half that the first did not use.
        assert_eq!(holds.len(), if round == 1 { 10 } else { 5 });
        let mut settling = JoinSet::new();
        for (n, hold) in holds.into_iter().enumerate() {
            // By whichever process: the call's end is a fact.
            let process = if n % 2 == 0 { two.clone() } else { one.clone() };
            settling.spawn(async move { process.settle(hold, 50).await });
        }
        while let Some(settled) = settling.join_next().await {
            settled.unwrap();
        }
        assert_eq!(one.counted().await, two.counted().await);
    }
    assert_eq!(one.counted().await, (750, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_ledgers_over_one_store_do_not_overspend() {
    let shared = Shared::new().await;
    no_two_can_have_what_is_there_once(shared.process(), shared.process()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_on_postgresql_do_not_overspend() {
    let url = cocoonbox_postgres::shared().database().unwrap();
    let one = Shared::at(&url, None).await;
    one.process().make_ada().await;
    let two = Shared::at(&url, Some(&one)).await;
    no_two_can_have_what_is_there_once(one.process(), two.process()).await;
}

#[tokio::test]
async fn a_process_killed_between_reserve_and_settle_frees_nothing() {
    let shared = Shared::new().await;
    let dead = shared.process();
    dead.set(everything(false), tokens(100)).await;
    let hold = dead.reserve(70).await.unwrap();
    drop(dead);
    let next = shared.process();
    assert_eq!(next.counted().await, (0, 70));
    let refusal = next.reserve(31).await.unwrap_err();
    assert_eq!(refusal.retry_after_s, 5, "{refusal:?}");
    // After an hour nobody will settle it: it counts as used, and the answer says that waiting is no use.
    shared.clock_by(HOUR_US);
    next.reserve(30).await.unwrap();
    assert_eq!(next.counted().await, (70, 30));
    let refusal = next.reserve(31).await.unwrap_err();
    assert_eq!(refusal.retry_after_s, 300, "{refusal:?}");
    // Unless it was not dead but slow.
    next.settle(hold, 20).await;
    assert_eq!(next.counted().await, (20, 30));
}

#[tokio::test]
async fn a_day_ends_while_a_call_goes_on() {
    let shared = Shared::new().await;
    let process = shared.process();
    process.set(everything(true), tokens(100)).await;
    // One minute before midnight.
    shared.clock_by(DAY_US - 60_000_000);
    let hold = process.reserve(100).await.unwrap();
    let late = process.reserve(1).await.unwrap_err();
    assert_eq!(late.retry_after_s, 5, "the call may use less");
    process.settle(hold, 100).await;
    let late = process.reserve(1).await.unwrap_err();
    assert!(late.retry_after_s <= 61, "{late:?}");
    shared.clock_by(60_000_000);
    let next_day = process.reserve(100).await.unwrap();
    // A clock that goes back gives neither day's room again.
    shared.clock_by(-120_000_000);
    process.reserve(1).await.unwrap_err();
    process.settle(next_day, 100).await;
    process.reserve(1).await.unwrap_err();
    shared.clock_by(DAY_US + 120_000_000);
    process.reserve(100).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_at_settlement_is_waited_for_and_frees_nothing() {
    let shared = Shared::new().await;
    let process = shared.process();
    process.set(everything(false), tokens(100)).await;
    let hold = process.reserve(60).await.unwrap();
    shared.full.store(3, Ordering::SeqCst);
    process.settle(hold, 10).await;
    assert_eq!(
        process.counted().await,
        (10, 0),
        "it was written in the end"
    );

    let hold = process.reserve(60).await.unwrap();
    shared.full.store(u64::MAX, Ordering::SeqCst);
    let began = tokio::time::Instant::now();
    process.settle(hold, 10).await;
    assert!(began.elapsed() < Duration::from_mins(1));
    // No room is found in a log that cannot be written, and it is not said that a budget is at fault.
    let refusal = process.reserve(1).await.unwrap_err();
    assert!(!refusal.is_budget, "{refusal:?}");
    shared.full.store(0, Ordering::SeqCst);
    assert_eq!(process.counted().await, (10, 60));
}

#[tokio::test]
async fn money_is_counted_by_the_price_and_refused_without_one() {
    let shared = Shared::new().await;
    let process = shared.process();
    let dollar = Limit {
        tokens: None,
        micros: Some(1_000_000),
    };
    process.set(everything(false), dollar).await;
    let hold = process.reserve(100_000).await.unwrap();
    assert_eq!(
        hold.reservation.amount.micros, 375_000,
        "as if all were cached"
    );
    process.settle(hold, 100_000).await;
    let state = process.books.state("ada").await.unwrap();
    assert_eq!(state.budgets[&1].used.micros, 300_000);
    let unknown = Ask {
        model: "somebody's".into(),
        ..ask(1)
    };
    let refusal = process
        .ledger
        .reserve(unknown, &channel())
        .await
        .unwrap_err();
    assert!(
        refusal.text.contains("no price for model `somebody\\'s`"),
        "{refusal:?}"
    );
    assert!(refusal.is_budget);
}

#[tokio::test]
async fn a_refusal_is_in_the_log_once() {
    let shared = Shared::new().await;
    let process = shared.process();
    process.set(everything(true), tokens(100)).await;
    for _ in 0..5 {
        process.reserve(101).await.unwrap_err();
    }
    assert_eq!(process.kinds().await, ["budget.set", "budget.exceeded"]);
    process.reserve(10).await.unwrap();
    process.reserve(101).await.unwrap_err();
    assert_eq!(
        process.kinds().await[2..],
        ["budget.reserved", "budget.exceeded"]
    );
}

#[tokio::test]
async fn without_a_budget_nothing_is_written_before_a_call() {
    let shared = Shared::new().await;
    let process = shared.process();
    let free = process.ledger.reserve(ask(1_000_000), &channel()).await;
    assert_eq!(free.unwrap(), None);
    process.ledger.settle(used(5), None, &channel()).await;
    assert!(process.kinds().await.is_empty());
}
