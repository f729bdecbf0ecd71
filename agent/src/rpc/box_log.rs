//! `BoxLog`: how the api keeps its replica.

use std::pin::Pin;

use async_trait::async_trait;
use cocoonbox_events::{Follower, Recorded};
use cocoonbox_proto::{
    agent::v1::{FollowRequest, QuiesceRequest, box_log_server::BoxLog},
    log::v1::{RecordedBatch, Tail},
};
use futures::Stream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{Request, Response, Status};

use super::{Gate, status};
use crate::{exec::Execs, journal::Journal, turn::Agents};

/// Batches that wait for the api; the log holds the rest.
const BATCHES_MAX: usize = 2;

pub(crate) struct BoxLogService {
    pub(crate) journal: Journal,
    pub(crate) agents: Agents,
    pub(crate) execs: Execs,
    pub(crate) gate: Gate,
    /// Ends the turn loops.
    pub(crate) stop_turns: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

#[async_trait]
impl BoxLog for BoxLogService {
    type FollowStream = Pin<Box<dyn Stream<Item = Result<RecordedBatch, Status>> + Send>>;

    async fn follow(
        &self,
        request: Request<FollowRequest>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        let after = request.into_inner().after_pos;
        let failed = |error| status::read_error(&error);
        let log = self.journal.log();
        // A replica that is ahead of us holds what this log has lost: it must not wait in silence.
        let tail = self.journal.tail().map_err(failed)?;
        if after > tail.pos {
            let ahead = cocoonbox_events::ReadError::AheadOfTail {
                pos: after,
                tail: tail.pos,
            };
            return Err(status::read_error(&ahead));
        }
        let mut follower =
            Follower::new(self.journal.store().clone(), log, after).map_err(failed)?;
        let (batches, answers) = mpsc::channel(BATCHES_MAX);
        let over = self.journal.over().clone();
        self.tasks.spawn(async move {
            loop {
                let page = if over.is_cancelled() {
                    follower.poll().await
                } else {
                    tokio::select! {
                        page = follower.next() => page,
                        () = batches.closed() => return,
                        () = over.cancelled() => continue,
                    }
                };
                if page.as_ref().is_ok_and(|page| page.events.is_empty()) {
                    return;
                }
                let batch = page
                    .map_err(|error| status::read_error(&error))
                    .map(|page| RecordedBatch {
                        log_id: log.as_bytes().to_vec(),
                        events: page.events.iter().map(Recorded::to_wire).collect(),
                    });
                let is_last = batch.is_err();
                if batches.send(batch).await.is_err() || is_last {
                    return;
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(answers))))
    }

    async fn quiesce(&self, _: Request<QuiesceRequest>) -> Result<Response<Tail>, Status> {
        self.gate.close();
        self.stop_turns.cancel();
        self.agents.ended().await;
        self.execs.interrupt().await;
        let tail = self
            .journal
            .close()
            .await
            .map_err(|error| status::read_error(&error))?;
        tracing::info!(pos = tail.pos, "quiesced");
        Ok(Response::new(Tail {
            log_id: tail.log.as_bytes().to_vec(),
            pos: tail.pos,
            chain: tail.chain.0.to_vec(),
        }))
    }
}
