//! Arguments about apis and boxes.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, Subcommand, ValueEnum, ValueHint};

/// Start an api on this host and log in
///
/// Starts `cocoonbox-api serve` in the background unless one answers already, waits until it serves,
/// makes the first admin and keeps the token. Safe to run again at any time.
///
/// The program is looked for beside this one and in PATH. Its output goes to `run/api.log` in the data
/// directory. Model keys reach it by its environment or its configuration file, and so does the store of
/// the logs: the data directory, or a PostgreSQL database (COCOONBOX_STORE, or `store` in cocoonbox.toml).
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  cocoonbox up
  ANTHROPIC_API_KEY=$(cat key) cocoonbox up
  cocoonbox up --data-dir /srv/cocoonbox --api http://127.0.0.1:9000 --image core.erofs")]
pub struct Up {
    /// The image that boxes start from
    #[arg(long, value_name = "FILE", env = "COCOONBOX_IMAGE", value_hint = ValueHint::FilePath)]
    pub image: Option<PathBuf>,

    /// The agent program to put into boxes
    #[arg(long, value_name = "FILE", env = "COCOONBOX_AGENT", value_hint = ValueHint::FilePath)]
    pub agent: Option<PathBuf>,

    /// Name of the first admin [default: your login name]
    #[arg(long, value_name = "NAME")]
    pub admin: Option<String>,
}

#[derive(Args, Clone, Debug)]
pub struct ServeDetached {
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub argv: Vec<OsString>,
}

/// Make a box, or wake it
///
/// Answers when the box runs. A box that runs already is left as it is. Progress goes to standard
/// error.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  cocoonbox ensure
  cocoonbox ensure experiments
  cocoonbox ensure --image desktop office
  cocoonbox ensure --no-wait --json | jq -r .operation_id")]
pub struct Ensure {
    /// Name of the box
    #[arg(value_name = "NAME", env = "COCOONBOX_BOX", default_value = "main")]
    pub name: String,

    /// What is in a box that is made: no desktop, a bare one with a browser, the whole one [default: that of
    /// the image that `up` was given]
    #[arg(long)]
    pub image: Option<Image>,

    /// Answer at once; the box goes on starting
    #[arg(long)]
    pub no_wait: bool,
}

/// The flavors of images that `image/build` makes.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Image {
    Core,
    Light,
    Desktop,
}

/// Put a box to sleep
///
/// Its disks and its log are kept, and its transcript stays readable. `cocoonbox ensure` wakes it.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  cocoonbox hibernate
  cocoonbox hibernate experiments --no-wait")]
pub struct Hibernate {
    /// The box, by name or id
    #[arg(value_name = "BOX", env = "COCOONBOX_BOX", default_value = "main")]
    pub name: String,

    /// Answer at once
    #[arg(long)]
    pub no_wait: bool,
}

/// Make a box out of another, as it is or as it was
///
/// The new box has the files and the history of the other, which is left as it is. Without --at it is a copy of a box
/// that sleeps. With --at it has the conversation up to that moment and the files of the last save before it, on a
/// fresh system; the other may run, and what its agent was doing at that moment is not gone on with. Answers when the
/// new box runs.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  cocoonbox hibernate && cocoonbox fork experiment
  cocoonbox fork --box main --at 'yesterday 18:00' experiment
  cocoonbox fork --at before:toolu_1 undone   # a tool call's id, from `cocoonbox transcript --json`
  cocoonbox fork --box main experiment --json | jq -r .id")]
pub struct Fork {
    /// Name of the new box
    #[arg(value_name = "NAME")]
    pub name: String,

    /// The box to fork, by name or id
    #[arg(
        long = "box",
        value_name = "BOX",
        env = "COCOONBOX_BOX",
        default_value = "main"
    )]
    pub source: String,

    /// `latest` (save), a snapshot's id, a time, an offset key, or `before:` and a tool call's id
    #[arg(long, value_name = "MOMENT")]
    pub at: Option<String>,

    /// Answer at once; the box goes on starting
    #[arg(long)]
    pub no_wait: bool,
}

/// Delete a box and everything in it
///
/// Its files are gone afterwards; the account's log keeps the fact. Asks first, unless told --yes.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  cocoonbox delete experiments
  cocoonbox delete experiments --yes")]
pub struct Delete {
    /// The box, by name or id
    #[arg(value_name = "BOX", env = "COCOONBOX_BOX", default_value = "main")]
    pub name: String,

    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,

    /// Answer at once
    #[arg(long)]
    pub no_wait: bool,
}

/// Show a box, and choose its models
#[derive(Clone, Debug, Subcommand)]
pub enum OneBox {
    /// Show a box and which models its agents use
    ///
    /// Never wakes it.
    #[command(
        after_long_help = "Examples:\n  cocoonbox box show\n  cocoonbox box show experiments --json | jq .models_in_use.main"
    )]
    Show(Named),
    Models(SetModels),
    KeepAwake(KeepAwake),
}

#[derive(Args, Clone, Debug)]
pub struct Named {
    /// Name or id of the box
    #[arg(value_name = "NAME", env = "COCOONBOX_BOX", default_value = "main")]
    pub name: String,
}

/// Keep a box awake although nothing happens in it
///
/// Counts where the installation puts idle boxes to sleep. It does not wake a box, and `cocoonbox hibernate` puts it to
/// sleep all the same.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  cocoonbox box keep-awake --for 2h
  cocoonbox box keep-awake experiments --release")]
pub struct KeepAwake {
    #[command(flatten)]
    pub target: Named,

    /// For how long, at most seven days
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = crate::text::duration)]
    pub time: std::time::Duration,

    /// No longer
    #[arg(long, conflicts_with = "time")]
    pub release: bool,
}

/// Choose which models a box's agents use
///
/// They count for agents that have none of their own (`cocoonbox agent configure`); a role that is not set here is
/// the installation's. What is not named stays as it is. Models are written as for `agent configure`. A running box
/// hears of it at once, an agent uses it from its next prompt on. Without options it shows what is set.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  cocoonbox box models --main anthropic:big-1,images,context=200000
  cocoonbox box models experiments --main openai:small-1 --fallback anthropic:big-1
  cocoonbox box models --main -                       back to the installation's")]
pub struct SetModels {
    #[command(flatten)]
    pub target: Named,

    #[command(flatten)]
    pub models: super::agent::Models,
}
