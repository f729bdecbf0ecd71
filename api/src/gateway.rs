//! The model gateway: a box's model calls, with the vendor's key added and the tokens counted.
//!
//! Bodies pass unchanged in both directions and as they arrive. The key is added on the way out and can
//! not come back: neither in a header nor, should the vendor repeat it, in a body. The end of a request
//! waits until the user's budgets have room for the call (`hold`, `outbound`).

mod call;
mod config;
mod hold;
mod meter;
mod outbound;
mod passing;
mod scan;
mod scrub;
mod secret;
mod service;
mod wire;

pub use config::{Error, GatewayConfig, Vendor};
pub use hold::{Ask, Hold, Refusal, UsageSink};
pub use outbound::Estimate;
pub use secret::Secret;
pub use service::Gateway;
