//! Events, as they were recorded and as they come.

use std::time::Duration;

use cocoonbox_events::{LogId, OffsetKey, ReadError};
use cocoonbox_replay::{Error, Filter, Follow, Line, show, show_last};

use super::{
    failed,
    logs::Logs,
    when::{Calendar, Moment},
};
use crate::{
    cli::replay::Wanted,
    context::Context,
    exit::Exit,
    failure::{Failure, chain},
    interrupt::Interrupts,
};

/// A database that is gone is asked again this often.
const RETRY: Duration = Duration::from_secs(1);

/// Which part of the logs.
pub(super) struct Span {
    pub(super) since: Option<String>,
    pub(super) until: Option<String>,
    pub(super) after: Option<String>,
    pub(super) limit: usize,
    pub(super) last: Option<usize>,
}

pub(super) async fn events(
    ctx: &mut Context,
    logs: &Logs,
    log: Option<&str>,
    wanted: Wanted,
    span: Span,
) -> Result<Exit, Failure> {
    logs.warn(ctx);
    let mut filter = filter(wanted);
    let calendar = Calendar::here();
    for (word, text, at_us) in [
        ("since", &span.since, &mut filter.from_us),
        ("until", &span.until, &mut filter.to_us),
    ] {
        if let Some(text) = text {
            let at = calendar.time(text)?;
            calendar.say(&mut ctx.out, word, at);
            *at_us = Some(at.as_microsecond());
        }
    }
    let after = span.after.as_deref().map(|text| calendar.moment(text));
    let after = after.transpose()?;
    let mut selected = logs.select(log)?;
    match (after, log) {
        (Some(Moment::Key(key)), None) => selected.retain(|info| info.id == key.log),
        (Some(Moment::Pos(_)), None) => {
            return Err(Failure::usage("a position needs --log"));
        }
        _ => {}
    }
    let is_one = selected.len() == 1;
    let mut left = span.limit;
    for info in &selected {
        let from = match after {
            Some(moment) => logs.position_of(info.id, moment).await?,
            None => 0,
        };
        let mut printer = Printer {
            logs,
            log: info.id,
            is_headed: is_one,
        };
        if let Some(count) = span.last {
            let lines = show_last(&logs.store, info.id, &filter, from, count).await;
            printer.print(ctx, &lines.map_err(failed("show"))?)?;
            continue;
        }
        let shown = show(&logs.store, info.id, filter.clone(), from, left).await;
        let mut shown = shown.map_err(failed("show"))?;
        while let Some(lines) = shown.next().await.map_err(failed("show"))? {
            left -= lines.len();
            printer.print(ctx, &lines)?;
        }
    }
    Ok(Exit::Ok)
}

/// Names a log once, in front of its first event.
struct Printer<'a> {
    logs: &'a Logs,
    log: LogId,
    is_headed: bool,
}

impl Printer<'_> {
    fn print(&mut self, ctx: &mut Context, lines: &[Line]) -> Result<(), Failure> {
        if !self.is_headed && !lines.is_empty() {
            let name = self.logs.name(self.log);
            ctx.out.note(format!("{name} ({})", self.log));
            self.is_headed = true;
        }
        for line in lines {
            ctx.out.answer(&line.to_json(), line.to_string())?;
        }
        Ok(())
    }
}

fn filter(wanted: Wanted) -> Filter {
    Filter {
        streams: wanted.stream,
        kinds: wanted.kind,
        actor: wanted.actor,
        text: wanted.text,
        ..Filter::default()
    }
}

pub(super) async fn follow(
    ctx: &mut Context,
    logs: &Logs,
    log: Option<&str>,
    wanted: Wanted,
    after: Option<&str>,
) -> Result<Exit, Failure> {
    if !logs.can_grow {
        let message = format!("{} is an export and does not grow", logs.origin);
        return Err(Failure::usage(message).advise("`cocoonbox replay show --from` shows it"));
    }
    let filter = filter(wanted);
    let only = log.map(|name| logs.find(name)).transpose()?;
    let start = match (after, only) {
        (None, _) => None,
        (Some(text), Some(log)) => Some((log, logs.position(ctx, log, text).await?)),
        (Some(text), None) => match text.parse::<OffsetKey>() {
            Ok(key) => Some((key.log, logs.position(ctx, key.log, text).await?)),
            Err(_) => return Err(Failure::usage("a position needs --log")),
        },
    };
    let following = match start {
        Some((log, pos)) => Follow::from_position(&logs.store, log, pos, filter),
        None => Follow::from_now(&logs.store, only, filter),
    };
    let mut following = following.map_err(failed("follow"))?;
    let mut interrupts = Interrupts::catch()?;
    ctx.out.note("following; Ctrl-C ends it");
    let mut shown: Option<LogId> = None;
    let mut is_down = false;
    loop {
        let next = tokio::select! {
            biased;
            _ = interrupts.next() => return Ok(Exit::Interrupted),
            next = following.next() => next,
        };
        let batch = match next {
            Ok(batch) => batch,
            // The cursors stand where they were; what is written meanwhile is read later.
            Err(Error::Read { source, .. }) if matches!(source, ReadError::Io(_)) => {
                if !is_down {
                    ctx.out
                        .note(format!("cannot read, trying again: {}", chain(&source)));
                    is_down = true;
                }
                tokio::select! {
                    _ = interrupts.next() => return Ok(Exit::Interrupted),
                    () = tokio::time::sleep(RETRY) => continue,
                }
            }
            Err(error) => return Err(failed("follow")(error)),
        };
        if is_down {
            ctx.out.note("reading again");
            is_down = false;
        }
        if shown != Some(batch.log) && only.is_none() {
            let name = logs.name(batch.log);
            ctx.out.note(format!("{name} ({})", batch.log));
        }
        shown = Some(batch.log);
        for line in batch.lines {
            ctx.out.answer(&line.to_json(), line.to_string())?;
        }
    }
}
