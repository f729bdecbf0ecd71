//! Streams to clients: a cursor over a log that moves only when the client takes something.
//!
//! There is no task and no queue behind a stream, so a client that does not read costs one cursor and
//! at most two pages, if it stops while it is far behind.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use cocoonbox_events::{
    Follower, Kind, LogId, OffsetKey, ReadError, Recorded, Store, limits::STREAM_NAME_BYTES_MAX,
};
use cocoonbox_projections::Views;
use cocoonbox_proto::log::v1::{Event, EventOrHeartbeat, Heartbeat, event_or_heartbeat::Item};
use futures::Stream;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::{metrics::OpenStream, status};

/// Events held for one client between reads, and as many read ahead for one that is far behind. The
/// store cuts a page at 1 MiB, so that is what each may hold for a client that stops at the worst moment.
const PAGE_EVENTS: usize = 512;
/// A quiet stream says where it is this often, so that a client can tell quiet from broken.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// A filter that passes over this many events says where it is.
const SKIPPED_MAX: u64 = 10_000;
/// Each event is held against each of them.
const FILTERS_MAX: usize = 64;
/// How long a key ahead of the log is waited for: a box's log arrives a moment after the box's answer.
const AHEAD_WAIT: Duration = Duration::from_secs(2);

/// How long a read waits for the views to have seen a position. They are milliseconds behind, or down.
pub const AT_LEAST: Duration = Duration::from_secs(2);

/// What a client wants to see.
#[derive(Clone, Debug)]
pub struct Selection {
    pub log: LogId,
    /// Offset key as the client gave it; empty = from the start.
    pub from: String,
    /// Stream name prefixes; empty = all.
    pub streams: Vec<String>,
    pub follow: bool,
    /// Says why no more events will come; empty as long as they may.
    pub fault: Option<watch::Receiver<String>>,
}

struct Cursor {
    store: Arc<dyn Store>,
    selection: Selection,
    follower: Follower,
    skipped: u64,
    ready: VecDeque<EventOrHeartbeat>,
    /// A client hears something by then.
    heard_by: Instant,
    stop: CancellationToken,
    _counted: OpenStream,
}

/// Opens a stream at the client's offset.
pub async fn open(
    store: Arc<dyn Store>,
    selection: Selection,
    stop: CancellationToken,
) -> Result<impl Stream<Item = Result<EventOrHeartbeat, Status>> + Send + use<>, Status> {
    check_filters(&selection.streams)?;
    let mut selection = selection;
    selection.log = store.current(selection.log).map_err(status::from_read)?;
    let after = position(&*store, selection.log, &selection.from).await?;
    let cursor = Cursor {
        follower: follower(&store, selection.log, after)?,
        store,
        selection,
        skipped: 0,
        ready: VecDeque::new(),
        heard_by: Instant::now() + HEARTBEAT,
        stop,
        _counted: OpenStream::begin(),
    };
    Ok(futures::stream::unfold(Some(cursor), |cursor| async {
        let mut cursor = cursor?;
        match cursor.next().await {
            Ok(Some(item)) => Some((Ok(item), Some(cursor))),
            Ok(None) => None,
            Err(status) => Some((Err(status), None)),
        }
    }))
}

fn follower(store: &Arc<dyn Store>, log: LogId, after: u64) -> Result<Follower, Status> {
    let follower = Follower::new(store.clone(), log, after).map_err(status::from_read)?;
    Ok(follower.holding_little(PAGE_EVENTS))
}

/// A filter that no stream can match, or thousands of them, is a mistake or an attack.
fn check_filters(streams: &[String]) -> Result<(), Status> {
    if streams.len() > FILTERS_MAX {
        return Err(status::bad_field(
            "streams",
            format!("at most {FILTERS_MAX} prefixes"),
        ));
    }
    if streams.iter().any(|one| one.len() > STREAM_NAME_BYTES_MAX) {
        return Err(status::bad_field(
            "streams",
            format!("a stream's name has at most {STREAM_NAME_BYTES_MAX} bytes"),
        ));
    }
    Ok(())
}

/// Checks an offset key that must belong to `log` and returns the position behind which to read.
pub async fn position(store: &dyn Store, log: LogId, key: &str) -> Result<u64, Status> {
    if key.is_empty() {
        return Ok(0);
    }
    let key: OffsetKey = key
        .parse()
        .map_err(|_| status::bad_field("from_offset", "not an offset key"))?;
    let log = store.current(log).map_err(status::from_read)?;
    if key.log == log {
        let mut bell = store.doorbell(log).map_err(status::from_read)?;
        let reached = bell.wait_for(|tail| *tail >= key.pos);
        drop(tokio::time::timeout(AHEAD_WAIT, reached).await);
    }
    match store.resume(log, &key).await {
        Ok(after) => Ok(after),
        Err(ReadError::Moved { to, common }) => Err(rewound(store, to, common).await),
        Err(ReadError::OtherLog { .. }) => Err(status::bad_field(
            "from_offset",
            "an offset key of another log",
        )),
        Err(error) => Err(status::from_read(error)),
    }
}

/// Says that a client has seen what was undone, and with which key of today's branch it goes on.
async fn rewound(store: &dyn Store, log: LogId, common: u64) -> Status {
    let key = async {
        // By now there may be a further branch, which may part even before.
        let mut at = store.info(log)?;
        let mut common = common;
        while let Some(to) = at.moved_to {
            at = store.info(to)?;
            common = common.min(at.parent.map_or(0, |parent| parent.pos));
        }
        let chain = store.chain_at(at.id, common).await?;
        Ok(OffsetKey::new(at.id, common, chain))
    };
    match key.await {
        Ok(key) => status::rewound(&key),
        Err(error) => status::from_read(error),
    }
}

/// Waits until the views have seen what is at `key`: reading what one has written.
pub async fn seen(store: &dyn Store, views: &Views, log: LogId, key: &str) -> Result<(), Status> {
    let pos = position(store, log, key).await?;
    let log = store.current(log).map_err(status::from_read)?;
    let chain = store.chain_at(log, pos).await.map_err(status::from_read)?;
    let reached = views
        .at_least(&OffsetKey::new(log, pos, chain), AT_LEAST)
        .await;
    reached.map_err(|_| behind())
}

/// Says that what was asked for is written, but not in the views.
pub fn behind() -> Status {
    status::status(
        tonic::Code::Unavailable,
        "VIEWS_BEHIND",
        "what you asked for is written, but not yet to be read; read again with its offset key",
    )
}

impl Cursor {
    async fn next(&mut self) -> Result<Option<EventOrHeartbeat>, Status> {
        loop {
            self.follow_rewinds().await?;
            if let Some(item) = self.ready.pop_front() {
                self.heard_by = Instant::now() + HEARTBEAT;
                return Ok(Some(item));
            }
            if self.skipped >= SKIPPED_MAX || Instant::now() >= self.heard_by {
                return self.heartbeat().await.map(Some);
            }
            let page = self.follower.poll().await.map_err(status::from_read)?;
            if page.events.is_empty() {
                if !self.selection.follow {
                    return Ok(None);
                }
                let fault = faulty(&mut self.selection.fault);
                tokio::select! {
                    () = self.stop.cancelled() => return Err(stopping()),
                    status = fault => return Err(status),
                    // Rung or not: the log is looked at again, or the client hears where it is.
                    _ = tokio::time::timeout_at(self.heard_by, self.follower.rung()) => {}
                }
                continue;
            }
            let wanted: Vec<_> = page
                .events
                .iter()
                .filter(|e| self.wants(e))
                .map(item)
                .collect();
            if wanted.is_empty() {
                self.skipped += page.events.len() as u64;
            }
            self.ready.extend(wanted);
        }
    }

    /// Goes on in the branch, if the log was rewound: without a word to a client that has seen nothing of
    /// what was left behind. Any other is told, even if events are ready for it.
    async fn follow_rewinds(&mut self) -> Result<(), Status> {
        loop {
            let log = self.follower.log();
            let Some(to) = self.store.info(log).map_err(status::from_read)?.moved_to else {
                return Ok(());
            };
            let branch = self.store.info(to).map_err(status::from_read)?;
            let common = branch.parent.map_or(0, |parent| parent.pos);
            let after = self.follower.position();
            if after > common {
                return Err(rewound(&*self.store, log, common).await);
            }
            self.follower = follower(&self.store, to, after)?;
        }
    }

    fn wants(&self, event: &Recorded) -> bool {
        let streams = &self.selection.streams;
        streams.is_empty()
            || streams
                .iter()
                .any(|s| event.stream.as_str().starts_with(s.as_str()))
    }

    async fn heartbeat(&mut self) -> Result<EventOrHeartbeat, Status> {
        self.skipped = 0;
        self.heard_by = Instant::now() + HEARTBEAT;
        let (log, pos) = (self.follower.log(), self.follower.position());
        let chain = self.store.chain_at(log, pos).await;
        let chain = chain.map_err(status::from_read)?;
        let offset_key = OffsetKey::new(log, pos, chain).to_string();
        let heartbeat = Heartbeat {
            offset_key: offset_key.clone(),
        };
        Ok(EventOrHeartbeat {
            offset_key,
            item: Some(Item::Heartbeat(heartbeat)),
        })
    }
}

/// Ends with the reason once no more events will come.
async fn faulty(fault: &mut Option<watch::Receiver<String>>) -> Status {
    if let Some(fault) = fault
        && let Ok(reason) = fault.wait_for(|reason| !reason.is_empty()).await
    {
        return status::with(
            tonic::Code::DataLoss,
            "REPLICATION_STOPPED",
            "the box's log does not go on from what was copied of it; the operator has to look",
            &[("cause", &reason)],
        );
    }
    std::future::pending().await
}

/// Tells clients that the api goes down: a broken stream is resumed, an ended one is believed.
fn stopping() -> Status {
    status::status(
        tonic::Code::Unavailable,
        "STOPPING",
        "the server is stopping; resume later",
    )
}

fn item(event: &Recorded) -> EventOrHeartbeat {
    let offset_key = event.offset_key().to_string();
    let header = event.header();
    let event = Event {
        offset_key: offset_key.clone(),
        stream: event.stream.to_string(),
        seq: event.seq,
        kind: Kind::from_number(event.kind).map_or_else(
            || format!("unknown.{}", event.kind),
            |kind| kind.name().to_owned(),
        ),
        version: event.version,
        at_ms: event.recorded_us / 1_000,
        actor: header.actor,
        payload: event
            .body
            .as_ref()
            .map(|body| body.payload.to_vec())
            .unwrap_or_default(),
        erased: event.body.is_none(),
        event_id: hex::encode(header.event_id),
        cause: hex::encode(header.cause),
    };
    EventOrHeartbeat {
        offset_key,
        item: Some(Item::Event(event)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_bounded() {
        let one = "x".repeat(STREAM_NAME_BYTES_MAX);
        assert!(check_filters(&vec![one.clone(); FILTERS_MAX]).is_ok());
        let refused = [vec![one.clone(); FILTERS_MAX + 1], vec![one + "x"]];
        for filters in refused {
            let status = check_filters(&filters).unwrap_err();
            assert_eq!(status.code(), tonic::Code::InvalidArgument);
        }
    }
}
