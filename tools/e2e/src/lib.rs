//! A real installation for tests: a real `cocoonbox-api` process, real boxes, a scripted model, real clients.
//!
//! Everything here panics with a plain sentence when the product does not do what it promises: this is a
//! test's own code, and a test has nobody to hand an error to.

#![forbid(unsafe_code)]

pub mod account;
pub mod boxed;
pub mod chance;
pub mod events;
pub mod exec;
pub mod history;
pub mod installation;
pub mod operation;
pub mod outcome;
pub mod process;
pub mod programs;
pub mod raw;
pub mod remains;
pub mod replica;
pub mod runtime;
pub mod saves;
pub mod screen;
pub mod shared;
pub mod turn;
pub mod until;

pub use account::User;
pub use boxed::TheBox;
pub use chance::Chance;
pub use events::Events;
pub use exec::Ran;
pub use installation::{Installation, MODEL_KEY, Setup};
pub use operation::Ended;
pub use outcome::{is_broken, reason};
pub use replica::Replica;
pub use runtime::run;
pub use screen::Picture;
pub use shared::Shared;
pub use turn::Turn;
pub use until::until;
