//! Accounts: users, their logs, their tokens and their passkeys.
//!
//! A user is first added to the directory (system log: names are unique there), then gets an account
//! log. A crash in between is mended by doing the rest again: at the next start, or when the same
//! request is repeated.

mod account;
mod links;
mod passkeys;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, PoisonError, RwLock},
};

use cocoonbox_commands::{directory, user};
use cocoonbox_events::{
    AppendError, CommandId, Execute, Executed, Fold, Ids, LoadError, LogId, LogKind, Meta, NewLog,
    OffsetKey, ReadError, Store, StreamName, UserEvent,
};
use tokio_util::sync::CancellationToken;

pub use self::{account::Account, passkeys::Named};
use crate::{
    auth::{Caller, Denied},
    passkeys::Refused,
    vault::{Token, Vault, VaultError},
};

/// Keeps accounts.
pub struct Accounts {
    store: Arc<dyn Store>,
    vault: Vault,
    ids: Arc<dyn Ids>,
    system: OnceLock<LogId>,
    /// Account logs by user, as they began; a rewind goes on in another log, to which the store leads.
    logs: RwLock<HashMap<String, LogId>>,
    /// What is cancelled when a token is revoked, by token id.
    live: Mutex<HashMap<String, Live>>,
}

/// What goes on with a token.
struct Live {
    user_id: String,
    ended: CancellationToken,
}

/// A token that was just issued.
#[derive(Debug)]
pub struct Issued {
    pub account: Account,
    pub token_id: String,
    pub token: Token,
    pub key: OffsetKey,
}

#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    #[error("there is no user `{0}`")]
    NoSuchUser(String),
    #[error(transparent)]
    Directory(#[from] Execute<directory::Rejection>),
    #[error(transparent)]
    User(#[from] Execute<user::Rejection>),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error("finding a log")]
    Read(#[source] ReadError),
    #[error("opening a log")]
    Log(#[from] AppendError),
    #[error("the name of a stream")]
    Stream(#[from] cocoonbox_events::id::BadStreamName),
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error("this passkey is not known here: it was removed, or was never added")]
    UnknownPasskey,
    #[error(
        "this passkey has counted fewer signatures than are known, so somebody may hold a copy of it; sign in by a \
         link and remove it"
    )]
    CopiedPasskey,
}

impl Accounts {
    pub fn new(store: Arc<dyn Store>, vault: Vault, ids: Arc<dyn Ids>) -> Self {
        Self {
            store,
            vault,
            ids,
            system: OnceLock::new(),
            logs: RwLock::default(),
            live: Mutex::default(),
        }
    }

    /// Opens the system log and finishes accounts that a crash left half made. Call once, first. `system` is
    /// the id of the system log if there is none: the same for all processes that may be first.
    pub async fn start(&self, system: LogId) -> Result<(), AccountError> {
        let found = self
            .store
            .logs()
            .into_iter()
            .find(|log| log.kind == LogKind::System && log.parent.is_none());
        let id = found.map_or(system, |log| log.id);
        let log = NewLog {
            id,
            kind: LogKind::System,
            owner: String::new(),
            parent: None,
        };
        self.store.open(log).await?;
        let _ = self.system.set(id);
        let directory = self.directory().await?;
        // Of those who leave, the key may be gone already.
        for user in directory.state.users().filter(|user| !user.leaving) {
            self.open_account(&user.user_id, user.account_log).await?;
            let created = user::Command::Create {
                user_id: user.user_id.clone(),
                name: user.name.clone(),
                admin: user.admin,
            };
            let mut fold = self.fold(&user.user_id, user.account_log)?;
            let meta = Self::meta(&format!("create {}", user.user_id), &Caller::Host);
            fold.execute(&*self.store, &created, &meta, digest(&created))
                .await?;
        }
        Ok(())
    }

    /// Finds out whose token this is.
    pub async fn caller(&self, token: &str) -> Caller {
        let owner = match self.vault.owner(token).await {
            Ok(Some(owner)) => owner,
            Ok(None) => return Caller::Nobody(Denied::BadToken),
            Err(error) => {
                tracing::error!(%error, "vault cannot be read");
                return Caller::Nobody(Denied::Unavailable);
            }
        };
        match self.account_anywhere(&owner.user_id).await {
            Ok(account) if account.state.opens(&owner.token_id) => Caller::User {
                user_id: account.user_id,
                token_id: owner.token_id,
                admin: account.state.admin,
            },
            Ok(_) | Err(AccountError::NoSuchUser(_)) => Caller::Nobody(Denied::BadToken),
            Err(error) => {
                tracing::error!(%error, "account cannot be read");
                Caller::Nobody(Denied::Unavailable)
            }
        }
    }

    /// Returns a user's account log.
    pub fn log_of(&self, user_id: &str) -> Result<LogId, AccountError> {
        let known = self
            .logs
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(user_id)
            .copied();
        if let Some(log) = known {
            return self.current(log);
        }
        let logs = self.store.logs().into_iter();
        let accounts = logs.filter(|log| log.kind == LogKind::Account);
        let mut known = self.logs.write().unwrap_or_else(PoisonError::into_inner);
        known.extend(accounts.map(|log| (log.owner, log.id)));
        let log = known.get(user_id).copied();
        self.current(log.ok_or_else(|| AccountError::NoSuchUser(user_id.to_owned()))?)
    }

    fn current(&self, log: LogId) -> Result<LogId, AccountError> {
        self.store.current(log).map_err(AccountError::Read)
    }

    /// Returns all users, by name.
    pub async fn list(&self) -> Result<Vec<Account>, AccountError> {
        let mut accounts = Vec::new();
        let directory = self.directory().await?;
        for user in directory.state.users().filter(|user| !user.leaving) {
            accounts.push(self.account(&user.user_id).await?);
        }
        accounts.sort_by(|a, b| a.state.name.cmp(&b.state.name));
        Ok(accounts)
    }

    /// Makes the first admin, or finds them, and issues a token.
    pub async fn bootstrap(&self, name: &str, label: &str) -> Result<Issued, AccountError> {
        let directory = self.directory().await?;
        let first = directory
            .state
            .users()
            .find(|user| user.admin && !user.leaving);
        let user_id = match first {
            Some(user) => user.user_id.clone(),
            None => {
                self.add(name, true, CommandId(self.ids.draw()), &Caller::Host)
                    .await?
            }
        };
        self.issue(&user_id, label, &Caller::Host).await
    }

    /// Makes a user and issues a token.
    pub async fn create(
        &self,
        name: &str,
        admin: bool,
        label: &str,
        command: CommandId,
        caller: &Caller,
    ) -> Result<Issued, AccountError> {
        let user_id = self.add(name, admin, command, caller).await?;
        // A repeated request gets another token under the same id; the one before opens nothing then.
        let token_id = token_id(&CommandId::derive(command.as_bytes(), "token").to_string());
        self.issue_as(&user_id, token_id, label, false, caller)
            .await
    }

    /// Issues a token to a user.
    pub async fn issue(
        &self,
        user_id: &str,
        label: &str,
        caller: &Caller,
    ) -> Result<Issued, AccountError> {
        let token_id = self.draw_token_id();
        self.issue_as(user_id, token_id, label, false, caller).await
    }

    fn draw_token_id(&self) -> String {
        token_id(&self.ids.draw().simple().to_string())
    }

    async fn issue_as(
        &self,
        user_id: &str,
        token_id: String,
        label: &str,
        sign_in: bool,
        caller: &Caller,
    ) -> Result<Issued, AccountError> {
        let token = self.vault.issue(&token_id, user_id).await?;
        let command = user::Command::IssueToken {
            token_id: token_id.clone(),
            label: label.to_owned(),
            sign_in,
        };
        let executed = self.execute(user_id, &command, caller).await?;
        let account = self.account(user_id).await?;
        Ok(Issued {
            account,
            token_id,
            token,
            key: executed.key,
        })
    }

    /// Revokes a token: the log first, since it decides, then the vault.
    pub async fn revoke(
        &self,
        user_id: &str,
        token_id: &str,
        caller: &Caller,
    ) -> Result<OffsetKey, AccountError> {
        let command = user::Command::RevokeToken {
            token_id: token_id.to_owned(),
        };
        let executed = self.execute(user_id, &command, caller).await?;
        self.end_token(token_id);
        self.vault.forget(token_id).await?;
        Ok(executed.key)
    }

    /// Ends what goes on with a token that was revoked, here or by another process.
    pub fn end_token(&self, token_id: &str) {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(live) = live.remove(token_id) {
            live.ended.cancel();
        }
    }

    /// Ends what goes on with any token of a user.
    pub fn end_user(&self, user_id: &str) {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.retain(|_, live| {
            let stays = live.user_id != user_id;
            if !stays {
                live.ended.cancel();
            }
            stays
        });
    }

    /// Returns what is cancelled when this token of a user is revoked.
    pub fn revoked(&self, token_id: &str, user_id: &str) -> CancellationToken {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let live = live.entry(token_id.to_owned()).or_insert_with(|| Live {
            user_id: user_id.to_owned(),
            ended: CancellationToken::new(),
        });
        live.ended.clone()
    }

    /// Ends every token of a user whose account says that it was deleted.
    pub(crate) async fn end_all(&self, user_id: &str) -> Result<(), AccountError> {
        self.end_user(user_id);
        Ok(self.vault.forget_user(user_id).await?)
    }

    pub(crate) async fn execute(
        &self,
        user_id: &str,
        command: &user::Command,
        caller: &Caller,
    ) -> Result<Executed<UserEvent>, AccountError> {
        let mut fold = self.fold(user_id, self.log_of(user_id)?)?;
        let meta = Meta {
            command: CommandId(self.ids.draw()),
            actor: caller.actor(),
            cause: None,
        };
        Ok(fold
            .execute(&*self.store, command, &meta, digest(command))
            .await?)
    }

    async fn add(
        &self,
        name: &str,
        admin: bool,
        command: CommandId,
        caller: &Caller,
    ) -> Result<String, AccountError> {
        let derived = |step| CommandId::derive(command.as_bytes(), step);
        let user_id = format!("u{}", &derived("user id").to_string()[20..]);
        let account_log = LogId(derived("account log").0);
        let add = directory::Command::AddUser {
            user_id: user_id.clone(),
            name: name.to_owned(),
            account_log,
            admin,
        };
        let meta = Meta {
            command,
            actor: caller.actor(),
            cause: None,
        };
        let mut directory = self.directory().await?;
        directory
            .execute(&*self.store, &add, &meta, digest(&add))
            .await?;
        self.open_account(&user_id, account_log).await?;
        let create = user::Command::Create {
            user_id: user_id.clone(),
            name: name.to_owned(),
            admin,
        };
        let mut fold = self.fold(&user_id, account_log)?;
        let meta = Self::meta(&format!("create {user_id}"), caller);
        fold.execute(&*self.store, &create, &meta, digest(&create))
            .await?;
        Ok(user_id)
    }

    async fn open_account(&self, user_id: &str, id: LogId) -> Result<(), AccountError> {
        let log = NewLog {
            id,
            kind: LogKind::Account,
            owner: user_id.to_owned(),
            parent: None,
        };
        self.store.open(log).await?;
        Ok(())
    }

    pub(crate) async fn directory(&self) -> Result<Fold<directory::State>, AccountError> {
        let system = self
            .system
            .get()
            .copied()
            .expect("`start` opens the system log first");
        let mut fold = Fold::new(self.current(system)?, StreamName::new("directory")?);
        fold.refresh(&*self.store).await?;
        Ok(fold)
    }

    fn fold(&self, user_id: &str, log: LogId) -> Result<Fold<user::State>, AccountError> {
        let log = self.current(log)?;
        Ok(Fold::new(log, StreamName::new(format!("user/{user_id}"))?))
    }

    fn meta(step: &str, caller: &Caller) -> Meta {
        let command = CommandId::derive(b"accounts", step);
        Meta {
            command,
            actor: caller.actor(),
            cause: None,
        }
    }
}

fn digest(command: &impl std::fmt::Debug) -> [u8; 32] {
    *blake3::hash(format!("{command:?}").as_bytes()).as_bytes()
}

/// Names a token: short, and nothing of the token is in it.
fn token_id(drawn: &str) -> String {
    format!("t{}", &drawn[20..])
}
