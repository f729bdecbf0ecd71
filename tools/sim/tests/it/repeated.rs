//! One seed is one run.

use cocoonbox_sim::Run;

#[test]
fn a_seed_gives_the_same_run_twice() {
    for seed in 1..=8 {
        let (first, second) = (Run::new(seed).go(), Run::new(seed).go());
        assert_eq!(first.trace.hash(), second.trace.hash(), "seed {seed}");
        assert_eq!(first.steps, second.steps, "seed {seed}");
        assert_eq!(first.events, second.events, "seed {seed}");
        assert_eq!(first.violation, second.violation, "seed {seed}");
    }
}

#[test]
fn another_seed_gives_another_run() {
    let hashes: std::collections::BTreeSet<String> = (1..=8)
        .map(|seed| Run::new(seed).go().trace.hash())
        .collect();
    assert_eq!(hashes.len(), 8);
}

#[test]
fn a_run_is_not_empty() {
    let outcome = Run::new(1).go();
    assert!(outcome.events > 50, "{} events", outcome.events);
    assert!(outcome.logs > 4, "{} logs", outcome.logs);
    assert!(outcome.trace.lines().count() > 50);
}
