//! One user as the logs have them.

use std::{collections::HashMap, sync::PoisonError};

use cocoonbox_commands::user;
use cocoonbox_events::{LoadError, LogId, Payload, UserEvent, limits::PAGE_EVENTS_MAX};

use super::{AccountError, Accounts};

/// A user as the logs have it.
#[derive(Clone, Debug)]
pub struct Account {
    pub user_id: String,
    pub log: LogId,
    pub state: user::State,
    pub created_us: i64,
    /// When each token was issued, by token id.
    pub issued_us: HashMap<String, i64>,
    /// When each passkey was added, by its id.
    pub added_us: HashMap<String, i64>,
    /// When each passkey signed in last, by its id.
    pub used_us: HashMap<String, i64>,
}

impl Accounts {
    /// Returns a user's account.
    pub async fn account(&self, user_id: &str) -> Result<Account, AccountError> {
        let log = self.log_of(user_id)?;
        let mut fold = self.fold(user_id, log)?;
        let mut account = Account {
            user_id: user_id.to_owned(),
            log,
            state: user::State::default(),
            created_us: 0,
            issued_us: HashMap::new(),
            added_us: HashMap::new(),
            used_us: HashMap::new(),
        };
        // The fold knows no time, so the stream is read here; it is as long as the user has signed in.
        loop {
            let read = self
                .store
                .read_stream(log, &fold.stream, fold.seq, PAGE_EVENTS_MAX)
                .await;
            let unread = |source| LoadError::Read {
                stream: fold.stream.clone(),
                source,
            };
            let page = read.map_err(unread)?;
            if page.events.is_empty() {
                break;
            }
            if page.events.iter().any(|event| event.body.is_none()) {
                let husks = fold.husks.refresh(&*self.store, log).await;
                husks.map_err(unread)?;
            }
            for event in &page.events {
                fold.take(event)?;
                if let Ok(Some(Payload::User(what))) = fold.husks.payload(event) {
                    account.note(what, event.recorded_us);
                }
            }
        }
        account.state = fold.state;
        Ok(account)
    }

    /// Returns a user's account, which another process may have made a moment ago.
    pub(crate) async fn account_anywhere(&self, user_id: &str) -> Result<Account, AccountError> {
        match self.account(user_id).await {
            Err(AccountError::NoSuchUser(_)) => {}
            account => return account,
        }
        let directory = self.directory().await?;
        let user = directory.state.users().find(|user| user.user_id == user_id);
        let user = user.ok_or_else(|| AccountError::NoSuchUser(user_id.to_owned()))?;
        // Asked for, so that the store knows of the log before its next look.
        let known = self.store.chain_at(user.account_log, 0).await;
        known.map_err(AccountError::Read)?;
        self.logs
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(user_id.to_owned(), user.account_log);
        self.account(user_id).await
    }
}

impl Account {
    fn note(&mut self, event: UserEvent, at_us: i64) {
        match event {
            UserEvent::Created(_) => self.created_us = at_us,
            UserEvent::TokenIssued(token) => drop(self.issued_us.insert(token.token_id, at_us)),
            UserEvent::PasskeyAdded(added) => drop(self.added_us.insert(added.passkey_id, at_us)),
            UserEvent::PasskeyUsed(used) => drop(self.used_us.insert(used.passkey_id, at_us)),
            UserEvent::Renamed(_)
            | UserEvent::TokenRevoked(_)
            | UserEvent::PasskeyRefused(_)
            | UserEvent::PasskeyRemoved(_)
            | UserEvent::Deleted(_) => {}
        }
    }
}
