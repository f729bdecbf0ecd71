//! Arguments about routines.

use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};

use super::BoxOption;
use crate::text;

#[derive(Clone, Debug, Subcommand)]
pub enum Routine {
    Create(Create),
    /// List your routines
    ///
    /// When each is due next and how its last run came out. Times are in UTC.
    #[command(
        after_long_help = "Examples:\n  cocoonbox routine list\n  cocoonbox routine list --json | jq -r '.routines[] | select(.state == \"paused\").name'"
    )]
    List,
    Show(Show),
    /// Let a routine rest
    ///
    /// It is not due until it is resumed. A run under way goes on; `cocoonbox cancel` stops its turn.
    #[command(after_long_help = "Examples:\n  cocoonbox routine pause morning")]
    Pause(Named),
    /// Have a paused routine run again when it is due
    ///
    /// From now on: what it missed meanwhile is not made up for.
    #[command(after_long_help = "Examples:\n  cocoonbox routine resume morning")]
    Resume(Named),
    /// Start a run now
    ///
    /// When it is due stays as it is. `cocoonbox transcript --agent NAME` shows what comes of it.
    #[command(
        after_long_help = "Examples:\n  cocoonbox routine run morning\n  cocoonbox events --stream agent/ --from \"$(cocoonbox routine show morning --json | jq -r .runs[0].box_offset_key)\""
    )]
    Run(Named),
    Change(Change),
    /// Delete a routine
    ///
    /// Its conversation and its files stay in the box, and what it used in `cocoonbox usage`.
    #[command(after_long_help = "Examples:\n  cocoonbox routine delete morning")]
    Delete(Named),
}

/// Send a prompt to a box by the clock
///
/// A box that sleeps is woken for it and sleeps again when nobody needs it. Each routine has an agent of its own name,
/// so that one run knows of the runs before it. A run that takes longer than --limit is cancelled; five runs in a row
/// that come to nothing pause the routine. What could not be started within an hour is missed.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  cocoonbox routine create morning --cron '0 9 * * 1-5' sum up what changed in /workspace/app since yesterday
  cocoonbox routine create backup --cron '30 2 * * *' --zone Europe/Berlin --limit 1h - < backup.md
  cocoonbox routine create reminder --at 'tomorrow 9:00' --box experiments look whether the experiment is done")]
pub struct Create {
    /// What to call it, and its agent
    #[arg(value_name = "NAME")]
    pub name: String,

    #[command(flatten)]
    pub target: BoxOption,

    #[command(flatten)]
    pub when: When,

    /// A run that takes longer is cancelled
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = text::duration)]
    pub limit: Duration,

    /// What to do; `-` reads it from standard input
    #[arg(required = true, value_name = "PROMPT", trailing_var_arg = true)]
    pub prompt: Vec<String>,
}

#[derive(Args, Clone, Debug)]
#[command(group = ArgGroup::new("when").required(true))]
pub struct When {
    /// Again and again: minute, hour, day of month, month, day of week
    #[arg(long, value_name = "EXPRESSION", group = "when")]
    pub cron: Option<String>,

    /// Once: `in 30m`, `9:00`, `tomorrow 9:00`, `friday 18:00`, 2026-12-24T18:00:00Z
    #[arg(long, value_name = "TIME", group = "when")]
    pub at: Option<String>,

    /// Where --cron is meant, as in Europe/Berlin [default: this host's]
    #[arg(long, value_name = "ZONE", conflicts_with = "at")]
    pub zone: Option<String>,
}

/// Change when a routine runs or what it asks
///
/// What is not said stays. A run under way goes on as it was begun.
#[derive(Args, Clone, Debug)]
#[command(
    after_long_help = "Examples:\n  cocoonbox routine change morning --cron '0 8 * * *'\n  cocoonbox routine change morning --prompt 'sum up the night'"
)]
pub struct Change {
    /// The routine, by name or id
    #[arg(value_name = "ROUTINE")]
    pub name: String,

    /// What to call it from now on; its agent keeps its name
    #[arg(long, value_name = "NAME")]
    pub rename: Option<String>,

    #[arg(long, value_name = "EXPRESSION", conflicts_with = "at")]
    pub cron: Option<String>,

    /// Once
    #[arg(long, value_name = "TIME")]
    pub at: Option<String>,

    /// Where its expression of cron is meant
    #[arg(long, value_name = "ZONE", conflicts_with = "at")]
    pub zone: Option<String>,

    /// A run that takes longer is cancelled
    #[arg(long, value_name = "TIME", value_parser = text::duration)]
    pub limit: Option<Duration>,

    /// What to do
    #[arg(long, value_name = "TEXT")]
    pub prompt: Option<String>,
}

/// Show a routine and what became of its runs
///
/// The newest run first. Times are in UTC.
#[derive(Args, Clone, Debug)]
#[command(
    after_long_help = "Examples:\n  cocoonbox routine show morning\n  cocoonbox routine show morning --runs 100 --json | jq .runs"
)]
pub struct Show {
    /// The routine, by name or id
    #[arg(value_name = "ROUTINE")]
    pub name: String,

    /// How many runs
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub runs: u32,
}

/// Which routine a command is about.
#[derive(Args, Clone, Debug)]
pub struct Named {
    /// The routine, by name or id
    #[arg(value_name = "ROUTINE")]
    pub name: String,
}
