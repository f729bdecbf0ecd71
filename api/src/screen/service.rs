//! `Session.Screen`, for boxes that this process drives.

use std::{pin::Pin, sync::Arc, time::Duration};

use axum::Router;
use cocoonbox_commands::desktop::SHARED_DISPLAY;
use cocoonbox_events::Clock;
use cocoonbox_machines::{BoxId, Machines, WakeId};
use cocoonbox_proto::{
    agent::v1::{
        EventsRequest, ExecRequest, ExecResponse, HelloRequest, HelloResponse, ScreenRequest,
        ScreenResponse, ScreenStart, SignalExecRequest, SignalExecResponse,
        control_server::ControlServer,
        screen_request,
        session_server::{Session, SessionServer},
    },
    log::v1::EventOrHeartbeat,
};
use futures::Stream;
use tokio::{net::TcpStream, sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::TaskTracker;
use tonic::{Code, Request, Response, Status, Streaming};

use super::{
    relay::{FRAMES_MAX, Relay},
    rfb,
};
use crate::{
    accounts::Accounts,
    auth::{Caller, only_look},
    channel::BoxChannel,
    control::{Controls, DISPLAYS, Desks},
    edge::no_such_box,
    session::served_by_the_box,
    status,
};

/// Served beside the box and not in it.
pub const SCREEN: &str = "/cocoonbox.agent.v1.Session/Screen";
/// Where the first display's server listens in the box; the others follow.
const PORT: u16 = 5900;
/// From a call to its first frame.
const FIRST_FRAME: Duration = Duration::from_secs(10);
/// For a display's server to answer.
const GREETING: Duration = Duration::from_secs(3);
/// Frames of viewers have at most 64 KiB of RFB.
const FRAME_BYTES_MAX: usize = 64 * 1024 + 1024;

/// Shows screens.
#[derive(Clone)]
struct Screens {
    desks: Desks,
    machines: Arc<dyn Machines>,
    clock: Arc<dyn Clock>,
    tasks: TaskTracker,
}

/// The calls about a box that are answered by the process that drives it, beside the box. Their requests carry the
/// box's channel and the caller.
pub fn routes(
    desks: Desks,
    machines: &Arc<dyn Machines>,
    accounts: &Arc<Accounts>,
    clock: &Arc<dyn Clock>,
    tasks: &TaskTracker,
) -> Router {
    let controls = Controls {
        desks: desks.clone(),
        accounts: accounts.clone(),
        clock: clock.clone(),
    };
    let screens = Screens {
        desks,
        machines: machines.clone(),
        clock: clock.clone(),
        tasks: tasks.clone(),
    };
    let screen = SessionServer::new(screens).max_decoding_message_size(FRAME_BYTES_MAX);
    tonic::service::Routes::new(ControlServer::new(controls))
        .into_axum_router()
        .route_service(SCREEN, screen)
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Session for Screens {
    type EventsStream = Answers<EventOrHeartbeat>;
    type ExecStream = Answers<ExecResponse>;
    type ScreenStream = ReceiverStream<Result<ScreenResponse, Status>>;

    async fn screen(
        &self,
        request: Request<Streaming<ScreenRequest>>,
    ) -> Result<Response<Self::ScreenStream>, Status> {
        let caller = Caller::of(request.extensions());
        let user_id = match &caller {
            Caller::Guest(_) => None,
            Caller::User { .. } | Caller::Host | Caller::Nobody(_) => {
                Some(caller.user()?.to_owned())
            }
        };
        let channel = request.extensions().get::<BoxChannel>().cloned();
        let gone = crate::control::closing;
        let channel = channel.ok_or_else(gone)?;
        let handle = self.desks.get(&channel.box_id).ok_or_else(gone)?;
        let mut input = request.into_inner();
        let start = first(&mut input).await?;
        let problem = || status::bad_field("display", format!("is 0 to {}", DISPLAYS - 1));
        let standing = handle.standing(start.display).ok_or_else(problem)?;
        if user_id.is_none() && start.display != SHARED_DISPLAY {
            // What is shared is what a person would see who sits at the box.
            return Err(only_look());
        }
        let place = handle.place(user_id.is_none())?;
        let screen = self.dial(&channel, start.display).await?;
        let is_guest = user_id.is_none();
        let attachment = match (user_id, start.lease_id) {
            // Whatever lease a guest may name, it is none of theirs.
            (None, _) => None,
            (Some(_), lease_id) if lease_id.is_empty() => None,
            (Some(user_id), lease_id) => {
                Some(handle.attach(start.display, lease_id, user_id).await?)
            }
        };
        let (frames, shown) = mpsc::channel(FRAMES_MAX);
        let relay = Relay {
            input,
            frames,
            screen,
            display: start.display,
            handle,
            standing,
            attachment,
            is_guest,
            actor: caller.actor(),
            clock: self.clock.clone(),
            place,
        };
        self.tasks.spawn(relay.run());
        Ok(Response::new(ReceiverStream::new(shown)))
    }

    async fn hello(&self, _: Request<HelloRequest>) -> Result<Response<HelloResponse>, Status> {
        Err(served_by_the_box())
    }

    async fn events(
        &self,
        _: Request<EventsRequest>,
    ) -> Result<Response<Self::EventsStream>, Status> {
        Err(served_by_the_box())
    }

    async fn exec(
        &self,
        _: Request<Streaming<ExecRequest>>,
    ) -> Result<Response<Self::ExecStream>, Status> {
        Err(served_by_the_box())
    }

    async fn signal_exec(
        &self,
        _: Request<SignalExecRequest>,
    ) -> Result<Response<SignalExecResponse>, Status> {
        Err(served_by_the_box())
    }
}

impl Screens {
    /// Connects to a display and brings it to where it is described.
    async fn dial(&self, channel: &BoxChannel, display: u32) -> Result<TcpStream, Status> {
        let id = BoxId::new(&channel.box_id).map_err(|_| no_such_box(&channel.box_id))?;
        let wake = WakeId(channel.wake_id.clone());
        let port = u16::try_from(display)
            .ok()
            .and_then(|n| PORT.checked_add(n));
        let port = port.ok_or_else(|| no_screen(display, "there is no such display"))?;
        let dialled = self.machines.dial(&id, &wake, port).await;
        let mut screen = dialled.map_err(|error| no_screen(display, &status::describe(&error)))?;
        drop(screen.set_nodelay(true));
        match timeout(GREETING, rfb::greet(&mut screen)).await {
            Ok(Ok(())) => Ok(screen),
            Ok(Err(error)) => Err(no_screen(display, &status::describe(&error))),
            Err(_) => Err(no_screen(display, "it does not answer")),
        }
    }
}

async fn first(input: &mut Streaming<ScreenRequest>) -> Result<ScreenStart, Status> {
    let first = timeout(FIRST_FRAME, input.message()).await;
    let first = first.map_err(|_| {
        let what = "no first frame came";
        status::status(Code::DeadlineExceeded, "NO_FIRST_FRAME", what)
    })??;
    match first.and_then(|request| request.frame) {
        Some(screen_request::Frame::Start(start)) => Ok(start),
        _ => Err(status::bad_field("start", "is not in the first frame")),
    }
}

fn no_screen(number: u32, why: &str) -> Status {
    tracing::debug!(number, why, "no screen");
    status::with(
        Code::FailedPrecondition,
        "NO_SCREEN",
        "this display shows nothing: boxes of flavour `core` have none, and a desktop takes a moment to start",
        &[("display", &number.to_string())],
    )
}
