//! Arguments of `screen` and `control`.

use std::{net::SocketAddr, time::Duration};

use clap::{Args, Subcommand};

use crate::text;

/// A display of a box.
#[derive(Args, Clone, Debug)]
pub struct Display {
    /// The box, by name or id
    #[arg(value_name = "BOX", env = "COCOONBOX_BOX", default_value = "main")]
    pub name: String,

    /// Which of its displays: 0 is the one that all share, others are agents' own (`cocoonbox box show`)
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub display: u32,
}

/// Show a box's screen to a VNC viewer
///
/// Listens on this host for a VNC viewer of yours (TigerVNC, noVNC's websockify, Remmina) and relays the
/// screen to it, until Ctrl-C. No password is asked: viewers of other users of this host are refused.
///
/// A viewer only looks, and what is typed and clicked in it goes nowhere. With --control it takes control
/// when it connects: agents give no input to the display until it leaves, or nothing was typed for a
/// minute. While another has control it only looks, unless --steal.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  cocoonbox screen & vncviewer 127.0.0.1:5901
  cocoonbox screen --control --listen 127.0.0.1:5910
  cocoonbox screen experiments --control --steal")]
pub struct Screen {
    #[command(flatten)]
    pub target: Display,

    /// Where to listen; an address of this host alone. With port 0, one that is free
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:5901", value_parser = loopback)]
    pub listen: SocketAddr,

    /// Let the viewer type and click
    #[arg(long)]
    pub control: bool,

    /// Take control from whoever has it
    #[arg(long, requires = "control")]
    pub steal: bool,
}

/// Take a display over from the agents, and hand it back
#[derive(Clone, Debug, Subcommand)]
pub enum Control {
    /// Keep agents from typing and clicking
    ///
    /// Answers when none does so any more. It ends by itself when there is no input for a while, so that
    /// nobody keeps a display who has left; --hold stays, and hands it back at Ctrl-C.
    #[command(
        after_long_help = "Examples:\n  cocoonbox control take\n  cocoonbox control take --idle 5m\n  cocoonbox control take --hold experiments"
    )]
    Take {
        #[command(flatten)]
        target: Display,

        /// End it after this long without input: 5 s to 10 min
        #[arg(long, value_name = "TIME", default_value = "1m", value_parser = text::duration)]
        idle: Duration,

        /// Take it from whoever has it
        #[arg(long)]
        steal: bool,

        /// Stay, and hand it back at Ctrl-C
        #[arg(long)]
        hold: bool,
    },
    /// Hand a display back to the agents, whoever has it
    #[command(
        after_long_help = "Examples:\n  cocoonbox control release\n  cocoonbox control release --note 'I logged in; go on'"
    )]
    Release {
        #[command(flatten)]
        target: Display,

        /// What the agent reads before its next action
        #[arg(
            long,
            value_name = "TEXT",
            default_value = "",
            hide_default_value = true
        )]
        note: String,
    },
    /// Show who has control
    #[command(
        after_long_help = "Examples:\n  cocoonbox control show\n  cocoonbox control show --json | jq -r .holder.label"
    )]
    Show {
        #[command(flatten)]
        target: Display,
    },
}

fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text
        .parse()
        .map_err(|_| "an address is IP:PORT".to_owned())?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err("only a loopback address: whoever reaches it sees the screen".into())
    }
}
