//! `cocoonbox.agent.v1.Control`, for boxes that this process drives.

use std::sync::Arc;

use cocoonbox_commands::{
    bounded,
    control::{Command, IDLE_MS_DEFAULT, LABEL_BYTES_MAX},
};
use cocoonbox_events::Clock;
use cocoonbox_proto::{
    agent::v1::{
        ControlState, ReleaseControlRequest, RenewControlRequest, ShowControlRequest,
        TakeControlRequest, control_server::Control,
    },
    log::v1::control_released::Reason,
};
use http::Extensions;
use tonic::{Request, Response, Status};

use super::{
    handle::{Desks, Handle},
    refusal::closing,
};
use crate::{accounts::Accounts, auth::Caller, channel::BoxChannel, status};

/// Answers calls about who drives.
#[derive(Clone)]
pub(crate) struct Controls {
    pub(crate) desks: Desks,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) clock: Arc<dyn Clock>,
}

#[tonic::async_trait]
impl Control for Controls {
    async fn take(
        &self,
        request: Request<TakeControlRequest>,
    ) -> Result<Response<ControlState>, Status> {
        let (caller, handle) = self.who(request.extensions())?;
        let user_id = caller.user()?.to_owned();
        let request = request.into_inner();
        let account = self.accounts.account(&user_id).await;
        let name = account
            .map_err(|error| status::internal(&error))?
            .state
            .name;
        let command = Command::Take {
            lease_id: request.lease_id,
            label: label(&name, &request.label),
            user_id,
            idle_ms: match request.idle_ms {
                0 => IDLE_MS_DEFAULT,
                idle_ms => idle_ms,
            },
            steal: request.steal,
            now_us: self.clock.now_us(),
        };
        let done = handle.execute(request.display, command, caller.actor());
        Ok(Response::new(done.await?))
    }

    async fn renew(
        &self,
        request: Request<RenewControlRequest>,
    ) -> Result<Response<ControlState>, Status> {
        let (caller, handle) = self.who(request.extensions())?;
        let request = request.into_inner();
        let command = Command::Renew {
            lease_id: request.lease_id,
            now_us: self.clock.now_us(),
        };
        let done = handle.execute(request.display, command, caller.actor());
        Ok(Response::new(done.await?))
    }

    async fn release(
        &self,
        request: Request<ReleaseControlRequest>,
    ) -> Result<Response<ControlState>, Status> {
        let (caller, handle) = self.who(request.extensions())?;
        let request = request.into_inner();
        let command = Command::Release {
            lease_id: Some(request.lease_id).filter(|id| !id.is_empty()),
            reason: Reason::HandedBack,
            note: request.note,
            now_us: self.clock.now_us(),
        };
        let done = handle.execute(request.display, command, caller.actor());
        Ok(Response::new(done.await?))
    }

    async fn show(
        &self,
        request: Request<ShowControlRequest>,
    ) -> Result<Response<ControlState>, Status> {
        let (caller, handle) = self.who(request.extensions())?;
        // What has run out is said to have, so that nobody reads of a lease that is none.
        let command = Command::Expire {
            now_us: self.clock.now_us(),
        };
        let done = handle.execute(request.get_ref().display, command, caller.actor());
        Ok(Response::new(done.await?))
    }
}

impl Controls {
    /// Who calls about which box; the edge has checked that they may.
    fn who(&self, extensions: &Extensions) -> Result<(Caller, Handle), Status> {
        let caller = Caller::of(extensions);
        let channel = extensions.get::<BoxChannel>().ok_or_else(closing)?;
        let handle = self.desks.get(&channel.box_id).ok_or_else(closing)?;
        Ok((caller, handle))
    }
}

/// How agents and other viewers read of the holder.
fn label(name: &str, own: &str) -> String {
    let text = if own.is_empty() {
        name.to_owned()
    } else {
        format!("{name} ({own})")
    };
    let plain = text.replace(char::is_control, " ");
    bounded::prefix(&plain, LABEL_BYTES_MAX).to_owned()
}
