//! How long the calls take. Not a check: run by hand, alone, and read.
//!
//! `cargo test -p cocoonbox-machines --test it -- --ignored --nocapture times`

use std::time::{Duration, Instant};

use crate::bench::{Bench, USER, spec};

const TURNS: usize = 15;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn times() {
    let bench = Bench::container();
    let machines = &bench.machines;
    let mut all: Vec<(&str, Vec<Duration>)> = Vec::new();
    for turn in 0..TURNS {
        let first = spec("a", &format!("w{turn}"));
        let second = spec("a", &format!("x{turn}"));
        let mut note = |what, began: Instant| {
            let took = began.elapsed();
            match all.iter_mut().find(|(name, _)| *name == what) {
                Some((_, times)) => times.push(took),
                None => all.push((what, vec![took])),
            }
        };
        macro_rules! timed {
            ($what:literal, $call:expr) => {
                let began = Instant::now();
                let result = $call.await;
                note($what, began);
                assert!(result.is_ok());
            };
        }
        timed!("ensure, nothing there", machines.ensure(&first));
        bench.run(&first, USER, "true").await;
        timed!("ensure, already running", machines.ensure(&first));
        timed!("get, running", machines.get(&first.box_id));
        timed!("dial", machines.dial(&first.box_id, &first.wake_id, 7443));
        timed!(
            "listen",
            machines.listen(&first.box_id, &first.wake_id, 3128)
        );
        timed!("usage", machines.usage(&first.box_id));
        timed!("hibernate", machines.hibernate(&first.box_id));
        timed!("get, stopped", machines.get(&first.box_id));
        timed!("ensure, from disks", machines.ensure(&second));
        bench.run(&second, USER, "true").await;
        timed!("delete, running", machines.delete(&first.box_id));
    }
    for (what, mut times) in all {
        times.sort();
        let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
        eprintln!("{what}: median {median:.1?}, worst {worst:.1?}");
    }
}
