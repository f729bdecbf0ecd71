//! Arguments of `log`.

use clap::Subcommand;

#[derive(Clone, Debug, Subcommand)]
pub enum Log {
    /// Copy an installation from one store to another
    ///
    /// Logs with all their events, checkpoints, keys and tokens, position for position and hash for hash; then
    /// reads both again and compares them. A store is a folder, or postgres://HOST/DATABASE; one with a password
    /// is named by an environment variable: env:NAME. No api may use either. A copy that was broken off goes on
    /// when it is repeated; one into another installation is refused. Boxes' disks stay where they are, and the
    /// copied-from store should not be used again: start the api on the other.
    #[command(
        after_long_help = "Examples:\n  cocoonbox down\n  cocoonbox log copy sqlite: postgres://db/cocoonbox\n  COPY_TO=postgres://cocoonbox:secret@db/cocoonbox cocoonbox log copy sqlite: env:COPY_TO\n  cocoonbox log copy postgres://db/cocoonbox /srv/cocoonbox"
    )]
    Copy {
        /// The store to copy, `sqlite:` for the data directory
        #[arg(value_name = "FROM")]
        from: String,
        /// The store to copy to
        #[arg(value_name = "TO")]
        to: String,
        /// Do not read both again at the end
        #[arg(long)]
        no_verify: bool,
    },
    /// Go on in new logs after the store was put back
    ///
    /// After a database was restored from an older backup, or a standby that lagged was promoted, clients hold
    /// positions that are not there any more. This lets the system log and every account log, or only the named
    /// ones, go on in a branch from where they end, so that no position is given out twice; clients that saw more
    /// are told so. Boxes' logs go on by themselves: a box still has what is missing here. Leases start above all that
    /// were given out before, so that machines obey whoever drives them next. No api may run.
    #[command(
        after_long_help = "Examples:\n  cocoonbox down\n  cocoonbox log rewind --reason 'restored the backup of Monday'\n  cocoonbox log rewind --reason 'promoted the standby' --store postgres://db/cocoonbox"
    )]
    Rewind {
        /// Why; stands in every log that is rewound
        #[arg(long, value_name = "TEXT")]
        reason: String,
        /// The store, as for `log copy`
        #[arg(long, value_name = "STORE", default_value = "sqlite:")]
        store: String,
        /// Only these logs
        #[arg(value_name = "LOG")]
        logs: Vec<cocoonbox_events::LogId>,
    },
}
