//! Moving an installation between stores.

mod rewind;

use std::{
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use cocoonbox_events::{SystemClock, SystemIds};
use cocoonbox_installation::{
    Address, Holder, Installation, OpenError, Purpose, Taken,
    copy::{Copied, CopyError, compare, copy},
    leases::COPY,
};
use serde_json::json;
use uuid::Uuid;

use crate::{
    cli::log::Log,
    context::Context,
    exit::Exit,
    failure::{Failure, chain},
    output::Progress,
};

/// Before the name of an environment variable.
const ENV: &str = "env:";
const MASTER: &str = "master.key";
/// Before the id in the name of the lease by which an api says that it runs.
const PROCESS: &str = "process/";
/// How often it is said how far the copy is.
const SAY: Duration = Duration::from_secs(2);
const TIME_TO_LIVE: Duration = Duration::from_secs(10);
const RENEW: Duration = Duration::from_secs(3);

pub async fn log(ctx: &mut Context, command: Log) -> Result<Exit, Failure> {
    let (from, to, no_verify) = match command {
        Log::Copy {
            from,
            to,
            no_verify,
        } => (from, to, no_verify),
        Log::Rewind {
            reason,
            store,
            logs,
        } => return rewind::rewind(ctx, &store, &logs, &reason).await,
    };
    let data = ctx.data_dir();
    let (from, to) = (address(&from, &data)?, address(&to, &data)?);
    if from == to {
        return Err(Failure::usage("FROM and TO are the same store"));
    }
    let keys = master_folder(&from, &data);
    give_master(&keys, &to)?;
    let progress = ctx.out.progress(format!("opening {from} and {to}"));
    if let Address::Folder(folder) = &from
        && !folder.join("log.db").exists()
    {
        let message = format!("there is no log in `{}`", folder.display());
        return Err(Failure::new(Exit::NotFound, message));
    }
    let source = open(&from, &keys, Purpose::Use).await?;
    let target = open(&to, &keys, Purpose::Copy).await?;
    let claims = [
        Claim::on(&source, &from).await?,
        Claim::on(&target, &to).await?,
    ];
    let copied = tokio::select! {
        copied = run(ctx, &progress, &source, &target, !no_verify) => copied,
        lost = Claim::keep(&claims) => Err(lost),
    };
    for claim in claims {
        claim.leave().await;
    }
    source.close().await;
    target.close().await;
    drop(progress);
    let copied = copied?;
    say(ctx, &copied, &to, !no_verify)?;
    Ok(Exit::Ok)
}

async fn run(
    ctx: &mut Context,
    progress: &Progress,
    source: &Installation,
    target: &Installation,
    verify: bool,
) -> Result<Copied, Failure> {
    let mut said = Instant::now();
    let copied = copy(source, target, |now| {
        if said.elapsed() >= SAY {
            said = Instant::now();
            let words = format!(
                "copied {} of {} events, {} of {} logs",
                now.events_done, now.events, now.logs_done, now.logs
            );
            progress.step(&mut ctx.out, words);
        }
    })
    .await
    .map_err(|error| failed(&error))?;
    if verify {
        compare(source, target, |events| {
            if said.elapsed() >= SAY {
                said = Instant::now();
                let words = format!("compared {events} of {} events", copied.events);
                progress.step(&mut ctx.out, words);
            }
        })
        .await
        .map_err(|error| failed(&error))?;
    }
    Ok(copied)
}

fn say(ctx: &mut Context, copied: &Copied, to: &Address, verified: bool) -> Result<(), Failure> {
    let value = json!({
        "logs": copied.logs,
        "events": copied.events,
        "events_new": copied.events_new,
        "checkpoints": copied.checkpoints,
        "owners": copied.owners,
        "signing_keys": copied.signing_keys,
        "tokens": copied.tokens,
        "verified": verified,
    });
    let line = format!(
        "{} events in {} logs, {} of them new, with {} checkpoints, {} owners' keys and {} tokens{}",
        copied.events,
        copied.logs,
        copied.events_new,
        copied.checkpoints,
        copied.owners,
        copied.tokens,
        if verified { "; both are the same" } else { "" },
    );
    ctx.out.answer(&value, line)?;
    let start = match to {
        Address::Folder(folder) => format!("cocoonbox up --data-dir {}", folder.display()),
        Address::Postgres(_) => "COCOONBOX_STORE=… cocoonbox up".to_owned(),
    };
    ctx.out
        .note(format!("start the api on the copy only: {start}"));
    Ok(())
}

fn address(text: &str, data: &Path) -> Result<Address, Failure> {
    let bad = |error| Failure::usage(chain(&error));
    let Some(name) = text.strip_prefix(ENV) else {
        let address = Address::parse(text, data).map_err(bad)?;
        // Arguments can be read by everybody on the host.
        if address.has_password() {
            return Err(Failure::usage(
                "a store's address with a password is not for the command line",
            )
            .advise("put it into an environment variable and give env:NAME"));
        }
        return Ok(address);
    };
    let value = std::env::var(name)
        .map_err(|_| Failure::usage(format!("`{name}` is not in the environment")))?;
    Address::parse(&value, data).map_err(bad)
}

/// The master key of a copy is that of the source: a folder has its own, a database that of the api's data folder.
fn master_folder(from: &Address, data: &Path) -> PathBuf {
    match from {
        Address::Folder(folder) => folder.clone(),
        Address::Postgres(_) => data.to_owned(),
    }
}

/// Puts the master key into a folder that has none.
fn give_master(keys: &Path, to: &Address) -> Result<(), Failure> {
    let Address::Folder(folder) = to else {
        return Ok(());
    };
    let (from, to) = (keys.join(MASTER), folder.join(MASTER));
    if to.exists() {
        return Ok(());
    }
    let given = || {
        let key = std::fs::read(&from)?;
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&to)?;
        file.write_all(&key)?;
        file.sync_all()
    };
    given().map_err(|error| {
        Failure::local(format!("copying `{}`", from.display()), &error)
            .advise("--data-dir names the folder with the master key of the source")
    })
}

async fn open(address: &Address, keys: &Path, purpose: Purpose) -> Result<Installation, Failure> {
    let (clock, ids) = (Arc::new(SystemClock), Arc::new(SystemIds));
    let opened = Installation::open(address, keys, purpose, clock, ids).await;
    opened.map_err(|error| not_opened(&error))
}

fn not_opened(error: &OpenError) -> Failure {
    let failure = Failure::new(Exit::Failure, chain(error));
    match error.advice() {
        Some(advice) => failure.advise(advice),
        None => failure,
    }
}

fn failed(error: &CopyError) -> Failure {
    Failure::new(Exit::Failure, chain(error))
}

/// Our word to everybody else that a store is being copied. A folder has its lock for that.
struct Claim<'a> {
    installation: &'a Installation,
    us: Holder,
    fence: u64,
}

impl<'a> Claim<'a> {
    async fn on(installation: &'a Installation, address: &Address) -> Result<Self, Failure> {
        let leases = &installation.leases;
        let us = Holder {
            id: Uuid::new_v4().simple().to_string(),
            address: "log-copy".to_owned(),
            place: String::new(),
        };
        let taken = leases.take(COPY, &us, TIME_TO_LIVE).await;
        let taken = taken.map_err(|error| Failure::local("taking the store", &error))?;
        let Taken::Granted { fence } = taken else {
            return Err(Failure::new(
                Exit::Failure,
                format!("somebody else is copying {address}"),
            ));
        };
        // An api looks for the claim when it starts, and we for an api once we have it.
        let live = leases.live().await;
        let live = live.map_err(|error| Failure::local("looking for apis", &error))?;
        let running = live.iter().find(|lease| lease.name.starts_with(PROCESS));
        if let Some(api) = running {
            leases.release(COPY, &us, fence).await.ok();
            let message = format!("an api at {} uses {address}", api.holder.address);
            return Err(Failure::new(Exit::Failure, message)
                .advise("stop it: `cocoonbox down`; one that was killed is gone after 10 s"));
        }
        Ok(Self {
            installation,
            us,
            fence,
        })
    }

    /// Goes on claiming; returns only when that is not possible any more.
    async fn keep(claims: &[Self]) -> Failure {
        loop {
            tokio::time::sleep(RENEW).await;
            for claim in claims {
                let renewed = claim.installation.leases.renew(&claim.us, TIME_TO_LIVE);
                match renewed.await {
                    Ok(kept) if kept.iter().any(|lease| lease.name == COPY) => {}
                    Ok(_) => {
                        return Failure::new(Exit::Failure, "the store was taken by somebody else");
                    }
                    Err(error) => return Failure::local("keeping the store", &error),
                }
            }
        }
    }

    async fn leave(self) {
        // It runs out anyway.
        let leases = &self.installation.leases;
        leases.release(COPY, &self.us, self.fence).await.ok();
    }
}
