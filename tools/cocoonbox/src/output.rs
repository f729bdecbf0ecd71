//! Where words go: results to standard output, everything else to standard error.

use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use crate::{failure::Failure, text};

/// How often a spinner turns.
const SPINNER_TICK: Duration = Duration::from_millis(120);

/// The two outputs and how to use them.
pub struct Out {
    stdout: Box<dyn Write + Send>,
    stderr: Box<dyn Write + Send>,
    pub json: bool,
    pub quiet: bool,
    /// A person reads standard output: what a box wrote must not steer their terminal.
    pub stdout_is_terminal: bool,
    /// A person reads standard error: colours and spinners are welcome.
    pub stderr_is_terminal: bool,
    /// Somebody can be asked.
    pub stdin_is_terminal: bool,
}

impl Out {
    /// The process's own.
    pub fn process(json: bool, quiet: bool) -> Self {
        Self {
            stdout: Box::new(io::stdout()),
            stderr: Box::new(io::stderr()),
            json,
            quiet,
            stdout_is_terminal: io::stdout().is_terminal(),
            stderr_is_terminal: io::stderr().is_terminal(),
            stdin_is_terminal: io::stdin().is_terminal(),
        }
    }

    /// Anything else, for tests.
    pub fn to(stdout: Box<dyn Write + Send>, stderr: Box<dyn Write + Send>) -> Self {
        Self {
            stdout,
            stderr,
            json: false,
            quiet: false,
            stdout_is_terminal: false,
            stderr_is_terminal: false,
            stdin_is_terminal: false,
        }
    }

    /// A line of the result.
    pub fn line(&mut self, line: impl AsRef<str>) -> Result<(), Failure> {
        self.text(&format!("{}\n", line.as_ref()))
    }

    /// Part of the result, shown as soon as it is here.
    pub fn text(&mut self, part: &str) -> Result<(), Failure> {
        if self.stdout_is_terminal {
            self.bytes(text::plain(part).as_bytes())
        } else {
            self.bytes(part.as_bytes())
        }
    }

    /// Bytes of the result, exactly.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.stdout.write_all(bytes)?;
        self.stdout.flush()?;
        Ok(())
    }

    /// Bytes for standard error, exactly: what a command wrote to its own.
    pub fn error_bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.stderr.write_all(bytes)?;
        self.stderr.flush()?;
        Ok(())
    }

    /// One JSON value on a line of its own.
    pub fn value(&mut self, value: &Value) -> Result<(), Failure> {
        self.bytes(format!("{value}\n").as_bytes())
    }

    /// The result: an object for scripts or text for people.
    pub fn answer(&mut self, value: &Value, line: impl AsRef<str>) -> Result<(), Failure> {
        if self.json {
            self.value(value)
        } else {
            self.line(line)
        }
    }

    /// Something that helps a person and is not the result. Silent when asked to be.
    pub fn note(&mut self, line: impl AsRef<str>) {
        if !self.quiet {
            self.warn(line);
        }
    }

    /// Like [`Self::note`], in a quieter colour.
    pub fn dim(&mut self, line: impl AsRef<str>) {
        if self.quiet {
            return;
        }
        let line = text::plain(line.as_ref());
        let shown = if self.stderr_is_terminal {
            format!("\x1b[2m{line}\x1b[0m\n")
        } else {
            format!("{line}\n")
        };
        self.write_stderr(&shown);
    }

    /// Something that must be seen.
    pub fn warn(&mut self, line: impl AsRef<str>) {
        self.write_stderr(&format!("{}\n", text::plain(line.as_ref())));
    }

    /// Asks on standard error, without a line break.
    pub fn ask(&mut self, question: &str) {
        self.write_stderr(&text::plain(question));
    }

    pub fn failure(&mut self, failure: &Failure) {
        if failure.is_silent() {
            return;
        }
        if self.json {
            self.write_stderr(&format!("{}\n", failure.to_json()));
        } else {
            self.warn(failure.to_string());
        }
    }

    /// Says what is being waited for: a spinner for a person, a line for a file.
    pub fn progress(&mut self, doing: impl Into<String>) -> Progress {
        let doing = doing.into();
        if self.quiet {
            return Progress { bar: None };
        }
        if !self.stderr_is_terminal {
            self.note(&doing);
            return Progress { bar: None };
        }
        let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner());
        let bar = ProgressBar::new_spinner()
            .with_style(style)
            .with_message(text::plain(&doing));
        bar.enable_steady_tick(SPINNER_TICK);
        Progress { bar: Some(bar) }
    }

    /// A standard error that is gone leaves nobody to tell.
    fn write_stderr(&mut self, text: &str) {
        self.stderr
            .write_all(text.as_bytes())
            .and_then(|()| self.stderr.flush())
            .ok();
    }
}

/// What is being waited for. The spinner is gone when this is dropped.
pub struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Goes on to the next step.
    pub fn step(&self, out: &mut Out, doing: impl Into<String>) {
        let doing = doing.into();
        match &self.bar {
            Some(bar) => bar.set_message(text::plain(&doing)),
            None => out.note(&doing),
        }
    }
}

impl Progress {
    /// Says how far it is, to a person who watches and to nobody else.
    pub fn show(&self, doing: impl Into<String>) {
        if let Some(bar) = &self.bar {
            bar.set_message(text::plain(&doing.into()));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
