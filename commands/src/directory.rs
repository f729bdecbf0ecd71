//! Who has an account here, stream `directory` of the system log. Names are unique.

use std::collections::BTreeMap;

use cocoonbox_events::{Aggregate, DirectoryEvent, IllegalTransition, LogId, Payload};
use cocoonbox_proto::log::v1 as log;

use crate::name::{BadName, check_account};

/// Every account of the installation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    users: BTreeMap<String, User>,
    names: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub user_id: String,
    pub name: String,
    pub account_log: LogId,
    pub admin: bool,
    /// Their deletion was asked for and is owed. They can do nothing any more.
    pub leaving: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// The same user id a second time changes nothing, whatever else is said of it.
    AddUser {
        user_id: String,
        name: String,
        account_log: LogId,
        admin: bool,
    },
    /// Has a user deleted. One who is leaving already is fine.
    RequestDeletion {
        user_id: String,
        /// Even the last admin.
        force: bool,
    },
    /// Report: nothing of the user is left. Frees the name. A user who is not there is fine.
    RemoveUser { user_id: String },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("an account `{name}` exists already")]
    NameTaken { name: String },
    #[error(transparent)]
    BadName(#[from] BadName),
    #[error("field `user_id` is empty")]
    EmptyUserId,
    #[error("there is no user `{user_id}`")]
    NoSuchUser { user_id: String },
    #[error("this is the last admin; without one nobody can make users but on the host")]
    LastAdmin,
}

impl State {
    pub fn by_id(&self, user_id: &str) -> Option<&User> {
        self.users.get(user_id)
    }

    pub fn by_name(&self, name: &str) -> Option<&User> {
        self.users.get(self.names.get(name)?)
    }

    /// Returns every user, by id, those who are leaving among them.
    pub fn users(&self) -> impl Iterator<Item = &User> {
        self.users.values()
    }

    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// Takes an addition in; `None` if it cannot be.
    fn added(&mut self, event: &log::DirectoryUserAdded) -> Option<()> {
        let account_log = LogId::from_slice(&event.account_log)?;
        let (user_id, name) = (event.user_id.clone(), event.name.clone());
        if self.users.contains_key(&user_id) || self.names.contains_key(&name) {
            return None;
        }
        // A name that was erased, with its user: it is nobody's.
        if !name.is_empty() {
            self.names.insert(name.clone(), user_id.clone());
        }
        let user = User {
            user_id: user_id.clone(),
            name,
            account_log,
            admin: event.admin,
            leaving: false,
        };
        self.users.insert(user_id, user);
        Some(())
    }

    fn removed(&mut self, event: &log::DirectoryUserRemoved) -> Option<()> {
        let user = self.users.remove(&event.user_id)?;
        if user.name.is_empty() {
            return Some(());
        }
        self.names.remove(&user.name).map(drop)
    }

    fn request_deletion(
        &self,
        user_id: &str,
        force: bool,
    ) -> Result<Vec<DirectoryEvent>, Rejection> {
        let user = self
            .users
            .get(user_id)
            .ok_or_else(|| Rejection::NoSuchUser {
                user_id: user_id.to_owned(),
            })?;
        if user.leaving {
            return Ok(Vec::new());
        }
        let stays = |other: &&User| other.admin && !other.leaving && other.user_id != user_id;
        if user.admin && !force && !self.users.values().any(|other| stays(&other)) {
            return Err(Rejection::LastAdmin);
        }
        Ok(vec![DirectoryEvent::UserDeletionRequested(
            log::DirectoryUserDeletionRequested {
                user_id: user_id.to_owned(),
                force,
            },
        )])
    }
}

impl Aggregate for State {
    type Command = Command;
    type Event = DirectoryEvent;
    type Rejection = Rejection;

    fn decide(&self, command: &Command) -> Result<Vec<DirectoryEvent>, Rejection> {
        match command {
            Command::AddUser {
                user_id,
                name,
                account_log,
                admin,
            } => {
                if user_id.is_empty() {
                    return Err(Rejection::EmptyUserId);
                }
                if self.users.contains_key(user_id) {
                    return Ok(Vec::new());
                }
                check_account(name)?;
                if self.names.contains_key(name) {
                    return Err(Rejection::NameTaken { name: name.clone() });
                }
                Ok(vec![DirectoryEvent::UserAdded(log::DirectoryUserAdded {
                    user_id: user_id.clone(),
                    name: name.clone(),
                    account_log: account_log.as_bytes().to_vec(),
                    admin: *admin,
                })])
            }
            Command::RequestDeletion { user_id, force } => self.request_deletion(user_id, *force),
            Command::RemoveUser { user_id } if self.users.contains_key(user_id) => {
                Ok(vec![DirectoryEvent::UserRemoved(
                    log::DirectoryUserRemoved {
                        user_id: user_id.clone(),
                    },
                )])
            }
            Command::RemoveUser { .. } => Ok(Vec::new()),
        }
    }

    fn evolve(mut self, event: &DirectoryEvent) -> Result<Self, IllegalTransition> {
        let taken = match event {
            DirectoryEvent::UserAdded(event) => self.added(event),
            DirectoryEvent::UserRemoved(event) => self.removed(event),
            DirectoryEvent::UserDeletionRequested(event) => self
                .users
                .get_mut(&event.user_id)
                .filter(|user| !user.leaving)
                .map(|user| user.leaving = true),
        };
        match taken {
            Some(()) => Ok(self),
            None => Err(IllegalTransition {
                state: format!("{} users", self.users.len()),
                event: event.kind().name(),
            }),
        }
    }

    fn pick(payload: Payload) -> Option<DirectoryEvent> {
        DirectoryEvent::pick(payload)
    }
}
