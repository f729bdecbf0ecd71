//! A person at a terminal: what it shows, live, and what they type.

use cocoonbox_proto::{
    agent::v1::{ExecOutput, ExecRequest, ExecResponse, exec_request, exec_response::Frame},
    log::v1::exec_output_streamed::Source,
    toolhost::v1::{WindowSize, run_input},
};
use tonic::Streaming;

use super::{Live, screen::Screen, stream::Frames};

/// One answer.
const PIECE_BYTES_MAX: usize = 32 * 1024;
/// Typed at once. Smaller than a frame of the client's, so that a long paste is not lost as a whole
/// when the program reads slowly.
const TYPED_BYTES_MAX: usize = 4 * 1024;

/// Shows a terminal and passes on what is typed, until its end or the caller's. The command goes on
/// when the caller drops.
pub(crate) async fn attach(
    exec_id: String,
    live: Live,
    screen: Screen,
    input: Streaming<ExecRequest>,
    frames: Frames,
) {
    let typing = pass_on(input, live.clone());
    tokio::pin!(typing);
    let showing = show(exec_id, live, screen, &frames);
    tokio::pin!(showing);
    tokio::select! {
        () = &mut showing => {}
        () = frames.closed() => {}
        // Never ends: who types no more may still look on.
        () = &mut typing => {}
    }
}

async fn show(exec_id: String, live: Live, screen: Screen, frames: &Frames) {
    if send(frames, Frame::Started(exec_id)).await.is_none() {
        return;
    }
    let mut from = screen.beginning();
    let mut progress = live.progress();
    loop {
        // Asked before looking: what is written later rings the bell.
        let ending = progress.borrow().ending.clone();
        let piece = screen.since(from, PIECE_BYTES_MAX);
        if piece.bytes.is_empty() && piece.skipped == 0 {
            if let Some(ending) = ending {
                send(frames, Frame::Exited(ending.exited.clone())).await;
                return;
            }
            tokio::select! {
                () = screen.beyond(from) => {}
                ended = progress.wait_for(|now| now.ending.is_some()) => {
                    if ended.is_err() {
                        return;
                    }
                }
            }
            continue;
        }
        from += piece.skipped + piece.bytes.len() as u64;
        let output = ExecOutput {
            source: Source::Stdout.into(),
            data: piece.bytes,
            skipped_bytes: piece.skipped,
        };
        if send(frames, Frame::Output(output)).await.is_none() {
            return;
        }
    }
}

async fn send(frames: &Frames, frame: Frame) -> Option<()> {
    let response = ExecResponse {
        offset_key: String::new(),
        frame: Some(frame),
    };
    frames.send(Ok(response)).await.ok()
}

async fn pass_on(mut input: Streaming<ExecRequest>, live: Live) {
    while let Ok(Some(ExecRequest { frame: Some(frame) })) = input.message().await {
        match frame {
            exec_request::Frame::Stdin(bytes) => {
                for piece in bytes.chunks(TYPED_BYTES_MAX) {
                    live.type_in(run_input::Frame::Stdin(piece.to_vec())).await;
                }
            }
            exec_request::Frame::Resize(size) => {
                let size = WindowSize {
                    rows: size.rows,
                    cols: size.cols,
                };
                live.type_in(run_input::Frame::Resize(size)).await;
            }
            exec_request::Frame::StdinEof(_) | exec_request::Frame::Start(_) => {}
        }
    }
    std::future::pending::<()>().await;
}
