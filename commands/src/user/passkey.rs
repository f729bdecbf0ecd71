//! Passkeys of a user: what they can sign in with beside tokens (WebAuthn, "Storing credential records").
//!
//! A signature is checked outside of here. What is decided here, in the user's log, is what two who come at the
//! same time must not both have: a challenge is answered once, and the count of signatures goes up.

use cocoonbox_events::UserEvent;
use cocoonbox_proto::log::v1 as log;

use super::{Rejection, State};
use crate::name::check_label;

/// Passkeys of one user that were not removed. One per device and password manager; the list is sent to browsers
/// when another is added.
pub const PASSKEYS_MAX: usize = 30;
/// How long a challenge may be answered. Long enough to find a key or to unlock a phone.
pub const CHALLENGE_LIFE_US: i64 = 5 * 60 * 1_000_000;
/// How much further answered challenges are remembered: the clocks of processes differ.
const CLOCKS_DIFFER_US: i64 = CHALLENGE_LIFE_US;

/// A passkey as its user's log has it. No part of it is a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passkey {
    pub name: String,
    /// What the authenticator calls it.
    pub credential_id: Vec<u8>,
    /// A `COSE_Key`, as the authenticator wrote it.
    pub public_key: Vec<u8>,
    /// The host name that it signs for ("RP ID").
    pub host: String,
    /// Signatures that were counted; 0 = its authenticator does not count.
    pub sign_count: u32,
    /// It may be copied to other devices by what keeps it; this never changes.
    pub may_be_copied: bool,
    pub is_copied: bool,
    pub removed: bool,
}

/// A challenge that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// No two have the same.
    pub id: Vec<u8>,
    pub made_us: i64,
}

/// What a browser made for its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPasskey {
    pub passkey_id: String,
    pub name: String,
    pub credential_id: Vec<u8>,
    pub public_key: Vec<u8>,
    pub host: String,
    pub sign_count: u32,
    pub may_be_copied: bool,
    pub is_copied: bool,
}

/// A signature that is good, and what came with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    pub passkey_id: String,
    pub sign_count: u32,
    pub is_copied: bool,
}

impl State {
    /// Returns a passkey that was not removed, by what its authenticator calls it.
    pub fn passkey_of(&self, credential_id: &[u8]) -> Option<(&str, &Passkey)> {
        let mut live = self.live_passkeys();
        live.find(|(_, passkey)| passkey.credential_id == credential_id)
    }

    /// Returns the passkeys that were not removed, by id.
    pub fn live_passkeys(&self) -> impl Iterator<Item = (&str, &Passkey)> {
        let of = (!self.deleted).then_some(&self.passkeys);
        let all = of.into_iter().flatten();
        all.filter(|(_, passkey)| !passkey.removed)
            .map(|(id, passkey)| (id.as_str(), passkey))
    }

    fn live_passkey(&self, passkey_id: &str) -> Option<&Passkey> {
        let passkey = self.passkeys.get(passkey_id)?;
        (!self.deleted && !passkey.removed).then_some(passkey)
    }

    fn unspent(&self, challenge: &Challenge) -> Result<(), Rejection> {
        let is_new = !challenge.id.is_empty() && !self.spent.contains_key(&challenge.id);
        is_new.then_some(()).ok_or(Rejection::ChallengeSpent)
    }

    pub(super) fn add_passkey(
        &self,
        new: &NewPasskey,
        challenge: &Challenge,
    ) -> Result<Vec<UserEvent>, Rejection> {
        self.present()?;
        self.unspent(challenge)?;
        for (field, is_empty) in [
            ("passkey_id", new.passkey_id.is_empty()),
            ("credential_id", new.credential_id.is_empty()),
            ("public_key", new.public_key.is_empty()),
        ] {
            if is_empty {
                return Err(Rejection::Empty { field });
            }
        }
        check_label(&new.name)?;
        let is_known = self.passkeys.contains_key(&new.passkey_id);
        if is_known || self.passkey_of(&new.credential_id).is_some() {
            return Err(Rejection::PasskeyKnown);
        }
        if self.live_passkeys().count() >= PASSKEYS_MAX {
            return Err(Rejection::TooManyPasskeys);
        }
        Ok(vec![UserEvent::PasskeyAdded(log::UserPasskeyAdded {
            passkey_id: new.passkey_id.clone(),
            name: new.name.clone(),
            credential_id: new.credential_id.clone(),
            public_key: new.public_key.clone(),
            host: new.host.clone(),
            sign_count: new.sign_count,
            may_be_copied: new.may_be_copied,
            is_copied: new.is_copied,
            challenge_id: challenge.id.clone(),
            challenged_us: challenge.made_us,
        })])
    }

    /// Gives a token for a signature. One whose count did not go up is an event as well, and gives none: somebody
    /// else may hold a copy of the key.
    pub(super) fn sign_in(
        &self,
        signed: &Signed,
        challenge: &Challenge,
        token_id: &str,
        label: &str,
    ) -> Result<Vec<UserEvent>, Rejection> {
        self.present()?;
        let passkey = self.live_passkey(&signed.passkey_id);
        let passkey = passkey.ok_or_else(|| Rejection::NoSuchPasskey {
            passkey_id: signed.passkey_id.clone(),
        })?;
        self.unspent(challenge)?;
        if !goes_up(passkey.sign_count, signed.sign_count) {
            return Ok(vec![UserEvent::PasskeyRefused(log::UserPasskeyRefused {
                passkey_id: signed.passkey_id.clone(),
                sign_count: signed.sign_count,
                challenge_id: challenge.id.clone(),
                challenged_us: challenge.made_us,
            })]);
        }
        let used = UserEvent::PasskeyUsed(log::UserPasskeyUsed {
            passkey_id: signed.passkey_id.clone(),
            sign_count: signed.sign_count,
            is_copied: signed.is_copied,
            token_id: token_id.to_owned(),
            challenge_id: challenge.id.clone(),
            challenged_us: challenge.made_us,
        });
        if self.tokens.contains_key(token_id) {
            let token_id = token_id.to_owned();
            return Err(Rejection::TokenRevoked { token_id });
        }
        let issued = self.issue(token_id, label, false)?;
        Ok([used].into_iter().chain(issued).collect())
    }

    pub(super) fn remove_passkey(&self, passkey_id: &str) -> Result<Vec<UserEvent>, Rejection> {
        self.present()?;
        match self.passkeys.get(passkey_id) {
            None => Err(Rejection::NoSuchPasskey {
                passkey_id: passkey_id.to_owned(),
            }),
            Some(Passkey { removed: true, .. }) => Ok(Vec::new()),
            Some(Passkey { removed: false, .. }) => {
                let passkey_id = passkey_id.to_owned();
                let removed = log::UserPasskeyRemoved { passkey_id };
                Ok(vec![UserEvent::PasskeyRemoved(removed)])
            }
        }
    }

    /// Whether an event about passkeys can follow here.
    pub(super) fn takes_passkey(&self, event: &UserEvent) -> bool {
        match event {
            UserEvent::PasskeyAdded(added) => {
                let is_new = !self.passkeys.contains_key(&added.passkey_id);
                is_new && self.passkey_of(&added.credential_id).is_none()
            }
            UserEvent::PasskeyUsed(used) => self
                .live_passkey(&used.passkey_id)
                .is_some_and(|passkey| goes_up(passkey.sign_count, used.sign_count)),
            UserEvent::PasskeyRefused(refused) => self.live_passkey(&refused.passkey_id).is_some(),
            UserEvent::PasskeyRemoved(removed) => self.live_passkey(&removed.passkey_id).is_some(),
            UserEvent::Created(_)
            | UserEvent::Renamed(_)
            | UserEvent::TokenIssued(_)
            | UserEvent::TokenRevoked(_)
            | UserEvent::Deleted(_) => false,
        }
    }

    pub(super) fn take_added(&mut self, added: &log::UserPasskeyAdded) {
        self.spend(&added.challenge_id, added.challenged_us);
        let passkey = Passkey {
            name: added.name.clone(),
            credential_id: added.credential_id.clone(),
            public_key: added.public_key.clone(),
            host: added.host.clone(),
            sign_count: added.sign_count,
            may_be_copied: added.may_be_copied,
            is_copied: added.is_copied,
            removed: false,
        };
        self.passkeys.insert(added.passkey_id.clone(), passkey);
    }

    pub(super) fn take_used(&mut self, used: &log::UserPasskeyUsed) {
        self.spend(&used.challenge_id, used.challenged_us);
        if let Some(passkey) = self.passkeys.get_mut(&used.passkey_id) {
            passkey.sign_count = used.sign_count;
            passkey.is_copied = used.is_copied;
        }
    }

    pub(super) fn take_removed(&mut self, removed: &log::UserPasskeyRemoved) {
        if let Some(passkey) = self.passkeys.get_mut(&removed.passkey_id) {
            passkey.removed = true;
        }
    }

    /// Remembers an answered challenge for as long as it could be answered again. There is no clock here, but it is
    /// not earlier than this challenge was made.
    pub(super) fn spend(&mut self, id: &[u8], made_us: i64) {
        let life_us = CHALLENGE_LIFE_US.saturating_add(CLOCKS_DIFFER_US);
        self.spent
            .retain(|_, other_us| other_us.saturating_add(life_us) >= made_us);
        self.spent.insert(id.to_vec(), made_us);
    }
}

/// WebAuthn, "Verifying an authentication assertion", the step on `signCount`: authenticators that do not count
/// say 0 for ever.
fn goes_up(stored: u32, said: u32) -> bool {
    (stored == 0 && said == 0) || said > stored
}
