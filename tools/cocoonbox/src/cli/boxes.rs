//! Arguments about apis and boxes.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, ValueHint};

/// Start an api on this host and log in
///
/// Starts `cocoonbox-api serve` in the background unless one answers already, waits until it serves,
/// makes the first admin and keeps the token. Safe to run again at any time.
///
/// The program is looked for beside this one and in PATH. Its output goes to `run/api.log` in the data
/// directory. Model keys reach it by its environment or its configuration file.
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
  cocoonbox ensure --no-wait --json | jq -r .operation_id")]
pub struct Ensure {
    /// Name of the box
    #[arg(value_name = "NAME", env = "COCOONBOX_BOX", default_value = "main")]
    pub name: String,

    /// Answer at once; the box goes on starting
    #[arg(long)]
    pub no_wait: bool,
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
