//! Arguments of `replay verify`, `replay checkpoint` and `keys`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use super::replay::LogOption;

/// What is held against the logs, besides themselves.
#[derive(Args, Clone, Debug)]
pub struct Verify {
    #[command(flatten)]
    pub log: LogOption,
    /// Trust checkpoints that are signed with this key, and the keys that the system log names in front
    /// of them; may be given again [default: every key that the system log names]
    #[arg(long, value_name = "VKEY")]
    pub trust: Vec<String>,
    /// Compare with the checkpoints in this folder and the folders in it
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub checkpoints: Vec<PathBuf>,
    /// Compare with the checkpoint in this file; may be given again
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub checkpoint: Vec<PathBuf>,
    /// Do not look through the database file as well, page by page
    #[arg(long)]
    pub quick: bool,
}

/// Which checkpoints to show.
#[derive(Args, Clone, Debug)]
pub struct Checkpoint {
    #[command(flatten)]
    pub log: LogOption,
    /// All of them, not only the newest of each log
    #[arg(long)]
    pub all: bool,
    /// Show the keys that sign them, and those that did
    #[arg(long, conflicts_with_all = ["all", "log"])]
    pub keys: bool,
}

/// What is done with signing keys.
#[derive(Clone, Debug, Subcommand)]
pub enum Keys {
    /// Sign checkpoints with another key from here on
    ///
    /// The first checkpoint of the new key is signed by the old one as well; then the old one's secret
    /// half is destroyed. What it signed stays good. The system log tells of both. Asks the api over its
    /// unix socket.
    #[command(after_long_help = "Examples:\n  cocoonbox keys rotate")]
    Rotate,
    /// Show the keys that sign checkpoints, and those that did
    ///
    /// One line a key, in the form that `cocoonbox replay verify --trust` takes. Give them to whoever
    /// audits the logs, by a way that the logs do not go.
    #[command(
        after_long_help = "Examples:\n  cocoonbox keys list\n  cocoonbox keys list --json | jq -r .key"
    )]
    List,
}

/// Show the newest signed checkpoint of each of your logs, or keep them
///
/// A checkpoint says what a log was, and cannot be taken back: whoever has kept one finds out with
/// `cocoonbox replay verify --checkpoints` if the log was changed before it. Keep them where the operator
/// of the api cannot reach.
#[derive(Args, Clone, Debug)]
#[command(
    after_long_help = "Examples:\n  cocoonbox checkpoints --save ~/checkpoints\n  cocoonbox checkpoints --json | jq -r .size"
)]
pub struct Checkpoints {
    /// All of this log, by its id
    #[arg(long, value_name = "LOG")]
    pub log: Option<String>,
    /// Of that log only those behind this position
    #[arg(long, value_name = "POS", requires = "log", default_value_t = 0)]
    #[arg(hide_default_value = true)]
    pub since: u64,
    /// Put each into a file of its own, in a folder for each log; what is there stays
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub save: Option<PathBuf>,
}
