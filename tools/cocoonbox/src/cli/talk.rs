//! Arguments about what goes on in a box.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueHint};

use super::BoxOption;
use crate::text;

#[derive(Args, Clone, Debug)]
pub struct OneAgent {
    #[command(flatten)]
    pub target: BoxOption,

    /// The agent, by name or id
    #[arg(long, short, value_name = "AGENT", default_value = "main")]
    pub agent: String,
}

/// Give an agent something to do and watch it work
///
/// The model's words go to standard output as they come; tool calls and what became of them go to
/// standard error. Ends when the turn that answers the prompt ends: 0 if it is done, 7 if not. A box
/// that sleeps is woken first. When the connection breaks, it goes on from the last event it saw.
///
/// Options stand before the prompt.
///
/// Ctrl-C asks the agent to stop and waits for it; a second Ctrl-C leaves at once, and the agent works
/// on or stops by itself. At a terminal, a tool call that needs an approval is asked about (`y` allows it
/// once, `a` for the conversation, anything else refuses it and is told to the agent), and so is what the
/// agent itself asks.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  cocoonbox send fix the failing test in /workspace/app
  cocoonbox send - < prompt.md > answer.md
  cocoonbox send --steer leave the tests alone
  cocoonbox send --image screen.png what is wrong here
  cocoonbox send --agent reviewer --box experiments look at the last commit
  cocoonbox send --no-follow --json run the nightly job | jq -r .offset_key")]
pub struct Send {
    #[command(flatten)]
    pub to: OneAgent,

    /// Tell the turn under way, at its next model call, instead of waiting for its end
    #[arg(long)]
    pub steer: bool,

    /// Show this picture with it: PNG, JPEG, GIF or WebP, at most 4 MiB; may be given again
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub image: Vec<PathBuf>,

    /// Only hand it over; print the key to follow from
    #[arg(long)]
    pub no_follow: bool,

    /// Show what the agent's commands print while they run
    #[arg(long, short)]
    pub verbose: bool,

    /// What to do; `-` reads it from standard input
    #[arg(required = true, value_name = "PROMPT", trailing_var_arg = true)]
    pub prompt: Vec<String>,
}

/// Run a command in a box
///
/// The command runs in /workspace as the box's user. Its output comes to ours, and its exit code
/// becomes ours: 128 + signal if a signal ended it, 124 if its time was up. Arguments are passed as
/// they are; use `bash -c` for a shell.
///
/// The output is in the box's log. So when the connection breaks the command goes on, and what it
/// printed meanwhile is shown once we are back; what is not in the log is named on standard error.
/// With --pipe the bytes go raw both ways and are not logged, and the command ends with the connection.
///
/// With --tty it runs at a terminal, as a shell or an editor wants to: every key goes to it, Ctrl-C too.
/// Ctrl-] leaves, and the command goes on; `attach --tty` comes back.
///
/// Ctrl-C interrupts the command; a second one leaves. A stream that ends without the command's end is
/// exit code 6, never success.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  cocoonbox exec -- ls -l
  cocoonbox exec --timeout 30s --cwd /workspace/app -- make test
  cocoonbox exec -- bash -c 'for i in $(seq 300); do echo $i; sleep 1; done'
  tar c src | cocoonbox exec --pipe -- tar x -C /workspace
  cocoonbox exec -t -- bash
  cocoonbox exec --detach -- make world")]
pub struct Exec {
    #[command(flatten)]
    pub target: BoxOption,

    /// End it, and everything it started, after this long
    #[arg(long, value_name = "TIME", value_parser = text::duration)]
    pub timeout: Option<Duration>,

    /// Directory to run it in [default: /workspace]
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<String>,

    /// Set a variable of its environment; may be given again
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = variable)]
    pub env: Vec<(String, String)>,

    /// Pass standard input, and log no bytes
    #[arg(long, conflicts_with = "detach")]
    pub pipe: bool,

    /// Run it at a terminal: ours, as long as we are there
    #[arg(long, short = 't', conflicts_with_all = ["pipe", "detach"])]
    pub tty: bool,

    /// Only start it; print its id and the key to attach from
    #[arg(long)]
    pub detach: bool,

    /// The command and its arguments
    #[arg(
        required = true,
        value_name = "COMMAND",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub argv: Vec<String>,
}

/// Follow a command that runs or ran
///
/// Shows its output from the start, or behind an offset key, and ends with its exit code. Works while
/// the box sleeps.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  cocoonbox attach 7b0c5d
  cocoonbox attach -t term-5d41402abc4b2a76-1
  cocoonbox attach 7b0c5d --from 0198….0000000000000042.a1b2c3d4")]
pub struct Attach {
    #[command(flatten)]
    pub target: BoxOption,

    /// Start behind this offset key
    #[arg(
        long,
        value_name = "KEY",
        default_value = "",
        hide_default_value = true
    )]
    pub from: String,

    /// Sit down at the terminal that it runs at, whoever opened it; Ctrl-] leaves
    #[arg(long, short = 't', conflicts_with = "from")]
    pub tty: bool,

    /// Its id, as `exec --detach` and `events` show it
    #[arg(value_name = "EXEC_ID")]
    pub exec_id: String,
}

/// Follow the events of a box or of your account
///
/// One line an event: offset key, time, stream, kind and what it says. With --json an object a line,
/// its payload decoded (bytes in base64). Resume with --from and the last key that was seen: no event is missed or
/// repeated. Goes on by itself when the connection breaks. Works while the box sleeps.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  cocoonbox events
  cocoonbox events --stream agent/ --no-follow
  cocoonbox events --account --json | jq -r .kind
  cocoonbox events --from 0198….0000000000000042.a1b2c3d4")]
pub struct Events {
    #[command(flatten)]
    pub target: BoxOption,

    /// Of your account instead of a box
    #[arg(long)]
    pub account: bool,

    /// Start behind this offset key [default: the beginning]
    #[arg(
        long,
        value_name = "KEY",
        default_value = "",
        hide_default_value = true
    )]
    pub from: String,

    /// Only streams that begin like this; may be given again
    #[arg(long, short, value_name = "PREFIX")]
    pub stream: Vec<String>,

    /// End at the last event instead of waiting for more
    #[arg(long)]
    pub no_follow: bool,
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("a variable is NAME=VALUE".into()),
    }
}
