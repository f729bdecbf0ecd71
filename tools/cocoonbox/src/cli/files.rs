//! Arguments about saved files.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::BoxOption;

/// Save the files of a box
///
/// Keeps /home/user and /workspace as they are, whether the box runs or sleeps. Only what changed since the last save
/// is read, and only what no save has is stored. Caches and what can be built again are left out; a
/// `.cocoonboxignore` in any folder leaves out more, in the syntax of .gitignore. What is left out or cannot be saved
/// is said. Boxes are also saved by themselves: after turns, before a tool call of an agent that may destroy files, each
/// 15 minutes while they run, and when they sleep.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  cocoonbox save
  cocoonbox save experiments --if-changed
  cocoonbox save --json | jq -r .snapshot.id")]
pub struct Save {
    /// The box, by name or id
    #[arg(value_name = "BOX", env = "COCOONBOX_BOX", default_value = "main")]
    pub name: String,

    /// Keep nothing if no file has changed since the last save
    #[arg(long)]
    pub if_changed: bool,
}

/// List the saved moments of a box's files, newest first, and say which are kept
///
/// One line a snapshot: its id, when it was begun, why, how many files, of which changed, and how much was added. By
/// itself all of the last 24 hours are kept, then the last of each hour for a week, of each day for a month, of each
/// week for a year, and what is pinned.
#[derive(Args, Clone, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_long_help = "\
Examples:
  cocoonbox snapshots
  cocoonbox snapshots experiments --json | jq -r .id
  cocoonbox snapshots pin 0000019a
  cocoonbox snapshots prune --dry-run"
)]
pub struct Snapshots {
    #[command(subcommand)]
    pub action: Option<Keeping>,
    /// The box, by name or id
    #[arg(value_name = "BOX", env = "COCOONBOX_BOX", default_value = "main")]
    pub name: String,
}

/// What is kept.
#[derive(Clone, Debug, Subcommand)]
pub enum Keeping {
    /// Keep a snapshot whatever the rule says
    #[command(
        after_long_help = "Examples:\n  cocoonbox snapshots pin latest\n  cocoonbox snapshots pin 0000019a"
    )]
    Pin {
        #[command(flatten)]
        target: BoxOption,
        /// As for --at of `files ls`
        moment: String,
    },
    /// Keep it by the rule again
    #[command(after_long_help = "Examples:\n  cocoonbox snapshots unpin 0000019a")]
    Unpin {
        #[command(flatten)]
        target: BoxOption,
        moment: String,
    },
    /// Delete a snapshot
    ///
    /// What no other snapshot needs is given back by the next prunings.
    #[command(after_long_help = "Examples:\n  cocoonbox snapshots forget 0000019a")]
    Forget {
        #[command(flatten)]
        target: BoxOption,
        /// A snapshot's id or its beginning
        id: String,
    },
    /// Delete what the rule does not keep, of all your boxes, and give back what no snapshot needs
    ///
    /// Done once a day by itself. What is given up is deleted a day later, so that saves under way lose nothing.
    #[command(
        after_long_help = "Examples:\n  cocoonbox snapshots prune --dry-run\n  cocoonbox snapshots prune"
    )]
    Prune {
        /// Say what would be done
        #[arg(long)]
        dry_run: bool,
    },
    /// Show how much is kept, and by which rule
    #[command(after_long_help = "Examples:\n  cocoonbox snapshots usage --json | jq .bytes")]
    Usage,
    /// Set by which rule snapshots of all your boxes are kept
    ///
    /// Counted back from each pruning; 0 = none in that span. What is not given stays as it is.
    #[command(
        after_long_help = "Examples:\n  cocoonbox snapshots keep --all-hours 48 --weekly-days 730\n  cocoonbox snapshots keep --default"
    )]
    Keep(Keep),
}

#[derive(Args, Clone, Debug)]
pub struct Keep {
    /// All of these last hours
    #[arg(long, value_name = "N")]
    pub all_hours: Option<u32>,
    /// The last of each hour of these last days
    #[arg(long, value_name = "N")]
    pub hourly_days: Option<u32>,
    /// The last of each day of these last days
    #[arg(long, value_name = "N")]
    pub daily_days: Option<u32>,
    /// The last of each week of these last days
    #[arg(long, value_name = "N")]
    pub weekly_days: Option<u32>,
    /// The rule that there is without one
    #[arg(long, conflicts_with_all = ["all_hours", "hourly_days", "daily_days", "weekly_days"])]
    pub default: bool,
}

/// Which saved moment.
#[derive(Args, Clone, Debug)]
pub struct At {
    /// `latest`, a snapshot's id or its beginning, a time, an offset key, or `before:` and a tool call's id: the last
    /// save before it
    #[arg(long, value_name = "MOMENT", default_value = "latest")]
    pub at: String,
}

#[derive(Clone, Debug, Subcommand)]
pub enum Files {
    /// List a folder as it was
    ///
    /// Without a path the folders that are saved. Never wakes the box.
    #[command(
        after_long_help = "Examples:\n  cocoonbox files ls /workspace\n  cocoonbox files ls /workspace --at 'yesterday 9:00'\n  cocoonbox files ls --box experiments --at 0000019a"
    )]
    Ls {
        #[command(flatten)]
        target: BoxOption,
        #[command(flatten)]
        at: At,
        /// An absolute path in the box
        path: Option<PathBuf>,
    },
    /// Write a file as it was to standard output
    #[command(
        after_long_help = "Examples:\n  cocoonbox files cat /workspace/notes.md\n  cocoonbox files cat /workspace/notes.md --at 30m"
    )]
    Cat {
        #[command(flatten)]
        target: BoxOption,
        #[command(flatten)]
        at: At,
        path: PathBuf,
    },
    /// Show what changed between two moments
    ///
    /// One line a path: + added, - removed, M other content, K another kind, m only mode, owner, times or attributes.
    /// `now` saves the box first.
    #[command(
        after_long_help = "Examples:\n  cocoonbox files diff 30m\n  cocoonbox files diff 0000019a 0000019b --path /workspace\n  cocoonbox files diff latest now"
    )]
    Diff {
        #[command(flatten)]
        target: BoxOption,
        /// The earlier moment, as for --at of `files ls`
        before: String,
        /// The later one
        #[arg(default_value = "now")]
        after: String,
        /// Only this path and what is below it
        #[arg(long, value_name = "PATH")]
        path: Option<PathBuf>,
    },
    /// Take a restore in place back
    ///
    /// What it replaced comes back, and what it added goes. What was changed since is not lost: it stays, or is moved into
    /// a folder that is named where something else comes back. All is saved first.
    #[command(
        after_long_help = "Examples:\n  cocoonbox files undo\n  cocoonbox files undo restore-7c0e… --box experiments"
    )]
    Undo {
        #[command(flatten)]
        target: BoxOption,
        /// As `files restore` told it; without, the last one in place
        restore: Option<String>,
    },
    /// Give files back
    ///
    /// They appear below ~/Restored in the box, in a folder with the time of the save. With --in-place they take the
    /// place of what is there today: that is saved first, and moved into a folder that is named. Works while the box
    /// runs or sleeps.
    #[command(
        after_long_help = "Examples:\n  cocoonbox files restore /workspace/app --at 'yesterday 18:00'\n  cocoonbox files restore /workspace/app/main.go --in-place --at 0000019a"
    )]
    Restore {
        #[command(flatten)]
        target: BoxOption,
        #[command(flatten)]
        at: At,
        /// Over the files of today
        #[arg(long)]
        in_place: bool,
        /// Absolute paths in the box
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<PathBuf>,
    },
}
