//! Why nothing was done, or not all of it. The messages are for the model.

use x11rb::errors::{ConnectError, ConnectionError, ReplyError, ReplyOrIdError};

/// The display or the programs on it did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("the display does not take connections: {0}")]
    Connect(#[from] ConnectError),
    #[error("the connection to the display is lost: {0}")]
    Lost(#[from] ConnectionError),
    #[error("the display refused: {0}")]
    Refused(#[from] ReplyError),
    #[error("the display has no room: {0}")]
    NoRoom(#[from] ReplyOrIdError),
    #[error("the display has pixels of a kind that is not read here ({depth} bits)")]
    Pixels { depth: u8 },
    #[error("programs do not tell their elements: {0}")]
    Elements(#[from] zbus::Error),
    #[error("the program does not answer within {0} ms")]
    Silent(u128),
    #[error("the element is not there any more")]
    Gone,
    #[error("no key of the display's keyboard is free to write this with")]
    NoKeys,
}

/// An action that did not go as it was meant to.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error("these arguments are not understood: {0}")]
    Arguments(String),
    #[error("say where: `ref` of a snapshot, or `x` and `y` in pixels of the picture")]
    NoPlace,
    #[error("({x}, {y}) is outside of the picture, which has {width} x {height} pixels")]
    Outside {
        x: i32,
        y: i32,
        width: u32,
        height: u32,
    },
    #[error("the display has changed its size since you saw it; look again, places are others now")]
    Resized,
    #[error("`{0}` is no ref; a snapshot gives them to its elements, as `e12`")]
    NoRef(String),
    #[error("{0} was never given out; take a snapshot and use its refs")]
    UnknownRef(String),
    #[error("{reference}, {was}, is not there any more.{changes}")]
    Stale {
        reference: String,
        was: String,
        /// What is shown by now that was not, and the other way round.
        changes: String,
    },
    #[error(
        "{reference} was {was} when you saw it, and is {now} now; nothing was done. If it is still what you mean, do it again"
    )]
    Changed {
        reference: String,
        was: String,
        now: String,
    },
    #[error(
        "{reference}, {was}, is not on the display: it is hidden, or outside of what is in view"
    )]
    Hidden { reference: String, was: String },
    #[error("{reference}, {was}, is disabled")]
    Disabled { reference: String, was: String },
    #[error("{reference}, {was}, takes no value: {why}")]
    NotFit {
        reference: String,
        was: String,
        why: &'static str,
    },
    #[error("`{0}` is no window; action `windows` lists them, as `w3`")]
    NoWindow(String),
    #[error(
        "`{0}` is no key; keys are called as in `Enter`, `Tab`, `Left`, `a`, with `ctrl+`, `shift+`, `alt+` or `super+` before them"
    )]
    NoKey(String),
    #[error("the character U+{:04X} is written by no key", u32::from(*.0))]
    NoChar(char),
    #[error("not within {0} ms")]
    NotInTime(u64),
}
