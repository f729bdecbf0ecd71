//! Calls and bytes through the edge into a box and back.

use std::time::Instant;

use anyhow::{Context, bail, ensure};
use cocoonbox_proto::{
    agent::v1::{
        ExecRequest, ExecStart, HelloRequest, exec_request::Frame as Ask,
        exec_response::Frame as Answer, session_client::SessionClient,
    },
    control::v1::WhoAmIRequest,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::{
    boxes::client::{Api, Wire},
    samples::{Samples, float},
    table::Table,
};

/// What one frame of input may hold.
const FRAME_BYTES: usize = 64 * 1024;
/// Frames on their way into the connection.
const FRAMES: usize = 16;

/// `direct`: the same box, called without the edge.
pub(crate) async fn run(
    api: &Api,
    id: &str,
    mut direct: SessionClient<Wire>,
    calls: usize,
    mib: u64,
) -> anyhow::Result<Table> {
    let mut own = Samples::default();
    let mut relayed = Samples::default();
    let mut dialled = Samples::default();
    let mut users = api.users();
    let mut session = api.session(id)?;
    // In turns, so that what else the machine does falls on all of them.
    for _ in 0..calls {
        let start = Instant::now();
        users.who_am_i(WhoAmIRequest {}).await.context("WhoAmI")?;
        own.push(start.elapsed());
        let start = Instant::now();
        session.hello(HelloRequest {}).await.context("Hello")?;
        relayed.push(start.elapsed());
        let start = Instant::now();
        direct
            .hello(HelloRequest {})
            .await
            .context("Hello without the edge")?;
        dialled.push(start.elapsed());
    }
    let mut exec = Samples::default();
    for _ in 0..calls {
        let start = Instant::now();
        let argv = vec!["echo".to_owned(), "x".to_owned()];
        let received = once(&session, argv, false, 0).await?;
        ensure!(received == 2, "echo gave {received} bytes, not 2");
        exec.push(start.elapsed());
    }
    let mut table = Table::timed(
        "Through the edge",
        &[
            ("call that the api answers itself (WhoAmI)", &own),
            ("call relayed into the box (Hello)", &relayed),
            ("the same call without the edge", &dialled),
            ("exec of `echo x`, recorded, until its exit", &exec),
        ],
    );
    let through = pipe(&session, mib).await?;
    let without = pipe(&direct, mib).await?;
    table.note(format!(
        "Pipes of {mib} MiB: {:.0} MiB/s out of the box through the edge, {:.0} without it ({:.2}); into it and back \
         at the same time {:.0} and {:.0} ({:.2}).",
        through.out,
        without.out,
        through.out / without.out,
        through.both_ways,
        without.both_ways,
        through.both_ways / without.both_ways,
    ));
    Ok(table)
}

/// MiB a second.
struct Rates {
    out: f64,
    both_ways: f64,
}

async fn pipe(session: &SessionClient<Wire>, mib: u64) -> anyhow::Result<Rates> {
    let bytes = mib * 1024 * 1024;
    let start = Instant::now();
    let received = once(session, vec!["cat".to_owned()], true, bytes).await?;
    ensure!(
        received == bytes,
        "`cat` gave {received} bytes back of {bytes}"
    );
    let both_ways = float(mib) / start.elapsed().as_secs_f64();
    let start = Instant::now();
    let argv = ["head", "-c", &bytes.to_string(), "/dev/zero"]
        .map(str::to_owned)
        .to_vec();
    let received = once(session, argv, true, 0).await?;
    ensure!(received == bytes, "`head` gave {received} bytes of {bytes}");
    Ok(Rates {
        out: float(mib) / start.elapsed().as_secs_f64(),
        both_ways,
    })
}

/// Runs a line of the shell to its end.
pub(super) async fn to_its_end(session: &SessionClient<Wire>, line: &str) -> anyhow::Result<()> {
    let argv = ["bash", "-c", line].map(str::to_owned).to_vec();
    once(session, argv, false, 0).await?;
    Ok(())
}

/// Runs a command to its end and returns how many bytes it wrote to its output.
async fn once(
    session: &SessionClient<Wire>,
    argv: Vec<String>,
    pipe: bool,
    input_bytes: u64,
) -> anyhow::Result<u64> {
    let (frames, requests) = mpsc::channel(FRAMES);
    let start = ExecStart {
        argv,
        pipe,
        ..ExecStart::default()
    };
    frames
        .send(ExecRequest {
            frame: Some(Ask::Start(start)),
        })
        .await?;
    let feeding = tokio::spawn(async move {
        if !pipe {
            // Kept open: the end of the requests is no end of the command.
            frames.closed().await;
            return;
        }
        let mut left = input_bytes;
        while left > 0 {
            let size = usize::try_from(left).map_or(FRAME_BYTES, |left| left.min(FRAME_BYTES));
            left -= size as u64;
            let frame = ExecRequest {
                frame: Some(Ask::Stdin(vec![0; size])),
            };
            if frames.send(frame).await.is_err() {
                return;
            }
        }
        let end = ExecRequest {
            frame: Some(Ask::StdinEof(true)),
        };
        if frames.send(end).await.is_ok() {
            frames.closed().await;
        }
    });
    let mut session = session.clone();
    let mut answers = session
        .exec(ReceiverStream::new(requests))
        .await
        .context("Exec")?
        .into_inner();
    let mut received = 0;
    while let Some(answer) = answers.message().await.context("Exec")? {
        match answer.frame {
            Some(Answer::Output(output)) => {
                received += output.data.len() as u64 + output.skipped_bytes;
            }
            Some(Answer::Exited(exited)) => {
                ensure!(exited.code == 0, "the command ended with {}", exited.code);
                feeding.abort();
                return Ok(received);
            }
            Some(Answer::Started(_)) | None => {}
        }
    }
    bail!("the exec's stream ended without its exit")
}
