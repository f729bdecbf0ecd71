//! Starts, sleeps, wakes and ends, as a client sees them.

use anyhow::Context;
use cocoonbox_proto::control::v1::Flavor;
use uuid::Uuid;

use crate::{boxes::client::Api, samples::Samples, table::Table};

pub(crate) async fn run(
    api: &Api,
    boxes: usize,
    drop_caches: bool,
    made: &mut Vec<String>,
) -> anyhow::Result<Table> {
    let mut cold = Samples::default();
    let mut warm = Samples::default();
    let mut hibernate = Samples::default();
    let mut wake = Samples::default();
    let mut delete = Samples::default();
    let run = Uuid::now_v7().simple().to_string();
    for number in 0..boxes {
        if drop_caches {
            empty_page_cache()?;
            let name = format!("bench-{run}-cold-{number}");
            let (id, took) = api.ensure(&name, Flavor::Core, made).await?;
            cold.push(took);
            delete.push(api.delete(&id).await?);
            made.retain(|known| *known != id);
        }
    }
    for number in 0..boxes {
        // Number 0 is kept: it holds the image in use, so that the others are warm starts.
        let name = format!("bench-{run}-{number}");
        let (id, took) = api.ensure(&name, Flavor::Core, made).await?;
        // The first one may have found nothing in use.
        if number > 0 {
            warm.push(took);
        } else if !drop_caches {
            cold.push(took);
        }
        hibernate.push(api.hibernate(&id).await?);
        let (same, took) = api.ensure(&name, Flavor::Core, made).await?;
        anyhow::ensure!(same == id, "the wake answered with another box");
        wake.push(took);
        if number > 0 {
            delete.push(api.delete(&id).await?);
            made.retain(|known| *known != id);
        }
    }
    let cold_name = if drop_caches {
        "cold start, page cache empty"
    } else {
        "first start of the run"
    };
    let mut table = Table::timed(
        "Boxes, from the call until the operation is done",
        &[
            (cold_name, &cold),
            ("warm start", &warm),
            ("hibernate", &hibernate),
            ("wake", &wake),
            ("delete", &delete),
        ],
    );
    table.note(
        "A start makes a box that did not exist; a wake starts one that was hibernated. One after the \
         other; from the first warm start on, one other box of the run is up.",
    );
    Ok(table)
}

pub(super) fn empty_page_cache() -> anyhow::Result<()> {
    // Dirty pages cannot be dropped.
    std::process::Command::new("sync")
        .status()
        .context("running sync")?;
    std::fs::write("/proc/sys/vm/drop_caches", "3").context("--drop-caches needs root")
}
