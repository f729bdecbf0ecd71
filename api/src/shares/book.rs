//! The shares of each box, made, changed and read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cocoonbox_commands::share::{Command, End, Share as Known, State};
use cocoonbox_events::{
    Clock, CommandId, Execute, Executed, Fold, Ids, LogId, Meta, ShareEvent, Store, StreamName,
};
use cocoonbox_projections::Views;
use cocoonbox_proto::{
    control::v1::{Opening, Share, ShareState},
    log::v1::{Actor, actor},
};

use super::{
    guest::Here,
    refusal::ShareError,
    secrets::{SecretId, Secrets},
};
use crate::{
    accounts::{AccountError, Accounts},
    auth::Caller,
};

pub(super) const MICROS_IN_MS: i64 = 1_000;

/// What shares stand on.
pub struct Parts {
    pub accounts: Arc<Accounts>,
    pub store: Arc<dyn Store>,
    pub views: Views,
    pub secrets: Secrets,
    pub ids: Arc<dyn Ids>,
    pub clock: Arc<dyn Clock>,
}

/// Keeps shares.
pub struct Shares {
    pub(super) accounts: Arc<Accounts>,
    pub(super) store: Arc<dyn Store>,
    pub(super) views: Views,
    pub(super) secrets: Secrets,
    pub(super) ids: Arc<dyn Ids>,
    pub(super) clock: Arc<dyn Clock>,
    here: Mutex<Here>,
}

/// A share that somebody asks for.
pub(super) struct Wanted {
    pub(super) box_id: String,
    pub(super) label: String,
    /// A user's id.
    pub(super) for_user: Option<String>,
    pub(super) expires_us: Option<i64>,
}

impl Shares {
    pub fn new(parts: Parts) -> Self {
        Self {
            accounts: parts.accounts,
            store: parts.store,
            views: parts.views,
            secrets: parts.secrets,
            ids: parts.ids,
            clock: parts.clock,
            here: Mutex::default(),
        }
    }

    /// Makes a share of a box that is the user's. The vault comes first: a secret whose name no log has opens nothing.
    pub(super) async fn create(
        &self,
        user_id: &str,
        wanted: Wanted,
        id: CommandId,
        caller: &Caller,
    ) -> Result<Share, ShareError> {
        let derived = |what: &str| short(id, &format!("{what} of {user_id}"));
        let share_id = format!("s{}", derived("share"));
        let secret_id = SecretId {
            box_id: wanted.box_id.clone(),
            share_id: share_id.clone(),
            number: derived("secret"),
        };
        self.secrets.issue(&secret_id, user_id).await?;
        let digest = digest(&format!(
            "share {} {:?} {:?} {:?}",
            wanted.box_id, wanted.label, wanted.for_user, wanted.expires_us
        ));
        let mut fold = fold(self.accounts.log_of(user_id)?, &wanted.box_id)?;
        let command = Command::Create {
            share_id: share_id.clone(),
            secret_id: secret_id.to_string(),
            label: wanted.label,
            for_user: wanted.for_user,
            expires_us: wanted.expires_us,
            now_us: self.clock.now_us(),
        };
        let done = self.run(&mut fold, &command, (id, digest), caller).await;
        self.drop_unless_it_stands(&done, &fold.state, &secret_id)
            .await?;
        let key = done?.key.to_string();
        self.shown(user_id, &secret_id.box_id, &fold.state, &share_id, key)
            .await
    }

    /// Gives a share another secret.
    pub(super) async fn regenerate(
        &self,
        user_id: &str,
        (box_id, share_id): (&str, &str),
        id: CommandId,
        caller: &Caller,
    ) -> Result<Share, ShareError> {
        let secret_id = SecretId {
            box_id: box_id.to_owned(),
            share_id: share_id.to_owned(),
            number: short(id, &format!("secret of {user_id}")),
        };
        let mut fold = fold(self.accounts.log_of(user_id)?, box_id)?;
        fold.refresh(&*self.store).await?;
        let command = Command::Regenerate {
            share_id: share_id.to_owned(),
            secret_id: secret_id.to_string(),
            now_us: self.clock.now_us(),
        };
        // Also that its id is one that names can be made of: no share is called otherwise.
        if fold.state.share(share_id).is_some() {
            self.secrets.issue(&secret_id, user_id).await?;
        }
        let digest = digest(&format!("regenerate {box_id} {share_id}"));
        let done = self.run(&mut fold, &command, (id, digest), caller).await;
        self.drop_unless_it_stands(&done, &fold.state, &secret_id)
            .await?;
        let key = done?.key.to_string();
        self.shown(user_id, box_id, &fold.state, share_id, key)
            .await
    }

    /// Ends a share. Returns where the log had it.
    pub(super) async fn revoke(
        &self,
        user_id: &str,
        (box_id, share_id): (&str, &str),
        caller: &Caller,
    ) -> Result<String, ShareError> {
        let mut fold = fold(self.accounts.log_of(user_id)?, box_id)?;
        let command = Command::Revoke {
            share_id: share_id.to_owned(),
            now_us: self.clock.now_us(),
        };
        let done = self.execute(&mut fold, &command, caller).await?;
        Ok(done.key.to_string())
    }

    /// Returns the shares of a box.
    pub(super) async fn list(
        &self,
        user_id: &str,
        box_id: &str,
        ended_too: bool,
    ) -> Result<Vec<Share>, ShareError> {
        let mut fold = fold(self.accounts.log_of(user_id)?, box_id)?;
        fold.refresh(&*self.store).await?;
        self.expire(&mut fold).await?;
        let listed = fold.state.shares();
        let listed = listed.filter(|(_, share)| ended_too || share.end.is_none());
        let mut shares = Vec::new();
        for (share_id, _) in listed {
            let key = String::new();
            let shown = self.shown(user_id, box_id, &fold.state, share_id, key);
            shares.push(shown.await?);
        }
        Ok(shares)
    }

    /// Ends what goes on by secrets that an event has ended, which another process may have written.
    pub fn follow(&self, event: &ShareEvent) {
        if let Some(secret_id) = ended(event) {
            self.accounts.end_token(secret_id);
        }
    }

    /// Writes down what has run out, if anything has and nobody has noticed.
    pub(super) async fn expire(&self, fold: &mut Fold<State>) -> Result<(), ShareError> {
        let now_us = self.clock.now_us();
        if fold
            .state
            .live()
            .any(|(_, share)| share.has_run_out(now_us))
        {
            let command = Command::Expire { now_us };
            self.execute(fold, &command, &Caller::Host).await?;
        }
        Ok(())
    }

    pub(super) async fn execute(
        &self,
        fold: &mut Fold<State>,
        command: &Command,
        caller: &Caller,
    ) -> Result<Executed<ShareEvent>, ShareError> {
        let id = CommandId(self.ids.draw());
        let digest = digest(&format!("{command:?}"));
        self.run(fold, command, (id, digest), caller).await
    }

    async fn run(
        &self,
        fold: &mut Fold<State>,
        command: &Command,
        (id, digest): (CommandId, [u8; 32]),
        caller: &Caller,
    ) -> Result<Executed<ShareEvent>, ShareError> {
        let meta = Meta {
            command: id,
            // Time itself is nobody's doing.
            actor: match command {
                Command::Expire { .. } => Actor {
                    kind: actor::Kind::System.into(),
                    id: "shares".to_owned(),
                },
                _ => caller.actor(),
            },
            cause: None,
        };
        let executed = fold.execute(&*self.store, command, &meta, digest).await?;
        for event in &executed.events {
            if let Some(secret_id) = ended(event) {
                self.accounts.end_token(secret_id);
                self.secrets.forget(secret_id).await?;
            }
        }
        Ok(executed)
    }

    /// A secret that no log speaks of is no use to anybody: its command was refused, or came late. Where it is not
    /// known what became of the command it stays: the share may be there.
    async fn drop_unless_it_stands(
        &self,
        done: &Result<Executed<ShareEvent>, ShareError>,
        state: &State,
        secret_id: &SecretId,
    ) -> Result<(), ShareError> {
        if !matches!(done, Ok(_) | Err(ShareError::Execute(Execute::Rejected(_)))) {
            return Ok(());
        }
        let share = state.share(&secret_id.share_id);
        let id = secret_id.to_string();
        if share.is_none_or(|share| share.end.is_some() || share.secret_id != id) {
            self.secrets.forget(&id).await?;
        }
        Ok(())
    }

    async fn shown(
        &self,
        user_id: &str,
        box_id: &str,
        state: &State,
        share_id: &str,
        offset_key: String,
    ) -> Result<Share, ShareError> {
        let Some(known) = state.share(share_id) else {
            // Ended so long ago that it was forgotten, and asked for by a repeated command.
            return Ok(Share {
                id: share_id.to_owned(),
                box_id: box_id.to_owned(),
                state: ShareState::Revoked.into(),
                offset_key,
                ..Share::default()
            });
        };
        let secret = match known.end {
            None => self.secrets.reveal(&known.secret_id, user_id).await?,
            Some(_) => None,
        };
        let for_user_name = match &known.for_user {
            Some(guest) => self.name(guest).await?,
            None => String::new(),
        };
        Ok(Share {
            secret: secret.map(|secret| secret.reveal()).unwrap_or_default(),
            for_user_name,
            offset_key,
            ..plain(known, box_id, share_id)
        })
    }

    /// What a user is called; empty for one who is gone.
    pub(super) async fn name(&self, user_id: &str) -> Result<String, ShareError> {
        match self.accounts.account_anywhere(user_id).await {
            Ok(account) => Ok(account.state.name),
            Err(AccountError::NoSuchUser(_)) => Ok(String::new()),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn here(&self) -> MutexGuard<'_, Here> {
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn fold(log: LogId, box_id: &str) -> Result<Fold<State>, ShareError> {
    let stream = StreamName::new(format!("share/{box_id}"))?;
    Ok(Fold::new(log, stream))
}

/// The secret that opens nothing any more after this.
fn ended(event: &ShareEvent) -> Option<&str> {
    match event {
        ShareEvent::Created(_) | ShareEvent::Opened(_) => None,
        ShareEvent::Regenerated(regenerated) => Some(&regenerated.old_secret_id),
        ShareEvent::Revoked(revoked) => Some(&revoked.secret_id),
        ShareEvent::Expired(expired) => Some(&expired.secret_id),
    }
}

/// Without what is not in the log.
fn plain(known: &Known, box_id: &str, share_id: &str) -> Share {
    let openings = known.openings.iter().rev().map(|opening| Opening {
        user_id: opening.user_id.clone(),
        label: opening.label.clone(),
        at_ms: opening.at_us / MICROS_IN_MS,
    });
    Share {
        id: share_id.to_owned(),
        box_id: box_id.to_owned(),
        label: known.label.clone(),
        for_user: known.for_user.clone().unwrap_or_default(),
        state: match known.end {
            None => ShareState::Live,
            Some(End::Revoked) => ShareState::Revoked,
            Some(End::Expired) => ShareState::Expired,
        }
        .into(),
        created_at_ms: known.created_us / MICROS_IN_MS,
        expires_at_ms: known.expires_us.unwrap_or_default() / MICROS_IN_MS,
        opened: known.opened,
        openings: openings.collect(),
        ..Share::default()
    }
}

/// Names something after the command that makes it, so that the command repeated makes the same.
fn short(id: CommandId, what: &str) -> String {
    CommandId::derive(id.as_bytes(), what).to_string()[20..].to_owned()
}

fn digest(text: &str) -> [u8; 32] {
    *blake3::hash(text.as_bytes()).as_bytes()
}
