//! Running a command in a box: live while the connection holds, else from the log.

pub mod output;
mod pipe;
mod reader;
mod terminal;

use cocoonbox_proto::{
    agent::v1::{
        ExecOutput, ExecRequest, ExecResponse, ExecStart, SignalExecRequest, exec_request,
        exec_response::Frame,
    },
    json,
    log::v1::ExecExited,
};
use futures::{StreamExt, stream};
use tonic::{Request, Status, Streaming};

use crate::{
    cli::talk::{Attach, Exec},
    client::{Wire, request},
    context::Context,
    exit::Exit,
    failure::Failure,
    follow::Ending,
    interrupt::Interrupts,
    output::Out,
    target,
};
use output::{Output, Piece, Source};
use reader::{Live, Reader};

type Session = cocoonbox_proto::agent::v1::session_client::SessionClient<Wire>;

pub async fn exec(ctx: &mut Context, args: Exec) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    let found = target::awake(ctx, &client, &args.target.box_name).await?;
    let start = ExecStart {
        argv: args.argv,
        cwd: args.cwd.unwrap_or_default(),
        env: args.env.into_iter().collect(),
        timeout_ms: args
            .timeout
            .map_or(0, |t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX)),
        pipe: args.pipe,
        exec_id: uuid::Uuid::new_v4().simple().to_string(),
        tty: args.tty.then(terminal::size),
        attach: false,
    };
    if args.tty {
        return terminal::run(&mut ctx.out, client.session(&found.id)?, start).await;
    }
    if args.pipe {
        return pipe::run(&mut ctx.out, client.session(&found.id)?, start).await;
    }
    let mut reader = Reader {
        box_id: found.id.clone(),
        exec_id: start.exec_id.clone(),
        key: String::new(),
        output: Output::from_start(),
        interrupts: Interrupts::catch()?,
    };
    if args.detach {
        return reader.detach(ctx, &client, &start).await;
    }
    match reader.live(ctx, &client, &start).await? {
        Live::Ended(exit) => Ok(exit),
        Live::Broke(why) => {
            ctx.out.note(format!(
                "the connection broke ({why}); going on from the log"
            ));
            reader.logged(ctx, &client).await
        }
    }
}

pub async fn attach(ctx: &mut Context, args: Attach) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    let found = target::find(&client, &args.target.box_name).await?;
    if args.tty {
        let start = ExecStart {
            exec_id: args.exec_id,
            tty: Some(terminal::size()),
            attach: true,
            ..ExecStart::default()
        };
        return terminal::run(&mut ctx.out, client.session(&found.id)?, start).await;
    }
    let from_start = args.from.is_empty();
    let mut reader = Reader {
        box_id: found.id,
        exec_id: args.exec_id,
        key: args.from,
        output: if from_start {
            Output::from_start()
        } else {
            Output::from_somewhere()
        },
        interrupts: Interrupts::catch()?,
    };
    // What is there already; a command that never was must not be waited for.
    let (seen, end) = reader.read(ctx, &client, Ending::AtTail).await?;
    match end {
        Some(exit) => Ok(exit),
        None if from_start && !seen => Err(Failure::new(
            Exit::NotFound,
            format!("no command `{}` ran in this box", reader.exec_id),
        )
        .advise("`cocoonbox events --stream exec/` shows what ran")),
        None => reader.logged(ctx, &client).await,
    }
}

/// Calls `Exec` with a request that says only the start and stays open.
async fn open(session: &mut Session, start: &ExecStart) -> Result<Streaming<ExecResponse>, Status> {
    let frame = exec_request::Frame::Start(start.clone());
    let frames = stream::iter([ExecRequest { frame: Some(frame) }]).chain(stream::pending());
    Ok(session.exec(Request::new(frames)).await?.into_inner())
}

/// Sends SIGINT. That it cannot be sent is said and no more: a second Ctrl-C still leaves.
async fn interrupt(out: &mut Out, session: &mut Session, exec_id: &str) {
    const SIGINT: i32 = 2;
    let call = SignalExecRequest {
        exec_id: exec_id.to_owned(),
        signal: SIGINT,
    };
    if let Err(status) = session.signal_exec(request(call)).await {
        out.warn(format!(
            "the command was not interrupted: {}",
            Failure::from(status).message
        ));
    }
}

/// Prints a frame of output that is not in the log.
fn show_frame(out: &mut Out, output: ExecOutput) -> Result<(), Failure> {
    let source = output.source();
    if output.skipped_bytes > 0 {
        show(out, "", Piece::Missing(source, output.skipped_bytes))?;
    }
    show(out, "", Piece::Bytes(source, output.data))
}

fn show(out: &mut Out, key: &str, piece: Piece) -> Result<(), Failure> {
    if out.json {
        let output = match piece {
            Piece::Bytes(source, data) => ExecOutput {
                source: source.into(),
                data,
                skipped_bytes: 0,
            },
            Piece::Missing(source, skipped_bytes) => ExecOutput {
                source: source.into(),
                data: Vec::new(),
                skipped_bytes,
            },
        };
        return frame_json(out, key, Frame::Output(output));
    }
    match piece {
        Piece::Bytes(Source::Stderr, bytes) => out.error_bytes(&bytes),
        Piece::Bytes(_, bytes) => out.bytes(&bytes),
        Piece::Missing(source, count) => {
            let name = if source == Source::Stderr {
                "stderr"
            } else {
                "stdout"
            };
            out.warn(format!(
                "cocoonbox: {count} bytes of {name} were skipped here"
            ));
            Ok(())
        }
    }
}

fn end(out: &mut Out, key: &str, exited: &ExecExited) -> Result<Exit, Failure> {
    let (exit, words) = output::ending(exited);
    if out.json {
        frame_json(out, key, Frame::Exited(exited.clone()))?;
    } else if let Some(words) = words {
        out.note(format!("cocoonbox: {words}"));
    }
    Ok(exit)
}

fn frame_json(out: &mut Out, key: &str, frame: Frame) -> Result<(), Failure> {
    let response = ExecResponse {
        offset_key: key.to_owned(),
        frame: Some(frame),
    };
    let value = json::render_message("cocoonbox.agent.v1.ExecResponse", &response);
    out.value(&value.unwrap_or_default())
}
