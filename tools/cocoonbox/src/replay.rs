//! The logs of this host, read without an api.

mod check;
mod compare;
mod logs;
mod reasons;

use cocoonbox_events::{LogId, OffsetKey, StreamName};
use cocoonbox_replay::{By, Filter, show, state};

use crate::{
    cli::replay::{LogOption, Replay},
    context::Context,
    exit::Exit,
    failure::{Failure, chain},
};
use check::{check, views};
use compare::{moments, two_logs};
use logs::Logs;
use reasons::{causes, conversations};

pub async fn replay(ctx: &mut Context, command: Replay) -> Result<Exit, Failure> {
    let data = ctx.data_dir();
    let logs = Logs::open(&data).await?;
    match command {
        Replay::Verify(LogOption { log }) => check(ctx, &logs, log.as_deref()).await,
        Replay::Show {
            log,
            stream,
            kind,
            actor,
            text,
            from,
            limit,
        } => {
            let filter = Filter {
                streams: stream,
                kinds: kind,
                actor,
                text,
                ..Filter::default()
            };
            events(
                ctx,
                &logs,
                log.log.as_deref(),
                filter,
                from.as_deref(),
                limit,
            )
            .await
        }
        Replay::State { log, stream, at } => {
            known(ctx, &logs, log.log.as_deref(), &stream, at.as_deref()).await
        }
        Replay::Diff {
            log,
            a,
            b,
            other,
            meaning,
        } => {
            let by = if meaning { By::Meaning } else { By::Bytes };
            match log.log {
                Some(log) => moments(ctx, &logs, logs.find(&log)?, &a, &b).await,
                None => match (a.parse::<OffsetKey>(), b.parse::<OffsetKey>()) {
                    (Ok(from), Ok(_)) => moments(ctx, &logs, from.log, &a, &b).await,
                    _ => two_logs(ctx, &logs, (&a, &b), other.as_deref(), by).await,
                },
            }
        }
        Replay::Rebuild => views(ctx, &logs, &data).await,
        Replay::Rerun { log, stream } => {
            conversations(ctx, &logs, log.log.as_deref(), stream.as_deref()).await
        }
        Replay::Why { log, event } => causes(ctx, &logs, log.log.as_deref(), &event).await,
    }
}

async fn events(
    ctx: &mut Context,
    logs: &Logs,
    log: Option<&str>,
    filter: Filter,
    from: Option<&str>,
    mut limit: usize,
) -> Result<Exit, Failure> {
    let mut selected = logs.select(log)?;
    if let Some(key) = from.and_then(|from| from.parse::<OffsetKey>().ok()) {
        selected.retain(|info| info.id == key.log);
    }
    for info in &selected {
        let after = match from {
            Some(from) => logs.position(info.id, from).await?,
            None => 0,
        };
        let mut shown =
            show(&logs.store, info.id, filter.clone(), after, limit).map_err(failed("show"))?;
        let mut is_first = selected.len() > 1;
        while let Some(lines) = shown.next().await.map_err(failed("show"))? {
            if is_first {
                ctx.out
                    .note(format!("{} ({})", logs.name(info.id), info.id));
                is_first = false;
            }
            limit -= lines.len();
            for line in lines {
                ctx.out.answer(&line.to_json(), line.to_string())?;
            }
        }
    }
    Ok(Exit::Ok)
}

async fn known(
    ctx: &mut Context,
    logs: &Logs,
    log: Option<&str>,
    stream: &str,
    at: Option<&str>,
) -> Result<Exit, Failure> {
    let stream = stream_name(stream)?;
    let key = at.and_then(|at| at.parse::<OffsetKey>().ok());
    let log = match (log, key) {
        (Some(name), _) => logs.find(name)?,
        (None, Some(key)) => key.log,
        (None, None) => holder(logs, &stream).await?,
    };
    let at = match at {
        Some(at) => Some(logs.position(log, at).await?),
        None => None,
    };
    let found = state(&logs.store, log, &stream, at)
        .await
        .map_err(failed("state"))?;
    let words = format!(
        "{stream} in {} as of position {} (event {} of the stream)\n{}",
        logs.name(log),
        found.pos,
        found.seq,
        found.state.text()
    );
    ctx.out.answer(&found.to_json(), words)?;
    Ok(Exit::Ok)
}

/// The one log that has this stream.
async fn holder(logs: &Logs, stream: &StreamName) -> Result<LogId, Failure> {
    let mut found = Vec::new();
    for info in logs.store.logs() {
        let page = logs
            .store
            .read_stream(info.id, stream, 0, 1)
            .await
            .map_err(failed("reading"))?;
        if !page.events.is_empty() {
            found.push(info.id);
        }
    }
    match found.as_slice() {
        [one] => Ok(*one),
        [] => Err(Failure::new(
            Exit::NotFound,
            format!("no log has a stream `{stream}`"),
        )),
        several => {
            let names: Vec<String> = several.iter().map(|log| logs.name(*log)).collect();
            Err(
                Failure::usage(format!("several logs have a stream `{stream}`"))
                    .advise(format!("name one with --log: {}", names.join(", "))),
            )
        }
    }
}

fn stream_name(text: &str) -> Result<StreamName, Failure> {
    StreamName::new(text).map_err(|error| Failure::usage(error.to_string()))
}

fn good(is_good: bool) -> Exit {
    if is_good { Exit::Ok } else { Exit::Failure }
}

/// Words for an error of a log, with its causes. What is asked for and not there is told apart.
fn failed<E: std::error::Error + 'static>(doing: &'static str) -> impl Fn(E) -> Failure {
    move |error| {
        use cocoonbox_replay::Error;
        let known = (&error as &dyn std::any::Any).downcast_ref::<Error>();
        let is_missing = known.is_some_and(|error| {
            matches!(
                error,
                Error::NoSuchStream { .. }
                    | Error::NoSuchPosition { .. }
                    | Error::NoSuchEvent { .. }
            )
        });
        let exit = if is_missing {
            Exit::NotFound
        } else {
            Exit::Failure
        };
        Failure::new(exit, format!("{doing}: {}", chain(&error)))
    }
}
