//! How far something has come that takes more than a moment.

use std::time::{Duration, Instant};

use crate::output::{Out, Progress};

/// Nobody wants to read of what is done already.
const QUIET: Duration = Duration::from_secs(1);
/// A person sees numbers run; a file gets a line now and then.
const TERMINAL_STEP: Duration = Duration::from_millis(250);
const FILE_STEP: Duration = Duration::from_secs(10);

/// Says on standard error how many events were read, from the second second on.
pub(super) struct Ticker<'a> {
    out: &'a mut Out,
    doing: &'static str,
    next: Instant,
    progress: Option<Progress>,
}

impl<'a> Ticker<'a> {
    pub(super) fn new(out: &'a mut Out, doing: &'static str) -> Self {
        Self {
            out,
            doing,
            next: Instant::now() + QUIET,
            progress: None,
        }
    }

    pub(super) fn see(&mut self, events: u64) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        let text = format!("{}: {events} events", self.doing);
        match &self.progress {
            Some(progress) => progress.step(self.out, text),
            None => self.progress = Some(self.out.progress(text)),
        }
        self.next = now
            + if self.out.stderr_is_terminal {
                TERMINAL_STEP
            } else {
                FILE_STEP
            };
    }
}
