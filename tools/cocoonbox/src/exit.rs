//! Exit codes: what a script learns without reading text.

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Ok,
    Failure,
    Usage,
    NotFound,
    Refused,
    Unavailable,
    StreamBroke,
    TurnFailed,
    /// Left by Ctrl-C.
    Interrupted,
    /// Whoever read our output closed it.
    OutputClosed,
    /// The code of the command that `exec` ran.
    Command(u8),
}

/// What `timeout(1)` answers.
pub const TIMED_OUT: u8 = 124;
/// What a shell answers when there is no such program.
pub const NOT_STARTED: u8 = 127;
/// Added to a signal's number, as shells do.
pub const SIGNAL_BASE: u8 = 128;

impl Exit {
    pub fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Failure => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Refused => 4,
            Self::Unavailable => 5,
            Self::StreamBroke => 6,
            Self::TurnFailed => 7,
            Self::Interrupted => SIGNAL_BASE + 2,
            Self::OutputClosed => SIGNAL_BASE + 13,
            Self::Command(code) => code,
        }
    }
}
