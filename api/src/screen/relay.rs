//! One viewer and one display, for as long as both are there.
//!
//! Nothing is queued here but what is on its way: a viewer that does not read makes the box's server wait, and that
//! server then leaves pictures out.

use std::{sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use cocoonbox_commands::control::Command;
use cocoonbox_events::Clock;
use cocoonbox_proto::{
    agent::v1::{ScreenRequest, ScreenResponse, screen_request, screen_response},
    log::v1::{Actor, control_released::Reason},
};
use tokio::{
    io::AsyncReadExt as _,
    net::{TcpStream, tcp::OwnedReadHalf},
    sync::{OwnedSemaphorePermit, mpsc, oneshot, watch},
    time::{Instant, timeout},
};
use tonic::{Code, Status, Streaming};

use super::{
    input::Input,
    rfb::{Hidden, Message, Said, Shown, VERSION, Viewer, What, looking},
};
use crate::{
    control::{Attachment, Handle, Standing},
    status,
};

/// Read from a box at once.
const CHUNK_BYTES: usize = 256 * 1024;
/// Frames on their way to a viewer.
pub(super) const FRAMES_MAX: usize = 2;
/// Input is told to the desk at most this often; the desk renews the lease more seldom still.
const TOUCH: Duration = Duration::from_secs(1);
/// For a viewer to take the reason why its stream ends.
const LAST_WORD: Duration = Duration::from_secs(1);

pub(super) type Frames = mpsc::Sender<Result<ScreenResponse, Status>>;

/// A viewer that looks at a display, and drives it if it is attached.
pub(super) struct Relay {
    pub(super) input: Streaming<ScreenRequest>,
    pub(super) frames: Frames,
    pub(super) screen: TcpStream,
    pub(super) display: u32,
    pub(super) handle: Handle,
    pub(super) standing: watch::Receiver<Standing>,
    pub(super) attachment: Option<Attachment>,
    /// Sees pictures, and neither the clipboard nor who drives.
    pub(super) is_guest: bool,
    pub(super) actor: Actor,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) place: OwnedSemaphorePermit,
}

impl Relay {
    /// Relays until one of both ends, and leaves nothing pressed and no lease behind.
    pub(super) async fn run(self) {
        let (reader, writer) = self.screen.into_split();
        let (ready, is_ready) = oneshot::channel();
        let mut ear = Ear {
            input: self.input,
            to_box: Input::new(writer),
            viewer: Viewer::default(),
            frames: self.frames.clone(),
            standing: self.standing,
            attachment: self.attachment,
            is_guest: self.is_guest,
            display: self.display,
            handle: self.handle.clone(),
            actor: self.actor.clone(),
            clock: self.clock.clone(),
            touched: None,
            ready: Some(ready),
        };
        let lease_id = ear.attachment.as_ref().map(|one| one.lease_id.clone());
        let ended = tokio::select! {
            ended = ear.listen() => ended,
            ended = show(reader, self.frames.clone(), is_ready, self.is_guest) => Err(ended),
            () = self.frames.closed() => Ok(()),
            () = self.handle.over.cancelled() => Err(box_gone()),
        };
        ear.to_box.let_go().await;
        // Only then may others act; and then the lease is over for good.
        drop(ear);
        if let Some(lease_id) = lease_id {
            let release = Command::Release {
                lease_id: Some(lease_id),
                reason: Reason::Gone,
                note: String::new(),
                now_us: self.clock.now_us(),
            };
            let released = self.handle.execute(self.display, release, self.actor).await;
            if let Err(status) = released {
                tracing::debug!(%status, "the lease of a viewer that is gone runs out by itself");
            }
        }
        if let Err(status) = ended {
            drop(timeout(LAST_WORD, self.frames.send(Err(status))).await);
        }
        drop(self.place);
    }
}

/// Hears the viewer out.
struct Ear {
    input: Streaming<ScreenRequest>,
    to_box: Input,
    viewer: Viewer,
    frames: Frames,
    standing: watch::Receiver<Standing>,
    /// While the viewer's lease is the one that stands.
    attachment: Option<Attachment>,
    is_guest: bool,
    display: u32,
    handle: Handle,
    actor: Actor,
    clock: Arc<dyn Clock>,
    touched: Option<Instant>,
    /// Told once, when the viewer has greeted.
    ready: Option<oneshot::Sender<()>>,
}

impl Ear {
    /// Listens until the viewer has nothing more to say.
    async fn listen(&mut self) -> Result<(), Status> {
        self.tell_standing().await;
        self.answer(Bytes::from_static(VERSION)).await;
        loop {
            tokio::select! {
                biased;
                changed = self.standing.changed() => {
                    if changed.is_err() {
                        return Err(box_gone());
                    }
                    self.stand_back().await;
                    self.tell_standing().await;
                }
                frame = self.input.message() => match frame? {
                    Some(frame) => self.hear(frame).await?,
                    None => return Ok(()),
                },
            }
        }
    }

    async fn hear(&mut self, frame: ScreenRequest) -> Result<(), Status> {
        let bytes = match frame.frame {
            Some(screen_request::Frame::Rfb(bytes)) => bytes,
            Some(screen_request::Frame::Start(_)) => {
                return Err(status::bad_field("start", "comes once, in the first frame"));
            }
            None => return Ok(()),
        };
        let said = self.viewer.push(&bytes).map_err(malformed)?;
        let is_admitted = self.is_admitted();
        let mut was_used = false;
        for said in said {
            match said {
                Said::Answer(bytes) => self.answer(bytes.into()).await,
                Said::Ready => drop(self.ready.take().map(|ready| ready.send(()))),
                Said::Message(message) if self.is_guest => {
                    if let Some(bytes) = looking(&message).map_err(malformed)? {
                        let what = What::View;
                        self.to_box.take(&Message { what, bytes }, false);
                    }
                }
                Said::Message(message) => {
                    let passes = self.to_box.take(&message, is_admitted);
                    was_used |= passes && message.what.is_input();
                }
            }
        }
        if let Err(error) = self.to_box.flush().await {
            tracing::debug!(%error, "a screen takes no more input");
            return Err(screen_gone());
        }
        if was_used {
            self.touch();
        }
        match self.viewer.error() {
            Some(error) => Err(malformed(error)),
            None => Ok(()),
        }
    }

    fn is_admitted(&self) -> bool {
        let standing = self.standing.borrow();
        let own = self.attachment.as_ref();
        own.is_some_and(|own| own.lease_id == standing.lease_id)
    }

    /// Lets go of the box when the lease is over.
    async fn stand_back(&mut self) {
        if self.attachment.is_some() && !self.is_admitted() {
            self.to_box.let_go().await;
            // Whoever waits for that goes on.
            self.attachment = None;
        }
    }

    /// Says that there was input.
    fn touch(&mut self) {
        let now = Instant::now();
        let is_due = |at: Instant| now.saturating_duration_since(at) >= TOUCH;
        if !self.touched.is_none_or(is_due) {
            return;
        }
        self.touched = Some(now);
        if let Some(own) = &self.attachment {
            let renew = Command::Renew {
                lease_id: own.lease_id.clone(),
                now_us: self.clock.now_us(),
            };
            let actor = self.actor.clone();
            self.handle.mention(self.display, renew, actor);
        }
    }

    async fn tell_standing(&mut self) {
        let state = self.standing.borrow_and_update().state.clone();
        if self.is_guest {
            return;
        }
        self.send(screen_response::Frame::Control(state)).await;
    }

    async fn answer(&self, bytes: Bytes) {
        self.send(screen_response::Frame::Rfb(bytes)).await;
    }

    /// A viewer that is gone is noticed elsewhere.
    async fn send(&self, frame: screen_response::Frame) {
        let frame = ScreenResponse { frame: Some(frame) };
        drop(self.frames.send(Ok(frame)).await);
    }
}

/// Shows the screen once the viewer is ready, until there is nothing more to see. Returns why.
async fn show(
    mut screen: OwnedReadHalf,
    frames: Frames,
    ready: oneshot::Receiver<()>,
    is_guest: bool,
) -> Status {
    let mut for_guest = is_guest.then(Shown::default);
    if ready.await.is_err() {
        return screen_gone();
    }
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(CHUNK_BYTES);
        match screen.read_buf(&mut buffer).await {
            Ok(0) => return screen_gone(),
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(%error, "a screen broke off");
                return screen_gone();
            }
        }
        let read = buffer.split().freeze();
        let bytes = match &mut for_guest {
            None => read,
            Some(shown) => match shown.push(&read) {
                Ok(bytes) => bytes.into(),
                Err(hidden) => return not_for_guests(hidden),
            },
        };
        if bytes.is_empty() {
            continue;
        }
        let frame = screen_response::Frame::Rfb(bytes);
        let frame = ScreenResponse { frame: Some(frame) };
        if frames.send(Ok(frame)).await.is_err() {
            return screen_gone();
        }
    }
}

fn malformed(error: impl std::error::Error) -> Status {
    status::status(
        Code::InvalidArgument,
        "RFB_MALFORMED",
        format!("the viewer does not speak RFB as it is spoken here: {error}"),
    )
}

fn not_for_guests(hidden: Hidden) -> Status {
    tracing::debug!(%hidden, "a screen cannot be shown to a guest");
    status::status(
        Code::FailedPrecondition,
        "NO_SCREEN",
        "this display's server sends something that guests are not shown",
    )
}

fn box_gone() -> Status {
    status::status(
        Code::Unavailable,
        "BOX_LET_GO",
        "the box stops, or another api process drives it from now on; try again",
    )
}

fn screen_gone() -> Status {
    status::status(
        Code::Unavailable,
        "SCREEN_GONE",
        "the display's server in the box ended; look again in a moment",
    )
}
