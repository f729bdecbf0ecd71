//! Arguments of `replay`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

/// Which log a command is about.
#[derive(Args, Clone, Debug)]
pub struct LogOption {
    /// A log: its id, `box:NAME`, `account:USER` or `system` [default: all]
    #[arg(long, value_name = "LOG")]
    pub log: Option<String>,
}

#[derive(Clone, Debug, Subcommand)]
pub enum Replay {
    /// Check that the logs are whole and are what they were
    ///
    /// Checks positions, the chain of hashes, every payload against its hash and each stream's order;
    /// over all logs also that every stream folds and that account logs and box logs fit together.
    /// Exit code 1 if anything is not as it must be.
    #[command(
        after_long_help = "Examples:\n  cocoonbox replay verify\n  cocoonbox replay verify --log box:main --json"
    )]
    Verify(LogOption),

    /// Show the events of the logs
    ///
    /// One line an event, the same for ever: position, time, stream, kind, actor, payload.
    #[command(
        after_long_help = "Examples:\n  cocoonbox replay show --log box:main --stream agent/\n  cocoonbox replay show --log account:ann --kind box --limit 20\n  cocoonbox replay show --text 'permission denied'"
    )]
    Show {
        #[command(flatten)]
        log: LogOption,
        /// Only streams that begin like this; may be given again
        #[arg(long, short, value_name = "PREFIX")]
        stream: Vec<String>,
        /// Only this kind of event, `box.running` or all of `box`; may be given again
        #[arg(long, short, value_name = "KIND")]
        kind: Vec<String>,
        /// Only what was caused by this actor: `user:ID`, or all of `system`
        #[arg(long, value_name = "ACTOR")]
        actor: Option<String>,
        /// Only events whose payload contains this, whatever the case
        #[arg(long, value_name = "TEXT")]
        text: Option<String>,
        /// Start behind this position or offset key
        #[arg(long, value_name = "POS|KEY")]
        from: Option<String>,
        /// At most so many events
        #[arg(long, value_name = "COUNT", default_value_t = usize::MAX, hide_default_value = true)]
        limit: usize,
    },

    /// Show what was known of a box, user, agent or command at a moment
    #[command(
        after_long_help = "Examples:\n  cocoonbox replay state --stream agent/main --log box:main\n  cocoonbox replay state --stream box/b7 --at 42"
    )]
    State {
        #[command(flatten)]
        log: LogOption,
        /// The stream, in full
        #[arg(long, short, value_name = "STREAM")]
        stream: String,
        /// As of this position or offset key [default: the end]
        #[arg(long, value_name = "POS|KEY")]
        at: Option<String>,
    },

    /// Compare two moments of one log, or two logs
    ///
    /// Two moments: which streams moved between them and what became of them. Two logs: the first
    /// position where they part; exit code 1 if they do. The second log may lie in another data
    /// directory, for example in a copy.
    #[command(
        after_long_help = "Examples:\n  cocoonbox replay diff --log box:main 10 90\n  cocoonbox replay diff box:main box:main --other /backup/cocoonbox\n  cocoonbox replay diff box:main box:copy --meaning"
    )]
    Diff {
        #[command(flatten)]
        log: LogOption,
        /// A position or offset key, or a log
        #[arg(value_name = "A")]
        a: String,
        /// Another one
        #[arg(value_name = "B")]
        b: String,
        /// Where the second log lies
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        other: Option<PathBuf>,
        /// Two runs of the same thing: compare stream, kind and payload only
        #[arg(long)]
        meaning: bool,
    },

    /// Build every view again and compare it with the one there is
    ///
    /// In memory; nothing is changed. Exit code 1 if a row differs.
    #[command(after_long_help = "Examples:\n  cocoonbox replay rebuild")]
    Rebuild,

    /// Decide a recorded conversation again with this build
    ///
    /// Prompts, replies and results are taken from the record; what this build decides must be what is
    /// recorded. Exit code 1 where it is not.
    #[command(
        after_long_help = "Examples:\n  cocoonbox replay rerun\n  cocoonbox replay rerun --log box:main --stream agent/main"
    )]
    Rerun {
        #[command(flatten)]
        log: LogOption,
        /// One conversation [default: all]
        #[arg(long, short, value_name = "STREAM")]
        stream: Option<String>,
    },

    /// Show what led to an event and what it led to
    #[command(
        after_long_help = "Examples:\n  cocoonbox replay why 0198….0000000000000042.a1b2c3d4\n  cocoonbox replay why --log box:main 42\n  cocoonbox replay why 0198c0ffee0198c0ffee0198c0ffee01"
    )]
    Why {
        #[command(flatten)]
        log: LogOption,
        /// An offset key, an event id, or a position in --log
        #[arg(value_name = "EVENT")]
        event: String,
    },
}
