//! Producers that append one event, wait for the ack, and append the next.

use std::time::{Duration, Instant};

use cocoonbox_events::{AppendError, Store, StreamName};
use tokio::task::JoinSet;

use crate::{
    log::setting::{Lying, Setting, append, new_event},
    samples::{self, Samples},
};

/// What came of one round.
pub(crate) struct Run {
    events: u64,
    batches: u64,
    took: Duration,
    acks: Samples,
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
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for producer in 0..producers {
        let (store, log) = (measured.store.clone(), measured.log);
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
    let took = start.elapsed();
    let batches = bell.borrow().wrapping_sub(before);
    measured.remove().await;
    Ok(Run {
        events: acks.len() as u64,
        batches,
        took,
        acks,
    })
}
