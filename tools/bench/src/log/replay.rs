//! Reading a log from its start: pages alone, decoded, and verified.

use std::{sync::Arc, time::Instant};

use anyhow::ensure;
use cocoonbox_events::{Recorded, Store, chain::Verifier, limits::PAGE_EVENTS_MAX};
use cocoonbox_replay::verify;

use crate::{
    log::setting::{Lying, Measured, Setting},
    samples::{float, rate},
    table::Table,
};

/// The best of this many passes; the first one warms the page cache.
const PASSES: usize = 3;

pub(crate) async fn run(setting: &Setting, events: u64) -> anyhow::Result<Table> {
    let mut table = Table::new(
        format!("Replay of a log of {events} events, events/s"),
        &[
            "payloads",
            "read",
            "read + decode",
            "read + decode + verify",
            "replay verify",
        ],
    );
    for lying in [Lying::Open, Lying::Sealed] {
        let measured = setting.filled(lying, events).await?;
        let read = best(&measured, events, |_| Ok(())).await?;
        let decode = best(&measured, events, |event| {
            std::hint::black_box(event.payload()?);
            Ok(())
        })
        .await?;
        let genesis = measured.store.chain_at(measured.log, 0).await?;
        let mut verifier = Verifier::after(0, genesis);
        let verify = best(&measured, events, |event| {
            if event.pos == 1 {
                verifier = Verifier::after(0, genesis);
            }
            std::hint::black_box(event.payload()?);
            verifier.check(event)?;
            Ok(())
        })
        .await?;
        let whole = whole(&measured, events).await?;
        let name = if lying == Lying::Open {
            "open"
        } else {
            "sealed"
        };
        table.row(vec![
            name.to_owned(),
            rate(read),
            rate(decode),
            rate(verify),
            rate(whole),
        ]);
        measured.remove().await;
    }
    table.note(format!(
        "One reader, pages of {PAGE_EVENTS_MAX}, best of {PASSES} passes, so from a warm cache. Reading a sealed log \
         opens every payload. The last column is what `cocoonbox replay verify` does for one log: it checks streams, \
         commands and what else lies beside the events too, and reads the next page meanwhile.",
    ));
    Ok(table)
}

/// The check that people run.
async fn whole(measured: &Measured, events: u64) -> anyhow::Result<f64> {
    let store: Arc<dyn Store> = measured.store.clone();
    let mut best = 0.0_f64;
    for _ in 0..PASSES {
        let report = verify(&store, measured.log).await?;
        ensure!(report.is_good(), "the log does not verify: {report:?}");
        best = best.max(float(events) / report.took.as_secs_f64());
    }
    Ok(best)
}

async fn best(
    measured: &Measured,
    events: u64,
    mut each: impl FnMut(&Recorded) -> anyhow::Result<()>,
) -> anyhow::Result<f64> {
    let mut best = 0.0_f64;
    for _ in 0..PASSES {
        let start = Instant::now();
        let mut after = 0;
        loop {
            let page = measured
                .store
                .read(measured.log, after, PAGE_EVENTS_MAX)
                .await?;
            let Some(last) = page.events.last() else {
                break;
            };
            after = last.pos;
            for event in &page.events {
                each(event)?;
            }
        }
        ensure!(after == events, "the log ended at {after}, not at {events}");
        best = best.max(float(events) / start.elapsed().as_secs_f64());
    }
    Ok(best)
}
