//! Arguments about erasing.

use clap::{ArgGroup, Args};

/// Erase content from a log of yours
///
/// Takes what was said and shown out of events: prompts, replies, tool calls and results, commands and
/// their output, labels of tokens. That it happened stays, with its time, its kind and its hash, so the
/// log still verifies; so do names of boxes and agents, which go with their user. Shows what would go and
/// asks, unless told --yes. A box erases its own copy: at once if it runs, else at its next wake.
///
/// Copies that others have made are not reached, nor sealed backups while your key lives: deleting the
/// user destroys it.
#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("what").required(true).args(["item", "stream", "from"])))]
#[command(after_long_help = "\
Examples:
  cocoonbox erase --item 019cafe0000070008000000000000000.0000000000000012.89abcdef --reason 'a slip'
  cocoonbox erase --log main --from 10 --to 40 --reason 'a password' --dry-run
  cocoonbox erase --log main --stream agent/main --reason 'not for the record' --yes")]
pub struct Erase {
    /// The event with this offset key
    #[arg(long, value_name = "OFFSET_KEY")]
    pub item: Option<String>,

    /// Whose log: `account`, a box by name or id, or the id of a log
    #[arg(
        long,
        value_name = "LOG",
        default_value = "main",
        conflicts_with = "item"
    )]
    pub log: String,

    /// Everything in this stream, for example agent/main
    #[arg(long, value_name = "STREAM")]
    pub stream: Option<String>,

    /// Everything from this position on
    #[arg(long, value_name = "POS", requires = "to")]
    pub from: Option<u64>,

    /// Up to this position; at most 1,000 at once
    #[arg(long, value_name = "POS", requires = "from")]
    pub to: Option<u64>,

    /// Why, for whoever reads the log later; it stays
    #[arg(long, value_name = "TEXT")]
    pub reason: String,

    /// Only show what would go
    #[arg(long, conflicts_with = "yes")]
    pub dry_run: bool,

    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
}
