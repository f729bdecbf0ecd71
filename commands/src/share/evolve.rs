//! What an event makes of the state.

use std::collections::VecDeque;

use cocoonbox_events::{Aggregate, IllegalTransition, Payload, ShareEvent};
use cocoonbox_proto::log::v1 as log;

use super::{
    decide::{Command, Rejection},
    state::{ENDED_MAX, End, OPENINGS_MAX, Opening, Share, State},
};

impl Aggregate for State {
    type Command = Command;
    type Event = ShareEvent;
    type Rejection = Rejection;

    fn decide(&self, command: &Command) -> Result<Vec<ShareEvent>, Rejection> {
        self.decided(command)
    }

    fn evolve(mut self, event: &ShareEvent) -> Result<Self, IllegalTransition> {
        let (share_id, fits) = match event {
            ShareEvent::Created(created) => (&created.share_id, self.created(created)),
            ShareEvent::Opened(opened) => {
                let share = self.unended(&opened.share_id);
                let fits = share.map(|share| share.opened_by(opened));
                (&opened.share_id, fits.is_some())
            }
            ShareEvent::Regenerated(regenerated) => {
                let share = self.unended(&regenerated.share_id);
                let is_that = |share: &&mut Share| share.secret_id == regenerated.old_secret_id;
                let share = share.filter(is_that);
                let fits = share.map(|share| share.secret_id.clone_from(&regenerated.secret_id));
                (&regenerated.share_id, fits.is_some())
            }
            ShareEvent::Revoked(revoked) => {
                (&revoked.share_id, self.end(&revoked.share_id, End::Revoked))
            }
            ShareEvent::Expired(expired) => {
                (&expired.share_id, self.end(&expired.share_id, End::Expired))
            }
        };
        if fits {
            Ok(self)
        } else {
            Err(IllegalTransition {
                state: match self.share(share_id) {
                    None => format!("no share `{share_id}`"),
                    Some(share) => match share.end {
                        None => format!("share `{share_id}` is live"),
                        Some(End::Revoked) => format!("share `{share_id}` was revoked"),
                        Some(End::Expired) => format!("share `{share_id}` has expired"),
                    },
                },
                event: event.kind().name(),
            })
        }
    }

    fn pick(payload: Payload) -> Option<ShareEvent> {
        ShareEvent::pick(payload)
    }
}

impl State {
    fn created(&mut self, created: &log::ShareCreated) -> bool {
        if created.share_id.is_empty() || self.shares.contains_key(&created.share_id) {
            return false;
        }
        let share = Share {
            secret_id: created.secret_id.clone(),
            label: created.label.clone(),
            for_user: Some(created.for_user.clone()).filter(|user| !user.is_empty()),
            created_us: created.created_us,
            expires_us: Some(created.expires_us).filter(|at| *at != 0),
            end: None,
            opened: 0,
            openings: VecDeque::new(),
        };
        self.shares.insert(created.share_id.clone(), share);
        true
    }

    fn unended(&mut self, share_id: &str) -> Option<&mut Share> {
        let share = self.shares.get_mut(share_id)?;
        share.end.is_none().then_some(share)
    }

    fn end(&mut self, share_id: &str, end: End) -> bool {
        let Some(share) = self.unended(share_id) else {
            return false;
        };
        share.end = Some(end);
        self.ended.push_back(share_id.to_owned());
        if self.ended.len() > ENDED_MAX
            && let Some(forgotten) = self.ended.pop_front()
        {
            self.shares.remove(&forgotten);
        }
        true
    }
}

impl Share {
    fn opened_by(&mut self, opened: &log::ShareOpened) {
        self.opened = self.opened.saturating_add(1);
        self.openings.push_back(Opening {
            user_id: opened.user_id.clone(),
            label: opened.label.clone(),
            at_us: opened.opened_us,
        });
        if self.openings.len() > OPENINGS_MAX {
            self.openings.pop_front();
        }
    }
}
