//! `cocoonbox.control.v1.Erasure`.

use std::collections::BTreeMap;

use cocoonbox_commands::{
    agent,
    erasure::{boxed::Command, own::check_reason},
    exec,
};
use cocoonbox_events::{
    Aggregate, CommandId, Fold, LoadError, LogId, LogInfo, LogKind, Meta, OffsetKey, Recorded,
    StreamName,
    erasure::{self, POSITIONS_MAX, Plan, PlanError, Refusal},
};
use cocoonbox_proto::control::v1::{
    EraseEvent, EraseRequest, EraseResponse, PosRange, erase_request::What, erasure_server,
};
use tonic::{Code, Request, Response, Status};

use super::{EraseError, Eraser, chunks, command_in};
use crate::{auth::Caller, status, stream, users::command_id};

/// Serves erasures.
pub struct Service(pub Eraser);

#[tonic::async_trait]
impl erasure_server::Erasure for Service {
    async fn erase(
        &self,
        request: Request<EraseRequest>,
    ) -> Result<Response<EraseResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let user = caller.user()?.to_owned();
        let request = request.into_inner();
        check_reason(&request.reason)
            .map_err(|rejection| status::bad_field("reason", rejection.to_string()))?;
        let log = self.log(&user, &request).await?;
        let positions = self.positions(&log, &request).await?;
        let plan = erasure::plan(&*self.0.store, log.id, positions).await;
        let plan = self.settled(&log, plan.map_err(from_plan)?).await?;
        plan.check_size().map_err(from_plan)?;
        let is_item = matches!(request.what, Some(What::Item(_)));
        if let (true, [kept]) = (is_item, &plan.kept[..]) {
            return Err(kept_item(&kept.why));
        }
        let mut plans = vec![plan];
        if is_item {
            plans.extend(self.streamed(&log, &plans[0]).await?);
        }
        let mut response = answer(&plans);
        if request.dry_run {
            return Ok(Response::new(response));
        }
        let command = command_id(&request.command_id, &*self.0.ids)?;
        let done = self.erase_all(&caller, &user, &log, &plans, &request.reason, command);
        response.complete = done.await.map_err(|error| from_erase(&error))?;
        let account = self.account(&user)?;
        let tail = self.0.store.tail(account).map_err(status::from_read)?;
        let key = OffsetKey::new(account, tail.pos, tail.chain);
        // What it was erased from is read from the views: they have to know before the caller does.
        self.0
            .views
            .at_least(&key, stream::AT_LEAST)
            .await
            .map_err(|_| stream::behind())?;
        response.offset_key = key.to_string();
        Ok(Response::new(response))
    }
}

impl Service {
    fn account(&self, user: &str) -> Result<LogId, Status> {
        let log = self.0.accounts.log_of(user);
        log.map_err(|error| status::internal(&error))
    }

    /// Finds the log that says what is erased, which is the one that is written today. Another's and none at
    /// all are told apart to nobody.
    async fn log(&self, user: &str, request: &EraseRequest) -> Result<LogInfo, Status> {
        let id = match &request.what {
            Some(What::Item(key)) => {
                let key: OffsetKey = key
                    .parse()
                    .map_err(|_| status::bad_field("item", "not an offset key"))?;
                key.log
            }
            Some(What::Range(_) | What::Stream(_)) if request.log_id.is_empty() => {
                self.account(user)?
            }
            Some(What::Range(_) | What::Stream(_)) => request
                .log_id
                .parse()
                .map_err(|_| status::bad_field("log_id", "not the id of a log"))?,
            None => return Err(status::bad_field("what", "say what to erase")),
        };
        let unknown = || status::status(Code::NotFound, "NO_SUCH_LOG", "you have no such log");
        let info = self.0.store.info(id).map_err(|_| unknown())?;
        if info.owner != user || info.kind == LogKind::System {
            return Err(unknown());
        }
        if info.moved_to.is_none() {
            return Ok(info);
        }
        let today = self.0.store.current(id).map_err(status::from_read)?;
        if let Some(What::Item(key)) = &request.what
            && let Ok(key) = key.parse()
        {
            if self.0.store.resume(today, &key).await.is_ok() {
                return self.0.store.info(today).map_err(status::from_read);
            }
            // What no log of today goes on from. For a box the account log says that it goes.
            if info.kind == LogKind::Box {
                return Ok(info);
            }
        }
        Err(status::with(
            Code::FailedPrecondition,
            "LOG_CLOSED",
            format!("this log was left for log {today}, whose history it is; erase it there"),
            &[("log", &today.to_string())],
        ))
    }

    /// Other boxes that were forked off what is to go, and how much of it each of them has.
    fn sharers(&self, log: &LogInfo, plan: &Plan) -> Result<Vec<(LogId, Vec<u64>)>, EraseError> {
        let mut sharers = Vec::new();
        for other in self.0.store.logs() {
            let is_another = other.kind == LogKind::Box && other.id != log.id;
            if !is_another || other.owner != log.owner || other.moved_to.is_some() {
                continue;
            }
            let mut positions = Vec::new();
            for event in plan.erased.iter().map(|erased| &erased.event) {
                let common = self.0.store.common(other.id, event.log)?;
                if common.is_some_and(|common| event.pos <= common) {
                    positions.push(event.pos);
                }
            }
            if !positions.is_empty() {
                sharers.push((other.id, positions));
            }
        }
        Ok(sharers)
    }

    async fn positions(&self, log: &LogInfo, request: &EraseRequest) -> Result<Vec<u64>, Status> {
        match &request.what {
            Some(What::Item(key)) => {
                let key: OffsetKey = key
                    .parse()
                    .map_err(|_| status::bad_field("item", "not an offset key"))?;
                let pos = self.0.store.resume(log.id, &key).await;
                Ok(vec![pos.map_err(status::from_read)?])
            }
            Some(What::Range(PosRange { first, last })) => {
                if *first == 0 || first > last {
                    return Err(status::bad_field("range", "first is from 1 to last"));
                }
                let last = (*last).min(log.tail.pos);
                if last.saturating_sub(*first) >= POSITIONS_MAX as u64 {
                    return Err(too_many());
                }
                Ok((*first..=last).collect())
            }
            Some(What::Stream(name)) => {
                let name = StreamName::new(name)
                    .map_err(|error| status::bad_field("stream", error.to_string()))?;
                let mut positions = Vec::new();
                let mut seq = 0;
                loop {
                    let read = self.0.store.read_stream(log.id, &name, seq, POSITIONS_MAX);
                    let page = read.await.map_err(status::from_read)?;
                    let Some(last) = page.events.last() else {
                        return Ok(positions);
                    };
                    seq = last.seq;
                    positions.extend(page.events.iter().map(|event| event.pos));
                    if positions.len() > POSITIONS_MAX {
                        return Err(too_many());
                    }
                }
            }
            None => Err(status::bad_field("what", "say what to erase")),
        }
    }

    /// What was streamed of an item goes with it.
    async fn streamed(&self, log: &LogInfo, item: &Plan) -> Result<Vec<Plan>, Status> {
        let found = chunks::of_replies(&*self.0.store, log.id, item).await;
        let mut plans = Vec::new();
        for positions in found.map_err(status::from_read)?.chunks(POSITIONS_MAX) {
            let plan = erasure::plan(&*self.0.store, log.id, positions.to_vec()).await;
            plans.push(plan.map_err(from_plan)?);
        }
        Ok(plans)
    }

    /// Keeps what streams that are at work stand on. Once a stream is at rest, all that it has is settled
    /// for ever.
    async fn settled(&self, log: &LogInfo, mut plan: Plan) -> Result<Plan, Status> {
        // What was left has no work any more, whatever it says of itself.
        if log.moved_to.is_some() {
            return Ok(plan);
        }
        let mut at_rest: BTreeMap<StreamName, u64> = BTreeMap::new();
        let streams: Vec<StreamName> = plan
            .erased
            .iter()
            .map(|gone| gone.event.stream.clone())
            .collect();
        for name in streams {
            if at_rest.contains_key(&name) {
                continue;
            }
            let seq = match name.as_str().split('/').next() {
                Some("agent") => {
                    let at_rest =
                        |state: &agent::State| state.turn.is_none() && state.queued.is_empty();
                    self.rest(log.id, &name, at_rest).await?
                }
                Some("exec") => {
                    let at_rest = |state: &exec::State| !state.is_running();
                    self.rest(log.id, &name, at_rest).await?
                }
                _ => u64::MAX,
            };
            at_rest.insert(name, seq);
        }
        plan.keep(|event| {
            let settled = at_rest
                .get(&event.stream)
                .is_some_and(|seq| event.seq <= *seq);
            (!settled).then(|| Refusal::AtWork {
                stream: event.stream.clone(),
            })
        });
        Ok(plan)
    }

    /// The sequence number up to which a stream is settled; 0 if it is at work.
    async fn rest<A: Aggregate>(
        &self,
        log: LogId,
        stream: &StreamName,
        at_rest: impl Fn(&A) -> bool,
    ) -> Result<u64, Status> {
        let mut fold = Fold::<A>::new(log, stream.clone());
        match fold.refresh(&*self.0.store).await {
            Ok(()) if at_rest(&fold.state) => Ok(fold.seq),
            Ok(()) => Ok(0),
            // A box may write what does not fold. Nothing stands on it then.
            Err(LoadError::Illegal { .. } | LoadError::Decode { .. }) => Ok(u64::MAX),
            Err(error @ LoadError::Read { .. }) => Err(status::internal(&error)),
        }
    }

    /// Erases as many times as there are plans: each fits one request. The last one first, so that the item
    /// itself, by which the others are found, goes when they have gone.
    async fn erase_all(
        &self,
        caller: &Caller,
        user: &str,
        log: &LogInfo,
        plans: &[Plan],
        reason: &str,
        command: CommandId,
    ) -> Result<bool, EraseError> {
        let mut complete = true;
        for (number, plan) in plans.iter().enumerate().rev() {
            let command = match number {
                0 => command,
                _ => CommandId::derive(command.as_bytes(), &format!("streamed {number}")),
            };
            complete = self
                .erase_now(caller, user, log, plan, reason, command)
                .await?;
        }
        Ok(complete)
    }

    /// Writes down what is to go and erases it. Returns whether nothing holds it any more.
    async fn erase_now(
        &self,
        caller: &Caller,
        user: &str,
        log: &LogInfo,
        plan: &Plan,
        reason: &str,
        command: CommandId,
    ) -> Result<bool, EraseError> {
        let meta = Meta {
            command: command_in(log.id, command),
            actor: caller.actor(),
            cause: None,
        };
        if log.kind == LogKind::Account {
            if !plan.erased.is_empty() {
                self.0.ask_own(log.id, plan, reason, &meta).await?;
            }
            self.0.pay_own(log.id).await?;
            return Ok(true);
        }
        let account = self.0.accounts.log_of(user)?;
        let mut holders = vec![(log.id, plan.positions())];
        if !plan.erased.is_empty() {
            holders.extend(self.sharers(log, plan)?);
            // All are written down before the first one is paid: what comes after a crash is paid later.
            for (holder, positions) in &holders {
                let request = Command::Request {
                    request_id: command.to_string(),
                    box_id: self.0.box_of(account, *holder).await?,
                    box_log: *holder,
                    positions: positions.clone(),
                    reason: reason.to_owned(),
                };
                let meta = Meta {
                    command: command_in(*holder, command),
                    ..meta.clone()
                };
                self.0.ask_boxed(account, *holder, &request, &meta).await?;
            }
        }
        let mut complete = true;
        for (holder, _) in holders {
            complete &= self.0.pay_boxed(user, account, holder).await?;
        }
        Ok(complete)
    }
}

fn answer(plans: &[Plan]) -> EraseResponse {
    let erased = plans.iter().flat_map(|plan| &plan.erased);
    let kept = plans.iter().flat_map(|plan| &plan.kept);
    let mut response = EraseResponse {
        erased: erased.map(|gone| told(&gone.event, "")).collect(),
        kept: kept
            .map(|kept| told(&kept.event, &kept.why.to_string()))
            .collect(),
        ..EraseResponse::default()
    };
    let place = |event: &EraseEvent| event.offset_key.parse().map_or(0, |key: OffsetKey| key.pos);
    response.erased.sort_by_key(place);
    response
}

fn told(event: &Recorded, kept_because: &str) -> EraseEvent {
    EraseEvent {
        offset_key: event.offset_key().to_string(),
        stream: event.stream.to_string(),
        kind: cocoonbox_events::Kind::from_number(event.kind).map_or_else(
            || format!("unknown.{}", event.kind),
            |kind| kind.name().to_owned(),
        ),
        bytes: event
            .body
            .as_ref()
            .map_or(0, |body| body.payload.len() as u64),
        kept_because: kept_because.to_owned(),
    }
}

fn kept_item(why: &Refusal) -> Status {
    let reason = match why {
        Refusal::Structure { .. } | Refusal::Unknown => "STRUCTURE",
        Refusal::AtWork { .. } => "AT_WORK",
        Refusal::Inherited { .. } => "INHERITED",
    };
    status::status(Code::FailedPrecondition, reason, why.to_string())
}

fn too_many() -> Status {
    status::status(
        Code::InvalidArgument,
        "TOO_MANY",
        format!("at most {POSITIONS_MAX} events at once; ask for ranges, one after the other"),
    )
}

fn from_plan(error: PlanError) -> Status {
    match error {
        PlanError::TooMany { .. } => too_many(),
        PlanError::TooLarge { .. } => {
            status::status(Code::InvalidArgument, "TOO_LARGE", error.to_string())
        }
        PlanError::Read(error) => status::from_read(error),
    }
}

/// Maps what went wrong for callers. What was asked for is written down by then or was refused.
pub fn from_erase(error: &EraseError) -> Status {
    use cocoonbox_events::Execute;
    match error {
        EraseError::Directory(Execute::Rejected(rejection)) => {
            if let Some((code, reason)) = super::delete::refused(rejection) {
                return status::status(code, reason, rejection.to_string());
            }
            status::internal(error)
        }
        EraseError::Own(Execute::Append(append)) | EraseError::Boxed(Execute::Append(append))
            if matches!(append, cocoonbox_events::AppendError::CommandReused) =>
        {
            status::status(
                Code::InvalidArgument,
                "COMMAND_REUSED",
                "this command id was used before for another request",
            )
        }
        _ => {
            tracing::warn!(error = status::describe(error), "an erasure was cut");
            status::status(
                Code::Unavailable,
                "ERASURE_OWED",
                "it is written down and not yet done; it goes on by itself, ask again to see",
            )
        }
    }
}
