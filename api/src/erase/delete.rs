//! Deleting a user: their right to be here first, their name last.

use std::time::Duration;

use cocoonbox_commands::{
    boxes::{self, Command as BoxCommand, Phase},
    directory::{self, Command},
};
use cocoonbox_events::{
    AppendError, CommandId, DirectoryEvent, Execute, Fold, Kind, LogId, Meta, Payload, StreamName,
    erasure, limits::PAGE_EVENTS_MAX,
};
use cocoonbox_projections::forget_for_good;
use tokio::time::{Instant, sleep};

use super::{EraseError, Eraser, report};
use crate::{accounts::AccountError, auth::Caller};

/// How long a call waits for the whole. Deleting a box takes about a second.
const WAIT: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(50);
const REASON: &str = "the user was deleted";

/// How far a deletion is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// Nothing of the user can be read any more.
    Done,
    /// They can do nothing any more; these boxes are being deleted.
    Boxes(Vec<String>),
}

impl Deletion {
    /// Says what is still to be done, for people; empty once all is.
    pub fn waits_for(&self) -> String {
        match self {
            Self::Done => String::new(),
            Self::Boxes(ids) => format!("boxes {}", ids.join(", ")),
        }
    }
}

impl Eraser {
    /// Writes down that a user is to be deleted and waits a while for the rest.
    pub async fn delete(
        &self,
        user_id: &str,
        force: bool,
        caller: &Caller,
    ) -> Result<Deletion, EraseError> {
        let mut fold = self.accounts.directory().await?;
        let command = Command::RequestDeletion {
            user_id: user_id.to_owned(),
            force,
        };
        let meta = Meta {
            command: CommandId(self.ids.draw()),
            actor: caller.actor(),
            cause: None,
        };
        let digest = *blake3::hash(format!("{command:?}").as_bytes()).as_bytes();
        fold.execute(&*self.store, &command, &meta, digest).await?;
        let deadline = Instant::now() + WAIT;
        loop {
            match self.pay_deletion(user_id).await? {
                Deletion::Boxes(_) if Instant::now() < deadline => sleep(LOOK).await,
                deletion => return Ok(deletion),
            }
        }
    }

    /// Pays what is owed to those who leave. `false`: something has to wait.
    pub(super) async fn pay_deletions(&self) -> Result<bool, EraseError> {
        let directory = self.accounts.directory().await?;
        let mut all = true;
        for user in directory.state.users().filter(|user| user.leaving) {
            all &= self.pay_deletion(&user.user_id).await? == Deletion::Done;
        }
        Ok(all)
    }

    /// Does what is left to do. In this order nothing that can be read outlives an answer, and every step
    /// finds what the one before has left, however often it is begun.
    async fn pay_deletion(&self, user_id: &str) -> Result<Deletion, EraseError> {
        let mut directory = self.accounts.directory().await?;
        let Some(user) = directory.state.by_id(user_id).cloned() else {
            return Ok(Deletion::Done);
        };
        let account = self
            .store
            .current(user.account_log)
            .map_err(AccountError::Read)?;
        self.accounts.end(user_id).await?;
        let left = self.delete_boxes(account).await?;
        if !left.is_empty() {
            return Ok(Deletion::Boxes(left));
        }
        self.keys.destroy(user_id).await?;
        self.remove_capsule(user_id).await?;
        forget_for_good(&self.store, &self.views, user_id).await?;
        self.erase_account(account).await?;
        self.erase_name(directory.log, user_id).await?;
        let command = Command::RemoveUser {
            user_id: user_id.to_owned(),
        };
        directory.refresh(&*self.store).await?;
        let (meta, digest) = report(&directory, &format!("{command:?}"));
        directory
            .execute(&*self.store, &command, &meta, digest)
            .await?;
        tracing::info!(user = user_id, "user deleted");
        Ok(Deletion::Done)
    }

    /// Removes what was saved of the user's files. It cannot be opened any more; this is for the room it takes.
    async fn remove_capsule(&self, user_id: &str) -> Result<(), EraseError> {
        let (place, user) = (self.place.clone(), user_id.to_owned());
        let removed = tokio::task::spawn_blocking(move || place.remove(&user)).await;
        removed
            .unwrap_or_else(|error| Err(std::io::Error::other(error)))
            .map_err(EraseError::Capsule)
    }

    /// Has every box deleted that is not; the lifecycle reactor does it. Returns those that are still there.
    async fn delete_boxes(&self, account: LogId) -> Result<Vec<String>, EraseError> {
        let mut left = Vec::new();
        for stream in self.box_streams(account).await? {
            let id = stream.id().to_owned();
            let mut fold = Fold::<boxes::State>::new(account, stream);
            fold.refresh(&*self.store).await?;
            match fold.state.phase {
                Phase::Deleted => continue,
                // What cannot be read any more was deleted before its key was destroyed.
                Phase::Absent if !fold.state.exists() => continue,
                Phase::Deleting { .. } => {}
                _ => self.delete_box(&mut fold).await?,
            }
            left.push(id);
        }
        Ok(left)
    }

    async fn delete_box(&self, fold: &mut Fold<boxes::State>) -> Result<(), EraseError> {
        let (meta, digest) = report(fold, "delete the user's box");
        let command = BoxCommand::Delete {
            operation_id: format!("op-{}", meta.command),
        };
        match fold.execute(&*self.store, &command, &meta, digest).await {
            // Somebody else was faster; it is looked at again.
            Ok(_) | Err(Execute::Rejected(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn box_streams(&self, account: LogId) -> Result<Vec<StreamName>, EraseError> {
        let mut streams = std::collections::BTreeSet::new();
        let mut after = 0;
        loop {
            let page = self.store.read(account, after, PAGE_EVENTS_MAX).await?;
            let Some(last) = page.events.last() else {
                return Ok(streams.into_iter().collect());
            };
            after = last.pos;
            let of_boxes = page.events.into_iter().map(|event| event.stream);
            streams.extend(of_boxes.filter(|stream| stream.as_str().starts_with("box/")));
        }
    }

    /// Erases the rows of an account whose key is gone, for what is beside the payloads: the digests of
    /// commands tell whoever can guess them. Usage holds nothing to guess and is most of a log.
    async fn erase_account(&self, account: LogId) -> Result<(), EraseError> {
        let mut after = 0;
        loop {
            let page = self.store.read(account, after, PAGE_EVENTS_MAX).await?;
            let Some(last) = page.events.last() else {
                return Ok(());
            };
            after = last.pos;
            let is_usage = |kind: u32| kind == Kind::UsageModelCalled.number();
            let events = page.events.iter().filter(|event| !is_usage(event.kind));
            let positions: Vec<u64> = events.map(|event| event.pos).collect();
            if !positions.is_empty() {
                erasure::rows(&*self.store, account, &positions).await?;
            }
        }
    }

    /// Erases the name in the system log, which is sealed with no user's key.
    async fn erase_name(&self, system: LogId, user_id: &str) -> Result<(), EraseError> {
        let stream = StreamName::new("directory")?;
        let mut seq = 0;
        let mut positions = Vec::new();
        loop {
            let page = self
                .store
                .read_stream(system, &stream, seq, PAGE_EVENTS_MAX)
                .await?;
            let Some(last) = page.events.last() else {
                break;
            };
            seq = last.seq;
            for event in &page.events {
                if let Ok(Some(Payload::Directory(DirectoryEvent::UserAdded(added)))) =
                    event.payload()
                    && added.user_id == user_id
                {
                    positions.push(event.pos);
                }
            }
        }
        let plan = erasure::plan(&*self.store, system, positions).await?;
        if !plan.erased.is_empty() {
            let command = CommandId::derive(system.as_bytes(), &format!("erase name {user_id}"));
            let meta = Meta {
                command,
                actor: Caller::Host.actor(),
                cause: None,
            };
            self.ask_own(system, &plan, REASON, &meta).await?;
        }
        self.pay_own(system).await?;
        Ok(())
    }
}

impl crate::accounts::Accounts {
    /// Ends an account: from here on no token of it opens anything, and what goes on with one breaks off.
    async fn end(&self, user_id: &str) -> Result<(), AccountError> {
        match self
            .execute(
                user_id,
                &cocoonbox_commands::user::Command::Delete,
                &Caller::Host,
            )
            .await
        {
            // Without the key nothing can be read of it: it was deleted before.
            Ok(_)
            | Err(AccountError::User(Execute::Rejected(_) | Execute::Append(AppendError::NoKey))) =>
                {}
            Err(error) => return Err(error),
        }
        self.end_all(user_id).await
    }
}

/// What a directory refuses.
pub(super) fn refused(rejection: &directory::Rejection) -> Option<(tonic::Code, &'static str)> {
    match rejection {
        directory::Rejection::NoSuchUser { .. } => Some((tonic::Code::NotFound, "NO_SUCH_USER")),
        directory::Rejection::LastAdmin => Some((tonic::Code::FailedPrecondition, "LAST_ADMIN")),
        directory::Rejection::NameTaken { .. }
        | directory::Rejection::BadName(_)
        | directory::Rejection::EmptyUserId => None,
    }
}
