//! The logs of a source, by the names that people have for them.

mod names;

use std::{
    collections::BTreeMap,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
};

use cocoonbox_events::{LogId, LogInfo, LogKind, Store, StreamName};
use cocoonbox_replay::{Origin, Source, SourceError, position_at};

use super::{
    failed,
    when::{Calendar, Moment},
};
use crate::{cli::replay::Place, context::Context, exit::Exit, failure::Failure};

/// An address and a line break; longer files are something else.
const ADDRESS_BYTES_MAX: u64 = 4 * 1024;

/// A store, for reading.
pub(super) struct Logs {
    pub(super) store: Arc<dyn Store>,
    pub(super) origin: Origin,
    /// Rows of views that belong to the logs.
    pub(super) views: Option<PathBuf>,
    pub(super) can_grow: bool,
    pub(super) redacted: bool,
    /// Names by log: `account:ann`, `box:main`.
    names: BTreeMap<LogId, Vec<String>>,
}

impl Logs {
    /// Opens what the command line names, else what the environment does, else the data directory.
    pub(super) async fn open(ctx: &Context, place: &Place) -> Result<Self, Failure> {
        let key_dir = place.key_dir.as_deref();
        let source = match &place.from {
            Some(path) => open_path(ctx, path, key_dir).await?,
            None => open_own(ctx, key_dir).await?,
        };
        Self::read(source).await
    }

    /// Opens another source to compare with.
    pub(super) async fn open_other(
        ctx: &Context,
        path: &Path,
        key_dir: Option<&Path>,
    ) -> Result<Self, Failure> {
        Self::read(open_path(ctx, path, key_dir).await?).await
    }

    async fn read(source: Source) -> Result<Self, Failure> {
        let names = names::read(&source.store).await?;
        Ok(Self {
            views: source.views(),
            can_grow: source.can_grow(),
            store: source.store,
            origin: source.origin,
            redacted: source.redacted,
            names,
        })
    }

    /// Says what an answer cannot have in it.
    pub(super) fn warn(&self, ctx: &mut Context) {
        if self.redacted {
            let origin = &self.origin;
            ctx.out.note(format!(
                "{origin} is redacted: every payload reads as erased"
            ));
        }
    }

    /// The logs that a `--log` means, all if there is none.
    pub(super) fn select(&self, log: Option<&str>) -> Result<Vec<LogInfo>, Failure> {
        let mut logs = self.store.logs();
        if let Some(name) = log {
            let id = self.find(name)?;
            logs.retain(|log| log.id == id);
        }
        Ok(logs)
    }

    /// Finds one log by id or name.
    pub(super) fn find(&self, name: &str) -> Result<LogId, Failure> {
        let logs = self.store.logs();
        if name == "system"
            && let Some(log) = logs
                .iter()
                .find(|log| log.kind == LogKind::System && log.moved_to.is_none())
        {
            return Ok(log.id);
        }
        if let Ok(id) = name.parse::<LogId>() {
            return if logs.iter().any(|log| log.id == id) {
                Ok(id)
            } else {
                Err(Failure::new(
                    Exit::NotFound,
                    format!("log `{name}` is not here"),
                ))
            };
        }
        let named = |names: &&Vec<String>| names.iter().any(|one| one == name);
        let found: Vec<LogId> = self
            .names
            .iter()
            .filter(|(_, names)| named(names))
            .map(|(id, _)| *id)
            .collect();
        match found.as_slice() {
            [one] => Ok(*one),
            [] => Err(
                Failure::new(Exit::NotFound, format!("no log is called `{name}`"))
                    .advise(format!("there are: {}", self.all_names())),
            ),
            several => {
                let ids: Vec<String> = several.iter().map(LogId::to_string).collect();
                Err(Failure::usage(format!("several logs are called `{name}`"))
                    .advise(format!("name one by its id: {}", ids.join(", "))))
            }
        }
    }

    /// What a log is called; its id if nothing better is known.
    pub(super) fn name(&self, log: LogId) -> String {
        match self.names.get(&log).and_then(|names| names.first()) {
            Some(name) => name.clone(),
            None if self.is_system(log) => "system".to_owned(),
            None => log.to_string(),
        }
    }

    /// The user ids that a name means: the name itself, and whose account has it.
    pub(super) fn owners(&self, user: &str) -> Vec<String> {
        let account = format!("account:{user}");
        let mut owners = vec![user.to_owned()];
        for log in self.store.logs() {
            let is_theirs = log.kind == LogKind::Account
                && self
                    .names
                    .get(&log.id)
                    .is_some_and(|names| names.contains(&account));
            if is_theirs {
                owners.push(log.owner);
            }
        }
        owners
    }

    /// Reads a position in one log: a number, a key of its history, or a time.
    pub(super) async fn position(
        &self,
        ctx: &mut Context,
        log: LogId,
        text: &str,
    ) -> Result<u64, Failure> {
        let calendar = Calendar::here();
        let moment = calendar.moment(text)?;
        if let Moment::Time(at) = moment {
            calendar.say(&mut ctx.out, "as of", at);
        }
        self.position_of(log, moment).await
    }

    pub(super) async fn position_of(&self, log: LogId, moment: Moment) -> Result<u64, Failure> {
        match moment {
            Moment::Pos(pos) => Ok(pos),
            Moment::Key(key) => {
                let resumed = self.store.resume(log, &key).await;
                resumed.map_err(failed("the offset key"))
            }
            Moment::Time(at) => {
                let found = position_at(&self.store, log, at.as_microsecond()).await;
                found.map_err(failed("looking for the time"))
            }
        }
    }

    /// The one log that has this stream.
    pub(super) async fn holder(&self, stream: &StreamName) -> Result<LogId, Failure> {
        let mut found = Vec::new();
        for info in self.store.logs() {
            // A branch has what it inherits; who asks for the stream means where it goes on.
            if info.moved_to.is_some() {
                continue;
            }
            let page = self.store.read_stream(info.id, stream, 0, 1).await;
            if !page.map_err(failed("reading"))?.events.is_empty() {
                found.push(info.id);
            }
        }
        match found.as_slice() {
            [one] => Ok(*one),
            [] => Err(
                Failure::new(Exit::NotFound, format!("no log has a stream `{stream}`"))
                    .advise("`cocoonbox replay show --limit 20` shows how streams are called"),
            ),
            several => {
                let names: Vec<String> = several.iter().map(|log| self.name(*log)).collect();
                Err(
                    Failure::usage(format!("several logs have a stream `{stream}`"))
                        .advise(format!("name one with --log: {}", names.join(", "))),
                )
            }
        }
    }

    fn is_system(&self, log: LogId) -> bool {
        let info = self.store.info(log);
        info.is_ok_and(|info| info.kind == LogKind::System)
    }

    fn all_names(&self) -> String {
        let mut names: Vec<&str> = self
            .names
            .values()
            .filter_map(|names| names.first())
            .map(String::as_str)
            .collect();
        names.push("system");
        names.join(", ")
    }
}

/// Opens what the environment names, else the data directory.
pub(super) async fn open_own(ctx: &Context, key_dir: Option<&Path>) -> Result<Source, Failure> {
    match ctx.store_address()? {
        Some(address) => super::address::open(ctx, address.expose(), key_dir).await,
        None => open_data(&ctx.data_dir(), key_dir).await,
    }
}

pub(super) async fn open_data(data: &Path, key_dir: Option<&Path>) -> Result<Source, Failure> {
    match Source::open(data, key_dir).await {
        Err(SourceError::Absent { path } | SourceError::NoLog { path }) => Err(Failure::new(
            Exit::NotFound,
            format!("there is no log in `{}`", path.display()),
        )
        .advise("--data-dir or COCOONBOX_DATA_DIR names the data directory of an api, --from anything else")),
        other => other.map_err(source_failure),
    }
}

async fn open_path(ctx: &Context, path: &Path, key_dir: Option<&Path>) -> Result<Source, Failure> {
    match Source::open(path, key_dir).await {
        Err(SourceError::Unknown { path }) => match address_in(&path) {
            Some(address) => super::address::open(ctx, &address, key_dir).await,
            None => Err(source_failure(SourceError::Unknown { path })),
        },
        other => other.map_err(source_failure),
    }
}

/// The address of a database that a file holds, if it holds nothing else.
fn address_in(path: &Path) -> Option<String> {
    let mut text = String::new();
    let file = File::open(path).ok()?;
    file.take(ADDRESS_BYTES_MAX)
        .read_to_string(&mut text)
        .ok()?;
    let address = text.trim();
    let is_address = address.starts_with("postgres://") || address.starts_with("postgresql://");
    (is_address && !address.contains('\n')).then(|| address.to_owned())
}

fn source_failure(error: SourceError) -> Failure {
    let failure = Failure::local("opening the logs", &error);
    match error {
        SourceError::Absent { .. } | SourceError::NoLog { .. } => Failure {
            exit: Exit::NotFound,
            ..failure
        },
        SourceError::Unknown { .. } => failure.advise(
            "it has to be a data directory, a log.db, what `replay export` wrote, or a file with a postgres:// address",
        ),
        SourceError::Io { .. }
        | SourceError::Keys(_)
        | SourceError::Database(_)
        | SourceError::Export(_) => failure,
    }
}
