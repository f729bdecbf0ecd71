//! Checkpoints as the store keeps them, and the keys that sign them.

use cocoonbox_events::{Checkpoint, LogInfo, checkpoint, limits::PAGE_EVENTS_MAX};
use cocoonbox_replay::checkpoint::named_keys;
use serde_json::json;

use super::{failed, logs::Logs};
use crate::{cli::proof::Checkpoint as Options, context::Context, exit::Exit, failure::Failure};

/// Prints notes as they are: each can be put into a file and given to `replay verify --checkpoint`.
pub(super) async fn checkpoints(
    ctx: &mut Context,
    logs: &Logs,
    options: &Options,
) -> Result<Exit, Failure> {
    if options.keys {
        return keys(ctx, logs).await;
    }
    let mut count = 0;
    for info in logs.select(options.log.log.as_deref())? {
        if !options.all {
            let newest = checkpoint::newest(&*logs.store, &info).await;
            if let Some(newest) = newest.map_err(failed("reading checkpoints"))? {
                count += 1;
                show(ctx, logs, &info, &newest)?;
            }
            continue;
        }
        let mut after = 0;
        loop {
            let page = logs.store.checkpoints(info.id, after, PAGE_EVENTS_MAX);
            let page = page.await.map_err(failed("reading checkpoints"))?;
            let Some(last) = page.last() else { break };
            after = last.size;
            count += page.len();
            for one in &page {
                show(ctx, logs, &info, one)?;
            }
        }
    }
    if count == 0 {
        ctx.out.note("no checkpoint was made so far");
    }
    Ok(Exit::Ok)
}

async fn keys(ctx: &mut Context, logs: &Logs) -> Result<Exit, Failure> {
    for named in named_keys(&logs.store).await {
        let value = json!({
            "key": named.key.to_string(),
            "issued": named.issued,
            "retired": named.retired,
        });
        let until = match named.retired {
            Some(pos) => format!("retired at {pos} of the system log"),
            None => "signs".to_owned(),
        };
        ctx.out.answer(&value, format!("{}\t{until}", named.key))?;
    }
    Ok(Exit::Ok)
}

fn show(
    ctx: &mut Context,
    logs: &Logs,
    info: &LogInfo,
    checkpoint: &Checkpoint,
) -> Result<(), Failure> {
    let value = json!({
        "log": info.id.to_string(),
        "name": logs.name(info.id),
        "size": checkpoint.size,
        "chain": checkpoint.chain.to_string(),
        "tail": info.tail.pos,
        "note": checkpoint.note,
    });
    ctx.out.answer(&value, checkpoint.note.trim_end())
}
