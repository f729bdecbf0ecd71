//! `cocoonbox.control.v1.Routines`.

use std::sync::Arc;

use cocoonbox_commands::routine::{Command, RUN_MS_DEFAULT, State, check};
use cocoonbox_events::{
    CommandId, Fold, LogId, Meta, OffsetKey, Recorded, limits::PAGE_EVENTS_MAX,
};
use cocoonbox_projections::RoutineRow;
use cocoonbox_proto::{
    control::v1::{
        ChangeRoutineRequest, CreateRoutineRequest, DeleteRoutineResponse, ListRoutinesRequest,
        ListRoutinesResponse, Routine, RoutinePlan, RoutineRef, RoutineRunsRequest,
        RoutineRunsResponse, routines_server,
    },
    log::v1::{RoutineDefinition, routine_paused::Reason},
};
use tonic::{Request, Response, Status};

use super::{
    ROUTINES_MAX, agent_id,
    due::{Parts, sleeps, until_us},
    refused::{bad_schedule, name_taken, no_such, rejected, too_many},
    schedule, shown, stream,
};
use crate::{
    accounts::Accounts,
    auth::Caller,
    edge::no_such_box,
    fresh,
    one_at_a_time::OneAtATime,
    status, stream as offsets,
    users::{Asked, asked, from_account},
};

/// Runs told in one answer.
const RUNS_MAX: u32 = 100;
const RUNS_DEFAULT: u32 = 20;
/// Events of one run at most: started, prompted, ended, and the pause that may follow.
const EVENTS_OF_RUN: u64 = 4;

/// Serves routines.
pub struct Routines {
    pub parts: Parts,
    pub accounts: Arc<Accounts>,
    /// One user's routines are made one after the other in this process, so that there are not too many.
    pub making: OneAtATime,
}

/// A routine of the caller's.
struct Own {
    log: LogId,
    user: String,
    row: RoutineRow,
    fold: Fold<State>,
}

#[tonic::async_trait]
impl routines_server::Routines for Routines {
    async fn create(
        &self,
        request: Request<CreateRoutineRequest>,
    ) -> Result<Response<Routine>, Status> {
        let caller = Caller::of(request.extensions());
        let user = caller.user()?.to_owned();
        let request = request.into_inner();
        let asked = asked(&request.command_id, &*self.parts.ids)?;
        let lock = self.making.of(&user);
        let _one_at_a_time = lock.lock().await;
        let log = self.log(&user)?;
        let rows = self.rows(&user, log).await?;
        let boxes = self.parts.views.box_(&user, &request.box_id).await;
        if boxes.map_err(view)?.is_none() {
            return Err(no_such_box(&request.box_id));
        }
        let (definition, prompt) = definition(request.box_id, request.plan.unwrap_or_default());
        check(&definition, &prompt).map_err(rejected)?;
        // With the user in it: the command id is the caller's choice, and may be another's.
        let seed = [user.as_bytes(), asked.command.as_bytes()].concat();
        let id = format!(
            "r{}",
            &CommandId::derive(&seed, "routine").to_string()[16..]
        );
        if !rows.iter().any(|row| row.id == id) {
            if rows.len() >= ROUTINES_MAX {
                return Err(too_many());
            }
            taken(&rows, "", &definition.name)?;
        }
        let create = Command::Create {
            routine_id: id.clone(),
            agent_id: agent_id(&id),
            next_us: self.first(&definition)?,
            definition: Box::new(definition),
            prompt,
        };
        let mut fold = Fold::new(log, named(&id)?);
        let key = self.execute(&mut fold, &create, asked, &caller).await?;
        self.answer(&user, &fold, &key).await
    }

    async fn list(
        &self,
        request: Request<ListRoutinesRequest>,
    ) -> Result<Response<ListRoutinesResponse>, Status> {
        let user = Caller::of(request.extensions()).user()?.to_owned();
        let request = request.into_inner();
        let log = self.log(&user)?;
        if !request.at_least.is_empty() {
            let (store, views) = (&*self.parts.store, &self.parts.views);
            offsets::seen(store, views, log, &request.at_least).await?;
        }
        let mut routines = Vec::new();
        for row in self.rows(&user, log).await? {
            if request.box_id.is_empty() || request.box_id == row.box_id {
                let fold = self.fold(log, &row.id).await?;
                routines.push(shown::routine(&fold.state, &row));
            }
        }
        Ok(Response::new(ListRoutinesResponse { routines }))
    }

    async fn change(
        &self,
        request: Request<ChangeRoutineRequest>,
    ) -> Result<Response<Routine>, Status> {
        let caller = Caller::of(request.extensions());
        let asked = asked(&request.get_ref().command_id, &*self.parts.ids)?;
        let request = request.into_inner();
        let mut own = self.own(&caller, &request.routine_id).await?;
        let box_id = own.fold.state.definition.box_id.clone();
        let (definition, prompt) = definition(box_id, request.plan.unwrap_or_default());
        check(&definition, &prompt).map_err(rejected)?;
        let rows = self.rows(&own.user, own.log).await?;
        taken(&rows, &own.row.id, &definition.name)?;
        let change = Command::Change {
            next_us: self.first(&definition)?,
            definition: Box::new(definition),
            prompt,
        };
        let key = self.execute(&mut own.fold, &change, asked, &caller).await?;
        self.answer(&own.user, &own.fold, &key).await
    }

    async fn pause(&self, request: Request<RoutineRef>) -> Result<Response<Routine>, Status> {
        let reason = Reason::Asked;
        self.tell(request, |_| Ok(Command::Pause { reason })).await
    }

    async fn resume(&self, request: Request<RoutineRef>) -> Result<Response<Routine>, Status> {
        let now_us = self.parts.clock.now_us();
        self.tell(request, |state| {
            let definition = &state.definition;
            let next_us = match definition.cron.as_str() {
                // One that was to run once while it was paused does not any more.
                "" if definition.at_us <= now_us => 0,
                "" => definition.at_us,
                _ => self.first(definition)?,
            };
            Ok(Command::Resume { next_us })
        })
        .await
    }

    async fn run(&self, request: Request<RoutineRef>) -> Result<Response<Routine>, Status> {
        let caller = Caller::of(request.extensions());
        let asked = asked(&request.get_ref().command_id, &*self.parts.ids)?;
        let mut own = self.own(&caller, &request.get_ref().routine_id).await?;
        let now_us = self.parts.clock.now_us();
        let state = &own.fold.state;
        let wakes = sleeps(&self.parts, own.log, &state.definition.box_id).await;
        let start = Command::Start {
            run_id: CommandId::derive(state.routine_id.as_bytes(), &asked.command.to_string())
                .to_string(),
            due_us: 0,
            next_us: state.next_us,
            until_us: until_us(now_us, state.definition.run_ms_max),
            wakes: wakes.map_err(|error| status::internal(&error))?,
        };
        let key = self.execute(&mut own.fold, &start, asked, &caller).await?;
        self.parts.bell.notify_one();
        self.answer(&own.user, &own.fold, &key).await
    }

    async fn delete(
        &self,
        request: Request<RoutineRef>,
    ) -> Result<Response<DeleteRoutineResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let asked = asked(&request.get_ref().command_id, &*self.parts.ids)?;
        let mut own = self.own(&caller, &request.get_ref().routine_id).await?;
        let key = self
            .execute(&mut own.fold, &Command::Delete, asked, &caller)
            .await?;
        let offset_key = key.to_string();
        Ok(Response::new(DeleteRoutineResponse { offset_key }))
    }

    async fn runs(
        &self,
        request: Request<RoutineRunsRequest>,
    ) -> Result<Response<RoutineRunsResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let own = self.own(&caller, &request.get_ref().routine_id).await?;
        let limit = match request.get_ref().limit {
            0 => RUNS_DEFAULT,
            limit => limit.min(RUNS_MAX),
        };
        let span = EVENTS_OF_RUN.saturating_mul(limit.into());
        let events = self.events(&own, own.fold.seq.saturating_sub(span)).await?;
        let mut runs = shown::runs(&events);
        runs.reverse();
        runs.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(Response::new(RoutineRunsResponse { runs }))
    }
}

impl Routines {
    /// Tells a routine something that follows from how it stands.
    async fn tell(
        &self,
        request: Request<RoutineRef>,
        command: impl FnOnce(&State) -> Result<Command, Status>,
    ) -> Result<Response<Routine>, Status> {
        let caller = Caller::of(request.extensions());
        let asked = asked(&request.get_ref().command_id, &*self.parts.ids)?;
        let mut own = self.own(&caller, &request.get_ref().routine_id).await?;
        let command = command(&own.fold.state)?;
        let key = self
            .execute(&mut own.fold, &command, asked, &caller)
            .await?;
        self.answer(&own.user, &own.fold, &key).await
    }

    async fn own(&self, caller: &Caller, routine_id: &str) -> Result<Own, Status> {
        let user = caller.user()?.to_owned();
        let log = self.log(&user)?;
        let rows = self.rows(&user, log).await?;
        let row = rows.into_iter().find(|row| row.id == routine_id);
        let row = row.ok_or_else(no_such)?;
        let fold = self.fold(log, &row.id).await?;
        Ok(Own {
            log,
            user,
            row,
            fold,
        })
    }

    async fn fold(&self, log: LogId, routine_id: &str) -> Result<Fold<State>, Status> {
        let mut fold = Fold::new(log, named(routine_id)?);
        let read = fold.refresh(&*self.parts.store).await;
        read.map_err(|error| status::internal(&error))?;
        Ok(fold)
    }

    /// Returns the routines that a user has, with all that was written until now.
    async fn rows(&self, user: &str, log: LogId) -> Result<Vec<RoutineRow>, Status> {
        let key = fresh::tail(&*self.parts.store, log).await;
        self.seen(&key.map_err(status::from_read)?).await?;
        let rows = self.parts.views.routines(user).await.map_err(view)?;
        Ok(rows.into_iter().filter(|row| !row.is_deleted).collect())
    }

    async fn seen(&self, key: &OffsetKey) -> Result<(), Status> {
        let seen = self.parts.views.at_least(key, offsets::AT_LEAST).await;
        seen.map_err(|_| offsets::behind())
    }

    /// Reads the events of a routine behind a sequence number.
    async fn events(&self, own: &Own, mut after: u64) -> Result<Vec<Recorded>, Status> {
        let (store, mut events) = (&self.parts.store, Vec::new());
        loop {
            let page = store.read_stream(own.log, &own.fold.stream, after, PAGE_EVENTS_MAX);
            let page = page.await.map_err(status::from_read)?;
            let Some(last) = page.events.last() else {
                return Ok(events);
            };
            after = last.seq;
            events.extend(page.events);
        }
    }

    async fn execute(
        &self,
        fold: &mut Fold<State>,
        command: &Command,
        asked: Asked,
        caller: &Caller,
    ) -> Result<OffsetKey, Status> {
        let meta = Meta {
            command: asked.command,
            actor: caller.actor(),
            cause: None,
        };
        // What time it is has no part in whether a call is the same call again.
        let same = match command {
            Command::Start { run_id, .. } => format!("run {run_id}"),
            Command::Resume { .. } => "resume".to_owned(),
            Command::Create {
                definition, prompt, ..
            }
            | Command::Change {
                definition, prompt, ..
            } => format!("{definition:?} {prompt}"),
            other => format!("{other:?}"),
        };
        let digest = *blake3::hash(same.as_bytes()).as_bytes();
        let store = &*self.parts.store;
        let executed = if asked.may_come_again {
            fold.execute_remembered(store, command, &meta, digest).await
        } else {
            fold.execute(store, command, &meta, digest).await
        };
        let executed = executed.map_err(|error| status::from_execute(error, rejected))?;
        Ok(executed.key)
    }

    async fn answer(
        &self,
        user: &str,
        fold: &Fold<State>,
        key: &OffsetKey,
    ) -> Result<Response<Routine>, Status> {
        self.seen(key).await?;
        let rows = self.parts.views.routines(user).await.map_err(view)?;
        let row = rows.iter().find(|row| row.id == fold.stream.id());
        let row = row.ok_or_else(no_such)?;
        let fold = self.fold(fold.log, &row.id).await?;
        Ok(Response::new(shown::routine(&fold.state, row)))
    }

    fn first(&self, definition: &RoutineDefinition) -> Result<i64, Status> {
        let first = schedule::first_us(definition, self.parts.clock.now_us());
        first.map_err(|error| bad_schedule(&error))
    }

    fn log(&self, user: &str) -> Result<LogId, Status> {
        self.accounts.log_of(user).map_err(from_account)
    }
}

/// Reads what a caller wants, with what is not said filled in.
fn definition(box_id: String, plan: RoutinePlan) -> (RoutineDefinition, String) {
    let definition = RoutineDefinition {
        box_id,
        name: plan.name,
        cron: plan.cron,
        zone: plan.zone,
        at_us: plan.at_ms.saturating_mul(1_000),
        run_ms_max: match plan.run_ms_max {
            0 => RUN_MS_DEFAULT,
            most => most,
        },
    };
    (definition, plan.prompt)
}

/// Refuses a name that another routine has.
fn taken(rows: &[RoutineRow], id: &str, name: &str) -> Result<(), Status> {
    let is_taken = rows.iter().any(|row| row.id != id && row.name == name);
    if is_taken {
        Err(name_taken(name))
    } else {
        Ok(())
    }
}

fn named(id: &str) -> Result<cocoonbox_events::StreamName, Status> {
    stream(id).map_err(|_| no_such())
}

fn view(error: cocoonbox_projections::ViewsError) -> Status {
    status::internal(&error)
}
