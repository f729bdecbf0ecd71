//! Arguments about what goes on in a box.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

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
/// on or stops by itself. A tool call that needs an approval is asked about at a terminal.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  cocoonbox send fix the failing test in /workspace/app
  cocoonbox send - < prompt.md > answer.md
  cocoonbox send --agent reviewer --box experiments look at the last commit
  cocoonbox send --no-follow --json run the nightly job | jq -r .offset_key")]
pub struct Send {
    #[command(flatten)]
    pub to: OneAgent,

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

/// Answer a tool call that waits for a person
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  cocoonbox respond --approval 0198c0ffee --allow
  cocoonbox respond --approval 0198c0ffee --deny --comment 'not on a Friday'")]
pub struct Respond {
    #[command(flatten)]
    pub to: OneAgent,

    /// Its id, as `send` and `events` show it
    #[arg(long, value_name = "ID")]
    pub approval: String,

    /// Let it happen, once
    #[arg(long, required_unless_present = "deny", conflicts_with = "deny")]
    pub allow: bool,

    /// Refuse it; the agent is told
    #[arg(long)]
    pub deny: bool,

    /// A word to the agent
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub comment: String,
}

/// List the agents of a box, or make one
///
/// Works while the box sleeps.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_long_help = "\
Examples:
  cocoonbox agents
  cocoonbox agents create reviewer --ask")]
pub struct Agents {
    #[command(subcommand)]
    pub command: Option<AgentsCommand>,

    #[command(flatten)]
    pub target: BoxOption,
}

#[derive(Clone, Debug, Subcommand)]
pub enum AgentsCommand {
    /// List the agents of a box
    List(BoxOption),
    /// Make an agent
    ///
    /// Needs a running box. Without --model it uses the installation's default.
    #[command(
        after_long_help = "Examples:\n  cocoonbox agents create reviewer --ask\n  cocoonbox agents create fast --wire openai --model small-1"
    )]
    Create {
        #[command(flatten)]
        target: BoxOption,
        /// What to call it
        #[arg(value_name = "NAME")]
        name: String,
        /// The model, as its vendor calls it
        #[arg(long, value_name = "MODEL", requires = "wire")]
        model: Option<String>,
        /// The wire that the model is spoken to in
        #[arg(long, value_name = "WIRE", requires = "model")]
        wire: Option<Wire>,
        /// Most tokens of one reply; 0 = the installation's default
        #[arg(long, value_name = "COUNT", default_value_t = 0, requires = "model")]
        output_tokens_max: u32,
        /// Ask a person before every tool call that changes something
        #[arg(long)]
        ask: bool,
        /// Model calls allowed in one turn; 0 = 100
        #[arg(long, value_name = "COUNT", default_value_t = 0)]
        steps_max: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Wire {
    /// POST /v1/messages
    Anthropic,
    /// POST /v1/chat/completions
    Openai,
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
/// Ctrl-C interrupts the command; a second one leaves. A stream that ends without the command's end is
/// exit code 6, never success.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  cocoonbox exec -- ls -l
  cocoonbox exec --timeout 30s --cwd /workspace/app -- make test
  cocoonbox exec -- bash -c 'for i in $(seq 300); do echo $i; sleep 1; done'
  tar c src | cocoonbox exec --pipe -- tar x -C /workspace
  cocoonbox exec --detach -- make world")]
pub struct Exec {
    #[command(flatten)]
    pub target: BoxOption,

    /// End it, and everything it started, after this long
    #[arg(long, short, value_name = "TIME", value_parser = text::duration)]
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
