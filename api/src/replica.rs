//! Replication: a running box's log, copied here event by event, unchanged and verified.
//!
//! The copy is what survives the box. A box can lie in its own log; it cannot write anything but the
//! kinds a box may write, nor change what it has once written. Before anything is copied the box is told
//! which log it writes ([`Release`]): its disk may have less than the copy, or something else.

mod lineage;
mod release;
mod standing;
mod verdict;

use std::{sync::Arc, time::Duration};

use cocoonbox_events::{
    AppendError, Kind, LogId, Recorded, ReplicaError, Store,
    erasure::{self, HonourError},
};
use cocoonbox_proto::{
    agent::v1::{FollowRequest, QuiesceRequest, box_log_client::BoxLogClient},
    log::v1::{RecordedBatch, Tail},
};
use tokio_util::sync::CancellationToken;

pub use self::{
    lineage::{history, open},
    release::{Release, ReleaseError},
};
use crate::channel::BoxChannel;

/// The agent may be restarting; it is back within a second.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);
/// A batch of the agent holds at most 1 MiB of payloads and their headers.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum ReplicationError {
    #[error("the box sent a batch of another log")]
    OtherLog,
    #[error("the box sent an event that cannot be read")]
    Unreadable,
    #[error("the box wrote `{kind}` to stream `{stream}`, which a box may not")]
    Forbidden { kind: String, stream: String },
    #[error("appending to the replica")]
    Replica(#[source] ReplicaError),
    #[error("erasing in the replica what the box has erased")]
    Erasure(#[source] HonourError),
    #[error("the stream from the box broke off")]
    Broken(#[source] tonic::Status),
    #[error("releasing the box")]
    Release(#[source] ReleaseError),
}

/// Releases the box and copies until stopped. Ends by itself only when what the box writes cannot be
/// accepted.
pub async fn run(
    store: Arc<dyn Store>,
    release: Release,
    channel: BoxChannel,
    stop: CancellationToken,
) {
    let mut pause = RETRY_MIN;
    loop {
        let outcome = tokio::select! {
            () = stop.cancelled() => return,
            outcome = follow(&*store, &release, &channel, &mut pause) => outcome,
        };
        match outcome {
            Ok(()) | Err(ReplicationError::Broken(_)) => {}
            // Nothing was taken in yet; it is tried again.
            Err(ReplicationError::Erasure(error)) => {
                let error = crate::status::describe(&error);
                tracing::warn!(box_id = channel.box_id, error, "replica is behind");
            }
            Err(ReplicationError::Replica(ReplicaError::Store(error))) if error.is_retryable() => {
                tracing::warn!(box_id = channel.box_id, %error, "replica is behind");
            }
            // The box's disk went back or was changed, or the log was rewound here: it is compared again.
            Err(ReplicationError::Replica(
                ReplicaError::Gap { .. }
                | ReplicaError::Diverged { .. }
                | ReplicaError::Broken(_)
                | ReplicaError::Store(AppendError::Moved { .. }),
            )) => tracing::warn!(
                box_id = channel.box_id,
                "a box's log does not go on from the copy"
            ),
            Err(ReplicationError::Release(error)) if error.is_retryable() => {
                let error = crate::status::describe(&error);
                tracing::debug!(box_id = channel.box_id, error, "box is not released yet");
            }
            Err(error) => return give_up(&channel, &error),
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(RETRY_MAX),
        }
    }
}

/// Says it to the operator and to everyone who follows the box's log.
fn give_up(channel: &BoxChannel, error: &ReplicationError) {
    let error = crate::status::describe(error);
    tracing::error!(
        box_id = channel.box_id,
        error,
        "replication of a box log stopped"
    );
    channel.fault.send_replace(error);
}

async fn follow(
    store: &dyn Store,
    release: &Release,
    channel: &BoxChannel,
    pause: &mut Duration,
) -> Result<(), ReplicationError> {
    let released = release.release(channel).await;
    let log = released.map_err(ReplicationError::Release)?;
    let after_pos = store.tail(log).map_or(0, |tail| tail.pos);
    let mut client =
        BoxLogClient::new(channel.transport.clone()).max_decoding_message_size(BATCH_BYTES_MAX);
    let request = channel.sign(FollowRequest { after_pos });
    let answer = client
        .follow(request)
        .await
        .map_err(ReplicationError::Broken)?;
    let mut batches = answer.into_inner();
    while let Some(batch) = batches.message().await.map_err(ReplicationError::Broken)? {
        let mut events = accept(log, batch)?;
        let mut said = events.split_off(erasure::before_done(&events));
        if !events.is_empty() {
            store
                .replicate(log, events)
                .await
                .map_err(ReplicationError::Replica)?;
        }
        if !said.is_empty() {
            erasure::honour(store, log, &mut said)
                .await
                .map_err(ReplicationError::Erasure)?;
            store
                .replicate(log, said)
                .await
                .map_err(ReplicationError::Replica)?;
        }
        *pause = RETRY_MIN;
    }
    Ok(())
}

/// Checks what must hold of a batch before the chain is looked at.
fn accept(log: LogId, batch: RecordedBatch) -> Result<Vec<Recorded>, ReplicationError> {
    if LogId::from_slice(&batch.log_id) != Some(log) {
        return Err(ReplicationError::OtherLog);
    }
    let mut events = Vec::with_capacity(batch.events.len());
    for event in batch.events {
        let event = Recorded::from_wire(log, event).ok_or(ReplicationError::Unreadable)?;
        if !allowed(&event) {
            return Err(ReplicationError::Forbidden {
                kind: Kind::from_number(event.kind)
                    .map_or("unknown", Kind::name)
                    .to_owned(),
                stream: event.stream.to_string(),
            });
        }
        events.push(event);
    }
    Ok(events)
}

/// Whether a box may write this kind to this stream: `agent.…` to `agent/…`, and so on.
fn allowed(event: &Recorded) -> bool {
    let Some(kind) = Kind::from_number(event.kind) else {
        return false;
    };
    // Keys are the installation's, and only its own log tells of them.
    if matches!(
        kind,
        Kind::LogCheckpointKeyIssued | Kind::LogCheckpointKeyRetired
    ) {
        return false;
    }
    let noun = kind.name().split('.').next().unwrap_or_default();
    let stream = event.stream.as_str().split('/').next().unwrap_or_default();
    matches!(noun, "agent" | "blob" | "desktop" | "exec" | "log") && noun == stream
}

/// Asks the agent to write nothing more and waits until the replica has everything.
pub async fn quiesce(
    store: &dyn Store,
    channel: &BoxChannel,
    deadline: Duration,
) -> Result<Tail, tonic::Status> {
    let work = async {
        let mut client = BoxLogClient::new(channel.transport.clone());
        let tail = client
            .quiesce(channel.sign(QuiesceRequest {}))
            .await?
            .into_inner();
        let mut bell = store
            .doorbell(channel.log())
            .map_err(crate::status::from_read)?;
        let reached = bell.wait_for(|pos| *pos >= tail.pos).await;
        reached.map_err(|_| tonic::Status::unavailable("the store is stopping"))?;
        if LogId::from_slice(&tail.log_id) != Some(channel.log()) {
            return Err(tonic::Status::aborted("the box writes another log"));
        }
        Ok(tail)
    };
    tokio::time::timeout(deadline, work)
        .await
        .unwrap_or_else(|_| Err(tonic::Status::deadline_exceeded("the box did not quiesce")))
}
