//! What a model is told before the conversation, made once a turn and recorded when it has changed.

use std::time::Duration;

use cocoonbox_proto::toolhost::v1::GuidanceResponse;
use tokio::time::timeout;

use super::{
    prompt::{self, Situation},
    turn_loop::Shared,
};
use crate::{tool::Asker, wire::ToolSpec};

/// For the toolhost to read a few small files. A turn does not wait for a disk that hangs.
const GUIDANCE_MAX: Duration = Duration::from_secs(2);

/// Makes the system prompt of a turn.
pub(super) async fn system(shared: &Shared, asker: Asker, tools: &[ToolSpec]) -> String {
    let guidance = guidance(shared).await;
    prompt::system(&Situation {
        box_id: &shared.box_id,
        now_us: shared.journal.now_us(),
        asker,
        tools,
        guidance: guidance.as_ref(),
    })
}

async fn guidance(shared: &Shared) -> Option<GuidanceResponse> {
    match timeout(GUIDANCE_MAX, shared.toolhost.guidance()).await {
        Ok(Ok(guidance)) => Some(guidance),
        Ok(Err(status)) => {
            tracing::warn!(code = ?status.code(), "guidance not read");
            None
        }
        Err(_) => {
            tracing::warn!("guidance not read in time");
            None
        }
    }
}
