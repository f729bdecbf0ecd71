//! The box's gRPC server: what the edge and the api ask of it.

mod agents;
mod box_log;
mod events;
mod fence;
mod guard;
mod saves;
mod session;
mod status;

pub(crate) use agents::AgentsService;
pub(crate) use box_log::BoxLogService;
pub(crate) use fence::FenceService;
pub(crate) use guard::{Gate, GuardLayer};
pub(crate) use saves::SavesService;
pub(crate) use session::SessionService;
pub(crate) use status::{damaged, interrupted, read_error};
