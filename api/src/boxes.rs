//! `cocoonbox.control.v1.Boxes`.

mod awake;
mod fork;
mod models;
mod reader;
mod refused;
mod watch;

use std::{pin::Pin, sync::Arc, time::Duration};

use cocoonbox_commands::boxes::{self, Command};
use cocoonbox_events::{Clock, CommandId, Fold, Ids, LogId, Meta, OffsetKey, Store, StreamName};
use cocoonbox_machines::{BoxId, machine};
use cocoonbox_projections::{BoxRow, Views};
use cocoonbox_proto::{
    control::v1::{
        Box as BoxMessage, BoxRef, EnsureRequest, Flavor, ForkRequest, GetBoxRequest,
        KeepAwakeRequest, ListBoxesRequest, ListBoxesResponse, Operation, OperationEvent, Phase,
        SetBoxModelsRequest, State, WatchBoxesRequest, WatchRequest, boxes_server,
    },
    log::v1::ModelRoles,
};
use futures::Stream;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Response, Status};

use self::{
    reader::{Reader, flavor_of},
    refused::{not_now, rejected, view},
    watch::{Steps, Watcher},
};
use crate::{
    accounts::{AccountError, Accounts},
    auth::Caller,
    edge::no_such_box,
    fresh,
    gateway::GatewayConfig,
    images::{self, Images},
    lease::Owners,
    one_at_a_time::OneAtATime,
    replica, status, stream,
    users::{Asked, asked},
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
    pub clock: Arc<dyn Clock>,
    pub owners: Owners,
    pub promises: machine::Promises,
    pub images: Images,
    /// The installation's models; none if no vendor is configured.
    pub models: ModelRoles,
    /// The vendors that a box's own models may be of.
    pub gateway: GatewayConfig,
    pub boxes_per_user: usize,
    pub stop: CancellationToken,
    /// One user's Ensure calls go one after the other in this process, so that two of them cannot both make a box.
    pub ensuring: OneAtATime,
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
        let Ok(flavor) = Flavor::try_from(request.flavor) else {
            return Err(status::bad_field("flavor", "unknown flavor"));
        };
        let asked = asked(&request.command_id, &*self.ids)?;
        let command = asked.command;
        let lock = self.ensuring.of(&user);
        let _one_at_a_time = lock.lock().await;
        let log = self.log(&user)?;
        self.catch_up(log).await?;
        let mut rows = self.views.boxes(&user).await.map_err(view)?;
        // Another api process may be making the same box: one at a time, and with everything before it seen.
        let may_make = request.box_id.is_empty() && self.owners.are_shared();
        let section = if may_make {
            let section = self.owners.section(&format!("ensure/{user}")).await;
            let section = section.map_err(|error| not_now(&error))?;
            self.catch_up(log).await?;
            rows = self.views.boxes(&user).await.map_err(view)?;
            Some(section)
        } else {
            None
        };
        // With the user in it: the command id is the caller's choice, and may be another's. Not the account
        // log, which is another after a rewind.
        let seed = [user.as_bytes(), command.as_bytes()].concat();
        let derived = |step| CommandId::derive(&seed, step);
        let name = if request.name.is_empty() {
            NAME_DEFAULT
        } else {
            &request.name
        };
        let found = if request.box_id.is_empty() {
            rows.iter().find(|row| row.name == name)
        } else {
            let known = rows.iter().find(|row| row.id == request.box_id);
            Some(known.ok_or_else(|| no_such_box(&request.box_id))?)
        };
        let flavor = self.flavor(flavor, found)?;
        if found.is_none() {
            self.check_room(rows.len())?;
        }
        let box_id = found.map_or_else(
            || format!("b{}", &derived("box id").to_string()[16..]),
            |found| found.id.clone(),
        );
        let ensure = Command::Ensure {
            box_id: box_id.clone(),
            flavor: u32::try_from(i32::from(flavor)).unwrap_or_default(),
            name: name.to_owned(),
            box_log: LogId(derived("box log").0),
            user_id: user.clone(),
            operation_id: operation_id(command),
        };
        let key = self.execute(log, &box_id, &ensure, asked, &caller).await?;
        if let Some(section) = section {
            section.leave().await;
        }
        self.open_replica(log, &box_id).await?;
        self.answer(&user, &box_id, key).await.map(Response::new)
    }

    async fn get(&self, request: Request<GetBoxRequest>) -> Result<Response<BoxMessage>, Status> {
        let caller = Caller::of(request.extensions());
        let user = caller.user()?;
        let request = request.get_ref();
        self.at_least(user, &request.at_least).await?;
        let row = self.views.box_(user, &request.box_id).await.map_err(view)?;
        let row = row.ok_or_else(|| no_such_box(&request.box_id))?;
        Ok(Response::new(self.reader().complete(row).await))
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

    async fn fork(&self, request: Request<ForkRequest>) -> Result<Response<BoxMessage>, Status> {
        let caller = Caller::of(request.extensions());
        let user = caller.user()?.to_owned();
        self.fork_box(&caller, &user, request.into_inner())
            .await
            .map(Response::new)
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

    async fn set_models(
        &self,
        request: Request<SetBoxModelsRequest>,
    ) -> Result<Response<BoxMessage>, Status> {
        let caller = Caller::of(request.extensions());
        let user = caller.user()?.to_owned();
        self.set_box_models(&caller, &user, request.into_inner())
            .await
            .map(Response::new)
    }

    async fn keep_awake(
        &self,
        request: Request<KeepAwakeRequest>,
    ) -> Result<Response<BoxMessage>, Status> {
        let caller = Caller::of(request.extensions());
        let user = caller.user()?.to_owned();
        self.keep_box_awake(&caller, &user, request.into_inner())
            .await
            .map(Response::new)
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
        let asked = asked(&request.command_id, &*self.ids)?;
        let command = asked.command;
        let key = self
            .execute(log, &request.box_id, &make(command), asked, &caller)
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

    /// Checks that one more box is allowed beside this many.
    fn check_room(&self, boxes: usize) -> Result<(), Status> {
        if boxes < self.boxes_per_user {
            return Ok(());
        }
        Err(status::status(
            Code::ResourceExhausted,
            "TOO_MANY_BOXES",
            format!("you have {boxes} boxes, the most allowed; delete one"),
        ))
    }

    async fn execute(
        &self,
        log: LogId,
        box_id: &str,
        command: &Command,
        asked: Asked,
        caller: &Caller,
    ) -> Result<OffsetKey, Status> {
        let digest = *blake3::hash(format!("{command:?}").as_bytes()).as_bytes();
        self.execute_as(log, box_id, command, digest, asked, caller)
            .await
    }

    /// As [`Boxes::execute`], told what a repetition has in common with the first call.
    async fn execute_as(
        &self,
        log: LogId,
        box_id: &str,
        command: &Command,
        digest: [u8; 32],
        asked: Asked,
        caller: &Caller,
    ) -> Result<OffsetKey, Status> {
        let box_id = BoxId::new(box_id).map_err(|e| status::bad_field("box_id", e.to_string()))?;
        let stream = StreamName::new(format!("box/{box_id}"))
            .map_err(|e| status::bad_field("box_id", e.to_string()))?;
        let mut fold = Fold::<boxes::State>::new(log, stream);
        let meta = Meta {
            command: asked.command,
            actor: caller.actor(),
            cause: None,
        };
        let store = &*self.store;
        let executed = if asked.may_come_again {
            fold.execute_remembered(store, command, &meta, digest).await
        } else {
            fold.execute(store, command, &meta, digest).await
        };
        let executed = executed.map_err(|error| status::from_execute(error, rejected))?;
        Ok(executed.key)
    }

    /// Opens the replica of a box's log, so that the log can be followed before the box has written.
    async fn open_replica(&self, log: LogId, box_id: &str) -> Result<(), Status> {
        let stream = StreamName::new(format!("box/{box_id}"))
            .map_err(|e| status::bad_field("box_id", e.to_string()))?;
        let mut fold = Fold::<boxes::State>::new(log, stream);
        fold.refresh(&*self.store)
            .await
            .map_err(|error| status::internal(&error))?;
        let opened = replica::open(&*self.store, &fold.state).await;
        opened.map(|_| ()).map_err(status::from_append)
    }

    async fn answer(&self, user: &str, id: &str, key: OffsetKey) -> Result<BoxMessage, Status> {
        self.views
            .at_least(&key, stream::AT_LEAST)
            .await
            .map_err(|_| stream::behind())?;
        let row = self.views.box_(user, id).await.map_err(view)?;
        let row = row.ok_or_else(|| no_such_box(id))?;
        Ok(self.reader().complete(row).await)
    }

    /// Waits until the views have seen all that this user's log holds now.
    async fn catch_up(&self, log: LogId) -> Result<(), Status> {
        let key = fresh::tail(&*self.store, log).await;
        let key = key.map_err(status::from_read)?;
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
            images: self.images.clone(),
            models: self.models.clone(),
        }
    }

    /// Returns the flavor that a box is to have, if it can be started.
    fn flavor(&self, asked: Flavor, found: Option<&BoxRow>) -> Result<Flavor, Status> {
        let flavor = match found {
            Some(row) => flavor_of(row),
            None if asked == Flavor::Unspecified => self.images.flavor(),
            None => asked,
        };
        if asked != Flavor::Unspecified && asked != flavor {
            let (name, is) = (found.map_or("", |row| &row.name), images::name(flavor));
            let words = format!("box `{name}` is a `{is}` box; another needs another name");
            return Err(status::status(
                Code::FailedPrecondition,
                "OTHER_FLAVOR",
                words,
            ));
        }
        let runs = found.is_some_and(|row| row.state() == State::Running);
        match self.images.find(flavor) {
            Err(error) if !runs => Err(status::status(
                Code::FailedPrecondition,
                "NO_IMAGE",
                error.to_string(),
            )),
            Ok(_) | Err(_) => Ok(flavor),
        }
    }

    fn log(&self, user: &str) -> Result<LogId, Status> {
        log_of(&self.accounts, user)
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

fn operation_id(command: CommandId) -> String {
    format!("op-{command}")
}
