//! Boxes with a desktop: until it is there, and what it uses.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cocoonbox_proto::control::v1::Flavor;
use uuid::Uuid;

use super::{client::Api, exec, lifecycle::empty_page_cache};
use crate::{
    host,
    samples::{Samples, float, median},
    table::Table,
};

/// Behind the desktop's last part: what programs do on their own once they are up.
const SETTLE: Duration = Duration::from_secs(3);
/// How many are up at one time, where it is measured how many fit.
const TOGETHER: usize = 4;
const FITS_IN_MB: f64 = 8.0 * 1024.0;
/// Starts the browser as its icon does, and waits for the window that its page has.
const PAGE: &str = "echo '<title>bench</title><h1>A page</h1>' >/tmp/page.html; \
    setsid browser /tmp/page.html >/dev/null 2>&1 </dev/null & \
    until for id in $(xprop -root _NET_CLIENT_LIST | grep -o '0x[0-9a-f]*'); do xprop -id $id WM_NAME; done | \
    grep -q '\"bench'; do sleep 0.05; done";

/// What is timed, and used.
#[derive(Default)]
struct Found {
    cold: Samples,
    warm: Samples,
    wake: Samples,
    hibernate: Samples,
    page: Samples,
    idle_mb: Vec<f64>,
    with_page_mb: Vec<f64>,
}

pub(crate) async fn run(
    api: &Api,
    boxes: usize,
    drop_caches: bool,
    made: &mut Vec<String>,
) -> anyhow::Result<Table> {
    let mut found = Found::default();
    let run = Uuid::now_v7().simple().to_string();
    for number in 0..boxes {
        if drop_caches {
            empty_page_cache()?;
            let name = format!("bench-{run}-cold-{number}");
            let (id, took) = shown(api, &name, made).await?;
            found.cold.push(took);
            gone(api, &id, made).await?;
        }
        let name = format!("bench-{run}-{number}");
        let (id, took) = shown(api, &name, made).await?;
        // The first one without an empty cache may have found nothing in use.
        if drop_caches || number > 0 {
            found.warm.push(took);
        } else {
            found.cold.push(took);
        }
        tokio::time::sleep(SETTLE).await;
        found.idle_mb.push(used_mb(&id)?);
        let began = Instant::now();
        exec::to_its_end(&api.session(&id)?, PAGE).await?;
        found.page.push(began.elapsed());
        tokio::time::sleep(SETTLE).await;
        found.with_page_mb.push(used_mb(&id)?);
        found.hibernate.push(api.hibernate(&id).await?);
        let (same, took) = shown(api, &name, made).await?;
        ensure!(same == id, "the wake answered with another box");
        found.wake.push(took);
        gone(api, &id, made).await?;
    }
    let each_mb = together_mb(api, &run, made).await?;
    Ok(table(&found, each_mb, drop_caches))
}

/// Starts or wakes a box and waits until its desktop is ready.
async fn shown(
    api: &Api,
    name: &str,
    made: &mut Vec<String>,
) -> anyhow::Result<(String, Duration)> {
    let began = Instant::now();
    let (id, _) = api.ensure(name, Flavor::Light, made).await?;
    api.desktop_ready(&id).await?;
    Ok((id, began.elapsed()))
}

async fn gone(api: &Api, id: &str, made: &mut Vec<String>) -> anyhow::Result<()> {
    api.delete(id).await?;
    made.retain(|known| known != id);
    Ok(())
}

/// What one of several boxes uses that share an image and its page cache.
async fn together_mb(api: &Api, run: &str, made: &mut Vec<String>) -> anyhow::Result<f64> {
    let mut ids = Vec::new();
    for number in 0..TOGETHER {
        let name = format!("bench-{run}-together-{number}");
        ids.push(shown(api, &name, made).await?.0);
    }
    tokio::time::sleep(SETTLE).await;
    let mut used = 0.0;
    for id in &ids {
        used += used_mb(id)?;
    }
    for id in &ids {
        gone(api, id, made).await?;
    }
    Ok(used / float(TOGETHER as u64))
}

fn used_mb(id: &str) -> anyhow::Result<f64> {
    let kb =
        host::shared_kb_of_cgroup(id).context("no process of the box can be seen from here")?;
    Ok(float(kb) / 1024.0)
}

fn table(found: &Found, each_mb: f64, drop_caches: bool) -> Table {
    let cold_name = if drop_caches {
        "cold start, page cache empty"
    } else {
        "first start of the run"
    };
    let mut table = Table::timed(
        "Boxes with a desktop (`light`), from the call until all of it answers",
        &[
            (cold_name, &found.cold),
            ("warm start", &found.warm),
            ("wake", &found.wake),
            (
                "hibernate, with a page open (no desktop waited for)",
                &found.hibernate,
            ),
            ("the browser, until its page is there", &found.page),
        ],
    );
    for (name, of) in [
        ("memory idle, all processes of the box", &found.idle_mb),
        ("memory with the browser and a page", &found.with_page_mb),
    ] {
        let shown = format!("{:.0} MB", median(of.clone()));
        table.row(vec![
            name.to_owned(),
            shown,
            "-".into(),
            of.len().to_string(),
        ]);
    }
    table.row(vec![
        format!("memory of one of {TOGETHER} boxes at one time, idle"),
        format!("{each_mb:.0} MB"),
        "-".into(),
        "1".into(),
    ]);
    table.note(format!(
        "Memory is PSS {} s after the desktop or the page was there, the agent's processes with it. At the last row's \
         size {:.0} idle boxes have room in 8 GiB.",
        SETTLE.as_secs(),
        (FITS_IN_MB / each_mb).floor(),
    ));
    table
}
