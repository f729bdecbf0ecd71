//! One client that comes back: from a key somewhere in a log until it is live.

use std::time::{Duration, Instant};

use anyhow::ensure;
use cocoonbox_events::{Follower, OffsetKey, Store};

use crate::{
    host,
    log::setting::{Lying, Measured, Setting, append, new_event},
    samples::{Samples, duration},
    table::Table,
};

pub(crate) async fn run(setting: &Setting, lengths: &[u64], resumes: u32) -> anyhow::Result<Table> {
    let mut table = Table::new(
        "One resumed stream",
        &[
            "log",
            "from",
            "first page p50",
            "p95",
            "live p50",
            "p95",
            "processor time each",
            "then a live event p50",
        ],
    );
    for events in lengths {
        let measured = setting.filled(Lying::Sealed, *events).await?;
        for (name, place) in [("a random key", Place::Random), ("the tail", Place::Tail)] {
            let one = many(&measured, *events, resumes, place).await?;
            table.row(vec![
                format!("{events} events"),
                name.to_owned(),
                one.first.show(50),
                one.first.show(95),
                one.live.show(50),
                one.live.show(95),
                duration(one.cpu / resumes.max(1)),
                one.event.show(50),
            ]);
        }
        measured.remove().await;
    }
    table.note(format!(
        "{resumes} streams one after the other on a sealed log: the key is checked, then pages are read until the tail, \
         then one event is appended and waited for, so the last column holds an append. Processor time is the \
         whole process's and in ticks of 10 ms over all streams.",
    ));
    Ok(table)
}

#[derive(Clone, Copy)]
enum Place {
    Random,
    Tail,
}

struct Resumed {
    first: Samples,
    live: Samples,
    event: Samples,
    cpu: Duration,
}

async fn many(
    measured: &Measured,
    events: u64,
    resumes: u32,
    place: Place,
) -> anyhow::Result<Resumed> {
    let mut all = Resumed {
        first: Samples::default(),
        live: Samples::default(),
        event: Samples::default(),
        cpu: Duration::ZERO,
    };
    for _ in 0..resumes {
        let tail = measured.store.tail(measured.log)?.pos;
        let pos = match place {
            Place::Random => random()? % events,
            Place::Tail => tail,
        };
        let chain = measured.store.chain_at(measured.log, pos).await?;
        let key = OffsetKey::new(measured.log, pos, chain);

        let cpu = host::cpu_used();
        let start = Instant::now();
        let after = measured.store.resume(key.log, &key).await?;
        let mut follower = Follower::new(measured.store.clone(), measured.log, after)?;
        follower.poll().await?;
        all.first.push(start.elapsed());
        while follower.position() < tail {
            follower.poll().await?;
        }
        all.live.push(start.elapsed());
        all.cpu += host::cpu_used().saturating_sub(cpu);

        let stream = cocoonbox_events::StreamName::new("exec/live")?;
        let event = append(vec![new_event(stream)?]);
        let start = Instant::now();
        let (page, appended) =
            tokio::join!(follower.next(), measured.store.append(measured.log, event));
        all.event.push(start.elapsed());
        let last = page?.events.last().map_or(0, |event| event.pos);
        ensure!(
            last == appended?.range().last,
            "the live event did not come"
        );
    }
    Ok(all)
}

fn random() -> anyhow::Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("random source: {error}"))?;
    Ok(u64::from_le_bytes(bytes))
}
