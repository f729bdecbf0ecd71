//! Why nothing was done, or not all of it. The messages are for the model.

use super::cdp::Fault;

/// An action that did not go as it was meant to.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error("these arguments are not understood: {0}")]
    Arguments(String),
    #[error("the browser could not be started: {0}")]
    NotStarted(String),
    #[error("no page is open; `browser` with action `navigate` opens one")]
    NoPage,
    #[error("there is no tab {0}; `browser_look` with action `tabs` lists them")]
    NoSuchTab(u32),
    #[error("tab {0} belongs to another agent, which is at work in it; open one of your own")]
    NotYours(u32),
    #[error("`{0}` is no ref; a snapshot gives them to its elements, as `e12`")]
    NoRef(String),
    #[error("{reference} was never given out; take a snapshot and use its refs")]
    UnknownRef { reference: String },
    #[error("{reference} is of tab {tab}, which is not the one you are at; select that tab first")]
    OtherTab { reference: String, tab: u32 },
    #[error("{reference}, {was}, is not there any more: {why}.{changes}")]
    Stale {
        reference: String,
        was: String,
        why: String,
        /// What the page shows by now that it did not, and the other way round.
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
    #[error("{reference}, {was}, is not visible: nothing of it is drawn")]
    Hidden { reference: String, was: String },
    #[error("{reference}, {was}, is disabled")]
    Disabled { reference: String, was: String },
    #[error("{reference}, {was}, is covered by {by}; deal with that first")]
    Covered {
        reference: String,
        was: String,
        by: String,
    },
    #[error("{reference}, {was}, {why}")]
    NotFit {
        reference: String,
        was: String,
        why: String,
    },
    #[error(
        "the page shows a dialog ({kind}: \"{message}\") and does nothing else until it is answered: action `dialog` with accept true or false"
    )]
    DialogOpen { kind: String, message: String },
    #[error("there is no dialog to answer")]
    NoDialog,
    #[error("the page's script did not let go for {seconds} s ({what}); {done}")]
    Hung {
        what: String,
        seconds: u64,
        done: &'static str,
    },
    #[error("the page has crashed; navigate to load it again")]
    Crashed,
    #[error("`{url}` is not taken: {why}")]
    BadUrl { url: String, why: String },
    #[error("`{url}` was not loaded: {why}")]
    NotLoaded { url: String, why: String },
    #[error(
        "`{0}` is no key; keys are called as in `Enter`, `Tab`, `ArrowDown`, `a`, with `Control+`, `Shift+`, `Alt+` or `Meta+` before them"
    )]
    NoKey(String),
    #[error("file `{path}` cannot be given: {why}")]
    BadFile { path: String, why: String },
    #[error("the script ended with an error: {0}")]
    Script(String),
    #[error("there is no page to go to in that direction")]
    NoHistory,
    #[error("not within {0} ms")]
    NotInTime(u64),
}
