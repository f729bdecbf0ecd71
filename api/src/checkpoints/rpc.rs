//! `cocoonbox.control.v1.Checkpoints`.

use std::sync::Arc;

use cocoonbox_events::{LogId, LogInfo, Store, checkpoint, keys::IssuedKey};
use cocoonbox_proto::control::v1::{
    CheckpointKey, ListCheckpointsRequest, ListCheckpointsResponse, ListKeysRequest,
    ListKeysResponse, RotateKeyRequest, RotateKeyResponse, SignedCheckpoint, StandingRequest,
    StandingResponse, checkpoints_server,
};
use tonic::{Code, Request, Response, Status};

use super::Handle;
use crate::{
    auth::Caller,
    status,
    users::{page_size, page_token},
};

/// Serves checkpoints.
pub struct Rpc {
    pub store: Arc<dyn Store>,
    pub handle: Handle,
}

#[tonic::async_trait]
impl checkpoints_server::Checkpoints for Rpc {
    async fn list(
        &self,
        request: Request<ListCheckpointsRequest>,
    ) -> Result<Response<ListCheckpointsResponse>, Status> {
        let logs = self.logs(&Caller::of(request.extensions()))?;
        let request = request.into_inner();
        let size = page_size(request.page_size);
        let token = page_token(&request.page_token);
        let answer = if request.log_id.is_empty() {
            self.newest(logs, token, size).await?
        } else {
            let log = logs
                .iter()
                .find(|log| log.id.to_string() == request.log_id)
                .ok_or_else(no_such_log)?;
            let after = match token {
                Some(token) => token.parse().map_err(|_| bad_token())?,
                None => request.after_size,
            };
            self.behind(log.id, after, size).await?
        };
        Ok(Response::new(answer))
    }

    async fn list_keys(
        &self,
        request: Request<ListKeysRequest>,
    ) -> Result<Response<ListKeysResponse>, Status> {
        self.logs(&Caller::of(request.extensions()))?;
        let keys = self.handle.keys().await;
        let keys = keys.map_err(|error| status::internal(&error))?;
        let keys = keys.iter().map(key).collect();
        Ok(Response::new(ListKeysResponse { keys }))
    }

    async fn rotate_key(
        &self,
        request: Request<RotateKeyRequest>,
    ) -> Result<Response<RotateKeyResponse>, Status> {
        Caller::of(request.extensions()).host()?;
        let rotated = self.handle.rotate().await;
        let rotated = rotated.ok_or_else(|| {
            status::status(
                Code::Unavailable,
                "STOPPING",
                "the api is stopping; repeat it",
            )
        })?;
        let issued = rotated.map_err(|error| status::internal(&error))?;
        let key = Some(key(&issued));
        Ok(Response::new(RotateKeyResponse { key }))
    }

    async fn standing(
        &self,
        request: Request<StandingRequest>,
    ) -> Result<Response<StandingResponse>, Status> {
        Caller::of(request.extensions()).admin()?;
        let standing = self.handle.standing();
        Ok(Response::new(StandingResponse {
            logs_behind: standing.logs_behind,
            written: standing.written,
            failed: standing.failed,
            fault: standing.fault.unwrap_or_default(),
            alarm: standing.alarm.unwrap_or_default(),
        }))
    }
}

impl Rpc {
    /// The logs that a caller may see, by id.
    fn logs(&self, caller: &Caller) -> Result<Vec<LogInfo>, Status> {
        let mut logs = self.store.logs();
        if *caller != Caller::Host {
            let user = caller.user()?;
            // The system log has no owner, and no user an empty id.
            logs.retain(|log| !log.owner.is_empty() && log.owner == user);
        }
        logs.sort_by_key(|log| log.id);
        Ok(logs)
    }

    async fn newest(
        &self,
        logs: Vec<LogInfo>,
        token: Option<&str>,
        size: usize,
    ) -> Result<ListCheckpointsResponse, Status> {
        let after: Option<LogId> = match token {
            Some(token) => Some(token.parse().map_err(|_| bad_token())?),
            None => None,
        };
        let mut answer = ListCheckpointsResponse::default();
        for log in logs.iter().filter(|log| Some(log.id) > after) {
            let newest = checkpoint::newest(&*self.store, log).await;
            let Some(newest) = newest.map_err(status::from_read)? else {
                continue;
            };
            if answer.checkpoints.len() == size {
                let last = answer.checkpoints.last();
                answer.next_page_token = last.map(|one| one.log_id.clone()).unwrap_or_default();
                break;
            }
            answer.checkpoints.push(signed(log.id, newest));
        }
        Ok(answer)
    }

    async fn behind(
        &self,
        log: LogId,
        after: u64,
        size: usize,
    ) -> Result<ListCheckpointsResponse, Status> {
        let rows = self.store.checkpoints(log, after, size).await;
        let rows = rows.map_err(status::from_read)?;
        let next_page_token = match rows.last() {
            Some(last) if rows.len() == size => last.size.to_string(),
            _ => String::new(),
        };
        Ok(ListCheckpointsResponse {
            checkpoints: rows.into_iter().map(|row| signed(log, row)).collect(),
            next_page_token,
        })
    }
}

fn signed(log: LogId, checkpoint: cocoonbox_events::Checkpoint) -> SignedCheckpoint {
    SignedCheckpoint {
        log_id: log.to_string(),
        size: checkpoint.size,
        note: checkpoint.note,
    }
}

fn key(issued: &IssuedKey) -> CheckpointKey {
    CheckpointKey {
        verifier_key: issued.key.to_string(),
        issued_at_ms: issued.issued_us / 1_000,
        retired_at_ms: issued.retired_us.map_or(0, |us| us / 1_000),
    }
}

/// Also for logs of others: who may not see one is not told that it is there.
fn no_such_log() -> Status {
    status::status(Code::NotFound, "NO_SUCH_LOG", "you have no such log")
}

fn bad_token() -> Status {
    status::bad_field("page_token", "not one that was given out")
}
