//! A scripted api: what it answers is said before, what it was asked is looked at after.

mod routines;
mod services;
mod shares;
mod users;

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
};

use cocoonbox_events::{NewEvent, Payload, StreamName};
use cocoonbox_proto::{
    agent::v1::{
        Agent, CreateAgentRequest, ExecOutput, ExecResponse, ExecStart, RespondRequest,
        SendRequest, SignalExecRequest, agents_server::AgentsServer, exec_response::Frame,
        session_server::SessionServer,
    },
    control::v1::{
        Box as OneBox, EnsureRequest, EraseRequest, OperationEvent, Routine, State,
        boxes_server::BoxesServer, erasure_server::ErasureServer, routines_server::RoutinesServer,
        shares_server::SharesServer, users_server::UsersServer,
    },
    log::v1::{Event, ExecExited, exec_exited::Reason, exec_output_streamed::Source},
};
use tonic::{Status, metadata::MetadataMap};

/// What a call of `Exec` gets.
pub(crate) enum Script {
    /// These frames, then the end of the stream or the last one's error.
    Frames(Vec<Result<ExecResponse, Status>>),
    /// Standard input comes back, then code 0.
    Echo,
}

/// How a call of `Events` ends early.
#[derive(Clone, Copy)]
pub(crate) enum Cut {
    /// After so many messages, with UNAVAILABLE.
    Error(usize),
    /// After so many messages, as if all was said.
    Clean(usize),
    /// At once, and again each time.
    Always,
}

#[derive(Default)]
pub(crate) struct Story {
    pub(crate) boxes: Vec<OneBox>,
    pub(crate) agents: Vec<Agent>,
    pub(crate) routines: Vec<Routine>,
    pub(crate) log: Vec<Event>,
    pub(crate) steps: Vec<OperationEvent>,
    pub(crate) execs: VecDeque<Script>,
    pub(crate) cuts: VecDeque<Cut>,
    /// What `Boxes.List` answers instead.
    pub(crate) list_error: Option<Status>,
    pub(crate) token: String,
    pub(crate) seen: Seen,
}

#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) metadata: Vec<(Option<String>, Option<String>)>,
    pub(crate) from_offsets: Vec<String>,
    pub(crate) starts: Vec<ExecStart>,
    pub(crate) signals: Vec<SignalExecRequest>,
    pub(crate) sent: Vec<SendRequest>,
    pub(crate) ensured: Vec<EnsureRequest>,
    pub(crate) created: Vec<CreateAgentRequest>,
    pub(crate) responded: Vec<RespondRequest>,
    pub(crate) erased: Vec<EraseRequest>,
    /// What each viewer said, or how it broke off.
    pub(crate) screens: Vec<Result<Vec<u8>, Status>>,
}

#[derive(Clone, Default)]
pub(crate) struct Fake(Arc<Mutex<Story>>);

impl Fake {
    /// With a running box `main` and the agent `main` in it.
    pub(crate) fn new() -> Self {
        let fake = Self::default();
        let mut state = fake.state();
        state.token = "secret-token".into();
        state.boxes.push(OneBox {
            id: "b1".into(),
            name: "main".into(),
            state: State::Running.into(),
            ..OneBox::default()
        });
        state.agents.push(Agent {
            id: "a1".into(),
            name: "main".into(),
            ..Agent::default()
        });
        drop(state);
        fake
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, Story> {
        self.0.lock().unwrap()
    }

    /// Puts an event into the box's log.
    pub(crate) fn log(&self, stream: &str, payload: impl Into<Payload>) {
        let new = NewEvent {
            stream: StreamName::new(stream).unwrap(),
            payload: payload.into(),
        };
        let (kind, payload) = new.payload.encode();
        let mut state = self.state();
        let seq = state
            .log
            .iter()
            .filter(|event| event.stream == stream)
            .count()
            + 1;
        let event = Event {
            offset_key: key(state.log.len() + 1),
            stream: stream.to_owned(),
            seq: seq as u64,
            kind: kind.name().to_owned(),
            version: kind.version(),
            payload,
            ..Event::default()
        };
        state.log.push(event);
    }

    /// Serves for the rest of the test.
    pub(crate) async fn serve(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address: SocketAddr = listener.local_addr().unwrap();
        let (reporter, health) = tonic_health::server::health_reporter();
        reporter
            .set_service_status("", tonic_health::ServingStatus::Serving)
            .await;
        let server = tonic::transport::Server::builder()
            .add_service(health)
            .add_service(BoxesServer::new(self.clone()))
            .add_service(UsersServer::new(self.clone()))
            .add_service(ErasureServer::new(self.clone()))
            .add_service(RoutinesServer::new(self.clone()))
            .add_service(SharesServer::new(self.clone()))
            .add_service(SessionServer::new(self.clone()))
            .add_service(AgentsServer::new(self.clone()));
        let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
        tokio::spawn(server.serve_with_incoming(incoming));
        format!("http://{address}")
    }

    fn note(&self, metadata: &MetadataMap) {
        let value = |name| metadata.get(name).map(|v| v.to_str().unwrap().to_owned());
        self.state()
            .seen
            .metadata
            .push((value("authorization"), value("box_id")));
    }
}

/// The key of the event at `pos`.
pub(crate) fn key(pos: usize) -> String {
    format!("log.{pos:016}.c0ffee00")
}

pub(crate) fn started(id: &str, pos: usize) -> Result<ExecResponse, Status> {
    frame(pos, Frame::Started(id.into()))
}

pub(crate) fn printed(pos: usize, source: Source, data: &[u8]) -> Result<ExecResponse, Status> {
    let output = ExecOutput {
        source: source.into(),
        data: data.to_vec(),
        skipped_bytes: 0,
    };
    frame(pos, Frame::Output(output))
}

pub(crate) fn exited(pos: usize, code: i32) -> Result<ExecResponse, Status> {
    frame(pos, Frame::Exited(exit(code)))
}

pub(crate) fn exit(code: i32) -> ExecExited {
    ExecExited {
        reason: Reason::Exited.into(),
        code,
        ..ExecExited::default()
    }
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "frames stand in lists with errors"
)]
fn frame(pos: usize, frame: Frame) -> Result<ExecResponse, Status> {
    let offset_key = if pos == 0 { String::new() } else { key(pos) };
    Ok(ExecResponse {
        offset_key,
        frame: Some(frame),
    })
}
