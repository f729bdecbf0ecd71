//! A server as a process of the desktop user: JSON lines on its standard input and output.

use std::sync::{Arc, Mutex, PoisonError};

use cocoonbox_proto::{
    agent::v1::{ExecRequest, exec_request, exec_response::Frame},
    log::v1::{ExecExited, exec_exited::Reason, exec_output_streamed::Source},
};
use rmcp::{
    RoleClient,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::{
    sync::mpsc,
    time::{Duration, timeout},
};

use crate::exec::Piped;

/// Longest message: a result with pictures in it.
pub(super) const MESSAGE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Lines that are no messages (a server that prints where it should not) before it is given up.
const GARBAGE_LINES_MAX: u32 = 1_000;
/// Messages that nobody asked for before it is given up; counted anew with each request.
const UNASKED_MAX: u32 = 20_000;
/// What is kept of its error output, for telling why it ended.
const SAID_BYTES_MAX: usize = 2 * 1024;
/// From the end of its input to the end of the process; then it is killed.
const STOP_MAX: Duration = Duration::from_secs(2);

/// What a process said last and why it ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Said(Arc<Mutex<(Vec<u8>, String)>>);

impl Said {
    /// Why it ended and its last words; empty while it runs.
    pub(super) fn ending(&self) -> String {
        let said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (errors, why) = &*said;
        let errors = String::from_utf8_lossy(errors);
        let errors = errors.trim();
        match (why.is_empty(), errors.is_empty()) {
            (true, true) => String::new(),
            (false, true) => why.clone(),
            (true, false) => format!("its error output ends with: {errors}"),
            (false, false) => format!("{why}; its error output ends with: {errors}"),
        }
    }

    fn ended(&self, reason: &str) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if said.1.is_empty() {
            reason.clone_into(&mut said.1);
        }
    }

    fn errors(&self, data: &[u8]) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.0.extend_from_slice(data);
        let over = said.0.len().saturating_sub(SAID_BYTES_MAX);
        said.0.drain(..over);
    }
}

/// The input is closed.
#[derive(Debug, thiserror::Error)]
#[error("the server has ended")]
pub(super) struct Ended;

/// The client's end. Dropping it kills the process and everything it started.
pub(super) struct Stdio {
    input: Option<mpsc::Sender<ExecRequest>>,
    piped: Piped,
    lines: Lines,
    unasked: u32,
    said: Said,
    is_over: bool,
}

impl Stdio {
    pub(super) fn new(piped: Piped) -> (Self, Said) {
        let said = Said::default();
        let stdio = Self {
            input: Some(piped.input.clone()),
            piped,
            lines: Lines::default(),
            unasked: 0,
            said: said.clone(),
            is_over: false,
        };
        (stdio, said)
    }

    fn give_up(&mut self, reason: &str) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.said.ended(reason);
        self.is_over = true;
        self.input = None;
        None
    }
}

impl Transport<RoleClient> for Stdio {
    type Error = Ended;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Ended>> + Send + 'static {
        self.unasked = 0;
        let input = self.input.clone();
        async move {
            let mut line = serde_json::to_vec(&item).map_err(|_| Ended)?;
            line.push(b'\n');
            let frame = Some(exec_request::Frame::Stdin(line));
            input
                .ok_or(Ended)?
                .send(ExecRequest { frame })
                .await
                .map_err(|_| Ended)
        }
    }

    /// Cancel-safe: what was read is kept in `self`.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        while !self.is_over {
            while let Some(line) = self.lines.next() {
                if let Ok(message) = serde_json::from_slice(&line) {
                    self.unasked += 1;
                    if self.unasked > UNASKED_MAX {
                        return self.give_up("it sent messages without end");
                    }
                    return Some(message);
                }
                self.lines.garbage += u32::from(!line.trim_ascii().is_empty());
            }
            if self.lines.garbage > GARBAGE_LINES_MAX {
                return self.give_up("what it wrote was not MCP");
            }
            let said = self.piped.output.recv().await;
            match said.and_then(Result::ok).and_then(|said| said.frame) {
                Some(Frame::Output(output)) => match output.source() {
                    Source::Stderr => self.said.errors(&output.data),
                    Source::Stdout | Source::Unspecified => self.lines.take(&output.data),
                },
                Some(Frame::Started(_)) => {}
                Some(Frame::Exited(exited)) => return self.give_up(&told(&exited)),
                None => return self.give_up("the box is being stopped"),
            }
        }
        None
    }

    async fn close(&mut self) -> Result<(), Ended> {
        let Some(input) = self.input.take() else {
            return Ok(());
        };
        let frame = Some(exec_request::Frame::StdinEof(true));
        let leaving = async {
            input.send(ExecRequest { frame }).await.ok();
            while let Some(Ok(said)) = self.piped.output.recv().await {
                if matches!(said.frame, Some(Frame::Exited(_))) {
                    break;
                }
            }
        };
        // One that stays is killed when the pipe is dropped.
        timeout(STOP_MAX, leaving).await.ok();
        self.is_over = true;
        Ok(())
    }
}

fn told(exited: &ExecExited) -> String {
    match exited.reason() {
        Reason::NotStarted => format!("it could not be started: {}", exited.detail),
        Reason::Signalled => format!("it was killed by signal {}", exited.signal),
        Reason::Exited => format!("it ended with exit code {}", exited.code),
        Reason::TimedOut | Reason::Cancelled | Reason::Interrupted | Reason::Unspecified => {
            "it was stopped".to_owned()
        }
    }
}

/// Output cut into lines. A line that is too long counts as garbage and is not kept.
#[derive(Debug, Default)]
struct Lines {
    buffer: Vec<u8>,
    /// Bytes of the buffer that have no newline in them.
    searched: usize,
    /// Where the line begins that has no end yet.
    line_start: usize,
    is_skipping: bool,
    garbage: u32,
}

impl Lines {
    fn take(&mut self, data: &[u8]) {
        let data = if self.is_skipping {
            // An endless line is as many lines as would have been too long.
            let Some(end) = data.iter().position(|b| *b == b'\n') else {
                self.garbage += u32::try_from(data.len() / 1024).unwrap_or(u32::MAX).max(1);
                return;
            };
            self.is_skipping = false;
            &data[end + 1..]
        } else {
            data
        };
        if let Some(end) = data.iter().rposition(|b| *b == b'\n') {
            self.line_start = self.buffer.len() + end + 1;
        }
        self.buffer.extend_from_slice(data);
        if self.buffer.len() - self.line_start > MESSAGE_BYTES_MAX {
            self.buffer.truncate(self.line_start);
            self.searched = self.searched.min(self.line_start);
            self.is_skipping = true;
            self.garbage += 1;
        }
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        let end = self.buffer[self.searched..]
            .iter()
            .position(|b| *b == b'\n');
        let Some(end) = end else {
            self.searched = self.buffer.len();
            return None;
        };
        let whole = self.searched + end + 1;
        let rest = self.buffer.split_off(whole);
        self.line_start -= whole;
        self.searched = 0;
        let mut line = std::mem::replace(&mut self.buffer, rest);
        line.pop();
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_whatever_the_pieces() {
        let mut lines = Lines::default();
        let mut found = Vec::new();
        for piece in ["a", "b\nc", "\n\nd"] {
            lines.take(piece.as_bytes());
            while let Some(line) = lines.next() {
                found.push(String::from_utf8(line).expect("text"));
            }
        }
        assert_eq!(found, ["ab", "c", ""]);
    }

    #[test]
    fn an_endless_line_is_not_kept() {
        let mut lines = Lines::default();
        let piece = vec![b'x'; 1024 * 1024];
        for _ in 0..64 {
            lines.take(&piece);
            assert!(lines.next().is_none());
            assert!(lines.buffer.capacity() <= 4 * MESSAGE_BYTES_MAX);
        }
        assert!(lines.garbage > GARBAGE_LINES_MAX, "it is noticed");
        lines.take(b"\n{}\n");
        assert_eq!(lines.next().as_deref(), Some(b"{}".as_slice()));
    }
}
