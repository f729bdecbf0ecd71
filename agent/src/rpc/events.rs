//! The box log as clients see it: a cursor with a filter, and heartbeats that move the cursor on.

use std::time::Duration;

use cocoonbox_events::{Follower, Kind, OffsetKey, Recorded};
use cocoonbox_proto::{
    agent::v1::EventsRequest,
    log::v1::{Event, EventOrHeartbeat, Heartbeat, event_or_heartbeat::Item},
};
use tokio::{sync::mpsc, time::timeout};
use tonic::Status;

use super::status;
use crate::journal::Journal;

/// A client is told so often that the stream lives.
const IDLE: Duration = Duration::from_secs(5);
/// And where it is, after so many events that are not for it.
const SKIPPED_MAX: u32 = 10_000;

pub(super) type Items = mpsc::Sender<Result<EventOrHeartbeat, Status>>;

/// Where a client's key says to begin.
pub(super) async fn begin(journal: &Journal, key: &str) -> Result<u64, Status> {
    if key.is_empty() {
        return Ok(0);
    }
    let key: OffsetKey = key
        .parse()
        .map_err(|error| status::bad_field("from_offset", format!("{error}")))?;
    journal
        .store()
        .resume(journal.log(), &key)
        .await
        .map_err(|error| status::read_error(&error))
}

/// Sends what the request asks for until its end or the client's.
pub(super) async fn send(journal: Journal, request: EventsRequest, after: u64, items: Items) {
    if let Err(status) = follow(&journal, &request, after, &items).await {
        items.send(Err(status)).await.ok();
    }
}

async fn follow(
    journal: &Journal,
    request: &EventsRequest,
    after: u64,
    items: &Items,
) -> Result<(), Status> {
    let log = journal.log();
    let failed = |error| status::read_error(&error);
    let mut follower = Follower::new(journal.store().clone(), log, after).map_err(failed)?;
    let chain = journal.store().chain_at(log, after).await.map_err(failed)?;
    let mut seen = OffsetKey::new(log, after, chain).to_string();
    let mut skipped = 0;
    loop {
        let to_tail = request.no_follow || journal.over().is_cancelled();
        let page = if to_tail {
            follower.poll().await.map_err(failed)?
        } else {
            tokio::select! {
                page = timeout(IDLE, follower.next()) => match page {
                    Ok(page) => page.map_err(failed)?,
                    Err(_) => {
                        if items.send(Ok(heartbeat(&seen))).await.is_err() {
                            return Ok(());
                        }
                        skipped = 0;
                        continue;
                    }
                },
                () = items.closed() => return Ok(()),
                () = journal.over().cancelled() => continue,
            }
        };
        for event in &page.events {
            seen = event.offset_key().to_string();
            let item = if wanted(event, &request.streams) {
                skipped = 0;
                to_wire(event)
            } else {
                skipped += 1;
                if skipped < SKIPPED_MAX {
                    continue;
                }
                skipped = 0;
                heartbeat(&seen)
            };
            if items.send(Ok(item)).await.is_err() {
                return Ok(());
            }
        }
        if to_tail && page.events.is_empty() {
            if skipped > 0 {
                items.send(Ok(heartbeat(&seen))).await.ok();
            }
            return Ok(());
        }
    }
}

fn wanted(event: &Recorded, prefixes: &[String]) -> bool {
    prefixes.is_empty()
        || prefixes
            .iter()
            .any(|prefix| event.stream.as_str().starts_with(prefix))
}

fn heartbeat(key: &str) -> EventOrHeartbeat {
    EventOrHeartbeat {
        offset_key: key.to_owned(),
        item: Some(Item::Heartbeat(Heartbeat {
            offset_key: key.to_owned(),
        })),
    }
}

fn to_wire(event: &Recorded) -> EventOrHeartbeat {
    let offset_key = event.offset_key().to_string();
    let header = event.header();
    let kind = match Kind::from_number(event.kind) {
        Some(kind) => kind.name().to_owned(),
        // Written by a later build; a client may know it.
        None => format!("kind.{}", event.kind),
    };
    EventOrHeartbeat {
        offset_key: offset_key.clone(),
        item: Some(Item::Event(Event {
            offset_key,
            stream: event.stream.to_string(),
            seq: event.seq,
            kind,
            version: event.version,
            at_ms: event.recorded_us.div_euclid(1_000),
            actor: header.actor,
            payload: event
                .body
                .as_ref()
                .map(|body| body.payload.to_vec())
                .unwrap_or_default(),
            erased: event.body.is_none(),
            event_id: hex::encode(header.event_id),
            cause: hex::encode(header.cause),
        })),
    }
}
