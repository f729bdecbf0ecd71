//! Erasures: what was asked for and is still owed.
//!
//! [`own`] is what a log says of itself, in whichever place it is written. [`boxed`] is what an account
//! wants erased in the log of one of its boxes: two places hold that, the replica outside and the box.

pub mod boxed;
pub mod own;
