//! The screens of boxes: relayed to viewers, whose input passes only while they hold the control lease.
//!
//! The edge greets the viewer and the box, each by itself. So nothing that a box says changes how a viewer's bytes
//! are read, no viewer can have the others thrown out (RFB's exclusive access), and extensions that would add kinds
//! of messages can be withheld. Rejected: passing the greeting through, which needs both sides read to know what
//! either means. What would change our mind: a viewer that cannot do without such an extension.

mod input;
mod relay;
pub mod rfb;
mod service;

pub use service::{SCREEN, routes};
