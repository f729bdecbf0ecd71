//! Runs real boxes: needs root, runc and an image.
//!
//! `suite` holds what every driver must do, one function per property. The other modules look at what one
//! driver leaves on the host.

mod bench;
mod container;
mod crash;
mod suite;
