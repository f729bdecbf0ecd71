//! What a command leads to.

use cocoonbox_events::ShareEvent;
use cocoonbox_proto::log::v1 as log;

use super::state::{Share, State};
use crate::name::{BadName, check_label};

/// Of one box, at once. A list that is longer is read by nobody, and each may be cut off in time.
pub const LIVE_MAX: usize = 20;
/// A link that lasts longer is one that was forgotten.
pub const EXPIRES_US_MAX: i64 = 366 * 24 * 60 * 60 * 1_000_000;
/// Openings of a share are written down at most this often, so that whoever has a link cannot fill the log.
pub const OPENED_US: i64 = 60 * 1_000_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Create {
        share_id: String,
        secret_id: String,
        label: String,
        for_user: Option<String>,
        expires_us: Option<i64>,
        now_us: i64,
    },
    /// A guest came.
    Open {
        share_id: String,
        user_id: String,
        label: String,
        now_us: i64,
    },
    Regenerate {
        share_id: String,
        secret_id: String,
        now_us: i64,
    },
    /// Ends a share; one that has ended stays as it is.
    Revoke { share_id: String, now_us: i64 },
    /// Writes down which shares have run out, if any has.
    Expire { now_us: i64 },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("this box has no share `{share_id}`")]
    NotFound { share_id: String },
    #[error("share `{share_id}` has ended")]
    Ended { share_id: String },
    #[error("there is a share `{share_id}` already")]
    Exists { share_id: String },
    #[error("this box has {LIVE_MAX} shares, and more are not kept")]
    TooMany,
    #[error(transparent)]
    BadLabel(#[from] BadName),
    #[error("a share ends in the future, and within a year")]
    BadExpiry,
    #[error("{field} is empty")]
    Empty { field: &'static str },
}

impl State {
    pub(super) fn decided(&self, command: &Command) -> Result<Vec<ShareEvent>, Rejection> {
        match command {
            Command::Create {
                share_id,
                secret_id,
                label,
                for_user,
                expires_us,
                now_us,
            } => {
                named("share_id", share_id)?;
                named("secret_id", secret_id)?;
                let created = log::ShareCreated {
                    share_id: share_id.clone(),
                    secret_id: secret_id.clone(),
                    label: label.clone(),
                    for_user: for_user.clone().unwrap_or_default(),
                    created_us: *now_us,
                    expires_us: expires_us.unwrap_or_default(),
                };
                self.create(created, *expires_us, *now_us)
            }
            Command::Open {
                share_id,
                user_id,
                label,
                now_us,
            } => {
                let share = self.open_share(share_id, *now_us)?;
                let last = share.openings.back();
                let is_due = last.is_none_or(|last| now_us.saturating_sub(last.at_us) >= OPENED_US);
                let opened = log::ShareOpened {
                    share_id: share_id.clone(),
                    user_id: user_id.clone(),
                    label: label.clone(),
                    opened_us: *now_us,
                };
                Ok(is_due
                    .then_some(ShareEvent::Opened(opened))
                    .into_iter()
                    .collect())
            }
            Command::Regenerate {
                share_id,
                secret_id,
                now_us,
            } => {
                named("secret_id", secret_id)?;
                let share = self.open_share(share_id, *now_us)?;
                Ok(vec![ShareEvent::Regenerated(log::ShareRegenerated {
                    share_id: share_id.clone(),
                    secret_id: secret_id.clone(),
                    old_secret_id: share.secret_id.clone(),
                })])
            }
            Command::Revoke { share_id, now_us } => self.revoke(share_id, *now_us),
            Command::Expire { now_us } => Ok(self.run_out(*now_us).collect()),
        }
    }

    fn create(
        &self,
        created: log::ShareCreated,
        expires_us: Option<i64>,
        now_us: i64,
    ) -> Result<Vec<ShareEvent>, Rejection> {
        check_label(&created.label)?;
        let last_us = now_us.saturating_add(EXPIRES_US_MAX);
        if expires_us.is_some_and(|at| at <= now_us || at > last_us) {
            return Err(Rejection::BadExpiry);
        }
        if self.share(&created.share_id).is_some() {
            return Err(Rejection::Exists {
                share_id: created.share_id,
            });
        }
        // Those that have run out make room.
        let mut events: Vec<ShareEvent> = self.run_out(now_us).collect();
        if self.live().count() - events.len() >= LIVE_MAX {
            return Err(Rejection::TooMany);
        }
        events.push(ShareEvent::Created(created));
        Ok(events)
    }

    fn revoke(&self, share_id: &str, now_us: i64) -> Result<Vec<ShareEvent>, Rejection> {
        let share = self.known(share_id)?;
        if share.end.is_some() {
            return Ok(Vec::new());
        }
        if share.has_run_out(now_us) {
            return Ok(vec![expired(share_id, share)]);
        }
        Ok(vec![ShareEvent::Revoked(log::ShareRevoked {
            share_id: share_id.to_owned(),
            secret_id: share.secret_id.clone(),
        })])
    }

    fn run_out(&self, now_us: i64) -> impl Iterator<Item = ShareEvent> {
        let over = self
            .live()
            .filter(move |(_, share)| share.has_run_out(now_us));
        over.map(|(share_id, share)| expired(share_id, share))
    }

    fn known(&self, share_id: &str) -> Result<&Share, Rejection> {
        self.share(share_id).ok_or_else(|| Rejection::NotFound {
            share_id: share_id.to_owned(),
        })
    }

    fn open_share(&self, share_id: &str, now_us: i64) -> Result<&Share, Rejection> {
        let share = self.known(share_id)?;
        if share.opens(now_us) {
            Ok(share)
        } else {
            Err(Rejection::Ended {
                share_id: share_id.to_owned(),
            })
        }
    }
}

fn expired(share_id: &str, share: &Share) -> ShareEvent {
    ShareEvent::Expired(log::ShareExpired {
        share_id: share_id.to_owned(),
        secret_id: share.secret_id.clone(),
    })
}

fn named(field: &'static str, id: &str) -> Result<(), Rejection> {
    if id.is_empty() {
        Err(Rejection::Empty { field })
    } else {
        Ok(())
    }
}
