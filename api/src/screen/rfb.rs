//! RFB, as far as the edge has to understand it (RFC 6143 and the extensions of TigerVNC and noVNC).
//!
//! What a viewer sends is read whole, message by message, since some of it is input. What a box sends is relayed
//! unread behind its greeting: it is for the viewer to be careful with. What a box sends to guests is read too, since
//! some of it is not for them.

mod greeting;
mod held;
mod message;
mod shown;
mod viewer;

#[cfg(test)]
mod tests;

pub use greeting::{GreetError, greet};
pub use held::Held;
pub use message::{CLIPBOARD_BYTES_MAX, Error, Message, What};
pub use shown::{Hidden, Shown, looking};
pub use viewer::{Said, VERSION, Viewer};
