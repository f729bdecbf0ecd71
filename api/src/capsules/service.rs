//! `cocoonbox.control.v1.Capsule`.

use std::{pin::Pin, sync::Arc};

use cocoonbox_commands::snapshot::{Command, Rejection, State, check_path, reason};
use cocoonbox_events::{Clock, CommandId, Fold, Ids, LogId, Store, StreamName};
use cocoonbox_machines::BoxId;
use cocoonbox_projections::{SnapshotRow, Views};
use cocoonbox_proto::control::v1::{
    BrowseSnapshotRequest, BrowseSnapshotResponse, CapsuleKey, DiffPage, DiffRequest,
    ExportKeyRequest, FileBytes, GetStorageRequest, ListSnapshotsRequest, ListSnapshotsResponse,
    Moment, PinRequest, PruneProgress, PruneRequest, ReadFileRequest, RestorePathsRequest,
    RestoreProgress, SaveProgress, SaveRequest, SetRetentionRequest, Snapshot, Storage,
    UndoRestoreRequest, capsule_server,
};
use futures::Stream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Response, Status};

use super::{
    Place, Progress, browse::Shelf, failure, moment::Finder, storage::Deed, watched::Watched,
    worker::save_id,
};
use crate::{
    accounts::{AccountError, Accounts},
    auth::{BrowserSession, Caller},
    edge::no_such_box,
    fresh, status, stream,
    users::{asked, page_size, page_token},
};

/// Messages on their way to a caller who does not take them.
const QUEUE: usize = 2;
/// The keeper and every caller write to one stream, and each time one of them gets through: many at once all do.
pub(super) const TRIES_MAX: u32 = 16;

/// Serves snapshots.
pub struct Capsules {
    pub accounts: Arc<Accounts>,
    pub store: Arc<dyn Store>,
    pub views: Views,
    pub ids: Arc<dyn Ids>,
    pub place: Place,
    pub progress: Progress,
    pub clock: Arc<dyn Clock>,
    /// What the capsule of a user may take in the store; `None` = as much as it likes.
    pub quota_bytes: Option<u64>,
    pub stop: CancellationToken,
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// A box that the caller may look into.
pub(super) struct Own {
    pub(super) user: String,
    pub(super) account: LogId,
    pub(super) box_id: String,
}

#[tonic::async_trait]
impl capsule_server::Capsule for Capsules {
    type SaveStream = Answers<SaveProgress>;

    async fn save(
        &self,
        request: Request<SaveRequest>,
    ) -> Result<Response<Self::SaveStream>, Status> {
        let caller = Caller::of(request.extensions());
        let request = request.into_inner();
        let own = self.own(&caller, &request.box_id).await?;
        let asked = asked(&request.command_id, &*self.ids)?;
        let id = save_id(asked.command);
        let command = Command::RequestSave {
            save_id: id.clone(),
            reason: reason::ASKED,
            only_if_changed: request.only_if_changed,
            tool_call_id: String::new(),
        };
        let asked = (asked.command, digest(&format!("{command:?}")));
        let watched = self.request(&own, &caller, asked, &command, id).await?;
        Ok(Response::new(Box::pin(watched.save())))
    }

    async fn list_snapshots(
        &self,
        request: Request<ListSnapshotsRequest>,
    ) -> Result<Response<ListSnapshotsResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let request = request.into_inner();
        let own = self.own(&caller, &request.box_id).await?;
        if !request.at_least.is_empty() {
            stream::seen(&*self.store, &self.views, own.account, &request.at_least).await?;
        }
        let rows = self.views.all_snapshots(&own.user, &own.box_id).await;
        let rows = rows.map_err(|error| status::internal(&error))?;
        // Newest first; the token is the last id that was seen.
        let before = page_token(&request.page_token);
        let older = rows.into_iter().rev();
        let mut older = older.filter(|row| before.is_none_or(|before| row.id.as_str() < before));
        let page: Vec<SnapshotRow> = older.by_ref().take(page_size(request.page_size)).collect();
        let more = older.next().and(page.last());
        let next_page_token = more.map(|last| last.id.clone()).unwrap_or_default();
        Ok(Response::new(ListSnapshotsResponse {
            snapshots: page.into_iter().map(Into::into).collect(),
            next_page_token,
        }))
    }

    async fn browse_snapshot(
        &self,
        request: Request<BrowseSnapshotRequest>,
    ) -> Result<Response<BrowseSnapshotResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let request = request.into_inner();
        let own = self.own(&caller, &request.box_id).await?;
        if !request.path.is_empty() {
            checked("path", &request.path)?;
        }
        let row = self.find(&own, request.at.as_ref()).await?;
        let (shelf, id) = (self.shelf(&own), row.id.clone());
        let size = usize::try_from(request.page_size).unwrap_or(usize::MAX);
        let list = move || shelf.list(&id, &request.path, request.after, size);
        let listed = tokio::task::spawn_blocking(list).await;
        let listed = listed.map_err(|error| status::internal(&error))?;
        let (entries, next) = listed.map_err(failure::answer)?;
        Ok(Response::new(BrowseSnapshotResponse {
            snapshot: Some(row.into()),
            entries,
            next_after: next.unwrap_or_default(),
        }))
    }

    type ReadFileStream = Answers<FileBytes>;

    async fn read_file(
        &self,
        request: Request<ReadFileRequest>,
    ) -> Result<Response<Self::ReadFileStream>, Status> {
        let caller = Caller::of(request.extensions());
        let request = request.into_inner();
        let own = self.own(&caller, &request.box_id).await?;
        checked("path", &request.path)?;
        let row = self.find(&own, request.at.as_ref()).await?;
        let (shelf, (to, from)) = (self.shelf(&own), mpsc::channel(QUEUE));
        tokio::task::spawn_blocking(move || {
            shelf.read(&row.id, &request.path, request.offset, &to);
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(from))))
    }

    type DiffStream = Answers<DiffPage>;

    async fn diff(
        &self,
        request: Request<DiffRequest>,
    ) -> Result<Response<Self::DiffStream>, Status> {
        let caller = Caller::of(request.extensions());
        let request = request.into_inner();
        let own = self.own(&caller, &request.box_id).await?;
        if !request.path.is_empty() {
            checked("path", &request.path)?;
        }
        let before = self.find(&own, request.before.as_ref()).await?;
        let after = self.find(&own, request.after.as_ref()).await?;
        let (shelf, (to, from)) = (self.shelf(&own), mpsc::channel(QUEUE));
        tokio::task::spawn_blocking(move || {
            let ids = (before.id.clone(), after.id.clone());
            let first = DiffPage {
                before: Some(before.into()),
                after: Some(after.into()),
                differences: Vec::new(),
            };
            if to.blocking_send(Ok(first)).is_ok() {
                shelf.diff((&ids.0, &ids.1), &request.path, &to);
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(from))))
    }

    type RestorePathsStream = Answers<RestoreProgress>;

    async fn restore_paths(
        &self,
        request: Request<RestorePathsRequest>,
    ) -> Result<Response<Self::RestorePathsStream>, Status> {
        let caller = Caller::of(request.extensions());
        let request = request.into_inner();
        let own = self.own(&caller, &request.box_id).await?;
        let asked = asked(&request.command_id, &*self.ids)?;
        let row = self.find(&own, request.at.as_ref()).await?;
        let id = format!("restore-{}", asked.command);
        // Of what was asked: "the last one" is another one when it is asked again.
        let digest = digest(&format!(
            "{:?} {} {:?}",
            request.at, request.in_place, request.paths
        ));
        let command = Command::RequestRestore {
            restore_id: id.clone(),
            snapshot_id: row.id,
            paths: request.paths,
            in_place: request.in_place,
        };
        let asked = (asked.command, digest);
        let watched = self.request(&own, &caller, asked, &command, id).await?;
        Ok(Response::new(Box::pin(watched.restore())))
    }

    type UndoRestoreStream = Answers<RestoreProgress>;

    async fn undo_restore(
        &self,
        request: Request<UndoRestoreRequest>,
    ) -> Result<Response<Self::UndoRestoreStream>, Status> {
        let caller = Caller::of(request.extensions());
        let request = request.into_inner();
        let own = self.own(&caller, &request.box_id).await?;
        let asked = asked(&request.command_id, &*self.ids)?;
        let id = format!("restore-{}", asked.command);
        let digest = digest(&format!("undo {:?}", request.restore_id));
        let command = Command::RequestUndo {
            restore_id: id.clone(),
            of: Some(request.restore_id).filter(|id| !id.is_empty()),
        };
        let asked = (asked.command, digest);
        let watched = self.request(&own, &caller, asked, &command, id).await?;
        Ok(Response::new(Box::pin(watched.restore())))
    }

    async fn pin(&self, request: Request<PinRequest>) -> Result<Response<Snapshot>, Status> {
        let caller = Caller::of(request.extensions());
        let done = self.do_to_snapshot(&caller, request.into_inner(), Deed::Pin);
        done.await.map(Response::new)
    }

    async fn unpin(&self, request: Request<PinRequest>) -> Result<Response<Snapshot>, Status> {
        let caller = Caller::of(request.extensions());
        let done = self.do_to_snapshot(&caller, request.into_inner(), Deed::Unpin);
        done.await.map(Response::new)
    }

    async fn forget(&self, request: Request<PinRequest>) -> Result<Response<Snapshot>, Status> {
        let caller = Caller::of(request.extensions());
        let done = self.do_to_snapshot(&caller, request.into_inner(), Deed::Forget);
        done.await.map(Response::new)
    }

    async fn get_storage(
        &self,
        request: Request<GetStorageRequest>,
    ) -> Result<Response<Storage>, Status> {
        let caller = Caller::of(request.extensions());
        let told = self.storage(&caller, &request.get_ref().at_least);
        told.await.map(Response::new)
    }

    async fn set_retention(
        &self,
        request: Request<SetRetentionRequest>,
    ) -> Result<Response<Storage>, Status> {
        let caller = Caller::of(request.extensions());
        let told = self.keep_by(&caller, request.into_inner());
        told.await.map(Response::new)
    }

    type PruneStream = Answers<PruneProgress>;

    async fn prune(
        &self,
        request: Request<PruneRequest>,
    ) -> Result<Response<Self::PruneStream>, Status> {
        let caller = Caller::of(request.extensions());
        let told = self.prune_now(&caller, request.into_inner()).await?;
        Ok(Response::new(Box::pin(told)))
    }

    async fn export_key(
        &self,
        request: Request<ExportKeyRequest>,
    ) -> Result<Response<CapsuleKey>, Status> {
        let caller = Caller::of(request.extensions());
        let is_browser = request.extensions().get::<BrowserSession>().is_some();
        let key = self.key(&caller, is_browser, request.get_ref());
        key.await.map(Response::new)
    }
}

impl Own {
    /// Where the log speaks of the box's snapshots.
    pub(super) fn stream(&self) -> Result<StreamName, Status> {
        let stream = StreamName::new(format!("snapshot/{}", self.box_id));
        stream.map_err(|error| status::bad_field("box_id", error.to_string()))
    }
}

impl Capsules {
    /// The caller's box of this id. Someone else's and none at all are told apart to nobody.
    pub(super) async fn own(&self, caller: &Caller, box_id: &str) -> Result<Own, Status> {
        let id = BoxId::new(box_id);
        let id = id.map_err(|error| status::bad_field("box_id", error.to_string()))?;
        let (user, account) = self.account(caller)?;
        // Whatever was answered before, by whichever process, is seen.
        let key = fresh::tail(&*self.store, account).await;
        let key = key.map_err(status::from_read)?;
        let seen = self.views.at_least(&key, stream::AT_LEAST).await;
        seen.map_err(|_| stream::behind())?;
        let row = self.views.box_(user, id.as_str()).await;
        let row = row.map_err(|error| status::internal(&error))?;
        if row.is_none() {
            return Err(no_such_box(box_id));
        }
        Ok(Own {
            user: user.to_owned(),
            account,
            box_id: id.to_string(),
        })
    }

    /// Who calls, and their account log.
    pub(super) fn account<'c>(&self, caller: &'c Caller) -> Result<(&'c str, LogId), Status> {
        let user = caller.user()?;
        let account = self.accounts.log_of(user).map_err(|error| match error {
            AccountError::NoSuchUser(_) => {
                status::status(Code::NotFound, "NO_SUCH_USER", "there is no such user")
            }
            error => status::internal(&error),
        })?;
        Ok((user, account))
    }

    pub(super) async fn find(&self, own: &Own, at: Option<&Moment>) -> Result<SnapshotRow, Status> {
        let finder = Finder {
            store: &*self.store,
            views: &self.views,
            account: own.account,
            user: &own.user,
            box_id: &own.box_id,
        };
        finder.find(at).await
    }

    fn shelf(&self, own: &Own) -> Shelf {
        Shelf {
            place: self.place.clone(),
            user: own.user.clone(),
        }
    }

    /// Writes down what is asked for, and follows it.
    async fn request(
        &self,
        own: &Own,
        caller: &Caller,
        (command_id, digest): (CommandId, [u8; 32]),
        command: &Command,
        id: String,
    ) -> Result<Watched, Status> {
        let stream = own.stream()?;
        let mut fold = Fold::<State>::new(own.account, stream.clone());
        let refreshed = fold.refresh(&*self.store).await;
        refreshed.map_err(|error| status::internal(&error))?;
        let seq = fold.seq;
        let executed = self
            .execute(&mut fold, caller, (command_id, digest), command)
            .await;
        let executed = executed.map_err(|error| status::from_execute(error, rejected))?;
        Ok(Watched {
            store: self.store.clone(),
            views: self.views.clone(),
            progress: self.progress.clone(),
            shelf: self.shelf(own),
            account: own.account,
            stream,
            box_id: own.box_id.clone(),
            id,
            // One that was asked for before may have ended long ago.
            seq: if executed.replayed || executed.events.is_empty() {
                0
            } else {
                seq
            },
            key: executed.key,
            stop: self.stop.clone(),
        })
    }
}

pub(super) fn digest(of: &str) -> [u8; 32] {
    *blake3::hash(of.as_bytes()).as_bytes()
}

fn checked(field: &str, path: &[u8]) -> Result<(), Status> {
    check_path(path).map_err(|error| status::bad_field(field, error.to_string()))
}

pub(super) fn rejected(rejection: Rejection) -> Status {
    let message = rejection.to_string();
    match rejection {
        Rejection::TooMany => status::status(Code::ResourceExhausted, "TOO_MANY_SAVES", message),
        Rejection::NoSuchSnapshot { .. } => failure::no_snapshot(),
        Rejection::Pinned { .. } => status::status(Code::FailedPrecondition, "PINNED", message),
        Rejection::InUse { .. } => {
            status::status(Code::FailedPrecondition, "SNAPSHOT_IN_USE", message)
        }
        Rejection::NothingToUndo => {
            status::status(Code::FailedPrecondition, "NOTHING_TO_UNDO", message)
        }
        Rejection::Undone { .. } => status::status(Code::FailedPrecondition, "UNDONE", message),
        Rejection::PathsErased { .. } => {
            status::status(Code::FailedPrecondition, "ERASED", message)
        }
        Rejection::BadPath(error) => status::bad_field("paths", error.to_string()),
        Rejection::Empty { field } => status::bad_field(field, "is empty"),
        // Only the reactor reports; a caller cannot get here.
        Rejection::NotOwed { .. } | Rejection::NotNext { .. } => {
            status::status(Code::Aborted, "STALE", message)
        }
    }
}
