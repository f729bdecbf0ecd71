//! `Session`: who the box is, its events, and commands in it.

use std::pin::Pin;

use async_trait::async_trait;
use cocoonbox_events::OffsetKey;
use cocoonbox_proto::{
    agent::v1::{
        EventsRequest, ExecRequest, ExecResponse, HelloRequest, HelloResponse, SignalExecRequest,
        SignalExecResponse, exec_request, session_server::Session,
    },
    log::v1::EventOrHeartbeat,
};
use futures::Stream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::TaskTracker;
use tonic::{Code, Request, Response, Status, Streaming};

use super::{events, status};
use crate::{
    exec::{self, Execs, Spec, pipe::Caller},
    identity::IdentityFile,
    journal::Journal,
};

/// Answers that wait for a client; the log holds the rest.
const ANSWERS_MAX: usize = 4;
/// Signals that Linux has; 0 asks only whether there is someone.
const SIGNAL_MAX: i32 = 64;
const SIGTERM: i32 = 15;

pub(crate) struct SessionService {
    pub(crate) journal: Journal,
    pub(crate) execs: Execs,
    pub(crate) identity: IdentityFile,
    pub(crate) tasks: TaskTracker,
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[async_trait]
impl Session for SessionService {
    type EventsStream = Answers<EventOrHeartbeat>;
    type ExecStream = Answers<ExecResponse>;

    async fn hello(&self, _: Request<HelloRequest>) -> Result<Response<HelloResponse>, Status> {
        let identity = self.identity.current();
        let tail = self
            .journal
            .tail()
            .map_err(|error| status::read_error(&error))?;
        Ok(Response::new(HelloResponse {
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            box_id: identity.box_id.clone(),
            wake_id: identity.wake_id.clone(),
            capabilities: vec!["exec".to_owned(), "agents".to_owned()],
            offset_key: OffsetKey::new(tail.log, tail.pos, tail.chain).to_string(),
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
        let (is_pipe, exec_id) = (start.pipe, start.exec_id);
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
            ..Spec::default()
        };
        let (frames, answers) = mpsc::channel(ANSWERS_MAX);
        if is_pipe {
            let caller = Caller { input, frames };
            let started = self.execs.pipe(spec, caller).await;
            started.map_err(|error| status::exec_error(&error))?;
        } else {
            let stream = exec::stream_name(&spec.exec_id);
            let stream = stream.map_err(|error| status::exec_error(&error))?;
            let live = self.execs.start(spec).await;
            let live = live.map_err(|error| status::exec_error(&error))?;
            self.tasks
                .spawn(exec::follow(self.journal.clone(), stream, live, frames));
        }
        Ok(Response::new(Box::pin(ReceiverStream::new(answers))))
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
            let facts = [("exec_id", exec_id)];
            let message = "no exec with this id is running";
            return Err(status::status(
                Code::NotFound,
                "EXEC_NOT_RUNNING",
                message,
                &facts,
            ));
        }
        Ok(Response::new(SignalExecResponse {}))
    }
}
