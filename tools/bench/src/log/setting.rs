//! Stores to measure, and events to put into them.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use anyhow::Context;
use cocoonbox_events::{
    Append, CommandId, ExecEvent, Expect, Keyring, LogId, LogKey, LogKind, NewEvent, NewLog,
    NoKeys, Sealing, SqliteStore, Store, StreamName, SystemClock, SystemIds,
};
use cocoonbox_proto::log::v1::{Actor, ExecOutputStreamed, actor, exec_output_streamed::Source};
use tempfile::TempDir;
use uuid::Uuid;

/// A few lines of a tool's output: about what most events hold.
pub(crate) const PAYLOAD_BYTES: usize = 500;

/// How payloads lie on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lying {
    Open,
    Sealed,
}

/// A folder that goes with the value.
pub(crate) struct Setting {
    dir: TempDir,
    made: AtomicU32,
}

/// One store with one log in it.
pub(crate) struct Measured {
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) log: LogId,
    pub(crate) path: PathBuf,
}

/// One key for all: what is measured is the cipher, not the keeping of keys.
pub(crate) struct OneKey;

impl Keyring for OneKey {
    fn log_key(&self, log: LogId, _: &str) -> Sealing {
        Sealing::Key(LogKey::derive(&[7; 32], log))
    }
}

impl Setting {
    pub(crate) fn new(dir: &Path) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix("cocoonbox-bench-")
            .tempdir_in(dir)
            .with_context(|| format!("making a folder in `{}`", dir.display()))?;
        Ok(Self {
            dir,
            made: AtomicU32::new(0),
        })
    }

    /// Makes a store with an empty log.
    pub(crate) async fn store(&self, lying: Lying) -> anyhow::Result<Measured> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let path = self.dir.path().join(format!("log-{number}.db"));
        let keys: Arc<dyn Keyring> = match lying {
            Lying::Open => Arc::new(NoKeys),
            Lying::Sealed => Arc::new(OneKey),
        };
        let store = SqliteStore::open(&path, keys, Arc::new(SystemClock), Arc::new(SystemIds))?;
        let log = store.open(new_log()).await?.log;
        Ok(Measured {
            store: Arc::new(store),
            log,
            path,
        })
    }

    /// Makes a store with a log of `events` events, written 256 at a time.
    pub(crate) async fn filled(&self, lying: Lying, events: u64) -> anyhow::Result<Measured> {
        let measured = self.store(lying).await?;
        fill(&*measured.store, measured.log, events).await?;
        Ok(measured)
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Writes `events` events, 256 at a time.
pub(crate) async fn fill(store: &dyn Store, log: LogId, events: u64) -> anyhow::Result<()> {
    let mut left = events;
    while left > 0 {
        let count = left.min(cocoonbox_events::limits::APPEND_EVENTS_MAX as u64);
        let batch = (0..count)
            .map(|index| event(left - index))
            .collect::<Result<_, _>>()?;
        store.append(log, append(batch)).await?;
        left -= count;
    }
    Ok(())
}

/// A log to be opened in a store.
pub(crate) fn new_log() -> NewLog {
    NewLog {
        id: LogId(Uuid::now_v7()),
        kind: LogKind::Account,
        owner: "bench".to_owned(),
        parent: None,
    }
}

impl Measured {
    /// Closes the store and removes its files.
    pub(crate) async fn remove(self) {
        self.store.close().await;
        drop(self.store);
        for suffix in ["", "-wal", "-shm", ".lock"] {
            let mut file = self.path.clone().into_os_string();
            file.push(suffix);
            // The whole folder goes at the end; this only keeps the disk from filling up meanwhile.
            drop(std::fs::remove_file(file));
        }
    }
}

/// An event with random content, in one of 64 streams.
fn event(number: u64) -> anyhow::Result<NewEvent> {
    new_event(StreamName::new(format!("exec/{}", number % 64))?)
}

/// An event with random content.
pub(crate) fn new_event(stream: StreamName) -> anyhow::Result<NewEvent> {
    let mut data = vec![0; PAYLOAD_BYTES];
    getrandom::fill(&mut data).map_err(|error| anyhow::anyhow!("random source: {error}"))?;
    let output = ExecOutputStreamed {
        source: Source::Stdout.into(),
        offset: 0,
        data,
        skipped_bytes: 0,
    };
    Ok(NewEvent {
        stream,
        payload: ExecEvent::OutputStreamed(output).into(),
    })
}

/// An append with a command id of its own that expects nothing.
pub(crate) fn append(events: Vec<NewEvent>) -> Append {
    Append {
        command: CommandId(Uuid::now_v7()),
        digest: [0; 32],
        expect: events
            .first()
            .map(|event| (event.stream.clone(), Expect::Any))
            .into_iter()
            .collect(),
        events,
        actor: Actor {
            kind: actor::Kind::Agent.into(),
            id: "bench".to_owned(),
        },
        cause: None,
    }
}
