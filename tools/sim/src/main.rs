//! Runs seeds and says which fail, at what, and how to run them again.

#![expect(clippy::print_stdout, reason = "printing is what it is for")]

use std::process::ExitCode;

use clap::Parser;
use cocoonbox_sim::{Broken, Faults, Outcome, Run, shrink::shrink};

/// Lines of the trace that are shown of a failed run.
const LINES_MAX: usize = 60;

/// Simulates an installation with faults drawn from a seed, and checks its laws.
#[derive(Debug, Parser)]
#[command(name = "cocoonbox-sim")]
struct Arguments {
    /// Run this seed only, and print its trace hash.
    #[arg(long)]
    seed: Option<u64>,
    /// How many seeds to run.
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Run until stopped.
    #[arg(long)]
    long: bool,
    /// Break something on purpose, to see that it is found.
    #[arg(long, value_enum, default_value = "nothing")]
    broken: Broken,
    /// Kinds of faults, as the sum of their numbers in the README.
    #[arg(long, default_value_t = Faults::ALL.0)]
    faults: u32,
    /// Print every line of the trace.
    #[arg(long)]
    trace: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let run = |seed| Run {
        seed,
        faults: Faults(arguments.faults),
        broken: arguments.broken,
    };
    if let Some(seed) = arguments.seed {
        return one(run(seed), arguments.trace);
    }
    let began = clock();
    let (mut failed, mut steps, mut events) = (0_u64, 0, 0);
    let mut count = 0;
    let mut seed = arguments.from;
    while arguments.long || count < arguments.seeds {
        let outcome = run(seed).go();
        count += 1;
        steps += outcome.steps;
        events += outcome.events;
        if outcome.violation.is_some() {
            failed += 1;
            tell(run(seed), outcome);
        }
        if arguments.long && count.is_multiple_of(100) {
            println!("{count} seeds, {failed} failed");
        }
        seed += 1;
    }
    let took = began.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "rates for people")]
    let rate = |number: u64| (number as f64 / took).round();
    println!(
        "{count} seeds, {failed} failed; {} seeds a minute, {} steps/s, {} events/s",
        rate(count * 60),
        rate(steps),
        rate(events),
    );
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn one(run: Run, all_lines: bool) -> ExitCode {
    let outcome = run.go();
    if all_lines {
        for line in outcome.trace.lines() {
            println!("{line}");
        }
    }
    println!(
        "seed {}: trace {}, {} steps, {} events in {} logs, {} s of simulated time",
        run.seed,
        outcome.trace.hash(),
        outcome.steps,
        outcome.events,
        outcome.logs,
        outcome.took_us / 1_000_000,
    );
    if outcome.violation.is_none() {
        return ExitCode::SUCCESS;
    }
    tell(run, outcome);
    ExitCode::FAILURE
}

/// Says what broke, with the least that is needed for it.
fn tell(run: Run, outcome: Outcome) {
    let (run, outcome) = shrink(run, outcome);
    let Some(violation) = &outcome.violation else {
        return;
    };
    println!("\nseed {} fails: {violation}", run.seed);
    println!("faults that it needs: {}", run.faults);
    let words = words(&violation.about, &violation.what);
    for line in outcome.trace.about(&words, LINES_MAX) {
        println!("  {line}");
    }
    let variant = if run.broken == Broken::Nothing {
        String::new()
    } else {
        format!(" SIM_ARGS='--broken {}'", name(run.broken))
    };
    println!(
        "again: make sim SEED={} FAULTS={}{variant}",
        run.seed, run.faults.0
    );
}

/// What a line has to speak of to be shown: the names in the violation, and the operator.
fn words(about: &str, what: &str) -> Vec<String> {
    let names = |word: &str| {
        let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let is_name = word.len() >= 6
            && word.chars().all(|c| c.is_ascii_alphanumeric())
            && word.chars().any(|c| c.is_ascii_digit());
        is_name.then(|| word.to_owned())
    };
    let mut words: Vec<String> = what.split_whitespace().filter_map(names).collect();
    words.push(about.to_owned());
    words.push("chaos".to_owned());
    words
}

fn name(broken: Broken) -> String {
    use clap::ValueEnum;
    broken
        .to_possible_value()
        .map_or_else(String::new, |value| value.get_name().to_owned())
}

fn clock() -> std::time::Instant {
    std::time::Instant::now()
}
