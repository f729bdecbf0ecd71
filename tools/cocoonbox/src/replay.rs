//! Placeholder until wired.
use crate::{cli::replay::Replay, context::Context, exit::Exit, failure::Failure};
pub fn replay(_: &mut Context, _: Replay) -> Result<Exit, Failure> {
    Err(Failure::usage("not here"))
}
