//! Installations to test with, and what happens in them.

use std::{path::Path, sync::Arc};

use cocoonbox_events::{
    Append, CommandId, Expect, Ids as _, LogId, LogKind, NewEvent, NewLog, StreamName, SystemClock,
    SystemIds, UserEvent,
    store::{Checkpoint, Parent},
};
use cocoonbox_installation::{Address, Installation, KeptToken, Purpose, TokenOwner};
use cocoonbox_proto::log::v1::{Actor, UserRenamed};

pub(crate) async fn folder(path: &Path, purpose: Purpose) -> Installation {
    open(&Address::Folder(path.to_owned()), path, purpose).await
}

/// `data` has the master key.
pub(crate) async fn database(url: &str, data: &Path, purpose: Purpose) -> Installation {
    open(&Address::parse(url, data).unwrap(), data, purpose).await
}

async fn open(address: &Address, data: &Path, purpose: Purpose) -> Installation {
    Installation::open(
        address,
        data,
        purpose,
        Arc::new(SystemClock),
        Arc::new(SystemIds),
    )
    .await
    .unwrap()
}

/// Opens a log of this owner; `parent` closes it if the new log takes its place.
pub(crate) async fn log(
    one: &Installation,
    kind: LogKind,
    owner: &str,
    parent: Option<(LogId, u64)>,
    rewinds: bool,
) -> LogId {
    let parent = match parent {
        Some((log, pos)) => Some(Parent {
            log,
            pos,
            chain: one.store.chain_at(log, pos).await.unwrap(),
        }),
        None => None,
    };
    let id = LogId(SystemIds.draw());
    let new = NewLog {
        id,
        kind,
        owner: owner.into(),
        parent,
    };
    if rewinds {
        one.store.rewind(new).await.unwrap();
    } else {
        one.store.open(new).await.unwrap();
    }
    id
}

/// Appends so many events, a command each, to two streams in turn.
pub(crate) async fn write(one: &Installation, log: LogId, count: usize, text: &str) {
    for number in 0..count {
        let stream = StreamName::new(format!("user/{}", number % 2)).unwrap();
        let renamed = UserRenamed {
            name: format!("{text} {number}"),
        };
        let append = Append {
            command: CommandId(SystemIds.draw()),
            digest: [7; 32],
            expect: vec![(stream.clone(), Expect::Any)],
            events: vec![NewEvent {
                stream,
                payload: UserEvent::Renamed(renamed).into(),
            }],
            actor: Actor::default(),
            cause: None,
        };
        one.store.append(log, append).await.unwrap();
    }
}

/// A command that led to nothing.
pub(crate) async fn remember(one: &Installation, log: LogId, command: CommandId) {
    let append = Append {
        command,
        digest: [7; 32],
        expect: Vec::new(),
        events: Vec::new(),
        actor: Actor::default(),
        cause: None,
    };
    one.store.append(log, append).await.unwrap();
}

pub(crate) async fn checkpoint(one: &Installation, log: LogId, size: u64) {
    let checkpoint = Checkpoint {
        size,
        chain: one.store.chain_at(log, size).await.unwrap(),
        note: format!("{log} at {size}"),
    };
    one.store.keep_checkpoint(log, checkpoint).await.unwrap();
}

pub(crate) fn token(id: &str, user: &str) -> KeptToken {
    let mut hash = [0; 32];
    hash[..id.len()].copy_from_slice(id.as_bytes());
    KeptToken {
        hash: hash.to_vec(),
        owner: TokenOwner {
            token_id: id.into(),
            user_id: user.into(),
        },
        sealed: id.starts_with('t').then(|| id.as_bytes().to_vec()),
    }
}
