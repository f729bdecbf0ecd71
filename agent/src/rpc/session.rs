//! `Session`: who the box is, its events, and commands in it.

use std::pin::Pin;

use async_trait::async_trait;
use cocoonbox_events::OffsetKey;
use cocoonbox_proto::{
    agent::v1::{
        EventsRequest, ExecRequest, ExecResponse, HelloRequest, HelloResponse, ScreenRequest,
        ScreenResponse, SignalExecRequest, SignalExecResponse, exec_request,
        session_server::Session,
    },
    log::v1::EventOrHeartbeat,
    toolhost::v1::WindowSize,
};
use futures::{Stream, StreamExt, future::ready};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::TaskTracker;
use tonic::{Code, Request, Response, Status, Streaming};

use super::{Gate, events, status};
use crate::{
    exec::{self, Execs, Live, Spec, pipe::Caller},
    identity::IdentityFile,
    jobs,
    journal::Journal,
    turn::Agents,
};

/// Answers that wait for a client; the log holds the rest.
const ANSWERS_MAX: usize = 4;
/// Signals that Linux has; 0 asks only whether there is someone.
const SIGNAL_MAX: i32 = 64;
const SIGTERM: i32 = 15;

pub(crate) struct SessionService {
    pub(crate) journal: Journal,
    pub(crate) agents: Agents,
    pub(crate) execs: Execs,
    pub(crate) identity: IdentityFile,
    pub(crate) gate: Gate,
    pub(crate) tasks: TaskTracker,
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[async_trait]
impl Session for SessionService {
    type EventsStream = Answers<EventOrHeartbeat>;
    type ExecStream = Answers<ExecResponse>;
    type ScreenStream = Answers<ScreenResponse>;

    async fn hello(&self, _: Request<HelloRequest>) -> Result<Response<HelloResponse>, Status> {
        let identity = self.identity.current();
        // Asked first: once it is open, the log is known.
        let released = self.gate.is_open();
        let offset_key = match self.journal.released() {
            Some(_) => {
                let tail = self.journal.tail();
                let tail = tail.map_err(|error| status::read_error(&error))?;
                OffsetKey::new(tail.log, tail.pos, tail.chain).to_string()
            }
            None => String::new(),
        };
        Ok(Response::new(HelloResponse {
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            box_id: identity.box_id.clone(),
            wake_id: identity.wake_id.clone(),
            capabilities: vec!["exec".to_owned(), "agents".to_owned()],
            offset_key,
            released,
            agents_working: count(self.agents.working()),
            jobs: count(jobs::count()),
        }))
    }

    async fn events(
        &self,
        request: Request<EventsRequest>,
    ) -> Result<Response<Self::EventsStream>, Status> {
        let request = request.into_inner();
        let after = events::begin(&self.journal, &request.from_offset).await?;
        let (items, answers) = mpsc::channel(ANSWERS_MAX);
        self.tasks
            .spawn(events::send(self.journal.clone(), request, after, items));
        Ok(Response::new(Box::pin(ReceiverStream::new(answers))))
    }

    async fn exec(
        &self,
        request: Request<Streaming<ExecRequest>>,
    ) -> Result<Response<Self::ExecStream>, Status> {
        let mut input = request.into_inner();
        let first = input.message().await?.and_then(|request| request.frame);
        let Some(exec_request::Frame::Start(start)) = first else {
            return Err(status::bad_field("start", "is not in the first frame"));
        };
        if start.attach {
            return self.attach(start.exec_id, input);
        }
        let (is_pipe, exec_id) = (start.pipe, start.exec_id);
        if is_pipe && start.tty.is_some() {
            return Err(status::bad_field("tty", "is not for pipes"));
        }
        let spec = Spec {
            exec_id: if exec_id.is_empty() {
                self.journal.draw()
            } else {
                exec_id
            },
            argv: start.argv,
            cwd: start.cwd,
            env: start.env,
            timeout_ms: start.timeout_ms,
            tty: start.tty.map(|size| WindowSize {
                rows: size.rows,
                cols: size.cols,
            }),
            ..Spec::default()
        };
        let (frames, answers) = mpsc::channel(ANSWERS_MAX);
        if is_pipe {
            // An input that breaks is at its end.
            let input = input.take_while(|frame| ready(frame.is_ok()));
            let input = input.filter_map(|frame| ready(frame.ok())).boxed();
            let caller = Caller { input, frames };
            let started = self.execs.pipe(spec, caller).await;
            started.map_err(|error| status::exec_error(&error))?;
        } else {
            let exec_id = spec.exec_id.clone();
            let stream = exec::stream_name(&exec_id);
            let stream = stream.map_err(|error| status::exec_error(&error))?;
            let live = self.execs.start(spec).await;
            let live = live.map_err(|error| status::exec_error(&error))?;
            match live.as_ref().and_then(Live::screen).zip(live.clone()) {
                Some((screen, live)) => {
                    let attached = exec::attach(exec_id, live, screen, input, frames);
                    self.tasks.spawn(attached)
                }
                None => {
                    let followed = exec::follow(self.journal.clone(), stream, live, frames);
                    self.tasks.spawn(followed)
                }
            };
        }
        Ok(Response::new(Box::pin(ReceiverStream::new(answers))))
    }

    async fn screen(
        &self,
        _: Request<Streaming<ScreenRequest>>,
    ) -> Result<Response<Self::ScreenStream>, Status> {
        let what = "the api shows the screen itself";
        Err(status::status(
            Code::Unimplemented,
            "SERVED_BY_THE_API",
            what,
            &[],
        ))
    }

    async fn signal_exec(
        &self,
        request: Request<SignalExecRequest>,
    ) -> Result<Response<SignalExecResponse>, Status> {
        let SignalExecRequest { exec_id, signal } = request.into_inner();
        let signal = if signal == 0 { SIGTERM } else { signal };
        if !(1..=SIGNAL_MAX).contains(&signal) {
            return Err(status::bad_field("signal", "is not a signal number"));
        }
        if !self.execs.signal(&exec_id, signal).await {
            return Err(not_running(exec_id));
        }
        Ok(Response::new(SignalExecResponse {}))
    }
}

fn count(of: usize) -> u32 {
    u32::try_from(of).unwrap_or(u32::MAX)
}

impl SessionService {
    /// Joins a person to a terminal that is open, whoever opened it.
    fn attach(
        &self,
        exec_id: String,
        input: Streaming<ExecRequest>,
    ) -> Result<Response<Answers<ExecResponse>>, Status> {
        let live = self.execs.live(&exec_id);
        let Some((screen, live)) = live.as_ref().and_then(Live::screen).zip(live.clone()) else {
            return Err(not_running(exec_id));
        };
        let (frames, answers) = mpsc::channel(ANSWERS_MAX);
        self.tasks
            .spawn(exec::attach(exec_id, live, screen, input, frames));
        Ok(Response::new(Box::pin(ReceiverStream::new(answers))))
    }
}

fn not_running(exec_id: String) -> Status {
    let facts = [("exec_id", exec_id)];
    let message = "no exec with this id is running";
    status::status(Code::NotFound, "EXEC_NOT_RUNNING", message, &facts)
}
