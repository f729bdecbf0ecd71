//! Producers that append one event, wait for the ack, and append the next.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use cocoonbox_events::{AppendError, LogId, Store, StreamName};
use tokio::task::JoinSet;

use crate::{
    log::setting::{Lying, Setting, append, new_event},
    samples::{self, Samples},
};

/// What came of one round.
pub(crate) struct Run {
    pub(crate) events: u64,
    pub(crate) batches: u64,
    pub(crate) took: Duration,
    pub(crate) acks: Samples,
}

impl Run {
    pub(crate) fn rate(&self) -> f64 {
        samples::float(self.events) / self.took.as_secs_f64()
    }

    pub(crate) fn mean_batch(&self) -> f64 {
        samples::float(self.events) / samples::float(self.batches.max(1))
    }
}

/// The median rate of some rounds, and all their acks.
pub(crate) fn together(runs: Vec<Run>) -> (f64, Samples) {
    let rate = samples::median(runs.iter().map(Run::rate).collect());
    let mut acks = Samples::default();
    for run in runs {
        acks.extend(run.acks);
    }
    (rate, acks)
}

pub(crate) async fn run(
    setting: &Setting,
    lying: Lying,
    producers: usize,
    span: Duration,
) -> anyhow::Result<Run> {
    let measured = setting.store(lying).await?;
    // The store rings this bell once for each transaction.
    let bell = measured.store.any_doorbell();
    let before = *bell.borrow();
    let mut run = produce(measured.store.clone(), measured.log, producers, span).await?;
    run.batches = bell.borrow().wrapping_sub(before);
    measured.remove().await;
    Ok(run)
}

/// Appends for `span`; the number of batches is the caller's to find out.
pub(crate) async fn produce(
    store: Arc<dyn Store>,
    log: LogId,
    producers: usize,
    span: Duration,
) -> anyhow::Result<Run> {
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for producer in 0..producers {
        let store = store.clone();
        let stream = StreamName::new(format!("exec/{producer}"))?;
        tasks.spawn(async move {
            let mut acks = Samples::default();
            while start.elapsed() < span {
                let asked = append(vec![new_event(stream.clone())?]);
                let sent = Instant::now();
                match store.append(log, asked).await {
                    Ok(_) => acks.push(sent.elapsed()),
                    // What a caller would do as well. Not counted as an event.
                    Err(AppendError::Overloaded) => tokio::task::yield_now().await,
                    Err(error) => return Err(error.into()),
                }
            }
            anyhow::Ok(acks)
        });
    }
    let mut acks = Samples::default();
    while let Some(done) = tasks.join_next().await {
        acks.extend(done??);
    }
    Ok(Run {
        events: acks.len() as u64,
        batches: 0,
        took: start.elapsed(),
        acks,
    })
}
