//! From a run that fails to the least of it that still does.

use crate::{
    chaos::Faults,
    run::{Outcome, Run},
};

/// Takes out every kind of fault without which the same law still breaks.
pub fn shrink(run: Run, outcome: Outcome) -> (Run, Outcome) {
    let Some(law) = outcome.violation.as_ref().map(|found| found.law) else {
        return (run, outcome);
    };
    let (mut run, mut outcome) = (run, outcome);
    for (fault, _) in Faults::NAMES {
        if !run.faults.has(fault) {
            continue;
        }
        let fewer = Run {
            faults: run.faults.without(fault),
            ..run
        };
        let again = fewer.go();
        if again
            .violation
            .as_ref()
            .is_some_and(|found| found.law == law)
        {
            (run, outcome) = (fewer, again);
        }
    }
    (run, outcome)
}
