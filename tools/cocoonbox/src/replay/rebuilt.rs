//! Views folded again.

use cocoonbox_projections::{all, rows::View};
use cocoonbox_replay::{RowFold, Upto};
use serde_json::json;

use super::{check::views, failed, logs::Logs, ticker::Ticker};
use crate::{context::Context, exit::Exit, failure::Failure};

/// Compares with the views that are there, else says what they would have.
pub(super) async fn rebuild(
    ctx: &mut Context,
    logs: &Logs,
    must_compare: bool,
) -> Result<Exit, Failure> {
    if let Some(folder) = logs.views.as_deref().and_then(|path| path.parent()) {
        return views(ctx, logs, folder).await;
    }
    if must_compare {
        let message = format!("{} has no views to compare with", logs.origin);
        return Err(Failure::new(Exit::NotFound, message)
            .advise("they lie in a data directory, and are made when an api runs"));
    }
    logs.warn(ctx);
    let mut fold = RowFold::of_all();
    let mut ticker = Ticker::new(&mut ctx.out, "folding");
    for log in logs.store.logs() {
        if log.moved_to.is_some() {
            continue;
        }
        let pos = log.tail.pos;
        fold.take(&logs.store, &Upto { log, pos }, 0, &mut |events| {
            ticker.see(events);
        })
        .await
        .map_err(failed("rebuild"))?;
    }
    drop(ticker);
    let count = |views: &[View]| {
        let rows = fold.rows().iter();
        rows.filter(|(view, ..)| views.contains(view)).count()
    };
    let rows: Vec<(&str, usize)> = all()
        .iter()
        .map(|projection| (projection.name(), count(projection.views())))
        .collect();
    let mut lines: Vec<String> = rows
        .iter()
        .map(|(name, rows)| format!("{name}: {rows} rows"))
        .collect();
    lines.push(format!(
        "from {} events; there are no views to compare with",
        fold.events()
    ));
    let parts: Vec<_> = rows
        .iter()
        .map(|(name, rows)| json!({"name": name, "rows": rows}))
        .collect();
    let value = json!({"compared": false, "events": fold.events(), "projections": parts});
    ctx.out.answer(&value, lines.join("\n"))?;
    Ok(Exit::Ok)
}
