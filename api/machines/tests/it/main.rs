//! Runs real boxes: needs root, runc and an image.
//!
//! `suite` holds what every driver must do, one function per property. The other modules look at what one
//! driver leaves on the host.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests may panic as tests may"
)]

mod bench;
mod container;
mod crash;
mod image;
mod suite;
mod times;
