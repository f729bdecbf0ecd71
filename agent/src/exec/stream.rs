//! What a client sees of an exec: its stream of the log, from the start, then live.

use cocoonbox_events::{ExecEvent, LogId, Payload, Recorded, StreamName};
use cocoonbox_proto::agent::v1::{ExecOutput, ExecResponse, exec_response::Frame};
use tokio::sync::{mpsc, watch};
use tonic::Status;

use super::execs::{Live, Progress};
use crate::{journal::Journal, rpc};

/// Events of one read: at 64 KiB each a few MiB.
const PAGE_EVENTS: usize = 32;

pub(crate) type Frames = mpsc::Sender<Result<ExecResponse, Status>>;

/// Sends everything of an exec to `frames`, and ends right behind `exited`. A caller that goes away
/// only ends this.
pub(crate) async fn follow(
    journal: Journal,
    stream: StreamName,
    live: Option<Live>,
    frames: Frames,
) {
    if let Err(status) = send_all(&journal, &stream, live, &frames).await {
        frames.send(Err(status)).await.ok();
    }
}

async fn send_all(
    journal: &Journal,
    stream: &StreamName,
    live: Option<Live>,
    frames: &Frames,
) -> Result<(), Status> {
    let mut progress = live.map(|live| live.progress());
    let mut after = 0;
    loop {
        // Whether more can come is asked before reading: what is written later rings the bell.
        let over = progress.as_ref().is_none_or(is_over);
        let log: LogId = journal.log();
        let page = journal
            .store()
            .read_stream(log, stream, after, PAGE_EVENTS)
            .await
            .map_err(|error| rpc::read_error(&error))?;
        for event in &page.events {
            let Some((response, last)) = response(event)? else {
                continue;
            };
            if frames.send(Ok(response)).await.is_err() || last {
                return Ok(());
            }
        }
        if let Some(last) = page.events.last() {
            after = last.seq;
            continue;
        }
        if over {
            return Err(rpc::interrupted(
                "the exec's end is not in the log; ask again with the same exec id",
            ));
        }
        let gone = match &mut progress {
            None => false,
            Some(bell) => tokio::select! {
                rung = bell.wait_for(|now| now.seq > after || now.ending.is_some()) => rung.is_err(),
                () = frames.closed() => return Ok(()),
            },
        };
        if gone {
            progress = None;
        }
    }
}

fn is_over(progress: &watch::Receiver<Progress>) -> bool {
    progress.borrow().ending.is_some()
}

/// One event as the client gets it; the flag tells the last.
fn response(event: &Recorded) -> Result<Option<(ExecResponse, bool)>, Status> {
    let payload = event.payload().map_err(|error| rpc::damaged(&error))?;
    let Some(Payload::Exec(exec)) = payload else {
        return Ok(None);
    };
    let (frame, last) = match exec {
        ExecEvent::Started(started) => (Frame::Started(started.exec_id), false),
        ExecEvent::OutputStreamed(output) => {
            let output = ExecOutput {
                source: output.source,
                data: output.data,
                skipped_bytes: output.skipped_bytes,
            };
            (Frame::Output(output), false)
        }
        ExecEvent::Exited(exited) => (Frame::Exited(exited), true),
    };
    let offset_key = event.offset_key().to_string();
    Ok(Some((
        ExecResponse {
            offset_key,
            frame: Some(frame),
        },
        last,
    )))
}
