//! Arguments of `capsule`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

/// Which capsule, and its key.
#[derive(Args, Clone, Debug)]
pub struct Where {
    /// The store: a folder, file:///FOLDER, or s3://BUCKET/PREFIX?endpoint=https://HOST&region=REGION
    #[arg(long, value_name = "URL", env = "COCOONBOX_CAPSULE_STORE")]
    pub store: String,
    /// The file with the keys to a store in S3, as the AWS tools write it, readable by nobody else
    #[arg(long, value_name = "FILE", env = "COCOONBOX_CAPSULE_CREDENTIALS_FILE")]
    #[arg(value_hint = ValueHint::FilePath)]
    pub credentials_file: Option<PathBuf>,
    /// The file with the key: 64 hexadecimal digits, readable by nobody else
    #[arg(long, value_name = "FILE", env = "COCOONBOX_CAPSULE_KEY_FILE")]
    #[arg(value_hint = ValueHint::FilePath)]
    pub key_file: PathBuf,
}

#[derive(Clone, Debug, Subcommand)]
pub enum Capsule {
    /// Get the key of what is saved of your boxes, to leave with your data
    ///
    /// With it and a copy of your folder of the installation's capsules the other commands of this group read all that is
    /// saved, and all that will be, without the installation. Whoever has both can: keep the file as you keep a
    /// password. It is written into your account's log that this device has it. Everything else of this group needs no api.
    #[command(
        after_long_help = "Examples:\n  cocoonbox capsule export-key ~/.capsule-key\n  cocoonbox capsule restore --store /backup/capsule --key-file ~/.capsule-key --target /tmp/all"
    )]
    ExportKey {
        /// Made, readable by nobody else; must not be there
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
    /// Make a capsule in an empty store
    ///
    /// Makes the key file too, if there is none. Whoever has the key and the store can read everything;
    /// without the key nobody can, and it is kept nowhere else: keep a copy.
    #[command(
        after_long_help = "Examples:\n  cocoonbox capsule init --store /backup/capsule --key-file ~/.capsule-key"
    )]
    Init {
        #[command(flatten)]
        place: Where,
    },
    /// Save folders
    ///
    /// Reads what changed since the last save of the same label and stores what the store has not. Caches
    /// and what can be built again are left out unless --no-default-excludes is given; a
    /// `.cocoonboxignore` in any folder leaves out more, in the syntax of .gitignore. Sockets, devices and
    /// what cannot be read are listed. A save that is broken off leaves nothing half: save again.
    #[command(
        after_long_help = "Examples:\n  cocoonbox capsule save --store /backup/capsule --key-file ~/.capsule-key /home/user /workspace\n  cocoonbox capsule save … --json | jq .bytes_added"
    )]
    Save {
        #[command(flatten)]
        place: Where,
        /// What is saved, for finding the save before
        #[arg(long, value_name = "TEXT", default_value = "")]
        label: String,
        /// Where the times of files are remembered [default: $XDG_CACHE_HOME/cocoonbox/capsule]
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        cache: Option<PathBuf>,
        /// Keep caches too
        #[arg(long)]
        no_default_excludes: bool,
        /// Read everything again
        #[arg(long)]
        full: bool,
        /// Level of zstd
        #[arg(long, value_name = "N", default_value_t = cocoonbox_capsule::save::LEVEL)]
        level: i32,
        /// The folders
        #[arg(required = true, value_hint = ValueHint::DirPath)]
        folders: Vec<PathBuf>,
    },
    /// List snapshots, oldest first
    #[command(
        after_long_help = "Examples:\n  cocoonbox capsule snapshots --store /backup/capsule --key-file ~/.capsule-key"
    )]
    Snapshots {
        #[command(flatten)]
        place: Where,
    },
    /// List a folder of a snapshot
    #[command(
        after_long_help = "Examples:\n  cocoonbox capsule ls --store /backup/capsule --key-file ~/.capsule-key\n  cocoonbox capsule ls … --snapshot 0000019a /workspace"
    )]
    Ls {
        #[command(flatten)]
        place: Where,
        #[command(flatten)]
        of: Of,
        /// An absolute path; none lists the folders that were saved
        path: Option<PathBuf>,
    },
    /// Write a file of a snapshot to standard output
    #[command(
        after_long_help = "Examples:\n  cocoonbox capsule cat --store /backup/capsule --key-file ~/.capsule-key /workspace/notes.md"
    )]
    Cat {
        #[command(flatten)]
        place: Where,
        #[command(flatten)]
        of: Of,
        path: PathBuf,
    },
    /// Restore a snapshot, or paths of it, below a folder
    ///
    /// Paths appear below the target as they were: /workspace/a as TARGET/workspace/a. What is there
    /// already stays and is listed; with --keep-existing it is moved to TARGET/.cocoonbox-kept-SNAPSHOT,
    /// and what was saved takes its place.
    #[command(
        after_long_help = "Examples:\n  cocoonbox capsule restore --store /backup/capsule --key-file ~/.capsule-key --target /tmp/restored\n  cocoonbox capsule restore … --target / --keep-existing /workspace/app"
    )]
    Restore {
        #[command(flatten)]
        place: Where,
        #[command(flatten)]
        of: Of,
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        target: PathBuf,
        /// Replace what is there, and keep it
        #[arg(long)]
        keep_existing: bool,
        /// Absolute paths; none restores all
        paths: Vec<PathBuf>,
    },
    /// Show what changed between two snapshots
    ///
    /// One line a path: + added, - removed, M other content, K another kind, m only mode, owner, times
    /// or attributes.
    #[command(
        after_long_help = "Examples:\n  cocoonbox capsule diff --store /backup/capsule --key-file ~/.capsule-key 0000019a latest"
    )]
    Diff {
        #[command(flatten)]
        place: Where,
        before: String,
        #[arg(default_value = "latest")]
        after: String,
    },
    /// Check that every snapshot can be restored
    ///
    /// Compares objects, index and directories; with --read-data every byte. What is missing or damaged is
    /// named, with the files that need it. --repair gives damaged packs up, so that the next save stores
    /// again what the folders still hold.
    #[command(
        after_long_help = "Examples:\n  cocoonbox capsule check --store /backup/capsule --key-file ~/.capsule-key --read-data\n  cocoonbox capsule check … --read-data --slice 2/7   # a seventh of all packs"
    )]
    Check {
        #[command(flatten)]
        place: Where,
        /// Read every byte
        #[arg(long)]
        read_data: bool,
        /// Of the packs only every OF-th, beginning with TURN
        #[arg(long, value_name = "TURN/OF", value_parser = slice, requires = "read_data")]
        slice: Option<(u8, u8)>,
        /// Give damaged packs up
        #[arg(long, requires = "read_data")]
        repair: bool,
    },
    /// Delete snapshots, and give back what none needs
    ///
    /// Without --forget or --keep-last only what is needed by no snapshot is given up. That is deleted by a
    /// later prune, a day on, so that saves under way lose nothing; --now deletes it at once if no save is
    /// under way.
    #[command(
        after_long_help = "Examples:\n  cocoonbox capsule prune --store /backup/capsule --key-file ~/.capsule-key --keep-last 30\n  cocoonbox capsule prune … --dry-run"
    )]
    Prune {
        #[command(flatten)]
        place: Where,
        /// Delete all but the newest so many snapshots
        #[arg(long, value_name = "N", conflicts_with = "forget")]
        keep_last: Option<std::num::NonZeroUsize>,
        /// Delete these snapshots
        #[arg(long, value_name = "SNAPSHOT")]
        forget: Vec<String>,
        /// Do not wait a day
        #[arg(long)]
        now: bool,
        /// Say what would be done
        #[arg(long)]
        dry_run: bool,
    },
}

/// Which snapshot.
#[derive(Args, Clone, Debug)]
pub struct Of {
    /// `latest`, or an id or its beginning
    #[arg(long, short, value_name = "SNAPSHOT", default_value = "latest")]
    pub snapshot: String,
}

fn slice(text: &str) -> Result<(u8, u8), String> {
    let wrong = || "a slice is TURN/OF, like 2/7".to_owned();
    let (turn, of) = text.split_once('/').ok_or_else(wrong)?;
    let turn: u8 = turn.parse().map_err(|_| wrong())?;
    let of: u8 = of.parse().map_err(|_| wrong())?;
    if (1..=of).contains(&turn) {
        Ok((turn - 1, of))
    } else {
        Err(wrong())
    }
}
