//! Arguments of `doctor`.

use clap::Args;

/// Say what is wrong with the installation on this host, and what to do
///
/// Asks the api that runs here, over its own socket; where none runs it looks at the data directory
/// itself. Needs the rights of the user that runs the api. Exit code 0 means that nothing is wrong, 1
/// that something is.
#[derive(Args, Clone, Debug)]
#[command(
    after_long_help = "Examples:\n  cocoonbox doctor\n  cocoonbox doctor --json | jq -r '.findings[] | select(.severity == \"wrong\").what'\n  cocoonbox doctor --rebuild transcript"
)]
pub struct Doctor {
    /// Build a view again while it goes on answering, and tell every row that differed
    #[arg(long, value_name = "VIEW")]
    pub rebuild: Option<String>,
}
