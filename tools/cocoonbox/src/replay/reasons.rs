//! Why things went as they did: conversations decided again, causes and effects.

use cocoonbox_events::{EventId, LogId, LogKind, OffsetKey, StreamName};
use cocoonbox_replay::{Error, Filter, Rerun, Target, rerun, show, why};

use super::{failed, good, logs::Logs, stream_name, ticker::Ticker};
use crate::{context::Context, exit::Exit, failure::Failure};

pub(super) async fn conversations(
    ctx: &mut Context,
    logs: &Logs,
    log: Option<&str>,
    stream: Option<&str>,
) -> Result<Exit, Failure> {
    if logs.redacted {
        let message = format!("{} is redacted: nothing can be decided again", logs.origin);
        return Err(Failure::new(Exit::Failure, message).advise("it needs a whole export"));
    }
    let mut all_same = true;
    let mut count = 0;
    for info in logs
        .select(log)?
        .into_iter()
        .filter(|info| info.kind == LogKind::Box)
    {
        let streams = match stream {
            Some(stream) => vec![stream_name(stream)?],
            None => agents(logs, info.id).await?,
        };
        for stream in streams {
            let found = match rerun(&logs.store, info.id, &stream).await {
                Err(Error::NoSuchStream { .. }) => continue,
                other => other.map_err(failed("rerun"))?,
            };
            all_same &= found.is_same();
            count += 1;
            ctx.out.answer(&found.to_json(), rerun_text(logs, &found))?;
        }
    }
    if count == 0 {
        return Err(Failure::new(
            Exit::NotFound,
            "there is no such conversation in these logs",
        )
        .advise("`cocoonbox replay show --kind agent.created` shows which there are"));
    }
    Ok(good(all_same))
}

fn rerun_text(logs: &Logs, found: &Rerun) -> String {
    format!(
        "{} {}: {}",
        logs.name(found.log),
        found.stream,
        found.text()
    )
}

/// The agents of a box log, by name.
async fn agents(logs: &Logs, log: LogId) -> Result<Vec<StreamName>, Failure> {
    let filter = Filter {
        kinds: vec!["agent.created".to_owned()],
        ..Filter::default()
    };
    let shown = show(&logs.store, log, filter, 0, usize::MAX).await;
    let mut shown = shown.map_err(failed("reading"))?;
    let mut streams = Vec::new();
    while let Some(lines) = shown.next().await.map_err(failed("reading"))? {
        for line in lines {
            streams.push(stream_name(&line.stream)?);
        }
    }
    Ok(streams)
}

pub(super) async fn causes(
    ctx: &mut Context,
    logs: &Logs,
    log: Option<&str>,
    event: &str,
) -> Result<Exit, Failure> {
    logs.warn(ctx);
    let target = match (event.parse::<OffsetKey>(), log) {
        (Ok(key), _) => Target::Pos(key.log, logs.position(ctx, key.log, event).await?),
        (Err(_), Some(name)) => {
            let log = logs.find(name)?;
            Target::Pos(log, logs.position(ctx, log, event).await?)
        }
        (Err(_), None) => Target::Event(event.parse::<EventId>().map_err(|_| {
            Failure::usage(format!(
                "`{event}` is neither an offset key nor an event id"
            ))
            .advise("a position needs --log")
        })?),
    };
    let mut ticker = Ticker::new(&mut ctx.out, "looking for causes");
    let found = why(&logs.store, target, &mut |events| ticker.see(events)).await;
    drop(ticker);
    let found = found.map_err(failed("why"))?;
    let words = found.text(&|log| logs.name(log));
    ctx.out.answer(&found.to_json(), words)?;
    Ok(Exit::Ok)
}
