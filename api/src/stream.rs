//! Streams to clients: a cursor over a log that moves only when the client takes something.
//!
//! There is no task and no queue behind a stream, so a client that does not read costs one cursor and
//! at most one page.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use cocoonbox_events::{Kind, LogId, OffsetKey, Recorded, Store};
use cocoonbox_projections::Views;
use cocoonbox_proto::log::v1::{Event, EventOrHeartbeat, Heartbeat, event_or_heartbeat::Item};
use futures::Stream;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::status;

/// Events held for one client between reads. With 256 KiB payloads at most 16 MiB for a client that
/// stops at the worst moment, and a few KiB for any real one.
const PAGE_EVENTS: usize = 64;
/// A quiet stream says where it is this often, so that a client can tell quiet from broken.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// A filter that passes over this many events says where it is.
const SKIPPED_MAX: u64 = 10_000;
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
    bell: watch::Receiver<u64>,
    after: u64,
    skipped: u64,
    ready: VecDeque<EventOrHeartbeat>,
    /// A client hears something by then.
    heard_by: Instant,
    stop: CancellationToken,
}

/// Opens a stream at the client's offset.
pub async fn open(
    store: Arc<dyn Store>,
    selection: Selection,
    stop: CancellationToken,
) -> Result<impl Stream<Item = Result<EventOrHeartbeat, Status>> + Send + use<>, Status> {
    let after = position(&*store, selection.log, &selection.from).await?;
    let bell = store.doorbell(selection.log).map_err(status::from_read)?;
    let cursor = Cursor {
        store,
        selection,
        bell,
        after,
        skipped: 0,
        ready: VecDeque::new(),
        heard_by: Instant::now() + HEARTBEAT,
        stop,
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

/// Checks an offset key that must belong to `log` and returns the position behind which to read.
pub async fn position(store: &dyn Store, log: LogId, key: &str) -> Result<u64, Status> {
    if key.is_empty() {
        return Ok(0);
    }
    let key: OffsetKey = key
        .parse()
        .map_err(|_| status::bad_field("from_offset", "not an offset key"))?;
    if key.log != log {
        return Err(status::bad_field(
            "from_offset",
            "an offset key of another log",
        ));
    }
    let mut bell = store.doorbell(log).map_err(status::from_read)?;
    let reached = bell.wait_for(|tail| *tail >= key.pos);
    drop(tokio::time::timeout(AHEAD_WAIT, reached).await);
    store.resume(&key).await.map_err(status::from_read)
}

/// Waits until the views have seen what is at `key`: reading what one has written.
pub async fn seen(store: &dyn Store, views: &Views, log: LogId, key: &str) -> Result<(), Status> {
    let pos = position(store, log, key).await?;
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
            if let Some(item) = self.ready.pop_front() {
                self.heard_by = Instant::now() + HEARTBEAT;
                return Ok(Some(item));
            }
            if self.skipped >= SKIPPED_MAX || Instant::now() >= self.heard_by {
                return self.heartbeat().await.map(Some);
            }
            self.bell.mark_unchanged();
            let read = self
                .store
                .read(self.selection.log, self.after, PAGE_EVENTS)
                .await;
            let page = read.map_err(status::from_read)?;
            let Some(last) = page.events.last() else {
                if !self.selection.follow {
                    return Ok(None);
                }
                let fault = faulty(&mut self.selection.fault);
                tokio::select! {
                    () = self.stop.cancelled() => return Err(stopping()),
                    status = fault => return Err(status),
                    // Rung or not: the log is looked at again, or the client hears where it is.
                    _ = tokio::time::timeout_at(self.heard_by, self.bell.changed()) => {}
                }
                continue;
            };
            self.after = last.pos;
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
        let chain = self.store.chain_at(self.selection.log, self.after).await;
        let chain = chain.map_err(status::from_read)?;
        let offset_key = OffsetKey::new(self.selection.log, self.after, chain).to_string();
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
