//! What a command leads to.

use cocoonbox_events::ControlEvent;
use cocoonbox_proto::log::v1::{self as log, control_released::Reason};

use super::state::{Lease, State};

/// Of leases whose taker does not say.
pub const IDLE_MS_DEFAULT: u64 = 60_000;
/// Shorter ones end while somebody reads a page.
pub const IDLE_MS_MIN: u64 = 5_000;
/// Longer ones keep agents from their work when somebody went home.
pub const IDLE_MS_MAX: u64 = 600_000;
/// Input renews a lease at most this often, so that a log is not a list of keys.
pub const RENEW_US: i64 = 10_000_000;
pub const LEASE_ID_BYTES_MAX: usize = 64;
pub const LABEL_BYTES_MAX: usize = 64;
/// It goes into an agent's conversation.
pub const NOTE_BYTES_MAX: usize = 2_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// The same lease id a second time changes nothing while the lease holds.
    Take {
        lease_id: String,
        user_id: String,
        label: String,
        idle_ms: u64,
        /// Ends another's lease.
        steal: bool,
        now_us: i64,
    },
    /// There was input.
    Renew { lease_id: String, now_us: i64 },
    /// Ends a lease; one that has ended stays as it is.
    Release {
        /// `None`: whichever there is.
        lease_id: Option<String>,
        reason: Reason,
        note: String,
        now_us: i64,
    },
    /// Writes down that a lease has run out, if it has.
    Expire { now_us: i64 },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("user `{}` has control of this display", .0.user_id)]
    Held(Box<Lease>),
    #[error("this lease does not hold any more")]
    Over,
    #[error("a lease id has 1 to {LEASE_ID_BYTES_MAX} bytes and no control characters")]
    BadLeaseId,
    #[error("a label has at most {LABEL_BYTES_MAX} bytes and no control characters")]
    BadLabel,
    #[error("a note has at most {NOTE_BYTES_MAX} bytes")]
    LongNote,
    #[error("the time without input is {IDLE_MS_MIN} to {IDLE_MS_MAX} ms")]
    BadIdle,
}

impl State {
    pub(super) fn decided(&self, command: &Command) -> Result<Vec<ControlEvent>, Rejection> {
        match command {
            Command::Take {
                lease_id,
                user_id,
                label,
                idle_ms,
                steal,
                now_us,
            } => {
                check(lease_id, label, *idle_ms)?;
                let wanted = Lease {
                    lease_id: lease_id.clone(),
                    fence: self.fence.saturating_add(1),
                    user_id: user_id.clone(),
                    label: label.clone(),
                    idle_ms: *idle_ms,
                    until_us: 0,
                };
                self.take(wanted, *steal, *now_us)
            }
            Command::Renew { lease_id, now_us } => self.renew(lease_id, *now_us),
            Command::Release { note, .. } if note.len() > NOTE_BYTES_MAX => {
                Err(Rejection::LongNote)
            }
            Command::Release {
                lease_id,
                reason,
                note,
                now_us,
            } => Ok(self.release(lease_id.as_deref(), *reason, note, *now_us)),
            Command::Expire { now_us } => Ok(self.expire(*now_us).into_iter().collect()),
        }
    }

    fn take(
        &self,
        mut wanted: Lease,
        steal: bool,
        now_us: i64,
    ) -> Result<Vec<ControlEvent>, Rejection> {
        let mut events = Vec::new();
        if let Some(held) = self.held(now_us) {
            let is_theirs = held.user_id == wanted.user_id && held.lease_id == wanted.lease_id;
            if is_theirs {
                return Ok(events);
            }
            // Somebody else's id must not be a way to end their lease.
            if !steal || held.lease_id == wanted.lease_id {
                return Err(Rejection::Held(Box::new(held.clone())));
            }
            events.push(released(held.fence, Reason::Stolen, ""));
        }
        events.extend(self.expire(now_us));
        // A call that was repeated late must not take again what its caller gave back.
        let ended = self.last.as_ref().map(|last| &last.lease);
        let ran_out = self.lease.as_ref().filter(|lease| !lease.holds(now_us));
        let is_over = |lease: &Lease| lease.lease_id == wanted.lease_id;
        if ended.is_some_and(is_over) || ran_out.is_some_and(is_over) {
            return Err(Rejection::Over);
        }
        wanted.until_us = wanted.until_if_used(now_us);
        events.push(ControlEvent::Taken(log::ControlTaken {
            lease_id: wanted.lease_id,
            fence: wanted.fence,
            user_id: wanted.user_id,
            label: wanted.label,
            idle_ms: wanted.idle_ms,
            until_us: wanted.until_us,
        }));
        Ok(events)
    }

    fn renew(&self, lease_id: &str, now_us: i64) -> Result<Vec<ControlEvent>, Rejection> {
        let lease = self.held(now_us).ok_or(Rejection::Over)?;
        if lease.lease_id != lease_id {
            return Err(Rejection::Over);
        }
        let until_us = lease.until_if_used(now_us);
        if until_us < lease.until_us.saturating_add(renew_us(lease)) {
            return Ok(Vec::new());
        }
        Ok(vec![ControlEvent::Renewed(log::ControlRenewed {
            fence: lease.fence,
            until_us,
        })])
    }

    fn release(
        &self,
        lease_id: Option<&str>,
        reason: Reason,
        note: &str,
        now_us: i64,
    ) -> Vec<ControlEvent> {
        if let Some(expired) = self.expire(now_us) {
            return vec![expired];
        }
        let Some(lease) = &self.lease else {
            return Vec::new();
        };
        if lease_id.is_some_and(|id| id != lease.lease_id) {
            return Vec::new();
        }
        vec![released(lease.fence, reason, note)]
    }

    fn expire(&self, now_us: i64) -> Option<ControlEvent> {
        let lease = self.lease.as_ref().filter(|lease| !lease.holds(now_us))?;
        Some(ControlEvent::Expired(log::ControlExpired {
            fence: lease.fence,
        }))
    }
}

/// Short leases are renewed more often.
fn renew_us(lease: &Lease) -> i64 {
    RENEW_US.min(lease.idle_us() / 4)
}

fn released(fence: u64, reason: Reason, note: &str) -> ControlEvent {
    ControlEvent::Released(log::ControlReleased {
        fence,
        reason: reason.into(),
        note: note.to_owned(),
    })
}

fn check(lease_id: &str, label: &str, idle_ms: u64) -> Result<(), Rejection> {
    let fits = |text: &str, max| text.len() <= max && !text.contains(char::is_control);
    if lease_id.is_empty() || !fits(lease_id, LEASE_ID_BYTES_MAX) {
        return Err(Rejection::BadLeaseId);
    }
    if !fits(label, LABEL_BYTES_MAX) {
        return Err(Rejection::BadLabel);
    }
    if !(IDLE_MS_MIN..=IDLE_MS_MAX).contains(&idle_ms) {
        return Err(Rejection::BadIdle);
    }
    Ok(())
}
