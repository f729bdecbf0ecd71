//! The arguments.

pub mod agent;
pub mod boxes;
pub mod capsule;
pub mod doctor;
pub mod erase;
pub mod files;
pub mod log;
pub mod money;
pub mod proof;
pub mod replay;
pub mod routine;
pub mod screen;
pub mod shares;
pub mod talk;
pub mod users;

use std::{path::PathBuf, time::Duration};

use clap::{
    Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueHint,
    parser::ValueSource,
};

use crate::{client::Address, text};

pub const DEFAULT_API: &str = "http://127.0.0.1:8750";

/// Boxes with an agent in them, and the log that tells what happened.
///
/// A box is a persistent machine; an agent lives in it and works on what you send. Whatever happens is
/// an event in a log. Every event has an offset key, and every stream can be resumed from one.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "cocoonbox",
    version,
    disable_help_subcommand = true,
    max_term_width = 100
)]
#[command(
    after_help = "`cocoonbox help COMMAND` says more, `cocoonbox help exit-codes` what a script learns."
)]
#[command(after_long_help = "\
Start here:
  cocoonbox up                                   start an api on this host and log in
  cocoonbox ensure                               make or wake the box `main`
  cocoonbox send write a haiku to /workspace/h   give its agent something to do
  cocoonbox exec -- ls -l /workspace             run a command in it
  cocoonbox transcript                           read what was said and done

More: `cocoonbox help COMMAND`, `cocoonbox help exit-codes`, `cocoonbox help environment`.")]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Reads the process's own arguments.
    pub fn read() -> Result<Self, clap::Error> {
        Self::from_matches(&Self::command().try_get_matches()?)
    }

    fn from_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
        let mut cli =
            Self::from_arg_matches(matches).map_err(|error| error.format(&mut Self::command()))?;
        let source = matches.value_source("data_dir");
        cli.global.is_data_dir_said = source == Some(ValueSource::CommandLine);
        Ok(cli)
    }
}

/// Options of every command.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Common options")]
pub struct Global {
    /// The api: http://HOST:PORT or unix:/PATH
    #[arg(long, global = true, value_name = "ADDRESS", env = "COCOONBOX_API")]
    #[arg(default_value = DEFAULT_API, value_hint = ValueHint::Url)]
    pub api: Address,

    /// Where an api on this host keeps its data [default: $XDG_DATA_HOME/cocoonbox]
    #[arg(long, global = true, value_name = "DIR", env = "COCOONBOX_DATA_DIR")]
    #[arg(value_hint = ValueHint::DirPath)]
    pub data_dir: Option<PathBuf>,

    /// Whether the command line names the data directory: that counts for more than what the environment
    /// says of anything.
    #[arg(skip)]
    pub is_data_dir_said: bool,

    /// Print JSON: one object, or one a line where there are many
    #[arg(long, global = true)]
    pub json: bool,

    /// Say nothing but the result and errors
    #[arg(long, short, global = true)]
    pub quiet: bool,

    /// How long to go on trying when a stream breaks
    #[arg(long, global = true, value_name = "TIME", default_value = "5m", value_parser = text::duration)]
    #[arg(hide_short_help = true)]
    pub retry_for: Duration,
}

#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    Up(boxes::Up),
    /// Stop the api that runs on this host
    ///
    /// Asks it to end and waits until it has. Boxes go on running, and the next `cocoonbox up` takes
    /// them over; `cocoonbox hibernate` stops them. Stopping what does not run is fine.
    #[command(
        after_long_help = "Examples:\n  cocoonbox down\n  cocoonbox down --data-dir /srv/cocoonbox"
    )]
    Down,
    /// Show the api, who you are and your boxes
    ///
    /// Exit code 0 means that the api serves and the token is good.
    #[command(
        after_long_help = "Examples:\n  cocoonbox status\n  cocoonbox status --json | jq .boxes[].state"
    )]
    Status,
    Doctor(doctor::Doctor),
    Login(users::Login),
    /// Forget the token for this api
    ///
    /// The token itself stays valid: `cocoonbox token revoke` ends it.
    #[command(
        after_long_help = "Examples:\n  cocoonbox logout\n  cocoonbox logout --api http://127.0.0.1:8750"
    )]
    Logout,
    /// Show whose token is in use
    #[command(
        after_long_help = "Examples:\n  cocoonbox whoami\n  cocoonbox whoami --json | jq -r .name"
    )]
    Whoami,
    Console(users::Console),
    /// Issue, list and revoke tokens
    #[command(subcommand)]
    Token(users::Token),
    /// List and remove passkeys
    #[command(subcommand)]
    Passkey(users::Passkey),
    /// Create, list and delete users
    #[command(subcommand)]
    User(users::User),
    Ensure(boxes::Ensure),
    /// List your boxes
    ///
    /// Never wakes one.
    #[command(
        after_long_help = "Examples:\n  cocoonbox boxes\n  cocoonbox boxes --json | jq -r '.boxes[] | select(.state == \"RUNNING\").name'"
    )]
    Boxes,
    /// Watch your boxes change
    ///
    /// Shows the list and redraws it after every change, until Ctrl-C. With --json each list is a line.
    /// Goes on by itself when the connection breaks. Never wakes a box.
    #[command(
        after_long_help = "Examples:\n  cocoonbox watch\n  cocoonbox watch --json | jq -c '[.boxes[] | {name, state}]'"
    )]
    Watch,
    Hibernate(boxes::Hibernate),
    Delete(boxes::Delete),
    Fork(boxes::Fork),
    #[command(subcommand)]
    Box(boxes::OneBox),
    Save(files::Save),
    Snapshots(files::Snapshots),
    /// Look into saved moments of a box's files, and give them back
    #[command(
        subcommand,
        after_long_help = "Examples:\n  cocoonbox files ls /workspace --at 'yesterday 9:00'\n  cocoonbox files diff 30m\n  cocoonbox files restore /workspace/app --at 0000019a"
    )]
    Files(files::Files),
    Send(talk::Send),
    /// Ask an agent to stop its turn
    ///
    /// The turn ends as cancelled; commands it runs are ended. `send` ends when the turn has.
    #[command(
        after_long_help = "Examples:\n  cocoonbox cancel\n  cocoonbox cancel --agent reviewer --box experiments"
    )]
    Cancel(talk::OneAgent),
    #[command(subcommand)]
    Agent(agent::Agent),
    /// Send prompts to boxes by the clock
    #[command(
        subcommand,
        after_long_help = "Examples:\n  cocoonbox routine create morning --cron '0 9 * * 1-5' sum up what is new\n  cocoonbox routine list\n  cocoonbox routine run morning"
    )]
    Routine(routine::Routine),
    /// Read what was said and done
    ///
    /// Prompts, replies, tool calls and results of one agent, oldest first. With --json an object a
    /// line, with nothing cut. Works while the box sleeps.
    #[command(
        after_long_help = "Examples:\n  cocoonbox transcript | less\n  cocoonbox transcript --json | jq -r 'select(.kind == \"REPLY\").text'"
    )]
    Transcript(talk::OneAgent),
    Exec(talk::Exec),
    Attach(talk::Attach),
    Screen(screen::Screen),
    #[command(subcommand)]
    Control(screen::Control),
    /// Let others look at a box's screen, by links
    #[command(subcommand)]
    Share(shares::Share),
    Events(talk::Events),
    Erase(erase::Erase),
    /// Show what happened in your account, oldest first
    ///
    /// One line an event: when, who, on what, what. `cocoonbox events --account` has the events themselves.
    #[command(
        after_long_help = "Examples:\n  cocoonbox audit\n  cocoonbox audit --json | jq -r .summary"
    )]
    Audit,
    Usage(money::Usage),
    /// Limit what is spent on models
    #[command(subcommand)]
    Budget(money::Budget),
    /// Read, check and replay the logs of this host
    ///
    /// Opens the data directory itself, read-only; an api may run at the same time or not. Needs the
    /// rights of the user that runs the api. With --from it reads a copied database or an export, with
    /// COCOONBOX_STORE a PostgreSQL database; --data-dir counts for more than COCOONBOX_STORE.
    #[command(subcommand)]
    Replay(replay::Replay),
    /// Move the logs of this host to another store
    #[command(
        subcommand,
        after_long_help = "Examples:\n  cocoonbox log copy sqlite: postgres://db/cocoonbox\n  cocoonbox log rewind --reason 'restored the backup of Monday'"
    )]
    Log(log::Log),
    /// Save folders into a store, and give them back
    ///
    /// A capsule keeps every saved moment of some folders, sealed, each chunk once. It needs a store and a
    /// key file, and no api.
    #[command(
        subcommand,
        after_long_help = "Examples:\n  cocoonbox capsule init --store /backup/capsule --key-file ~/.capsule-key\n  cocoonbox capsule save --store /backup/capsule --key-file ~/.capsule-key /workspace\n  cocoonbox capsule restore --store /backup/capsule --key-file ~/.capsule-key --target /tmp/restored"
    )]
    Capsule(capsule::Capsule),
    Checkpoints(proof::Checkpoints),
    /// Show and rotate the keys that sign checkpoints
    #[command(
        subcommand,
        after_long_help = "Examples:\n  cocoonbox keys list\n  cocoonbox keys rotate"
    )]
    Keys(proof::Keys),
    Completions(users::Completions),
    /// Show the version
    Version,
    Help(users::Help),
    /// Becomes the api in a session of its own; what `up` starts.
    #[command(hide = true, name = "serve-detached")]
    ServeDetached(boxes::ServeDetached),
}

/// Which box a command is about.
#[derive(Args, Clone, Debug)]
pub struct BoxOption {
    /// The box, by name or id
    #[arg(
        long = "box",
        short = 'b',
        value_name = "BOX",
        env = "COCOONBOX_BOX",
        default_value = "main"
    )]
    pub box_name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_directory_is_said_wherever_it_stands() {
        let is_said = |args: &[&str]| {
            let matches = Cli::command().try_get_matches_from(args).unwrap();
            Cli::from_matches(&matches).unwrap().global.is_data_dir_said
        };
        assert!(is_said(&["cocoonbox", "down", "--data-dir", "/d"]));
        assert!(is_said(&[
            "cocoonbox",
            "--data-dir",
            "/d",
            "replay",
            "verify"
        ]));
        assert!(is_said(&[
            "cocoonbox",
            "replay",
            "verify",
            "--data-dir",
            "/d"
        ]));
        assert!(!is_said(&["cocoonbox", "replay", "verify"]));
    }
}
