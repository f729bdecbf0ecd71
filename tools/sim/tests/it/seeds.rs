//! The system as it is, over many seeds.

use cocoonbox_sim::{Run, shrink::shrink};

/// Seeds of the usual run; `SIM_SEEDS` is for longer ones.
const SEEDS: u64 = 100;

#[test]
fn no_law_is_broken() {
    let asked = std::env::var("SIM_SEEDS").ok();
    let seeds = asked.map_or(SEEDS, |text| text.parse().expect("SIM_SEEDS is a number"));
    let mut failed = Vec::new();
    for seed in 1..=seeds {
        let outcome = Run::new(seed).go();
        if outcome.violation.is_some() {
            let (run, outcome) = shrink(Run::new(seed), outcome);
            let violation = outcome.violation.expect("it was there before");
            let faults = run.faults.0;
            failed.push(format!(
                "{violation}\n  make sim SEED={seed} FAULTS={faults}"
            ));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
