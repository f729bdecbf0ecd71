//! A command at a terminal that is ours for as long as we are there.

use std::io::{self, IsTerminal, Read};

use cocoonbox_proto::agent::v1::{
    ExecRequest, ExecStart, WindowSize, exec_request, exec_response::Frame,
};
use rustix::termios::{OptionalActions, Termios};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Request;

use super::{Session, end, show_frame};
use crate::{exit::Exit, failure::Failure, output::Out};

/// What is typed at once, or pasted.
const TYPED_BYTES: usize = 4 * 1024;
const TYPED_FRAMES: usize = 64;
/// Ctrl-].
const LEAVE: u8 = 0x1d;

/// The size of our own terminal, or none, which lets the box choose.
pub(super) fn size() -> WindowSize {
    match rustix::termios::tcgetwinsize(io::stdout()) {
        Ok(size) => WindowSize {
            rows: size.ws_row.into(),
            cols: size.ws_col.into(),
        },
        Err(_) => WindowSize::default(),
    }
}

pub(super) async fn run(
    out: &mut Out,
    mut session: Session,
    start: ExecStart,
) -> Result<Exit, Failure> {
    let exec_id = start.exec_id.clone();
    let (sender, receiver) = mpsc::channel(TYPED_FRAMES);
    let says = |frame| ExecRequest { frame: Some(frame) };
    let full = |_| Failure::new(Exit::Failure, "the request has no room");
    let is_joining = start.attach;
    sender
        .try_send(says(exec_request::Frame::Start(start)))
        .map_err(full)?;
    if is_joining {
        let resize = exec_request::Frame::Resize(size());
        sender.try_send(says(resize)).map_err(full)?;
    }
    let request = Request::new(ReceiverStream::new(receiver));
    let mut frames = session.exec(request).await?.into_inner();
    let raw = Raw::enter();
    let mut resized = signal(SignalKind::window_change()).map_err(|error| {
        Failure::new(
            Exit::Failure,
            format!("window changes cannot be seen: {error}"),
        )
    })?;
    let (leave, mut left) = mpsc::channel(1);
    let feeder = sender.clone();
    // It ends with standard input or the process: a read cannot be called off.
    std::thread::spawn(move || feed(&feeder, &leave));
    let advice = format!("`cocoonbox attach -t {exec_id}` comes back to it");
    loop {
        let frame = tokio::select! {
            frame = frames.message() => frame,
            Some(()) = resized.recv() => {
                sender.send(says(exec_request::Frame::Resize(size()))).await.ok();
                continue;
            }
            Some(()) = left.recv() => {
                drop(raw);
                let left = Failure::new(Exit::Interrupted, "left; the command goes on");
                return Err(left.advise(advice));
            }
        };
        let broke = |why: &str| {
            let message = format!("the stream ended before the command: {why}");
            Failure::new(Exit::StreamBroke, message).advise(advice.clone())
        };
        let Some(frame) = frame.map_err(|status| broke(&Failure::from(status).message))? else {
            return Err(broke("no exit code came"));
        };
        match frame.frame {
            Some(Frame::Output(output)) => show_frame(out, output)?,
            Some(Frame::Exited(exited)) => {
                drop(raw);
                return end(out, "", &exited);
            }
            Some(Frame::Started(_)) | None => {}
        }
    }
}

/// Our terminal as it has to be so that every key goes to the box; dropped, it is what it was.
struct Raw(Option<Termios>);

impl Raw {
    fn enter() -> Self {
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            return Self(None);
        }
        let Ok(before) = rustix::termios::tcgetattr(&stdin) else {
            return Self(None);
        };
        let mut raw = before.clone();
        raw.make_raw();
        let set = rustix::termios::tcsetattr(&stdin, OptionalActions::Now, &raw);
        Self(set.is_ok().then_some(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // There is nobody left to tell.
            rustix::termios::tcsetattr(io::stdin(), OptionalActions::Now, before).ok();
        }
    }
}

/// Sends what is typed until the key that leaves, or until nobody takes it. The end of a standard input
/// that is no terminal is typed as Ctrl-D.
fn feed(sender: &mpsc::Sender<ExecRequest>, leave: &mpsc::Sender<()>) {
    const END: u8 = 4;
    let is_terminal = io::stdin().is_terminal();
    let mut stdin = io::stdin().lock();
    let mut buffer = vec![0; TYPED_BYTES];
    loop {
        let (bytes, is_last) = match stdin.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(0) | Err(_) => (vec![END], true),
            Ok(count) => match buffer[..count].iter().position(|b| *b == LEAVE) {
                Some(at) if is_terminal => {
                    leave.blocking_send(()).ok();
                    (buffer[..at].to_vec(), true)
                }
                _ => (buffer[..count].to_vec(), false),
            },
        };
        let frame = exec_request::Frame::Stdin(bytes);
        let sent = sender.blocking_send(ExecRequest { frame: Some(frame) });
        if sent.is_err() || is_last {
            return;
        }
    }
}
