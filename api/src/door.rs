//! The egress door: the one way out of a box.
//!
//! A box has no network card. The api listens inside the box's network namespace, and whoever
//! connects there meets an HTTP/1.1 forward proxy: requests for `gateway.cocoonbox` go to the model
//! gateway, all others are plain web access under the guard against private addresses. Who asks is
//! known from the listener alone; no header can say otherwise.

mod activity;
mod address;
mod body;
mod dial;
mod guard;
mod headers;
mod limits;
mod policy;
mod refusal;
mod resolve;
mod serve;
mod target;
mod tunnel;
mod web;

pub use body::{Body, BoxError};
pub use dial::{Dialer, TcpDialer};
pub use limits::DoorLimits;
pub use policy::WebPolicy;
pub use refusal::REASON_HEADER;
pub use resolve::{Resolver, SystemResolver};
pub use serve::{DoorServices, serve};

pub(crate) use body::{Cut, text};
pub(crate) use headers::content_length;

/// The name under which the gateway is reached from inside a box. It is in no DNS.
pub const GATEWAY_HOST: &str = "gateway.cocoonbox";

/// Whom a listener belongs to: one wake of one box of one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    pub user_id: String,
    pub box_id: String,
    pub wake_id: String,
}
