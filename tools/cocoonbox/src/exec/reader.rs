//! One command: live while the connection holds, else from the log.

use std::time::Duration;

use cocoonbox_events::{ExecEvent, Payload};
use cocoonbox_proto::{
    agent::v1::{ExecStart, exec_response::Frame},
    log::v1::{ExecExited, event_or_heartbeat::Item},
};
use tonic::{Code, Status};

use super::{
    Session, end, interrupt, open,
    output::{Output, Piece},
    show,
};
use crate::{
    client::Client,
    context::Context,
    events,
    exit::Exit,
    failure::Failure,
    follow::{Ending, Follow},
    interrupt::Interrupts,
    output::Out,
    turn,
};

/// A start that was cut off before we heard of it is repeated this often, with the same id.
const STARTS: u32 = 4;
const START_PAUSE: Duration = Duration::from_millis(300);

/// One command's output on its way to ours.
pub(super) struct Reader {
    pub(super) box_id: String,
    pub(super) exec_id: String,
    /// Where to resume in the box's log.
    pub(super) key: String,
    pub(super) output: Output,
    pub(super) interrupts: Interrupts,
}

pub(super) enum Live {
    Ended(Exit),
    /// Before its end; the log knows more.
    Broke(String),
}

impl Reader {
    /// Starts the command and shows it while the connection holds.
    pub(super) async fn live(
        &mut self,
        ctx: &mut Context,
        client: &Client,
        start: &ExecStart,
    ) -> Result<Live, Failure> {
        let mut session = client.session(&self.box_id)?;
        let mut attempt = 1;
        loop {
            let (started, status) = self.once(ctx, &mut session, start, attempt > 1).await?;
            let status = match status {
                Ok(exit) => return Ok(Live::Ended(exit)),
                Err(status) => status,
            };
            // The call was repeated, and the first one had arrived.
            if started || status.code() == Code::AlreadyExists && attempt > 1 {
                return Ok(Live::Broke(Failure::from(status).message));
            }
            let passing = matches!(
                status.code(),
                Code::Unavailable | Code::Unknown | Code::Internal | Code::Cancelled
            );
            if !passing || attempt == STARTS {
                return Err(status.into());
            }
            tokio::time::sleep(START_PAUSE * attempt).await;
            attempt += 1;
        }
    }

    /// One connection: whether the command is known to have been started, and how it ended.
    async fn once(
        &mut self,
        ctx: &mut Context,
        session: &mut Session,
        start: &ExecStart,
        again: bool,
    ) -> Result<(bool, Result<Exit, Status>), Failure> {
        let mut started = false;
        let mut frames = match open(session, start).await {
            Ok(frames) => frames,
            Err(status) => return Ok((started, Err(status))),
        };
        loop {
            let frame = tokio::select! {
                frame = frames.message() => frame,
                count = self.interrupts.next() => {
                    self.interrupted(ctx, session, count).await?;
                    continue;
                }
            };
            let frame = match frame {
                Ok(Some(frame)) => frame,
                Ok(None) => {
                    let cut = Status::unavailable("the stream ended before the command");
                    return Ok((started, Err(cut)));
                }
                Err(status) => return Ok((started, Err(status))),
            };
            if !frame.offset_key.is_empty() {
                self.key = frame.offset_key;
            }
            match frame.frame {
                Some(Frame::Started(exec_id)) => {
                    started = true;
                    self.exec_id = exec_id;
                    if again {
                        // It may be the first call's: only the log says where each byte stands.
                        let found = Status::unavailable("it was started by a call that was cut");
                        return Ok((started, Err(found)));
                    }
                }
                Some(Frame::Output(output)) => {
                    let source = output.source();
                    let pieces = self.output.live(source, output.data, output.skipped_bytes);
                    self.show(&mut ctx.out, pieces)?;
                }
                Some(Frame::Exited(exited)) => {
                    return Ok((true, Ok(self.ended(&mut ctx.out, &exited)?)));
                }
                None => {}
            }
        }
    }

    /// Shows it from the log until its end.
    pub(super) async fn logged(
        &mut self,
        ctx: &mut Context,
        client: &Client,
    ) -> Result<Exit, Failure> {
        let (_, end) = self.read(ctx, client, Ending::Never).await?;
        end.ok_or_else(|| Failure::new(Exit::StreamBroke, "the stream ended before the command"))
    }

    /// Reads the log behind our key: whether anything was there, and the end if it was.
    pub(super) async fn read(
        &mut self,
        ctx: &mut Context,
        client: &Client,
        ending: Ending,
    ) -> Result<(bool, Option<Exit>), Failure> {
        let mut session = client.session(&self.box_id)?;
        let stream = format!("exec/{}", self.exec_id);
        let open = events::of_box(
            client,
            &self.box_id,
            vec![stream.clone()],
            ending == Ending::AtTail,
        )?;
        let mut events = Follow::new(open, self.key.clone(), ending, ctx.global.retry_for);
        let mut seen = false;
        loop {
            let item = tokio::select! {
                item = events.next() => item?,
                count = self.interrupts.next() => {
                    self.interrupted(ctx, &mut session, count).await?;
                    continue;
                }
            };
            let Some(item) = item else {
                return Ok((seen, None));
            };
            self.key = item.offset_key;
            let Some(Item::Event(event)) = item.item else {
                continue;
            };
            // The filter is a prefix; and an erased chunk is made good by the end.
            if event.stream != stream || event.erased {
                continue;
            }
            seen = true;
            match turn::decode(&event) {
                Some(Payload::Exec(ExecEvent::OutputStreamed(chunk))) => {
                    let pieces = self.output.chunk(chunk);
                    self.show(&mut ctx.out, pieces)?;
                }
                Some(Payload::Exec(ExecEvent::Exited(exited))) => {
                    return Ok((seen, Some(self.ended(&mut ctx.out, &exited)?)));
                }
                _ => {}
            }
        }
    }

    /// Starts the command and leaves it.
    pub(super) async fn detach(
        &mut self,
        ctx: &mut Context,
        client: &Client,
        start: &ExecStart,
    ) -> Result<Exit, Failure> {
        let mut session = client.session(&self.box_id)?;
        let mut frames = open(&mut session, start).await?;
        while let Some(frame) = frames.message().await? {
            if let Some(Frame::Started(exec_id)) = frame.frame {
                let key = frame.offset_key;
                let value = serde_json::json!({"exec_id": exec_id, "offset_key": key});
                ctx.out.answer(&value, format!("{exec_id}\t{key}"))?;
                return Ok(Exit::Ok);
            }
        }
        Err(Failure::new(
            Exit::StreamBroke,
            "the stream ended before the command was started",
        ))
    }

    async fn interrupted(
        &self,
        ctx: &mut Context,
        session: &mut Session,
        count: u32,
    ) -> Result<(), Failure> {
        if count > 1 {
            let (exec_id, key) = (&self.exec_id, &self.key);
            let from = if key.is_empty() {
                String::new()
            } else {
                format!(" --from {key}")
            };
            return Err(
                Failure::new(Exit::Interrupted, "left; the command may still run")
                    .advise(format!("`cocoonbox attach {exec_id}{from}` follows it")),
            );
        }
        ctx.out.note("interrupting the command; again to leave");
        interrupt(&mut ctx.out, session, &self.exec_id).await;
        Ok(())
    }

    fn show(&self, out: &mut Out, pieces: Vec<Piece>) -> Result<(), Failure> {
        for piece in pieces {
            show(out, &self.key, piece)?;
        }
        Ok(())
    }

    fn ended(&mut self, out: &mut Out, exited: &ExecExited) -> Result<Exit, Failure> {
        let pieces = self.output.end(exited);
        self.show(out, pieces)?;
        end(out, &self.key, exited)
    }
}
