//! Letting guests in: what a secret opens at this moment, for whom, and until when.

use std::{collections::HashMap, time::Duration};

use cocoonbox_commands::share::{self, Command};
use cocoonbox_events::{Execute, Fold};
use cocoonbox_projections::BoxRow;
use cocoonbox_proto::control::v1::State as BoxState;
use tokio_util::sync::CancellationToken;

use super::{
    book::{Shares, fold},
    refusal::{NotAdmitted, ShareError},
    secrets::SecretId,
};
use crate::{
    accounts::AccountError,
    auth::{Caller, Denied},
    fresh, stream,
};

/// Metadata with the secret of a share.
pub const SHARE: &str = "x-cocoonbox-share";
/// A guest who comes again within this has not gone: a page looks every few seconds, and one that shows a screen
/// opens it anew whenever a network breaks.
const STAYS_US: i64 = 10 * 60 * 1_000_000;
/// Guests that are remembered to be here; more are written down more often.
const HERE_MAX: usize = 10_000;

/// Whoever has the secret of a share that opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guest {
    pub share_id: String,
    /// The user whose box it is.
    pub owner_id: String,
    pub box_id: String,
    pub label: String,
    /// When it ends by itself.
    pub expires_us: Option<i64>,
    /// Who is signed in besides, if anybody is.
    pub user_id: Option<String>,
}

/// A guest who was let in, for as long as nothing changes.
pub struct Admitted {
    pub guest: Guest,
    /// Cancelled when the share ends, gets another secret, or loses its owner.
    pub ended: CancellationToken,
    /// Until it ends by itself.
    pub left: Option<Duration>,
}

/// Who was here lately, by share and user.
#[derive(Default)]
pub(super) struct Here(HashMap<(String, Option<String>), i64>);

impl Shares {
    /// Finds out what a secret opens for this caller.
    pub async fn admit(&self, secret: &str, caller: &Caller) -> Result<Admitted, NotAdmitted> {
        let found = self.secrets.find(secret).await.map_err(ShareError::from)?;
        let (secret_id, owner_id) = found.ok_or(NotAdmitted::Ended)?;
        // Before it is looked at: what ends in between ends this, too.
        let ended = self.accounts.revoked(&secret_id.to_string(), &owner_id);
        let admitted = self.look_up(&secret_id, &owner_id, caller).await;
        let guest = match admitted {
            Ok(guest) => guest,
            Err(refused) => {
                if matches!(refused, NotAdmitted::Ended) {
                    // Nobody looks by this secret any more, so nobody has to be told of its end.
                    self.accounts.end_token(&secret_id.to_string());
                }
                return Err(refused);
            }
        };
        self.came(&guest).await?;
        let left = guest.expires_us.map(|at| {
            let left = at.saturating_sub(self.clock.now_us());
            Duration::from_micros(u64::try_from(left).unwrap_or(0))
        });
        Ok(Admitted { guest, ended, left })
    }

    async fn look_up(
        &self,
        secret_id: &SecretId,
        owner_id: &str,
        caller: &Caller,
    ) -> Result<Guest, NotAdmitted> {
        let owner = match self.accounts.account_anywhere(owner_id).await {
            Ok(owner) if !owner.state.deleted => owner,
            Ok(_) | Err(AccountError::NoSuchUser(_)) => return Err(NotAdmitted::Ended),
            Err(error) => return Err(ShareError::from(error).into()),
        };
        let SecretId {
            box_id, share_id, ..
        } = secret_id;
        let mut fold = fold(owner.log, box_id)?;
        let read = fold.refresh(&*self.store).await;
        read.map_err(ShareError::from)?;
        let share = fold.state.share(share_id);
        let share = share.filter(|share| share.secret_id == secret_id.to_string());
        let Some(share) = share.cloned() else {
            return Err(NotAdmitted::Ended);
        };
        if !share.opens(self.clock.now_us()) {
            self.expire(&mut fold).await?;
            return Err(NotAdmitted::Ended);
        }
        if self.standing(owner_id, box_id).await?.is_none() {
            return Err(NotAdmitted::Ended);
        }
        let user_id = match (&share.for_user, caller) {
            (Some(wanted), Caller::User { user_id, .. }) if wanted == user_id => Some(user_id),
            (Some(_), Caller::User { .. }) => return Err(NotAdmitted::Another),
            (Some(_), Caller::Nobody(Denied::Unavailable)) => return Err(NotAdmitted::Unavailable),
            (Some(_), _) => return Err(NotAdmitted::SignIn),
            (None, Caller::User { user_id, .. }) => Some(user_id),
            (None, _) => None,
        };
        Ok(Guest {
            share_id: share_id.clone(),
            owner_id: owner_id.to_owned(),
            box_id: box_id.clone(),
            label: share.label,
            expires_us: share.expires_us,
            user_id: user_id.cloned(),
        })
    }

    /// Returns the box of a share, unless it is gone or about to be.
    pub(super) async fn standing(
        &self,
        owner_id: &str,
        box_id: &str,
    ) -> Result<Option<BoxRow>, ShareError> {
        let is_there = |row: &BoxRow| row.state() != BoxState::Deleting;
        let found = async || Ok::<_, ShareError>(self.views.box_(owner_id, box_id).await?);
        if let Some(row) = found().await? {
            return Ok(Some(row).filter(is_there));
        }
        // It may have been made a moment ago, over another process.
        let log = self.accounts.log_of(owner_id)?;
        let tail = fresh::tail(&*self.store, log).await;
        let tail = tail.map_err(ShareError::Tail)?;
        let reached = self.views.at_least(&tail, stream::AT_LEAST).await;
        reached.map_err(|_| ShareError::Behind)?;
        Ok(found().await?.filter(is_there))
    }

    /// Writes down that a guest came. One that cannot be written down is not let in: who looked, and when, is the
    /// owner's to know.
    async fn came(&self, guest: &Guest) -> Result<(), NotAdmitted> {
        let now_us = self.clock.now_us();
        if self.here().stays(guest, now_us) {
            return Ok(());
        }
        let label = match &guest.user_id {
            Some(user_id) => self.name(user_id).await?,
            None => String::new(),
        };
        let command = Command::Open {
            share_id: guest.share_id.clone(),
            user_id: guest.user_id.clone().unwrap_or_default(),
            label,
            now_us,
        };
        let log = self.accounts.log_of(&guest.owner_id);
        let log = log.map_err(ShareError::from)?;
        let mut fold: Fold<share::State> = fold(log, &guest.box_id)?;
        let caller = Caller::Guest(Box::new(guest.clone()));
        match self.execute(&mut fold, &command, &caller).await {
            Ok(_) => {}
            Err(ShareError::Execute(Execute::Rejected(_))) => return Err(NotAdmitted::Ended),
            Err(error) => return Err(error.into()),
        }
        self.here().note(guest, now_us);
        Ok(())
    }
}

impl Here {
    /// Whether this guest was here lately; then they still are.
    fn stays(&mut self, guest: &Guest, now_us: i64) -> bool {
        let seen = self.0.get_mut(&key(guest));
        seen.is_some_and(|seen| {
            let stays = now_us.saturating_sub(*seen) < STAYS_US;
            *seen = now_us;
            stays
        })
    }

    fn note(&mut self, guest: &Guest, now_us: i64) {
        if self.0.len() >= HERE_MAX {
            self.0
                .retain(|_, seen| now_us.saturating_sub(*seen) < STAYS_US);
        }
        if self.0.len() < HERE_MAX {
            self.0.insert(key(guest), now_us);
        }
    }
}

fn key(guest: &Guest) -> (String, Option<String>) {
    (guest.share_id.clone(), guest.user_id.clone())
}
