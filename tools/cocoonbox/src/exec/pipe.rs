//! A command as a pipe: raw bytes both ways, ended with the connection.

use std::io::{self, Read};

use cocoonbox_proto::agent::v1::{ExecRequest, ExecStart, exec_request, exec_response::Frame};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Request;

use super::{Session, end, interrupt, show_frame};
use crate::{exit::Exit, failure::Failure, interrupt::Interrupts, output::Out};

/// Under the contract's 64 KiB a frame.
const STDIN_BYTES: usize = 32 * 1024;
/// Half a megabyte on its way; a slow command slows its feeder.
const STDIN_FRAMES: usize = 16;

pub(super) async fn run(
    out: &mut Out,
    mut session: Session,
    start: ExecStart,
) -> Result<Exit, Failure> {
    let mut interrupts = Interrupts::catch()?;
    let mut exec_id = start.exec_id.clone();
    let (sender, receiver) = mpsc::channel(STDIN_FRAMES);
    let first = ExecRequest {
        frame: Some(exec_request::Frame::Start(start)),
    };
    sender
        .try_send(first)
        .map_err(|_| Failure::new(Exit::Failure, "the request has no room"))?;
    let mut frames = session
        .exec(Request::new(ReceiverStream::new(receiver)))
        .await?
        .into_inner();
    // Ours stays until the end: without any sender the request would end, and with it the command.
    let feeder = sender.clone();
    // It ends with standard input, the stream or the process: a read cannot be called off.
    std::thread::spawn(move || feed(&feeder));
    loop {
        let frame = tokio::select! {
            frame = frames.message() => frame,
            count = interrupts.next() => {
                if count > 1 {
                    return Err(Failure::new(Exit::Interrupted, "left; the command ends with us"));
                }
                out.note("interrupting the command; again to leave");
                interrupt(out, &mut session, &exec_id).await;
                continue;
            }
        };
        let broke = |why: &str| {
            Failure::new(
                Exit::StreamBroke,
                format!("the stream ended before the command: {why}"),
            )
            .advise("with --pipe the command ends with its stream; run it again")
        };
        let Some(frame) = frame.map_err(|status| broke(&Failure::from(status).message))? else {
            return Err(broke("no exit code came"));
        };
        match frame.frame {
            Some(Frame::Started(id)) => exec_id = id,
            Some(Frame::Output(output)) => show_frame(out, output)?,
            Some(Frame::Exited(exited)) => {
                drop(sender);
                return end(out, "", &exited);
            }
            None => {}
        }
    }
}

/// Sends standard input until its end or until nobody takes it.
fn feed(sender: &mpsc::Sender<ExecRequest>) {
    let mut stdin = io::stdin().lock();
    let mut buffer = vec![0; STDIN_BYTES];
    loop {
        let frame = match stdin.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // An input that cannot be read is at its end.
            Ok(0) | Err(_) => exec_request::Frame::StdinEof(true),
            Ok(count) => exec_request::Frame::Stdin(buffer[..count].to_vec()),
        };
        let at_end = matches!(frame, exec_request::Frame::StdinEof(_));
        if sender
            .blocking_send(ExecRequest { frame: Some(frame) })
            .is_err()
            || at_end
        {
            return;
        }
    }
}
