//! Routines, over the story: kept as they come, due at one moment.

use cocoonbox_proto::{
    control::v1::{
        ChangeRoutineRequest, CreateRoutineRequest, DeleteRoutineResponse, ListRoutinesRequest,
        ListRoutinesResponse, Routine, RoutineRef, RoutineRun, RoutineRunsRequest,
        RoutineRunsResponse, routines_server::Routines,
    },
    log::v1::{routine_missed::Reason, routine_run_ended::Outcome},
};
use tonic::{Request, Response, Status, async_trait};

use super::Fake;

const NEXT_MS: i64 = 1_700_000_000_000;

impl Fake {
    fn routine(
        &self,
        request: &RoutineRef,
        change: impl FnOnce(&mut Routine),
    ) -> Result<Response<Routine>, Status> {
        let mut story = self.state();
        let found = story
            .routines
            .iter_mut()
            .find(|one| one.id == request.routine_id);
        let routine = found.ok_or_else(|| Status::not_found("there is no such routine"))?;
        change(routine);
        Ok(Response::new(routine.clone()))
    }
}

#[async_trait]
impl Routines for Fake {
    async fn create(
        &self,
        request: Request<CreateRoutineRequest>,
    ) -> Result<Response<Routine>, Status> {
        let request = request.into_inner();
        let routine = Routine {
            id: "r1".into(),
            box_id: request.box_id,
            plan: request.plan,
            agent_id: "a7".into(),
            state: "scheduled".into(),
            next_ms: NEXT_MS,
            ..Routine::default()
        };
        self.state().routines.push(routine.clone());
        Ok(Response::new(routine))
    }

    async fn list(
        &self,
        _: Request<ListRoutinesRequest>,
    ) -> Result<Response<ListRoutinesResponse>, Status> {
        let routines = self.state().routines.clone();
        Ok(Response::new(ListRoutinesResponse { routines }))
    }

    async fn change(
        &self,
        request: Request<ChangeRoutineRequest>,
    ) -> Result<Response<Routine>, Status> {
        let request = request.into_inner();
        let of = RoutineRef {
            routine_id: request.routine_id,
            ..RoutineRef::default()
        };
        self.routine(&of, |routine| routine.plan = request.plan)
    }

    async fn pause(&self, request: Request<RoutineRef>) -> Result<Response<Routine>, Status> {
        self.routine(request.get_ref(), |routine| {
            routine.state = "paused".into();
            routine.paused_because = "failing".into();
        })
    }

    async fn resume(&self, request: Request<RoutineRef>) -> Result<Response<Routine>, Status> {
        self.routine(request.get_ref(), |routine| {
            routine.state = "scheduled".into();
        })
    }

    async fn run(&self, request: Request<RoutineRef>) -> Result<Response<Routine>, Status> {
        self.routine(request.get_ref(), |routine| {
            routine.state = "running".into();
        })
    }

    async fn delete(
        &self,
        request: Request<RoutineRef>,
    ) -> Result<Response<DeleteRoutineResponse>, Status> {
        let mut story = self.state();
        story
            .routines
            .retain(|one| one.id != request.get_ref().routine_id);
        Ok(Response::new(DeleteRoutineResponse::default()))
    }

    async fn runs(
        &self,
        _: Request<RoutineRunsRequest>,
    ) -> Result<Response<RoutineRunsResponse>, Status> {
        let run = RoutineRun {
            run_id: "run".into(),
            due_ms: NEXT_MS,
            started_ms: NEXT_MS + 100,
            ended_ms: NEXT_MS + 42_100,
            outcome: Outcome::Unreached.into(),
            reason: "NO_IMAGE".into(),
            ..RoutineRun::default()
        };
        let asked = RoutineRun {
            due_ms: 0,
            ended_ms: 0,
            outcome: 0,
            reason: String::new(),
            ..run.clone()
        };
        let missed = RoutineRun {
            due_ms: NEXT_MS,
            missed: Reason::Late.into(),
            ..RoutineRun::default()
        };
        let runs = vec![asked, run, missed];
        Ok(Response::new(RoutineRunsResponse { runs }))
    }
}
