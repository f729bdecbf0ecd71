//! The logs of this host, of a copy or of an export, read without an api.

mod address;
mod check;
mod compare;
mod files;
mod known;
mod logs;
mod proof;
mod reasons;
mod rebuilt;
mod shown;
mod ticker;
mod when;

pub(crate) use when::Calendar;

use cocoonbox_events::StreamName;
use cocoonbox_replay::{By, Source};

use crate::{
    cli::replay::Replay,
    context::Context,
    exit::Exit,
    failure::{Failure, chain},
};
use compare::Question;
use logs::Logs;
use shown::Span;

/// Opens the logs that the environment names, else those of the data directory. For reading: nothing is
/// made or brought up to date.
pub async fn open_own(ctx: &Context) -> Result<Source, Failure> {
    logs::open_own(ctx, None).await
}

pub async fn replay(ctx: &mut Context, command: Replay) -> Result<Exit, Failure> {
    let place = command.place();
    let logs = &Logs::open(ctx, &place).await?;
    match command {
        Replay::Verify(options) => check::check(ctx, logs, &options).await,
        Replay::Checkpoint(options) => proof::checkpoints(ctx, logs, &options).await,
        Replay::Show {
            log,
            wanted,
            since,
            until,
            after,
            limit,
            last,
        } => {
            let span = Span {
                since,
                until,
                after,
                limit,
                last,
            };
            shown::events(ctx, logs, log.log.as_deref(), wanted, span).await
        }
        Replay::State {
            log,
            stream,
            view,
            key,
            at,
        } => {
            let (log, at) = (log.log.as_deref(), at.as_deref());
            match (&stream, &view) {
                (_, Some(view)) => known::view(ctx, logs, log, (view, key.as_deref()), at).await,
                (Some(stream), None) => known::aggregate(ctx, logs, log, stream, at).await,
                (None, None) => Err(Failure::usage("a stream or a view is missing")),
            }
        }
        Replay::Diff {
            log,
            a,
            b,
            other,
            meaning,
        } => {
            let question = Question {
                log: log.log.as_deref(),
                a: a.as_deref(),
                b: b.as_deref(),
                other: other.as_deref(),
                key_dir: place.key_dir.as_deref(),
                by: if meaning { By::Meaning } else { By::Bytes },
            };
            compare::compare(ctx, logs, question).await
        }
        Replay::Rebuild { compare, .. } => rebuilt::rebuild(ctx, logs, compare).await,
        Replay::Rerun { log, stream } => {
            let log = log.log.as_deref();
            reasons::conversations(ctx, logs, log, stream.as_deref()).await
        }
        Replay::Why { log, event } => reasons::causes(ctx, logs, log.log.as_deref(), &event).await,
        Replay::Follow { log, wanted, after } => {
            shown::follow(ctx, logs, log.log.as_deref(), wanted, after.as_deref()).await
        }
        Replay::Export(options) => files::export(ctx, logs, &options).await,
        Replay::Import {
            to, allow_redacted, ..
        } => files::bring_in(ctx, logs, &to, allow_redacted).await,
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
