//! `cocoonbox`: boxes, their agents and their logs, from a shell.

#![forbid(unsafe_code)]

use std::process::ExitCode;

/// One thread is enough: the program waits, and its work is elsewhere.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    ExitCode::from(cocoonbox_cli::run::run().await)
}
