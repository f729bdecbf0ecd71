//! Arguments about people, tokens and this program.

use clap::{Args, Subcommand};
use clap_complete::Shell;

/// Keep a token for an api
///
/// Reads the token from a prompt without echo or, if standard input is not a terminal, from its first
/// line; checks it with the api; and keeps it in `$XDG_CONFIG_HOME/cocoonbox/credentials.toml`, which
/// only you can read. There is no option for the token: other users of a host see arguments.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  cocoonbox login
  cocoonbox login --api http://127.0.0.1:8750 < token")]
pub struct Login {}

/// Sign a browser in to the console
///
/// Prints a link that signs a browser in as you, once, within ten minutes. The console is the page that
/// the api serves: boxes, conversations, screens, terminals, history. `cocoonbox token list` shows which
/// browsers are signed in, `cocoonbox token revoke` ends one. Under Devices a passkey can be added there,
/// which signs in without a link: at http://localhost:PORT, or at a name that cocoonbox.toml has.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  cocoonbox console
  xdg-open \"$(cocoonbox console)\"
  cocoonbox console --at https://box.example.org")]
pub struct Console {
    /// Where the browser reaches the api, if not as we do
    #[arg(long, value_name = "URL", value_hint = clap::ValueHint::Url)]
    pub at: Option<String>,
}

#[derive(Clone, Debug, Subcommand)]
pub enum Token {
    /// Make another token for yourself
    ///
    /// It is shown once, on standard output.
    #[command(
        after_long_help = "Examples:\n  cocoonbox token issue --label laptop\n  cocoonbox token issue --label ci > token"
    )]
    Issue {
        /// What the token is for
        #[arg(long, value_name = "TEXT", default_value = "")]
        label: String,
    },
    /// List your tokens
    #[command(after_long_help = "Examples:\n  cocoonbox token list")]
    List,
    /// End a token for ever
    #[command(after_long_help = "Examples:\n  cocoonbox token revoke 0198c0ffee")]
    Revoke {
        /// Its id, as `cocoonbox token list` shows it
        #[arg(value_name = "TOKEN_ID")]
        token_id: String,
    },
}

#[derive(Clone, Debug, Subcommand)]
pub enum Passkey {
    /// List your passkeys
    ///
    /// A passkey signs a browser in to the console without a link. It is added there, under Devices.
    #[command(after_long_help = "Examples:\n  cocoonbox passkey list")]
    List,
    /// Remove a passkey for ever
    ///
    /// Sessions that it began go on: `cocoonbox token revoke` ends them.
    #[command(after_long_help = "Examples:\n  cocoonbox passkey remove p0123456789ab")]
    Remove {
        /// Its id, as `cocoonbox passkey list` shows it
        #[arg(value_name = "PASSKEY_ID")]
        passkey_id: String,
    },
}

#[derive(Clone, Debug, Subcommand)]
pub enum User {
    /// Create a user and their first token
    ///
    /// The token is shown once, on standard output.
    #[command(
        after_long_help = "Examples:\n  cocoonbox user create ann > ann.token\n  cocoonbox user create bob --admin"
    )]
    Create {
        /// What to call them
        #[arg(value_name = "NAME")]
        name: String,
        /// May create users too
        #[arg(long)]
        admin: bool,
        /// What the token is for
        #[arg(long, value_name = "TEXT", default_value = "first token")]
        label: String,
    },
    /// Delete a user for ever
    ///
    /// Yourself, or anybody as an admin. Their tokens end at once, their boxes go with everything in them,
    /// and then their key is destroyed: nothing of theirs can be read again, in the logs, in sealed
    /// backups, or anywhere else that we have a hand on. That something happened stays: times, kinds,
    /// ids and hashes, so that every log still verifies. Copies that others have made are not reached.
    /// The name is free again. Asks first, unless told --yes.
    #[command(
        after_long_help = "Examples:\n  cocoonbox user delete ann\n  cocoonbox user delete ann --yes"
    )]
    Delete {
        /// Their name, or their id
        #[arg(value_name = "NAME")]
        name: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
        /// Delete even the last admin
        #[arg(long)]
        force: bool,
    },
    /// List all users
    #[command(after_long_help = "Examples:\n  cocoonbox user list")]
    List,
}

/// Print a completion script for a shell
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  cocoonbox completions bash > ~/.local/share/bash-completion/completions/cocoonbox
  cocoonbox completions zsh > \"${fpath[1]}/_cocoonbox\"
  cocoonbox completions fish > ~/.config/fish/completions/cocoonbox.fish")]
pub struct Completions {
    /// The shell
    pub shell: Shell,
}

/// Explain a command or a topic
///
/// Topics: exit-codes, environment, locations.
#[derive(Args, Clone, Debug)]
#[command(
    after_long_help = "Examples:\n  cocoonbox help exec\n  cocoonbox help token issue\n  cocoonbox help exit-codes"
)]
pub struct Help {
    /// A command with its subcommand, or a topic
    #[arg(value_name = "COMMAND|TOPIC")]
    pub words: Vec<String>,
}
