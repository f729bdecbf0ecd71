//! One account, stream `user/<id>` of its account log.

mod passkey;

use std::collections::BTreeMap;

use cocoonbox_events::{Aggregate, IllegalTransition, Payload, UserEvent};
use cocoonbox_proto::log::v1 as log;

pub use self::passkey::{CHALLENGE_LIFE_US, Challenge, NewPasskey, PASSKEYS_MAX, Passkey, Signed};
use crate::name::{BadName, check_account, check_label};

/// Live tokens of one user. One per device and script; more than this is a script that forgets them.
pub const TOKENS_LIVE_MAX: usize = 100;

/// A user, folded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Empty until the user is created.
    pub user_id: String,
    pub name: String,
    pub admin: bool,
    pub deleted: bool,
    /// Every token there ever was, by id.
    pub tokens: BTreeMap<String, Token>,
    /// Every passkey there ever was, by id.
    pub passkeys: BTreeMap<String, Passkey>,
    /// Challenges that were answered and are not too old to be answered again, with when they were made.
    spent: BTreeMap<Vec<u8>, i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub label: String,
    pub revoked: bool,
    /// A sign-in link: good for one exchange, and for nothing else.
    pub sign_in: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Create {
        user_id: String,
        name: String,
        admin: bool,
    },
    Rename {
        name: String,
    },
    /// The token's hash is in the vault before this, so that a token in the log is one that works.
    IssueToken {
        token_id: String,
        label: String,
        /// A sign-in link instead of a token.
        sign_in: bool,
    },
    /// Gives a token for a sign-in link, which ends with it.
    Exchange {
        link_id: String,
        token_id: String,
        label: String,
    },
    RevokeToken {
        token_id: String,
    },
    /// The passkey was checked to be made for this challenge.
    AddPasskey {
        passkey: NewPasskey,
        challenge: Challenge,
    },
    /// Gives a token for what a passkey has signed, which was checked.
    SignIn {
        signed: Signed,
        challenge: Challenge,
        token_id: String,
        label: String,
    },
    RemovePasskey {
        passkey_id: String,
    },
    /// Revokes every token with it, and every passkey.
    Delete,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("the user does not exist")]
    NotFound,
    #[error("the user was deleted")]
    Deleted,
    #[error("this is user `{actual}`, not `{asked}`")]
    OtherUser { actual: String, asked: String },
    #[error(transparent)]
    BadName(#[from] BadName),
    #[error("field `{field}` is empty")]
    Empty { field: &'static str },
    #[error("{TOKENS_LIVE_MAX} tokens are live; revoke one first")]
    TooManyTokens,
    #[error("token `{token_id}` does not exist")]
    NoSuchToken { token_id: String },
    #[error("token `{token_id}` was revoked; a token is issued once")]
    TokenRevoked { token_id: String },
    #[error("this is no sign-in link, or it was used")]
    NoSuchLink,
    #[error("passkey `{passkey_id}` does not exist")]
    NoSuchPasskey { passkey_id: String },
    #[error("this passkey was added already")]
    PasskeyKnown,
    #[error("there are {PASSKEYS_MAX} passkeys; remove one first")]
    TooManyPasskeys,
    #[error("this challenge was answered before")]
    ChallengeSpent,
}

impl State {
    /// Whether a token with this id is good: issued, not revoked, and its user is there.
    pub fn is_live(&self, token_id: &str) -> bool {
        self.live(token_id).is_some()
    }

    /// Whether a token with this id opens anything itself.
    pub fn opens(&self, token_id: &str) -> bool {
        self.live(token_id).is_some_and(|token| !token.sign_in)
    }

    fn live(&self, token_id: &str) -> Option<&Token> {
        let token = self.tokens.get(token_id)?;
        (!self.deleted && !token.revoked).then_some(token)
    }

    /// Returns how many tokens are good.
    pub fn live_tokens(&self) -> usize {
        if self.deleted {
            0
        } else {
            self.tokens.values().filter(|token| !token.revoked).count()
        }
    }

    /// Whether the user was created, deleted ones included.
    pub fn exists(&self) -> bool {
        !self.user_id.is_empty()
    }

    fn present(&self) -> Result<(), Rejection> {
        match (self.exists(), self.deleted) {
            (false, _) => Err(Rejection::NotFound),
            (true, true) => Err(Rejection::Deleted),
            (true, false) => Ok(()),
        }
    }

    fn issue(
        &self,
        token_id: &str,
        label: &str,
        sign_in: bool,
    ) -> Result<Vec<UserEvent>, Rejection> {
        self.present()?;
        if token_id.is_empty() {
            return Err(Rejection::Empty { field: "token_id" });
        }
        match self.tokens.get(token_id) {
            Some(Token { revoked: false, .. }) => return Ok(Vec::new()),
            Some(Token { revoked: true, .. }) => {
                return Err(Rejection::TokenRevoked {
                    token_id: token_id.to_owned(),
                });
            }
            None => {}
        }
        check_label(label)?;
        if self.live_tokens() >= TOKENS_LIVE_MAX {
            return Err(Rejection::TooManyTokens);
        }
        Ok(vec![issued(token_id, label, sign_in)])
    }

    /// In one decision, so that of two who hold a link one gets in.
    fn exchange(
        &self,
        link_id: &str,
        token_id: &str,
        label: &str,
    ) -> Result<Vec<UserEvent>, Rejection> {
        self.present()?;
        if token_id.is_empty() {
            return Err(Rejection::Empty { field: "token_id" });
        }
        let is_link = self.live(link_id).is_some_and(|link| link.sign_in);
        if !is_link || self.tokens.contains_key(token_id) {
            return Err(Rejection::NoSuchLink);
        }
        check_label(label)?;
        Ok(vec![revoked(link_id), issued(token_id, label, false)])
    }
}

impl Aggregate for State {
    type Command = Command;
    type Event = UserEvent;
    type Rejection = Rejection;

    fn decide(&self, command: &Command) -> Result<Vec<UserEvent>, Rejection> {
        match command {
            Command::Create { user_id, .. } if self.exists() && self.user_id != *user_id => {
                let (actual, asked) = (self.user_id.clone(), user_id.clone());
                Err(Rejection::OtherUser { actual, asked })
            }
            Command::Create { .. } if self.deleted => Err(Rejection::Deleted),
            Command::Create { .. } if self.exists() => Ok(Vec::new()),
            Command::Create { user_id, .. } if user_id.is_empty() => {
                Err(Rejection::Empty { field: "user_id" })
            }
            Command::Create {
                user_id,
                name,
                admin,
            } => {
                check_account(name)?;
                Ok(vec![UserEvent::Created(log::UserCreated {
                    user_id: user_id.clone(),
                    name: name.clone(),
                    admin: *admin,
                })])
            }
            Command::Rename { name } => {
                self.present()?;
                check_account(name)?;
                if self.name == *name {
                    return Ok(Vec::new());
                }
                Ok(vec![UserEvent::Renamed(log::UserRenamed {
                    name: name.clone(),
                })])
            }
            Command::IssueToken {
                token_id,
                label,
                sign_in,
            } => self.issue(token_id, label, *sign_in),
            Command::Exchange {
                link_id,
                token_id,
                label,
            } => self.exchange(link_id, token_id, label),
            Command::RevokeToken { token_id } => {
                self.present()?;
                match self.tokens.get(token_id) {
                    None => Err(Rejection::NoSuchToken {
                        token_id: token_id.clone(),
                    }),
                    Some(Token { revoked: true, .. }) => Ok(Vec::new()),
                    Some(Token { revoked: false, .. }) => Ok(vec![revoked(token_id)]),
                }
            }
            Command::AddPasskey { passkey, challenge } => self.add_passkey(passkey, challenge),
            Command::SignIn {
                signed,
                challenge,
                token_id,
                label,
            } => self.sign_in(signed, challenge, token_id, label),
            Command::RemovePasskey { passkey_id } => self.remove_passkey(passkey_id),
            Command::Delete if !self.exists() => Err(Rejection::NotFound),
            Command::Delete if self.deleted => Ok(Vec::new()),
            Command::Delete => Ok(vec![UserEvent::Deleted(log::UserDeleted {})]),
        }
    }

    fn evolve(mut self, event: &UserEvent) -> Result<Self, IllegalTransition> {
        let present = self.present().is_ok();
        let fits = match event {
            UserEvent::Created(event) => !self.exists() && !event.user_id.is_empty(),
            UserEvent::Renamed(_) | UserEvent::Deleted(_) => present,
            UserEvent::TokenIssued(event) => present && !self.tokens.contains_key(&event.token_id),
            UserEvent::TokenRevoked(event) => present && self.is_live(&event.token_id),
            UserEvent::PasskeyAdded(_)
            | UserEvent::PasskeyUsed(_)
            | UserEvent::PasskeyRefused(_)
            | UserEvent::PasskeyRemoved(_) => present && self.takes_passkey(event),
        };
        if !fits {
            let state = match self.present() {
                Ok(()) => "present",
                Err(Rejection::Deleted) => "deleted",
                Err(_) => "absent",
            };
            return Err(IllegalTransition {
                state: state.into(),
                event: event.kind().name(),
            });
        }
        match event {
            UserEvent::Created(event) => {
                self.user_id.clone_from(&event.user_id);
                self.name.clone_from(&event.name);
                self.admin = event.admin;
            }
            UserEvent::Renamed(event) => self.name.clone_from(&event.name),
            UserEvent::TokenIssued(event) => {
                let token = Token {
                    label: event.label.clone(),
                    revoked: false,
                    sign_in: event.sign_in,
                };
                self.tokens.insert(event.token_id.clone(), token);
            }
            UserEvent::TokenRevoked(event) => {
                if let Some(token) = self.tokens.get_mut(&event.token_id) {
                    token.revoked = true;
                }
            }
            UserEvent::PasskeyAdded(event) => self.take_added(event),
            UserEvent::PasskeyUsed(event) => self.take_used(event),
            UserEvent::PasskeyRefused(event) => {
                self.spend(&event.challenge_id, event.challenged_us);
            }
            UserEvent::PasskeyRemoved(event) => self.take_removed(event),
            UserEvent::Deleted(_) => self.deleted = true,
        }
        Ok(self)
    }

    fn pick(payload: Payload) -> Option<UserEvent> {
        UserEvent::pick(payload)
    }
}

fn issued(token_id: &str, label: &str, sign_in: bool) -> UserEvent {
    UserEvent::TokenIssued(log::UserTokenIssued {
        token_id: token_id.to_owned(),
        label: label.to_owned(),
        sign_in,
    })
}

fn revoked(token_id: &str) -> UserEvent {
    UserEvent::TokenRevoked(log::UserTokenRevoked {
        token_id: token_id.to_owned(),
    })
}
