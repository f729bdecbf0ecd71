//! The model gateway beside no gateway: when the first token arrives, and what a budget costs before it.

mod vendor;
mod way;

use std::time::Duration;

use clap::Args;

use crate::{
    samples::{Samples, duration},
    table::Table,
};
use vendor::Vendor;
use way::Way;

#[derive(Args)]
pub(crate) struct Options {
    /// Calls each way.
    #[arg(long, default_value_t = 1_000)]
    calls: u32,
    /// Bytes of a request.
    #[arg(long, default_value_t = 200_000)]
    body_bytes: usize,
    /// Where the logs lie while it is measured.
    #[arg(long, default_value = ".")]
    dir: std::path::PathBuf,
}

/// What one way took.
#[derive(Default)]
struct Took {
    /// From the vendor's write of an event until the client has it.
    event: Samples,
    /// From the client's first byte until it has the first event.
    call: Samples,
}

pub(crate) async fn run(options: &Options) -> anyhow::Result<Vec<Table>> {
    let vendor = Vendor::start().await?;
    let ways = [
        Way::direct(&vendor),
        Way::gateway(&vendor, &options.dir, false).await?,
        Way::gateway(&vendor, &options.dir, true).await?,
    ];
    let mut took: Vec<Took> = ways.iter().map(|_| Took::default()).collect();
    let body = "x".repeat(options.body_bytes);
    // In turns, so that what else the machine does meets all alike.
    for _ in 0..options.calls {
        for (way, took) in ways.iter().zip(&mut took) {
            let (events, call) = way.call(&vendor, &body).await?;
            for event in events {
                took.event.push(event);
            }
            took.call.push(call);
        }
    }
    let mut table = Table::new(
        "Through the gateway",
        &[
            "way",
            "an event p50",
            "p99",
            "added p50",
            "added p99",
            "whole call to first event p50",
            "p99",
        ],
    );
    let added = |samples: &Samples, percent| {
        let of = |samples: &Samples| samples.percentile(percent).unwrap_or(Duration::ZERO);
        duration(of(samples).saturating_sub(of(&took[0].event)))
    };
    for (way, took) in ways.iter().zip(&took) {
        table.row(vec![
            way.name().to_owned(),
            took.event.show(50),
            took.event.show(99),
            added(&took.event, 50),
            added(&took.event, 99),
            took.call.show(50),
            took.call.show(99),
        ]);
    }
    table.note(format!(
        "{} calls each way in turns, requests of {} bytes, a connection each, {} events an answer. An event is timed from the \
         vendor's write until the client has read it, in one process on one host. With a budget, a call writes its reservation \
         to the log on this disk before the vendor has all of the request.",
        took[0].call.len(),
        options.body_bytes,
        vendor::EVENTS,
    ));
    for way in ways {
        way.end().await;
    }
    Ok(vec![table])
}
