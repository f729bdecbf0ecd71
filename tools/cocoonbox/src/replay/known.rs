//! What was known at a moment: aggregates, and rows of views.

use cocoonbox_events::{LogInfo, OffsetKey, StreamName};
use cocoonbox_projections::rows::View;
use cocoonbox_replay::{RowFold, Upto, row_json, state};
use serde_json::json;

use super::{
    failed,
    logs::Logs,
    stream_name,
    ticker::Ticker,
    when::{Calendar, Moment},
};
use crate::{context::Context, exit::Exit, failure::Failure};

pub(super) async fn aggregate(
    ctx: &mut Context,
    logs: &Logs,
    log: Option<&str>,
    stream: &str,
    at: Option<&str>,
) -> Result<Exit, Failure> {
    logs.warn(ctx);
    let stream: StreamName = stream_name(stream)?;
    let key = at.and_then(|at| at.parse::<OffsetKey>().ok());
    let log = match (log, key) {
        (Some(name), _) => logs.find(name)?,
        (None, Some(key)) => key.log,
        (None, None) => logs.holder(&stream).await?,
    };
    let at = match at {
        Some(at) => Some(logs.position(ctx, log, at).await?),
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

pub(super) async fn view(
    ctx: &mut Context,
    logs: &Logs,
    log: Option<&str>,
    (view, prefix): (&str, Option<&str>),
    at: Option<&str>,
) -> Result<Exit, Failure> {
    logs.warn(ctx);
    let view = View::from_name(view).ok_or_else(|| {
        let names: Vec<&str> = View::ALL.into_iter().map(View::name).collect();
        Failure::usage(format!("there is no view `{view}`"))
            .advise(format!("there are: {}", names.join(", ")))
    })?;
    let calendar = Calendar::here();
    let moment = at.map(|at| calendar.moment(at)).transpose()?;
    let mut selected = logs.select(log)?;
    match (moment, log) {
        (Some(Moment::Pos(_)), None) => return Err(Failure::usage("a position needs --log")),
        (Some(Moment::Key(key)), None) => selected.retain(|info| info.id == key.log),
        (Some(Moment::Time(at)), _) => calendar.say(&mut ctx.out, "as of", at),
        _ => {}
    }
    // What a rewind left behind is in no view; who wants it names the log.
    if log.is_none() {
        selected.retain(|info| info.moved_to.is_none());
    }
    let mut fold = RowFold::of_view(view);
    let mut seen = Vec::new();
    let mut ticker = Ticker::new(&mut ctx.out, "folding");
    for info in selected {
        let pos = upto(logs, &info, moment).await?;
        seen.push((info.id, pos));
        let upto = Upto { log: info, pos };
        fold.take(&logs.store, &upto, 0, &mut |events| ticker.see(events))
            .await
            .map_err(failed("state"))?;
    }
    drop(ticker);
    let rows = fold
        .rows()
        .iter()
        .filter(|(of, key, _)| *of == view && prefix.is_none_or(|prefix| key.starts_with(prefix)));
    for (_, key, value) in rows {
        let row = row_json(view, value);
        let words = format!("{key}  {}", crate::text::fields(&row));
        ctx.out.answer(&json!({"key": key, "row": row}), words)?;
    }
    Ok(Exit::Ok)
}

/// Up to where a log is taken in.
async fn upto(logs: &Logs, info: &LogInfo, moment: Option<Moment>) -> Result<u64, Failure> {
    match moment {
        Some(moment) => logs.position_of(info.id, moment).await,
        None => Ok(info.tail.pos),
    }
}
