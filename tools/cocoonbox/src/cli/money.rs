//! Arguments about what is used and what may be.

use clap::{Args, Subcommand, ValueEnum};

/// Show what your boxes used of the models
///
/// Tokens and cost by the installation's prices; calls of models without a price count no cost. Below
/// them, for how long each box was awake on each day. Days are UTC.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  cocoonbox usage
  cocoonbox usage --by agent,model --from 2026-11-01 --to 2026-11-30
  cocoonbox usage --by user --everybody
  cocoonbox usage --by routine,day
  cocoonbox usage --json | jq '[.rows[].output_tokens] | add'")]
pub struct Usage {
    /// What rows stay apart by
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    #[arg(default_value = "day,box,vendor,model")]
    pub by: Vec<By>,
    /// The first day, yyyy-mm-dd
    #[arg(long, value_name = "DAY", default_value = "")]
    pub from: String,
    /// The last day, yyyy-mm-dd
    #[arg(long, value_name = "DAY", default_value = "")]
    pub to: String,
    /// Another user's, by name or id; admins only
    #[arg(long, value_name = "USER", conflicts_with = "everybody")]
    pub user: Option<String>,
    /// All users'; admins only
    #[arg(long)]
    pub everybody: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum By {
    Day,
    Box,
    Agent,
    Role,
    Vendor,
    Model,
    User,
    Routine,
}

#[derive(Clone, Debug, Subcommand)]
pub enum Budget {
    /// Limit what is spent on models
    ///
    /// Counts from when it is first set; set again it keeps what it has counted. A call that does not fit
    /// is not made: the agent waits and asks again. With --dollars, models without a price are refused.
    #[command(after_long_help = "\
Examples:
  cocoonbox budget set --per-day --dollars 5
  cocoonbox budget set --total --tokens 2000000 --box experiments
  cocoonbox budget set --per-day --dollars 0.50 --box main --agent reviewer
  cocoonbox budget set --per-day --dollars 20 --user ann")]
    Set {
        #[command(flatten)]
        of: BudgetOf,
        /// At most so many tokens: read, written, and from and to the vendor's cache
        #[arg(long, value_name = "COUNT", required_unless_present = "dollars")]
        tokens: Option<u64>,
        /// At most so much money, such as 2.50
        #[arg(long, value_name = "AMOUNT", value_parser = micros)]
        dollars: Option<u64>,
    },
    /// Show limits and what is left of them
    #[command(
        after_long_help = "Examples:\n  cocoonbox budget show\n  cocoonbox budget show --json"
    )]
    Show {
        /// Another user's, by name or id; admins only
        #[arg(long, value_name = "USER")]
        user: Option<String>,
    },
    /// Take a limit away
    #[command(
        after_long_help = "Examples:\n  cocoonbox budget clear --per-day\n  cocoonbox budget clear --total --box experiments"
    )]
    Clear {
        #[command(flatten)]
        of: BudgetOf,
    },
}

/// Which budget.
#[derive(Args, Clone, Debug)]
pub struct BudgetOf {
    /// Each UTC day by itself
    #[arg(long, required_unless_present = "total", conflicts_with = "total")]
    pub per_day: bool,
    /// All days together
    #[arg(long)]
    pub total: bool,
    /// One box only, by name or id
    #[arg(long = "box", short = 'b', value_name = "BOX")]
    pub box_name: Option<String>,
    /// One agent in it, by name or id
    #[arg(long, short = 'a', value_name = "AGENT", requires = "box_name")]
    pub agent: Option<String>,
    /// Another user's, by name or id; only admins may, and only admins may change it
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,
}

/// Reads dollars as millionths.
fn micros(text: &str) -> Result<u64, String> {
    let bad = || "not an amount such as 2.50, with at most six decimals".to_owned();
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !is_digits(part) || part.len() > 6 || whole.len() + part.len() == 0 {
        return Err(bad());
    }
    format!("{whole}{part:0<6}").parse().map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_read_exactly() {
        assert_eq!(micros("2.50"), Ok(2_500_000));
        assert_eq!(micros("0.000001"), Ok(1));
        assert_eq!(micros(".5"), Ok(500_000));
        assert_eq!(micros("7"), Ok(7_000_000));
        for bad in [
            "",
            ".",
            "-1",
            "1,5",
            "1.0000001",
            "$1",
            "1e3",
            "99999999999999999999",
        ] {
            assert!(micros(bad).is_err(), "{bad}");
        }
    }
}
