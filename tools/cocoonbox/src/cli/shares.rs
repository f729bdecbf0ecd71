//! Arguments about who else may look at a box.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::BoxOption;
use crate::text;

const DAY: u64 = 24 * 60 * 60;

#[derive(Clone, Debug, Subcommand)]
pub enum Share {
    /// Make a link by which others look at a box's screen
    ///
    /// Whoever opens it in a browser sees the screen, live, and does nothing else: they cannot type, click, take over, paste,
    /// wake the box or read anything besides. You see who came and when, and end it at any time. What is shown is
    /// whatever is on the screen, so look at it first.
    #[command(
        after_long_help = "Examples:\n  cocoonbox share create --label 'for the team' --expires 7d\n  cocoonbox share create --box experiments --label demo --for bob\n  cocoonbox share create --label review --json | jq -r .link"
    )]
    Create {
        #[command(flatten)]
        target: BoxOption,

        /// What it is called, in your list and on the guest's page
        #[arg(long, value_name = "TEXT", default_value = "share")]
        label: String,

        /// Only for this user of the installation, signed in; by name or id
        #[arg(long = "for", value_name = "USER")]
        for_user: Option<String>,

        /// End it by itself after this long, at most a year: 30m, 12h, 7d
        #[arg(long, value_name = "TIME", value_parser = lasting)]
        expires: Option<Duration>,

        #[command(flatten)]
        place: Place,
    },
    /// List your shares with their links, newest first
    #[command(
        after_long_help = "Examples:\n  cocoonbox share list\n  cocoonbox share list --box experiments --ended\n  cocoonbox share list --json | jq -c '.shares[] | {label, opened, openings}'"
    )]
    List {
        /// Only those of this box, by name or id
        #[arg(long = "box", short = 'b', value_name = "BOX")]
        box_name: Option<String>,

        /// Those that were revoked or have expired, too
        #[arg(long)]
        ended: bool,

        #[command(flatten)]
        place: Place,
    },
    /// End a share for ever
    ///
    /// Its link opens nothing from then on, and whoever looks by it is cut off within a second.
    #[command(after_long_help = "Examples:\n  cocoonbox share revoke s0123456789ab")]
    Revoke {
        /// Its id, as `cocoonbox share list` shows it
        #[arg(value_name = "SHARE_ID")]
        share_id: String,
    },
    /// Give a share another link
    ///
    /// The one before opens nothing from then on, and whoever looks by it is cut off within a second.
    #[command(after_long_help = "Examples:\n  cocoonbox share regenerate s0123456789ab")]
    Regenerate {
        /// Its id, as `cocoonbox share list` shows it
        #[arg(value_name = "SHARE_ID")]
        share_id: String,

        #[command(flatten)]
        place: Place,
    },
}

/// Where links lead.
#[derive(Args, Clone, Debug)]
pub struct Place {
    /// Where browsers reach the api, if not as we do
    #[arg(long, value_name = "URL", value_hint = clap::ValueHint::Url)]
    pub at: Option<String>,
}

/// A share is for days rather than for hours.
fn lasting(text: &str) -> Result<Duration, String> {
    let Some(days) = text.strip_suffix('d') else {
        return text::duration(text);
    };
    let days: u64 = days
        .parse()
        .map_err(|_| format!("`{text}` is no time: 30m, 12h, 7d"))?;
    let seconds = days.checked_mul(DAY);
    seconds
        .map(Duration::from_secs)
        .ok_or_else(|| format!("`{text}` is too long"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_last_for_days_too() {
        assert_eq!(lasting("7d"), Ok(Duration::from_hours(7 * 24)));
        assert_eq!(lasting("12h"), Ok(Duration::from_hours(12)));
        for bad in ["d", "xd", "-1d", "18446744073709551615d", "x"] {
            assert!(lasting(bad).is_err(), "{bad}");
        }
    }
}
