//! Asking a person.

use std::io::{self, BufRead, IsTerminal, Read};

use rustix::termios::{self, LocalModes, OptionalActions, QueueSelector, Termios};
use tokio::sync::mpsc;
use zeroize::Zeroize;

use crate::{credentials::Secret, exit::Exit, failure::Failure, output::Out};

/// Longer than any token; a file given by mistake is not read to its end.
const SECRET_BYTES_MAX: usize = 4096;
const CTRL_C: u8 = 3;
const CTRL_D: u8 = 4;
const CTRL_U: u8 = 21;
const BACKSPACES: [u8; 2] = [8, 127];

/// Reads a line and says whether it is a yes.
pub fn is_yes() -> Result<bool, Failure> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(matches!(
        line.trim().to_ascii_lowercase().as_str(),
        "y" | "yes"
    ))
}

/// Lines from standard input while events go on.
pub struct Answers {
    lines: mpsc::Receiver<String>,
}

impl Answers {
    /// Starts the thread that reads. It ends with the process: a read from a terminal cannot be
    /// called off.
    pub fn start() -> Self {
        // One answer: what is typed beyond waits in the terminal, where `forget` can drop it.
        let (sender, lines) = mpsc::channel(1);
        std::thread::spawn(move || {
            let mut line = String::new();
            while io::stdin()
                .lock()
                .read_line(&mut line)
                .is_ok_and(|bytes| bytes > 0)
            {
                if sender.blocking_send(std::mem::take(&mut line)).is_err() {
                    return;
                }
            }
        });
        Self { lines }
    }

    /// Drops what was typed before the question was there to be read: it cannot be an answer to it.
    pub fn forget(&mut self) {
        // Not a terminal: nothing is typed.
        termios::tcflush(io::stdin(), QueueSelector::IFlush).ok();
        while self.lines.try_recv().is_ok() {}
    }

    /// Waits for the next line; `None` if nobody can answer any more. Cancel-safe.
    pub async fn next(&mut self) -> Option<String> {
        self.lines.recv().await
    }
}

/// Reads a secret: without echo from a terminal, else the first line of standard input.
pub fn secret(out: &mut Out, question: &str) -> Result<Secret, Failure> {
    let stdin = io::stdin();
    let bytes = if stdin.is_terminal() {
        out.ask(question);
        let quiet = Quiet::start()?;
        let bytes = typed(&mut stdin.lock());
        drop(quiet);
        out.ask("\n");
        bytes?
    } else {
        let mut bytes = Vec::new();
        let limit = SECRET_BYTES_MAX as u64;
        stdin.lock().take(limit).read_until(b'\n', &mut bytes)?;
        bytes
    };
    let mut text = String::from_utf8(bytes)
        .map_err(|_| Failure::new(Exit::Refused, "what came on standard input is not a token"))?;
    let secret = Secret::new(text.trim());
    text.zeroize();
    if secret.expose().is_empty() {
        return Err(Failure::usage("no token came on standard input"));
    }
    Ok(secret)
}

/// Reads keys up to Enter. The terminal does not handle any of them, so that Ctrl-C cannot end us
/// while the echo is off.
fn typed(input: &mut impl Read) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let mut key = [0; 1];
    while bytes.len() < SECRET_BYTES_MAX && input.read(&mut key)? == 1 {
        match key[0] {
            b'\n' | b'\r' | CTRL_D => break,
            CTRL_C => return Err(Failure::new(Exit::Interrupted, "interrupted")),
            CTRL_U => bytes.clear(),
            byte if BACKSPACES.contains(&byte) => {
                bytes.pop();
            }
            byte => bytes.push(byte),
        }
    }
    Ok(bytes)
}

/// A terminal without echo, until dropped.
struct Quiet {
    before: Termios,
}

impl Quiet {
    fn start() -> Result<Self, Failure> {
        let fail = |error: rustix::io::Errno| Failure::local("switching the echo off", &error);
        let before = termios::tcgetattr(io::stdin()).map_err(fail)?;
        let mut quiet = before.clone();
        quiet.local_modes &= !(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        termios::tcsetattr(io::stdin(), OptionalActions::Flush, &quiet).map_err(fail)?;
        Ok(Self { before })
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // A terminal that is gone needs no echo.
        let _ = termios::tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_edit_the_secret() {
        assert_eq!(typed(&mut &b"abc\x7fd\nrest"[..]).unwrap(), b"abd");
        assert_eq!(typed(&mut &b"abc\x15xyz\r"[..]).unwrap(), b"xyz");
        assert_eq!(
            typed(&mut &b"abc\x03"[..]).unwrap_err().exit,
            Exit::Interrupted
        );
    }
}
