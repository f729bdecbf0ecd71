//! What the agents of a box keep in mind: a file of the box, read and written as its user.

use std::{io::Read, process::Command};

use cocoonbox_proto::{
    agent::v1::{ExecRequest, ExecStart, exec_request, exec_response::Frame},
    log::v1::exec_output_streamed::Source,
};
use futures::stream;
use serde_json::json;
use tonic::Request;

use crate::{
    cli::agent::Memory, client::Client, context::Context, exit::Exit, failure::Failure, target,
};

/// As much as agents are told of it.
const MEMORY_BYTES_MAX: usize = 32 * 1024;
/// Under the contract's 64 KiB a frame.
const STDIN_BYTES: usize = 32 * 1024;

const READ: &str = "cat .cocoonbox/memory.md 2>/dev/null || true";
/// Whoever reads meanwhile sees the old one or the new one.
const WRITE: &str = "mkdir -p .cocoonbox && cat > .cocoonbox/.memory.new && mv .cocoonbox/.memory.new \
                     .cocoonbox/memory.md";
const ERASE: &str = "rm -f .cocoonbox/memory.md";

pub(super) async fn memory(ctx: &mut Context, args: Memory) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    let found = target::awake(ctx, &client, &args.target.box_name).await?;
    let of = Of {
        client: &client,
        box_id: &found.id,
    };
    if args.erase {
        of.run(ERASE, Vec::new()).await?;
        let value = json!({"erased": true});
        let line = "erased; what the log recorded of it stays until it is erased there";
        ctx.out.answer(&value, line)?;
    } else if let Some(path) = &args.set {
        let mut bytes = Vec::new();
        if path.as_os_str() == "-" {
            let limit = MEMORY_BYTES_MAX as u64 + 1;
            std::io::stdin()
                .lock()
                .take(limit)
                .read_to_end(&mut bytes)?;
        } else {
            bytes = std::fs::read(path)
                .map_err(|error| Failure::local(format!("reading {}", path.display()), &error))?;
        }
        of.set(ctx, bytes).await?;
    } else if args.edit {
        let before = of.run(READ, Vec::new()).await?;
        let after = edited(&before)?;
        if after == before {
            ctx.out.note("nothing was changed");
        } else if of.run(READ, Vec::new()).await? == before {
            of.set(ctx, after).await?;
        } else {
            return Err(Failure::new(
                Exit::Failure,
                "an agent changed the memory meanwhile; nothing was written",
            )
            .advise("edit it again"));
        }
    } else {
        let bytes = of.run(READ, Vec::new()).await?;
        if ctx.out.json {
            let text = String::from_utf8_lossy(&bytes);
            ctx.out.value(&json!({"memory": text}))?;
        } else if bytes.is_empty() {
            ctx.out
                .note("the agents of this box keep nothing in mind yet");
        } else {
            ctx.out.text(&String::from_utf8_lossy(&bytes))?;
        }
    }
    Ok(Exit::Ok)
}

/// The memory of one box.
struct Of<'a> {
    client: &'a Client,
    box_id: &'a str,
}

impl Of<'_> {
    async fn set(&self, ctx: &mut Context, bytes: Vec<u8>) -> Result<(), Failure> {
        let count = bytes.len();
        if count > MEMORY_BYTES_MAX {
            let message = format!("the memory has {count} bytes; {MEMORY_BYTES_MAX} fit");
            return Err(Failure::usage(message));
        }
        self.run(WRITE, bytes).await?;
        let value = json!({"bytes": count});
        ctx.out.answer(&value, format!("kept {count} bytes"))
    }

    /// Runs a line of shell in the workspace, feeds it and returns what it printed.
    async fn run(&self, line: &str, input: Vec<u8>) -> Result<Vec<u8>, Failure> {
        let start = ExecStart {
            argv: ["sh", "-c", line].map(str::to_owned).to_vec(),
            pipe: true,
            exec_id: uuid::Uuid::new_v4().simple().to_string(),
            ..ExecStart::default()
        };
        let mut frames = vec![exec_request::Frame::Start(start)];
        let pieces = input.chunks(STDIN_BYTES);
        frames.extend(pieces.map(|piece| exec_request::Frame::Stdin(piece.to_vec())));
        frames.push(exec_request::Frame::StdinEof(true));
        let frames = frames
            .into_iter()
            .map(|frame| ExecRequest { frame: Some(frame) });
        // Without an end of the request the command is not ended before it is done.
        let frames = futures::StreamExt::chain(stream::iter(frames), stream::pending());
        let mut session = self.client.session(self.box_id)?;
        let mut answers = session.exec(Request::new(frames)).await?.into_inner();
        let mut printed = Vec::new();
        while let Some(answer) = answers.message().await? {
            match answer.frame {
                Some(Frame::Output(output)) if output.source() == Source::Stdout => {
                    printed.extend(output.data);
                }
                Some(Frame::Exited(exited)) if exited.code == 0 => return Ok(printed),
                Some(Frame::Exited(_)) => {
                    let message = "the memory could not be written";
                    return Err(Failure::new(Exit::Failure, message));
                }
                Some(Frame::Output(_) | Frame::Started(_)) | None => {}
            }
        }
        Err(Failure::new(
            Exit::StreamBroke,
            "the stream ended before the command",
        ))
    }
}

/// Opens bytes in the person's editor and returns what is there when it has ended.
fn edited(before: &[u8]) -> Result<Vec<u8>, Failure> {
    let editor = ["VISUAL", "EDITOR"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
        .unwrap_or_else(|| "vi".to_owned());
    let local = |doing: &str, error: &std::io::Error| Failure::local(doing, error);
    let folder = std::env::temp_dir().join(format!("cocoonbox-{}", uuid::Uuid::new_v4().simple()));
    std::fs::create_dir(&folder).map_err(|error| local("making a folder", &error))?;
    let path = folder.join("memory.md");
    let done = std::fs::write(&path, before)
        .map_err(|error| local("writing a copy", &error))
        .and_then(|()| {
            // It may be a command with arguments.
            let status = Command::new("sh")
                .args(["-c", &format!("{editor} \"$1\""), "sh"])
                .arg(&path)
                .status()
                .map_err(|error| local("starting the editor", &error))?;
            if !status.success() {
                return Err(Failure::new(
                    Exit::Failure,
                    "the editor failed; nothing was changed",
                ));
            }
            std::fs::read(&path).map_err(|error| local("reading the copy", &error))
        });
    // What is left would be a copy of a private file.
    std::fs::remove_dir_all(&folder).map_err(|error| local("removing the copy", &error))?;
    done
}
