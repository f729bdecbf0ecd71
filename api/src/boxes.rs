//! `cocoonbox.control.v1.Boxes`.

mod watch;

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use cocoonbox_commands::boxes::{self, Command};
use cocoonbox_events::{
    CommandId, Fold, Ids, LogId, LogKind, Meta, NewLog, OffsetKey, Store, StreamName,
};
use cocoonbox_machines::{BoxId, machine};
use cocoonbox_projections::{BoxRow, Views, ViewsError};
use cocoonbox_proto::control::v1::{
    Box as BoxMessage, BoxRef, EnsureRequest, Flavor, GetBoxRequest, ListBoxesRequest,
    ListBoxesResponse, Operation, OperationEvent, Phase, Promises, WatchBoxesRequest, WatchRequest,
    boxes_server,
};
use futures::Stream;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Response, Status};

use self::watch::{Steps, Watcher};
use crate::{
    accounts::{AccountError, Accounts},
    auth::Caller,
    edge::no_such_box,
    status, stream,
    users::command_id,
};

const NAME_DEFAULT: &str = "main";
/// Steps of an operation read at once; an operation has about three.
const STEPS_PAGE: usize = 64;
/// A watcher looks again this often, in case a doorbell was lost.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Serves boxes.
pub struct Boxes {
    pub accounts: Arc<Accounts>,
    pub store: Arc<dyn Store>,
    pub views: Views,
    pub ids: Arc<dyn Ids>,
    pub promises: machine::Promises,
    pub image: String,
    pub boxes_per_user: usize,
    pub stop: CancellationToken,
    /// One user's Ensure calls go one after the other, so that two of them cannot both make a box.
    pub ensuring: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl boxes_server::Boxes for Boxes {
    async fn ensure(
        &self,
        request: Request<EnsureRequest>,
    ) -> Result<Response<BoxMessage>, Status> {
        let caller = Caller::of(request.extensions());
        let user = caller.user()?.to_owned();
        let request = request.into_inner();
        let flavor = match request.flavor() {
            Flavor::Unspecified | Flavor::Core => Flavor::Core,
        };
        if Flavor::try_from(request.flavor).is_err() {
            return Err(status::bad_field("flavor", "unknown flavor"));
        }
        let command = command_id(&request.command_id, &*self.ids)?;
        let lock = self.ensure_lock(&user);
        let _one_at_a_time = lock.lock().await;
        let log = self.log(&user)?;
        self.catch_up(log).await?;
        let rows = self.views.boxes(&user).await.map_err(view)?;
        // With the account in it: the command id is the caller's choice, and may be another's.
        let seed = [log.as_bytes().as_slice(), command.as_bytes()].concat();
        let derived = |step| CommandId::derive(&seed, step);
        let box_id = if request.box_id.is_empty() {
            let name = if request.name.is_empty() {
                NAME_DEFAULT
            } else {
                &request.name
            };
            let found = rows
                .iter()
                .find(|b| b.name == name && b.flavor == i32::from(flavor));
            if found.is_none() && rows.len() >= self.boxes_per_user {
                return Err(status::status(
                    Code::ResourceExhausted,
                    "TOO_MANY_BOXES",
                    format!(
                        "you have {} boxes, the most allowed; delete one",
                        rows.len()
                    ),
                ));
            }
            found.map_or_else(
                || format!("b{}", &derived("box id").to_string()[16..]),
                |b| b.id.clone(),
            )
        } else {
            let known = rows.iter().any(|b| b.id == request.box_id);
            if !known {
                return Err(no_such_box(&request.box_id));
            }
            request.box_id.clone()
        };
        let name = if request.name.is_empty() {
            NAME_DEFAULT
        } else {
            &request.name
        };
        let ensure = Command::Ensure {
            box_id: box_id.clone(),
            flavor: u32::try_from(i32::from(flavor)).unwrap_or_default(),
            name: name.to_owned(),
            box_log: LogId(derived("box log").0),
            user_id: user.clone(),
            operation_id: operation_id(command),
        };
        let key = self
            .execute(log, &box_id, &ensure, command, &caller)
            .await?;
        self.open_replica(&user, log, &box_id).await?;
        self.answer(&user, &box_id, key).await.map(Response::new)
    }

    async fn get(&self, request: Request<GetBoxRequest>) -> Result<Response<BoxMessage>, Status> {
        let caller = Caller::of(request.extensions());
        let user = caller.user()?;
        let request = request.get_ref();
        self.at_least(user, &request.at_least).await?;
        let row = self.views.box_(user, &request.box_id).await.map_err(view)?;
        let row = row.ok_or_else(|| no_such_box(&request.box_id))?;
        Ok(Response::new(self.complete(row.into())))
    }

    async fn list(
        &self,
        request: Request<ListBoxesRequest>,
    ) -> Result<Response<ListBoxesResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let user = caller.user()?;
        self.at_least(user, &request.get_ref().at_least).await?;
        let (list, _) = self.snapshot(user).await?;
        Ok(Response::new(list))
    }

    type WatchStream = Answers<ListBoxesResponse>;

    async fn watch(
        &self,
        request: Request<WatchBoxesRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let user = Caller::of(request.extensions()).user()?.to_owned();
        let log = self.log(&user)?;
        let from = &request.get_ref().from_offset;
        let seen = stream::position(&*self.store, log, from).await?;
        let (list, pos) = self.snapshot(&user).await?;
        // A client that has seen everything waits for a change; any other gets the list at once.
        let known = (!from.is_empty() && pos <= seen).then_some(list.boxes);
        let watcher = Watcher {
            boxes: self.reader(),
            user,
            known,
            changed: self.views.changed(),
            stop: self.stop.clone(),
        };
        Ok(Response::new(Box::pin(watcher.into_stream())))
    }

    async fn hibernate(&self, request: Request<BoxRef>) -> Result<Response<Operation>, Status> {
        self.operate(request, "hibernate", |command| Command::Hibernate {
            operation_id: operation_id(command),
            reason: "asked".into(),
        })
        .await
    }

    async fn delete(&self, request: Request<BoxRef>) -> Result<Response<Operation>, Status> {
        self.operate(request, "delete", |command| Command::Delete {
            operation_id: operation_id(command),
        })
        .await
    }

    type WatchOperationStream = Answers<OperationEvent>;

    async fn watch_operation(
        &self,
        request: Request<WatchRequest>,
    ) -> Result<Response<Self::WatchOperationStream>, Status> {
        let user = Caller::of(request.extensions()).user()?.to_owned();
        let request = request.into_inner();
        let log = self.log(&user)?;
        let after = stream::position(&*self.store, log, &request.from_offset).await?;
        self.catch_up(log).await?;
        let id = request.operation_id;
        if self
            .views
            .operation(&user, &id)
            .await
            .map_err(view)?
            .is_none()
        {
            return Err(status::with(
                Code::NotFound,
                "NO_SUCH_OPERATION",
                "you have no such operation",
                &[("operation_id", &id)],
            ));
        }
        let steps = Steps {
            views: self.views.clone(),
            user,
            id,
            after,
            ready: Vec::new().into_iter(),
            ended: false,
            changed: self.views.changed(),
            stop: self.stop.clone(),
        };
        Ok(Response::new(Box::pin(steps.into_stream())))
    }
}

impl Boxes {
    async fn operate(
        &self,
        request: Request<BoxRef>,
        kind: &str,
        make: impl Fn(CommandId) -> Command,
    ) -> Result<Response<Operation>, Status> {
        let caller = Caller::of(request.extensions());
        let user = caller.user()?.to_owned();
        let request = request.into_inner();
        let log = self.log(&user)?;
        self.catch_up(log).await?;
        if self
            .views
            .box_(&user, &request.box_id)
            .await
            .map_err(view)?
            .is_none()
        {
            return Err(no_such_box(&request.box_id));
        }
        let command = command_id(&request.command_id, &*self.ids)?;
        let key = self
            .execute(log, &request.box_id, &make(command), command, &caller)
            .await?;
        self.views
            .at_least(&key, stream::AT_LEAST)
            .await
            .map_err(|_| stream::behind())?;
        let row = self
            .views
            .operation(&user, &operation_id(command))
            .await
            .map_err(view)?;
        // No row of this command: the box was there already, nothing had to be done.
        Ok(Response::new(row.map_or_else(
            || Operation {
                id: String::new(),
                box_id: request.box_id,
                phase: Phase::Done.into(),
                detail: "nothing to do".into(),
                offset_key: key.to_string(),
                kind: kind.to_owned(),
            },
            Into::into,
        )))
    }

    async fn execute(
        &self,
        log: LogId,
        box_id: &str,
        command: &Command,
        id: CommandId,
        caller: &Caller,
    ) -> Result<OffsetKey, Status> {
        let box_id = BoxId::new(box_id).map_err(|e| status::bad_field("box_id", e.to_string()))?;
        let stream = StreamName::new(format!("box/{box_id}"))
            .map_err(|e| status::bad_field("box_id", e.to_string()))?;
        let mut fold = Fold::<boxes::State>::new(log, stream);
        let meta = Meta {
            command: id,
            actor: caller.actor(),
            cause: None,
        };
        let digest = *blake3::hash(format!("{command:?}").as_bytes()).as_bytes();
        let executed = fold.execute(&*self.store, command, &meta, digest).await;
        let executed = executed.map_err(|error| status::from_execute(error, rejected))?;
        Ok(executed.key)
    }

    /// Opens the replica of a box's log, so that the log can be followed before the box has written.
    async fn open_replica(&self, user: &str, log: LogId, box_id: &str) -> Result<(), Status> {
        let stream = StreamName::new(format!("box/{box_id}"))
            .map_err(|e| status::bad_field("box_id", e.to_string()))?;
        let mut fold = Fold::<boxes::State>::new(log, stream);
        fold.refresh(&*self.store)
            .await
            .map_err(|error| status::internal(&error))?;
        let Some(id) = fold.state.box_log else {
            return Ok(());
        };
        let replica = NewLog {
            id,
            kind: LogKind::Box,
            owner: user.to_owned(),
            parent: None,
        };
        self.store
            .open(replica)
            .await
            .map(|_| ())
            .map_err(status::from_append)
    }

    async fn answer(&self, user: &str, id: &str, key: OffsetKey) -> Result<BoxMessage, Status> {
        self.views
            .at_least(&key, stream::AT_LEAST)
            .await
            .map_err(|_| stream::behind())?;
        let row = self.views.box_(user, id).await.map_err(view)?;
        row.map(|row| self.complete(row.into()))
            .ok_or_else(|| no_such_box(id))
    }

    /// Waits until the views have seen all that this user's log holds now.
    async fn catch_up(&self, log: LogId) -> Result<(), Status> {
        let tail = self.store.tail(log).map_err(status::from_read)?;
        let key = OffsetKey::new(log, tail.pos, tail.chain);
        self.views
            .at_least(&key, stream::AT_LEAST)
            .await
            .map_err(|_| stream::behind())
    }

    async fn at_least(&self, user: &str, key: &str) -> Result<(), Status> {
        if key.is_empty() {
            return Ok(());
        }
        let log = self.log(user)?;
        stream::seen(&*self.store, &self.views, log, key).await
    }

    async fn snapshot(&self, user: &str) -> Result<(ListBoxesResponse, u64), Status> {
        self.reader().snapshot(user).await
    }

    fn reader(&self) -> Reader {
        Reader {
            accounts: self.accounts.clone(),
            store: self.store.clone(),
            views: self.views.clone(),
            promises: self.promises,
            image: self.image.clone(),
        }
    }

    fn complete(&self, row: BoxMessage) -> BoxMessage {
        complete(row, self.promises, &self.image)
    }

    fn log(&self, user: &str) -> Result<LogId, Status> {
        log_of(&self.accounts, user)
    }

    fn ensure_lock(&self, user: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self
            .ensuring
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        locks.retain(|_, lock| Arc::strong_count(lock) > 1);
        locks.entry(user.to_owned()).or_default().clone()
    }
}

/// Reads the list of boxes for watchers.
#[derive(Clone)]
struct Reader {
    accounts: Arc<Accounts>,
    store: Arc<dyn Store>,
    views: Views,
    promises: machine::Promises,
    image: String,
}

impl Reader {
    /// The list, with the position up to which it is sure to have seen the account log.
    async fn snapshot(&self, user: &str) -> Result<(ListBoxesResponse, u64), Status> {
        let log = log_of(&self.accounts, user)?;
        let pos = self
            .views
            .checkpoint("boxes", log)
            .await
            .map_err(view)?
            .map_or(0, |checkpoint| checkpoint.pos);
        let chain = self
            .store
            .chain_at(log, pos)
            .await
            .map_err(status::from_read)?;
        let rows = self.views.boxes(user).await.map_err(view)?;
        let complete = |row: BoxRow| complete(row.into(), self.promises, &self.image);
        let list = ListBoxesResponse {
            boxes: rows.into_iter().map(complete).collect(),
            offset_key: OffsetKey::new(log, pos, chain).to_string(),
        };
        Ok((list, pos))
    }
}

fn log_of(accounts: &Accounts, user: &str) -> Result<LogId, Status> {
    accounts.log_of(user).map_err(|error| match error {
        AccountError::NoSuchUser(_) => {
            status::status(Code::NotFound, "NO_SUCH_USER", "there is no such user")
        }
        error => status::internal(&error),
    })
}

/// Adds what the installation knows of a box beyond its log.
fn complete(mut row: BoxMessage, promises: machine::Promises, image: &str) -> BoxMessage {
    row.image_update_available = !row.image.is_empty() && row.image != image;
    row.promises = Some(Promises {
        memory_kept_on_hibernate: promises.memory_kept_on_hibernate,
        survives_host_restart: promises.survives_host_restart,
        isolation: match promises.isolation {
            machine::Isolation::Container => "container".into(),
            machine::Isolation::MicroVm => "microvm".into(),
        },
    });
    row
}

fn operation_id(command: CommandId) -> String {
    format!("op-{command}")
}

fn view(error: ViewsError) -> Status {
    status::internal(&error)
}

fn rejected(rejection: boxes::Rejection) -> Status {
    use boxes::Rejection as R;
    let message = rejection.to_string();
    match rejection {
        R::NotFound | R::OtherBox { .. } => status::status(Code::NotFound, "NO_SUCH_BOX", message),
        R::BeingDeleted | R::Deleted => {
            status::status(Code::FailedPrecondition, "BOX_DELETED", message)
        }
        R::NotRunning { .. } => {
            status::status(Code::FailedPrecondition, "BOX_NOT_RUNNING", message)
        }
        R::BadName(error) => status::bad_field("name", error.to_string()),
        R::Empty { field } => status::bad_field(field, "is empty"),
        // Only the reactor reports; a caller cannot get here.
        R::Stale { .. } | R::OtherLog { .. } | R::AnchorDiverged { .. } => {
            status::status(Code::Aborted, "STALE", message)
        }
    }
}
