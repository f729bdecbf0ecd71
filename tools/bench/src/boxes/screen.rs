//! A display through the edge, beside a connection of one's own into the box's network.

mod way;

use std::time::{Duration, Instant};

use anyhow::Context;
use cocoonbox_proto::agent::v1::{ExecRequest, ExecStart, TakeControlRequest, exec_request::Frame};

use crate::{
    boxes::{client::Api, direct::Dialled},
    samples::{Samples, duration, float, median, rate},
    table::Table,
};
use way::Viewer;

/// What stands in for a desktop: a real one cannot paint as fast as this, and would be measured instead.
const SERVER: &str = include_str!("screen/server.py");
/// The box's last display, which no desktop uses.
const DISPLAY: u32 = 7;
const PORT: u16 = 5_907;
const STARTING: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

const PICTURE_BYTES: usize = 1_280 * 800 * 4;
/// A picture's header and its only rectangle's.
const HEAD_BYTES: usize = 16;
const REQUEST: &[u8] = &[3, 0, 0, 0, 0, 0, 5, 0, 3, 32];
const POINTER: &[u8] = &[5, 0, 0, 1, 0, 1];
/// Neighbours, so that what else the machine does falls on both.
const ROUNDS: usize = 5;

pub(crate) async fn run(
    api: &Api,
    id: &str,
    dialled: &Dialled,
    calls: usize,
    pictures: usize,
) -> anyhow::Result<Table> {
    start(api, id).await?;
    let mut direct = connected(dialled).await?;
    let lease_id = "bench";
    let take = TakeControlRequest {
        display: DISPLAY,
        lease_id: lease_id.to_owned(),
        idle_ms: 600_000,
        ..TakeControlRequest::default()
    };
    api.control(id)?.take(take).await.context("Take")?;
    let mut relayed = Viewer::relayed(api.session(id)?, DISPLAY, lease_id).await?;

    let (mut without, mut through, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let (mut felt_without, mut felt_through) = (Samples::default(), Samples::default());
    for _ in 0..ROUNDS {
        let one = painted(&mut direct, pictures).await?;
        let other = painted(&mut relayed, pictures).await?;
        without.push(one);
        through.push(other);
        ratios.push(other / one);
    }
    for _ in 0..calls {
        felt_without.push(felt(&mut direct).await?);
        felt_through.push(felt(&mut relayed).await?);
    }

    let mut table = Table::new(
        "Screen, 1280x800 raw",
        &["way", "pictures/s", "MB/s", "input p50", "input p95"],
    );
    for (name, rates, felt) in [
        ("through the edge", through, &felt_through),
        ("without it", without, &felt_without),
    ] {
        let pictures = median(rates);
        table.row(vec![
            name.to_owned(),
            rate(pictures),
            rate(pictures * float(PICTURE_BYTES as u64) / 1e6),
            felt.show(50),
            felt.show(95),
        ]);
    }
    let added = felt_through.percentile(50).zip(felt_without.percentile(50));
    let added = added.map_or_else(Duration::default, |(through, without)| {
        through.saturating_sub(without)
    });
    table.note(format!(
        "{ROUNDS} rounds of {pictures} pictures each way in turns, the next one asked for when one begins, {:.2} of \
         the direct rate (median of the rounds); {calls} pointer events until the display's answer, the edge adds {}. \
         The display is a program that sends the same picture as often as it is asked.",
        median(ratios),
        duration(added),
    ));
    Ok(table)
}

/// Starts the display; it goes on when the call is dropped.
async fn start(api: &Api, id: &str) -> anyhow::Result<()> {
    let argv = ["python3", "-c", SERVER, &PORT.to_string()];
    let start = ExecStart {
        argv: argv.map(str::to_owned).to_vec(),
        ..ExecStart::default()
    };
    let frame = Some(Frame::Start(start));
    let request = tokio_stream::once(ExecRequest { frame });
    let started = api.session(id)?.exec(request).await;
    started.context("starting the display")?;
    Ok(())
}

async fn connected(dialled: &Dialled) -> anyhow::Result<Viewer> {
    let deadline = Instant::now() + STARTING;
    loop {
        match dialled.connect(PORT) {
            Ok(screen) => return Viewer::direct(screen).await,
            Err(error) if Instant::now() > deadline => return Err(error),
            Err(_) => tokio::time::sleep(LOOK_AGAIN).await,
        }
    }
}

/// Pictures a second.
async fn painted(viewer: &mut Viewer, pictures: usize) -> anyhow::Result<f64> {
    let start = Instant::now();
    viewer.send(REQUEST).await?;
    for left in (0..pictures).rev() {
        viewer.skip(HEAD_BYTES).await?;
        if left > 0 {
            viewer.send(REQUEST).await?;
        }
        viewer.skip(PICTURE_BYTES).await?;
    }
    Ok(float(pictures as u64) / start.elapsed().as_secs_f64())
}

/// From an input to what comes of it.
async fn felt(viewer: &mut Viewer) -> anyhow::Result<Duration> {
    let start = Instant::now();
    viewer.send(POINTER).await?;
    viewer.skip(1).await?;
    Ok(start.elapsed())
}
