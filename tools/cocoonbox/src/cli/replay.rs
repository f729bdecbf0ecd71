//! Arguments of `replay`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use super::proof;

/// Where the logs are read from.
#[derive(Args, Clone, Debug, Default)]
pub struct Place {
    /// Read this instead of the data directory: a copied `log.db`, another data directory, an export, or
    /// a file with the address of a PostgreSQL database
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub from: Option<PathBuf>,
    /// The folder with the keys of a copied database [default: where the copy is]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub key_dir: Option<PathBuf>,
}

/// Which log a command is about.
#[derive(Args, Clone, Debug)]
pub struct LogOption {
    #[command(flatten)]
    pub place: Place,
    /// A log: its id, `box:NAME`, `account:USER` or `system` [default: all]
    #[arg(long, value_name = "LOG")]
    pub log: Option<String>,
}

/// Which events are wanted.
#[derive(Args, Clone, Debug)]
pub struct Wanted {
    /// Only streams that begin like this; may be given again
    #[arg(long, short, value_name = "PREFIX")]
    pub stream: Vec<String>,
    /// Only this kind of event, `box.running` or all of `box.`; may be given again
    #[arg(long, short, value_name = "KIND")]
    pub kind: Vec<String>,
    /// Only what was caused by this actor: `user:ID`, or all of `system`
    #[arg(long, value_name = "ACTOR")]
    pub actor: Option<String>,
    /// Only events whose payload contains this, whatever the case
    #[arg(long, value_name = "TEXT")]
    pub text: Option<String>,
}

const TIMES: &str = "\
Times:
  10m, 2h30m, 3d ago            now
  9:00, today 9:00              yesterday 9:00, monday, monday 17:30
  2026-11-29                    2026-11-29 9:00, 2026-11-29T09:00:00+01:00
Times without an offset are of this host's time zone (TZ); which one is said on standard error.";

#[derive(Clone, Debug, Subcommand)]
pub enum Replay {
    /// Check that the logs are whole and are what they were
    ///
    /// Checks positions, the chain of hashes, every payload against its hash and each stream's order, and
    /// the signed checkpoints; over all logs also that every stream folds and that account logs and box
    /// logs fit together, and a database file is looked through, for at most a minute. Exit code 1 if anything is not as it must be.
    #[command(
        after_long_help = "Examples:\n  cocoonbox replay verify\n  cocoonbox replay verify --log box:main --json\n  cocoonbox replay verify --from /backup/log.db --checkpoints /mnt/elsewhere --trust host.example+1a2b3c4d+AZ…"
    )]
    Verify(proof::Verify),

    /// Show the signed checkpoints of the logs
    ///
    /// The newest of each log, as they are: each can be put into a file and given to `verify --checkpoint`.
    #[command(
        after_long_help = "Examples:\n  cocoonbox replay checkpoint --log account:ann > checkpoint.txt\n  cocoonbox replay checkpoint --all --json\n  cocoonbox replay checkpoint --keys"
    )]
    Checkpoint(proof::Checkpoint),

    /// Show the events of the logs
    ///
    /// One line an event, the same for ever: position, time, stream, kind, actor, payload.
    #[command(after_long_help = format!("\
Examples:
  cocoonbox replay show --log box:main --stream agent/
  cocoonbox replay show --log account:ann --kind box. --last 20
  cocoonbox replay show --since 'yesterday 9:00' --until 12:00 --text 'permission denied'
  cocoonbox replay show --from incident.jsonl --json | jq -r .kind

{TIMES}"))]
    Show {
        #[command(flatten)]
        log: LogOption,
        #[command(flatten)]
        wanted: Wanted,
        /// Only events from this time on
        #[arg(long, value_name = "TIME")]
        since: Option<String>,
        /// Only events before this time
        #[arg(long, value_name = "TIME")]
        until: Option<String>,
        /// Start behind this position or offset key
        #[arg(long, value_name = "POS|KEY")]
        after: Option<String>,
        /// At most so many events
        #[arg(long, value_name = "COUNT", default_value_t = usize::MAX, hide_default_value = true)]
        limit: usize,
        /// Only the last so many events of each log
        #[arg(long, value_name = "COUNT", conflicts_with = "limit")]
        last: Option<usize>,
    },

    /// Show what was known of a box, user, agent or command, or what a view had, at a moment
    ///
    /// An aggregate is folded from its stream, a view from the logs: nothing that is kept is believed.
    #[command(after_long_help = format!("\
Examples:
  cocoonbox replay state --stream agent/main --log box:main
  cocoonbox replay state --stream box/b7 --at 42
  cocoonbox replay state --view boxes --at 'yesterday 9:00'
  cocoonbox replay state --view transcript --log box:main --json

{TIMES}"))]
    State {
        #[command(flatten)]
        log: LogOption,
        /// The stream, in full
        #[arg(long, short, value_name = "STREAM", required_unless_present = "view")]
        stream: Option<String>,
        /// A view: boxes, operations, agents, transcript, audit, usage and others
        #[arg(long, value_name = "VIEW", conflicts_with = "stream")]
        view: Option<String>,
        /// Only rows of the view whose key begins like this
        #[arg(long, value_name = "PREFIX", requires = "view")]
        key: Option<String>,
        /// As of this position, offset key or time [default: the end]
        #[arg(long, value_name = "POS|KEY|TIME")]
        at: Option<String>,
    },

    /// Compare two moments, two logs, or two sources
    ///
    /// Two moments: which streams moved between them, what became of them, and which rows of the views
    /// are otherwise. Positions need --log; times may be of all logs. Two logs: the first position where
    /// they part; exit code 1 if they do. With --other the second log lies in another source, and without
    /// A and B every log is compared with the one of the same id there.
    #[command(after_long_help = format!("\
Examples:
  cocoonbox replay diff 'yesterday 9:00' now
  cocoonbox replay diff --log box:main 10 90
  cocoonbox replay diff --other /backup/log.db
  cocoonbox replay diff box:main box:main --other incident.jsonl
  cocoonbox replay diff box:main box:copy --meaning

{TIMES}"))]
    Diff {
        #[command(flatten)]
        log: LogOption,
        /// A position, offset key or time, or a log
        #[arg(value_name = "A", required_unless_present = "other")]
        a: Option<String>,
        /// Another one
        #[arg(value_name = "B", requires = "a", required_unless_present = "other")]
        b: Option<String>,
        /// Where the second log lies: whatever --from takes
        #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
        other: Option<PathBuf>,
        /// Two runs of the same thing: compare stream, kind and payload only
        #[arg(long)]
        meaning: bool,
    },

    /// Build every view again and compare it with the one there is
    ///
    /// In memory; nothing is changed. Exit code 1 if a row differs. Where there are no views, as beside a
    /// copied log or in an export, it says what they would have.
    #[command(
        after_long_help = "Examples:\n  cocoonbox replay rebuild --compare\n  cocoonbox replay rebuild --from incident.jsonl"
    )]
    Rebuild {
        #[command(flatten)]
        place: Place,
        /// Fail where there are no views to compare with
        #[arg(long)]
        compare: bool,
    },

    /// Decide a recorded conversation again with this build
    ///
    /// Prompts, replies and results are taken from the record; what this build decides must be what is
    /// recorded. Exit code 1 where it is not: the first event that is otherwise is shown, and what of it.
    /// To hold another build against this one, record or export with that one and read it with --from.
    #[command(
        after_long_help = "Examples:\n  cocoonbox replay rerun\n  cocoonbox replay rerun --log box:main --stream agent/main\n  cocoonbox replay rerun --from of-the-old-build.jsonl"
    )]
    Rerun {
        #[command(flatten)]
        log: LogOption,
        /// One conversation [default: all]
        #[arg(long, short, value_name = "STREAM")]
        stream: Option<String>,
    },

    /// Show what led to an event and what it led to
    ///
    /// Causes above, effects below, across all logs: by the causes that events name and, where they name
    /// none, by the ids in them (prompt, turn, call, tool, command, box). The event itself has a `*`.
    /// Reads all logs and keeps about 100 bytes of each event in memory.
    #[command(
        after_long_help = "Examples:\n  cocoonbox replay why 0198….0000000000000042.a1b2c3d4\n  cocoonbox replay why --log box:main 42\n  cocoonbox replay why 0198c0ffee0198c0ffee0198c0ffee01 --json"
    )]
    Why {
        #[command(flatten)]
        log: LogOption,
        /// An offset key, an event id, or a position in --log
        #[arg(value_name = "EVENT")]
        event: String,
    },

    /// Show events as they are written
    ///
    /// Reads the store itself, so it goes on whatever becomes of the api. Ctrl-C ends it. Follows all logs
    /// from now on, or one from behind a position or key. An export does not grow: `show` shows it.
    #[command(
        after_long_help = "Examples:\n  cocoonbox replay follow\n  cocoonbox replay follow --kind box. --json | jq -r .payload.reason\n  cocoonbox replay follow --after 0198….0000000000000042.a1b2c3d4"
    )]
    Follow {
        #[command(flatten)]
        log: LogOption,
        #[command(flatten)]
        wanted: Wanted,
        /// Start behind this position or offset key
        #[arg(long, value_name = "POS|KEY")]
        after: Option<String>,
    },

    /// Write logs into files that anybody can read and check
    ///
    /// JSON Lines: a header, then a line for each event with everything that its hash covers, its payload
    /// in words and byte for byte, and the signed checkpoints. Beside it lies `verify.py`, which checks all
    /// of it with nothing but Python 3. Whole exports hold what people wrote and are not sealed: keep them
    /// as you would keep that. Redacted ones have no payloads; hashes, order and times still verify.
    #[command(
        after_long_help = "Examples:\n  cocoonbox replay export incident.jsonl --log box:main\n  cocoonbox replay export ann/ --owner ann\n  cocoonbox replay export --redacted audit.jsonl\n  cocoonbox replay export - | zstd > all.jsonl.zst\n  python3 verify.py incident.jsonl"
    )]
    Export(Export),

    /// Read an export into a fresh data directory
    ///
    /// Positions and hashes are those of the export; payloads are sealed with keys made for it. What does
    /// not verify is refused before anything is written.
    #[command(
        after_long_help = "Examples:\n  cocoonbox replay import incident.jsonl --to /tmp/incident\n  cocoonbox replay import audit.jsonl --to /tmp/audit --allow-redacted"
    )]
    Import {
        /// The export, a file or a folder
        #[arg(value_name = "EXPORT", value_hint = ValueHint::AnyPath)]
        export: PathBuf,
        /// The data directory to make
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        to: PathBuf,
        /// Take an export without payloads: what is made reads as erased
        #[arg(long)]
        allow_redacted: bool,
    },
}

#[derive(Args, Clone, Debug)]
pub struct Export {
    #[command(flatten)]
    pub place: Place,
    /// The file to write, if it ends in .jsonl; else a folder with a file for each log; `-` for standard
    /// output
    #[arg(value_name = "TO", value_hint = ValueHint::AnyPath)]
    pub to: PathBuf,
    /// Only this log, and those that it branches off; may be given again [default: all]
    #[arg(long, value_name = "LOG")]
    pub log: Vec<String>,
    /// Only the logs of this user, by name or id; may be given again
    #[arg(long, value_name = "USER")]
    pub owner: Vec<String>,
    /// Leave payloads and salts out
    #[arg(long)]
    pub redacted: bool,
}

impl Replay {
    /// Where the command reads from.
    pub fn place(&self) -> Place {
        match self {
            Self::Verify(options) => options.log.place.clone(),
            Self::Checkpoint(options) => options.log.place.clone(),
            Self::Show { log, .. }
            | Self::State { log, .. }
            | Self::Diff { log, .. }
            | Self::Rerun { log, .. }
            | Self::Why { log, .. }
            | Self::Follow { log, .. } => log.place.clone(),
            Self::Rebuild { place, .. } => place.clone(),
            Self::Export(options) => options.place.clone(),
            Self::Import { export, .. } => Place {
                from: Some(export.clone()),
                key_dir: None,
            },
        }
    }
}
