//! The logs of a data directory, by the names that people have for them.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use cocoonbox_events::{
    BoxEvent, DirectoryEvent, KeyStore, LogId, LogInfo, LogKind, OffsetKey, Payload, SqliteStore,
    Store,
};
use cocoonbox_replay::pages::Pages;

use super::failed;
use crate::{exit::Exit, failure::Failure};

/// The store of a data directory, for reading.
pub(super) struct Logs {
    pub(super) store: Arc<dyn Store>,
    /// Names by log: `account:ann`, `box:main`.
    names: BTreeMap<LogId, Vec<String>>,
}

impl Logs {
    pub(super) async fn open(data: &Path) -> Result<Self, Failure> {
        let path = data.join("log.db");
        if !path.exists() {
            return Err(Failure::new(
                Exit::NotFound,
                format!("there is no log in `{}`", data.display()),
            )
            .advise("--data-dir or COCOONBOX_DATA_DIR names the data directory of an api"));
        }
        let keys = KeyStore::open_read_only(data)
            .map_err(|error| Failure::local("opening the keys", &error))?;
        let store = SqliteStore::open_read_only(&path, Arc::new(keys))
            .map_err(|error| Failure::local("opening the log", &error))?;
        let store: Arc<dyn Store> = Arc::new(store);
        let names = names(&store).await?;
        Ok(Self { store, names })
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
            && let Some(log) = logs.iter().find(|log| log.kind == LogKind::System)
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
        let system = |info: &LogInfo| info.id == log && info.kind == LogKind::System;
        match self.names.get(&log).and_then(|names| names.first()) {
            Some(name) => name.clone(),
            None if self.store.logs().iter().any(system) => "system".to_owned(),
            None => log.to_string(),
        }
    }

    /// Reads a position: an offset key of this log, checked, or a number.
    pub(super) async fn position(&self, log: LogId, text: &str) -> Result<u64, Failure> {
        if let Ok(pos) = text.parse() {
            return Ok(pos);
        }
        let key: OffsetKey = text.parse().map_err(|_| {
            Failure::usage(format!("`{text}` is neither a position nor an offset key"))
        })?;
        if key.log != log {
            return Err(Failure::usage(format!("`{text}` is a key of another log")));
        }
        self.store
            .resume(&key)
            .await
            .map_err(failed("the offset key"))
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

/// Collects what the system log says of users and the account logs say of boxes.
async fn names(store: &Arc<dyn Store>) -> Result<BTreeMap<LogId, Vec<String>>, Failure> {
    let mut names: BTreeMap<LogId, Vec<String>> = BTreeMap::new();
    let mut add = |log: &[u8], prefix: &str, words: [&str; 2]| {
        if let Some(log) = LogId::from_slice(log) {
            let words = words.iter().map(|word| format!("{prefix}:{word}"));
            names.entry(log).or_default().extend(words);
        }
    };
    for info in store.logs().iter().filter(|log| log.kind != LogKind::Box) {
        let mut pages = Pages::of_log(store, info.id, 0).map_err(failed("reading the names"))?;
        // A log that is damaged here still has an id, and `verify` says where it is damaged.
        while let Ok(Some(events)) = pages.next().await {
            for event in events {
                match event.payload() {
                    Ok(Some(Payload::Directory(DirectoryEvent::UserAdded(user)))) => {
                        add(&user.account_log, "account", [&user.name, &user.user_id]);
                    }
                    Ok(Some(Payload::Box(BoxEvent::Created(one)))) => {
                        add(&one.box_log, "box", [&one.name, &one.box_id]);
                    }
                    _ => {}
                }
            }
        }
    }
    Ok(names)
}
