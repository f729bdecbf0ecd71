//! Arguments of `replay`. Placeholder until wired.
use clap::Subcommand;
#[derive(Clone, Debug, Subcommand)]
pub enum Replay {
    Verify,
}
