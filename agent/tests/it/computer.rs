//! The display's holder with a real X server, window manager and accessibility bus of this machine, and programs of
//! several kinds on it.
//!
//! In a box, through a conversation, it is run by the tests of `tools/e2e`.

mod desk;
mod elements;
mod input;
mod typing;
mod watching;
