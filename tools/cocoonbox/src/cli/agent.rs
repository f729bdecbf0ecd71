//! Arguments about one agent.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueHint};

use super::talk::OneAgent;
use crate::text;

/// List, make and set up agents, answer them, and go back in their conversations
#[derive(Clone, Debug, Subcommand)]
pub enum Agent {
    /// List the agents of a box
    ///
    /// Works while the box sleeps. Subagents are listed with --all.
    #[command(
        after_long_help = "Examples:\n  cocoonbox agent list\n  cocoonbox agent list --all --json | jq -r '.agents[].id'"
    )]
    List(List),
    /// Show what an agent does, asks and plans
    ///
    /// Its models and rules, what it waits for, its list of things to do and the prompts that wait.
    #[command(
        after_long_help = "Examples:\n  cocoonbox agent show\n  cocoonbox agent show --agent reviewer --json | jq .approvals"
    )]
    Show(OneAgent),
    Create(Create),
    Configure(Configure),
    Branch(Branch),
    Branches(Branches),
    /// Take back a prompt that waits
    #[command(after_long_help = "Examples:\n  cocoonbox agent withdraw 0198c0ffee")]
    Withdraw {
        #[command(flatten)]
        to: OneAgent,
        /// Its id, as `send --no-follow` and `agent show` say it
        #[arg(value_name = "PROMPT_ID")]
        prompt_id: String,
    },
    /// Let a tool call happen that waits for a person
    #[command(
        after_long_help = "Examples:\n  cocoonbox agent approve 0198c0ffee\n  cocoonbox agent approve 0198c0ffee --for-conversation"
    )]
    Approve {
        #[command(flatten)]
        to: OneAgent,
        /// Its id, as `send` and `agent show` say it
        #[arg(value_name = "APPROVAL_ID")]
        approval_id: String,
        /// Also every later call of the same tool that risks no more, in this conversation
        #[arg(long)]
        for_conversation: bool,
        /// A word to the agent
        #[arg(
            long,
            value_name = "TEXT",
            default_value = "",
            hide_default_value = true
        )]
        comment: String,
    },
    /// Refuse a tool call that waits for a person
    #[command(
        after_long_help = "Examples:\n  cocoonbox agent deny 0198c0ffee --comment 'not on a Friday'"
    )]
    Deny {
        #[command(flatten)]
        to: OneAgent,
        /// Its id, as `send` and `agent show` say it
        #[arg(value_name = "APPROVAL_ID")]
        approval_id: String,
        /// A word to the agent
        #[arg(
            long,
            value_name = "TEXT",
            default_value = "",
            hide_default_value = true
        )]
        comment: String,
    },
    /// Answer a question that an agent asks
    #[command(after_long_help = "Examples:\n  cocoonbox agent answer 0198c0ffee the blue one")]
    Answer {
        #[command(flatten)]
        to: OneAgent,
        /// Its id, as `send` and `agent show` say it
        #[arg(value_name = "QUESTION_ID")]
        question_id: String,
        /// What to answer
        #[arg(required = true, value_name = "ANSWER", trailing_var_arg = true)]
        answer: Vec<String>,
    },
    Memory(Memory),
    Blob(Blob),
}

#[derive(Args, Clone, Debug)]
pub struct List {
    #[command(flatten)]
    pub target: super::BoxOption,

    /// Subagents, too
    #[arg(long)]
    pub all: bool,
}

/// Make an agent
///
/// Needs a running box; wakes it if it sleeps. Without --main it uses the box's models. It asks about
/// nothing unless --rule or --always-ask says otherwise; with --rule, a risk that no rule names is asked about.
/// Models and rules are written as for `agent configure`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  cocoonbox agent create reviewer --always-ask
  cocoonbox agent create fast --main openai:small-1 --steps-max 20")]
pub struct Create {
    #[command(flatten)]
    pub target: super::BoxOption,

    /// What to call it
    #[arg(value_name = "NAME")]
    pub name: String,

    #[command(flatten)]
    pub setup: Setup,

    /// Model calls allowed in one turn; 0 = 100
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub steps_max: u32,
}

/// Change which models an agent uses and what it has to ask about
///
/// What is not named stays as it is, other risks too. A model is WIRE:NAME, with more behind commas: `images`,
/// `context=TOKENS`, `output=TOKENS`, `thinking=TOKENS`. Wires are anthropic, openai and
/// openai-responses.
///
/// A rule is RISK=VERDICT. Risks are read, write (in /workspace), outside (write elsewhere), network,
/// destructive and money; verdicts are allow, ask and deny.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  cocoonbox agent configure --main anthropic:big-1,images,context=200000 --fallback openai:other-1
  cocoonbox agent configure --summarize openai:small-1
  cocoonbox agent configure --main -                  back to what `cocoonbox box models` says
  cocoonbox agent configure --rule write=allow --rule network=ask --rule money=deny
  cocoonbox agent configure --never-ask")]
pub struct Configure {
    #[command(flatten)]
    pub to: OneAgent,

    #[command(flatten)]
    pub setup: Setup,
}

/// Which model plays which role.
#[derive(Args, Clone, Debug)]
pub struct Models {
    /// The model of its own turns; `-` = all models as they are set for the box, or for the installation
    #[arg(long, value_name = "MODEL")]
    pub main: Option<String>,

    /// The model of computer subagents; `-` = as main
    #[arg(long, value_name = "MODEL")]
    pub computer: Option<String>,

    /// The model that sums up long conversations; `-` = as main
    #[arg(long, value_name = "MODEL")]
    pub summarize: Option<String>,

    /// Models to try when a call has failed for good, in order; may be given again; `-` = none
    #[arg(long, value_name = "MODEL")]
    pub fallback: Vec<String>,
}

/// Which models an agent uses, and what it has to ask about.
#[derive(Args, Clone, Debug)]
pub struct Setup {
    #[command(flatten)]
    pub models: Models,

    /// What is done about a risk; may be given again
    #[arg(long, value_name = "RISK=VERDICT", conflicts_with_all = ["never_ask", "always_ask"])]
    pub rule: Vec<String>,

    /// Allow everything
    #[arg(long, conflicts_with = "always_ask")]
    pub never_ask: bool,

    /// Ask before everything but reading
    #[arg(long)]
    pub always_ask: bool,

    /// How long an approval waits for its answer before it is a no
    #[arg(long, value_name = "TIME", value_parser = text::duration)]
    pub approval_ttl: Option<Duration>,
}

/// Go on from before an earlier prompt, with another one in its place
///
/// What came of the earlier one stays in the branch that is left; `agent branches` goes back to it.
/// The agent has to be idle. Options stand before the prompt.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  cocoonbox agent branch --at 0198c0ffee use the other library instead
  cocoonbox transcript --json | jq -r 'select(.kind == \"PROMPT\") | .prompt_id + \" \" + .text'")]
pub struct Branch {
    #[command(flatten)]
    pub to: OneAgent,

    /// The prompt to replace, by its id
    #[arg(long, value_name = "PROMPT_ID")]
    pub at: String,

    /// Only hand it over; print the key to follow from
    #[arg(long)]
    pub no_follow: bool,

    /// What to do instead; `-` reads it from standard input
    #[arg(required = true, value_name = "PROMPT", trailing_var_arg = true)]
    pub prompt: Vec<String>,
}

/// List the branches of a conversation, or go back to one
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  cocoonbox agent branches
  cocoonbox agent branches --select first
  cocoonbox agent branches --select 0198c0ffee")]
pub struct Branches {
    #[command(flatten)]
    pub to: OneAgent,

    /// Go on at the end of this one; `first` is the one that the conversation began with
    #[arg(long, value_name = "BRANCH_ID")]
    pub select: Option<String>,
}

/// Read, edit or erase what the agents of a box keep in mind
///
/// It is the file /workspace/.cocoonbox/memory.md of the box, at most 32 KiB of it. Needs a running
/// box; wakes it if it sleeps. --edit opens it in $VISUAL or $EDITOR.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  cocoonbox agent memory
  cocoonbox agent memory --edit
  cocoonbox agent memory --set - < memory.md
  cocoonbox agent memory --erase")]
pub struct Memory {
    #[command(flatten)]
    pub target: super::BoxOption,

    /// Change it in an editor
    #[arg(long, conflicts_with_all = ["erase", "set"])]
    pub edit: bool,

    /// Put this file in its place; `-` reads standard input
    #[arg(long, value_name = "FILE", conflicts_with = "erase", value_hint = ValueHint::FilePath)]
    pub set: Option<PathBuf>,

    /// Forget all of it
    #[arg(long)]
    pub erase: bool,
}

/// Fetch a picture or a whole tool output that an event names
///
/// Works while the box sleeps.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  cocoonbox agent blob 4f…e1 > output.txt
  cocoonbox agent blob 4f…e1 --output shot.png")]
pub struct Blob {
    #[command(flatten)]
    pub target: super::BoxOption,

    /// Where to put it [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,

    /// Its name, as `transcript --json` and `events --json` say it
    #[arg(value_name = "NAME")]
    pub name: String,
}
