//! `BoxLog`: how the api keeps its replica.

use std::pin::Pin;

use async_trait::async_trait;
use cocoonbox_events::{ChainHash, Follower, LogId, Parent, Recorded};
use cocoonbox_proto::{
    agent::v1::{
        self as wire, EraseRequest, FollowRequest, LinkRequest, LinkResponse, LogStanding,
        QuiesceRequest, ReleaseRequest, RestoreRequest, StandingRequest, StandingResponse,
        box_log_server::BoxLog,
    },
    log::v1::{RecordedBatch, Tail},
};
use futures::Stream;
use tokio::sync::{Mutex, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{Request, Response, Status};

use super::{Gate, status};
use crate::{
    blobs::Blobs,
    erase,
    exec::Execs,
    handover::Handover,
    journal::{Branch, Journal, LINEAGE_MAX, LineageError},
    saves::Saves,
    seats::Seats,
    serve::{desktop::Desktop, history},
    turn::Agents,
};

/// Batches that wait for the api; the log holds the rest.
const BATCHES_MAX: usize = 2;

pub(crate) struct BoxLogService {
    pub(crate) journal: Journal,
    pub(crate) agents: Agents,
    pub(crate) execs: Execs,
    pub(crate) gate: Gate,
    /// Told at the release whether calls wait for them.
    pub(crate) saves: Saves,
    /// Followed from the release on, and looked at once more at the end.
    pub(crate) desktop: Desktop,
    /// Watched from the release on.
    pub(crate) handover: Handover,
    pub(crate) seats: Seats,
    pub(crate) blobs: Blobs,
    /// Ends the turn loops.
    pub(crate) stop_turns: CancellationToken,
    pub(crate) tasks: TaskTracker,
    /// Held while the box is being released.
    pub(crate) releasing: Mutex<()>,
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
        let log = self.journal.released().ok_or_else(status::not_released)?;
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

    async fn erase(&self, request: Request<EraseRequest>) -> Result<Response<Tail>, Status> {
        let EraseRequest {
            positions,
            reason,
            log_id,
        } = request.into_inner();
        if !self.gate.is_open() {
            return Err(self
                .journal
                .released()
                .map_or_else(status::not_released, |_| status::stopping()));
        }
        let left = (!log_id.is_empty())
            .then(|| log_id_of(&log_id, "log_id"))
            .transpose()?;
        let erased = match left.filter(|log| *log != self.journal.log()) {
            None => erase::erase(&self.journal, positions, reason).await,
            Some(left) => erase::erase_left(&self.journal, left, &positions).await,
        };
        let tail = erased.map_err(|error| status::erase_error(&error))?;
        tracing::info!(pos = tail.pos, "erased");
        self.agents.wake_all();
        Ok(Response::new(told_tail(tail)))
    }

    async fn quiesce(&self, _: Request<QuiesceRequest>) -> Result<Response<Tail>, Status> {
        // A box that is stopped while it waits has written nothing; whether its disk has all is not known.
        if self.journal.released().is_none() {
            return Err(status::not_released());
        }
        self.gate.close();
        self.stop_turns.cancel();
        self.agents.ended().await;
        self.execs.interrupt().await;
        self.desktop.picture(&self.journal, &self.blobs).await;
        let tail = self
            .journal
            .close()
            .await
            .map_err(|error| status::read_error(&error))?;
        tracing::info!(pos = tail.pos, "quiesced");
        Ok(Response::new(told_tail(tail)))
    }

    async fn standing(
        &self,
        _: Request<StandingRequest>,
    ) -> Result<Response<StandingResponse>, Status> {
        let logs = self.journal.store().logs().into_iter();
        let logs = logs.map(|info| LogStanding {
            branch: Some(told_branch(info.id, info.parent)),
            tail: Some(told_tail(info.tail)),
        });
        let released = self.journal.released();
        Ok(Response::new(StandingResponse {
            logs: logs.collect(),
            restoring: self.journal.is_restoring(),
            released: released.map_or_else(Vec::new, |log| log.as_bytes().to_vec()),
        }))
    }

    async fn link(&self, request: Request<LinkRequest>) -> Result<Response<LinkResponse>, Status> {
        let LinkRequest { log_id, pos } = request.into_inner();
        let log = log_id_of(&log_id, "log_id")?;
        let chain = self.journal.store().chain_at(log, pos).await;
        let chain = chain.map_err(|error| status::read_error(&error))?;
        Ok(Response::new(LinkResponse {
            chain: chain.0.to_vec(),
        }))
    }

    async fn restore(&self, request: Request<RestoreRequest>) -> Result<Response<Tail>, Status> {
        let RestoreRequest { branch, events } = request.into_inner();
        let branch = branch_of(&branch.unwrap_or_default())?;
        let events = events.into_iter();
        let events = events.map(|event| Recorded::from_wire(branch.log, event));
        let events: Option<Vec<_>> = events.collect();
        let events = events.ok_or_else(|| status::bad_field("events", "not readable"))?;
        let _one_at_a_time = self.releasing.lock().await;
        let restored = self.journal.restore(branch, events).await;
        let tail = restored.map_err(|error| status::lineage(&error))?;
        tracing::info!(pos = tail.pos, "events taken back");
        Ok(Response::new(told_tail(tail)))
    }

    async fn release(&self, request: Request<ReleaseRequest>) -> Result<Response<Tail>, Status> {
        let ReleaseRequest {
            lineage,
            ends_turns,
            saves_first,
        } = request.into_inner();
        if lineage.len() > LINEAGE_MAX {
            let logs = lineage.len();
            return Err(status::lineage(&LineageError::Length { logs }));
        }
        let lineage: Result<Vec<_>, _> = lineage.iter().map(branch_of).collect();
        let lineage = lineage?;
        let _one_at_a_time = self.releasing.lock().await;
        let released = self.journal.release(&lineage).await;
        if let Err(LineageError::Elsewhere { .. }) = &released {
            tracing::warn!("another log is to be written; starting again");
            self.journal.broken().cancel();
        }
        let tail = released.map_err(|error| status::lineage(&error))?;
        if !self.gate.is_open() {
            self.saves.set(saves_first);
            let of = (&self.journal, &self.execs, &self.agents);
            let taken = history::take_up(of.0, of.1, of.2, ends_turns).await;
            if let Err(error) = taken {
                tracing::error!(%error, "what was under way cannot be taken up");
                self.journal.broken().cancel();
                return Err(status::interrupted("the box starts again"));
            }
            self.gate.open();
            let desktop = self.desktop.clone();
            self.tasks.spawn(desktop.follow(self.journal.clone()));
            self.tasks.spawn(self.handover.clone().follow());
            let (seats, stop) = (self.seats.clone(), self.stop_turns.clone());
            self.tasks
                .spawn(stop.run_until_cancelled_owned(seats.begin()));
            tracing::info!(log = %tail.log, pos = tail.pos, "released");
        }
        Ok(Response::new(told_tail(tail)))
    }
}

fn told_branch(log: LogId, parent: Option<Parent>) -> wire::Branch {
    wire::Branch {
        log_id: log.as_bytes().to_vec(),
        parent_log: parent.map_or_else(Vec::new, |parent| parent.log.as_bytes().to_vec()),
        parent_pos: parent.map_or(0, |parent| parent.pos),
        parent_chain: parent.map_or_else(Vec::new, |parent| parent.chain.0.to_vec()),
    }
}

fn branch_of(branch: &wire::Branch) -> Result<Branch, Status> {
    let log = log_id_of(&branch.log_id, "log_id")?;
    let parent = if branch.parent_log.is_empty() {
        None
    } else {
        let chain = ChainHash::from_slice(&branch.parent_chain);
        Some(Parent {
            log: log_id_of(&branch.parent_log, "parent_log")?,
            pos: branch.parent_pos,
            chain: chain.ok_or_else(|| status::bad_field("parent_chain", "not 32 bytes"))?,
        })
    };
    Ok(Branch { log, parent })
}

fn log_id_of(bytes: &[u8], field: &str) -> Result<LogId, Status> {
    LogId::from_slice(bytes).ok_or_else(|| status::bad_field(field, "not 16 bytes"))
}

fn told_tail(tail: cocoonbox_events::Tail) -> Tail {
    Tail {
        log_id: tail.log.as_bytes().to_vec(),
        pos: tail.pos,
        chain: tail.chain.0.to_vec(),
    }
}
