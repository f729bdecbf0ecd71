//! The shares of a box as they stand.

use std::collections::{BTreeMap, VecDeque};

/// Ended shares that are remembered, for the owner's list. The log has all of them.
pub const ENDED_MAX: usize = 100;
/// Openings that are remembered of each share.
pub const OPENINGS_MAX: usize = 20;

/// How a share ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Revoked,
    Expired,
}

/// A guest came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Empty: nobody who is signed in here.
    pub user_id: String,
    pub label: String,
    pub at_us: i64,
}

/// One share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Names the secret that opens it.
    pub secret_id: String,
    pub label: String,
    /// Only this user; `None`: whoever has the link.
    pub for_user: Option<String>,
    pub created_us: i64,
    pub expires_us: Option<i64>,
    pub end: Option<End>,
    /// How often guests came, as far as that was written down.
    pub opened: u64,
    /// The newest last.
    pub openings: VecDeque<Opening>,
}

/// All shares of one box, folded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub(super) shares: BTreeMap<String, Share>,
    /// In the order in which they ended.
    pub(super) ended: VecDeque<String>,
}

impl Share {
    /// Whether it opens anything at this moment, also where its end is not written down yet.
    pub fn opens(&self, now_us: i64) -> bool {
        self.end.is_none() && !self.has_run_out(now_us)
    }

    /// Whether its time is over.
    pub fn has_run_out(&self, now_us: i64) -> bool {
        self.expires_us.is_some_and(|at| at <= now_us)
    }
}

impl State {
    /// Returns a share that is live, or is one of the last [`ENDED_MAX`] that ended.
    pub fn share(&self, share_id: &str) -> Option<&Share> {
        self.shares.get(share_id)
    }

    /// Returns all of them by their ids.
    pub fn shares(&self) -> impl Iterator<Item = (&str, &Share)> {
        self.shares
            .iter()
            .map(|(share_id, share)| (share_id.as_str(), share))
    }

    /// Returns those whose end is not written down.
    pub fn live(&self) -> impl Iterator<Item = (&str, &Share)> {
        self.shares().filter(|(_, share)| share.end.is_none())
    }
}
