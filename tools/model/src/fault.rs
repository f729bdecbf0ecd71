//! What goes wrong: which fault strikes an attempt, and how often a request was tried.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::script::Step;

/// Requests whose attempts are remembered; beyond it the oldest start over.
const BODIES_MAX: usize = 4096;

/// What happens to one attempt.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    Refuse(Failure),
    Cut {
        inside: bool,
    },
    Report(Failure),
    Garbage,
    Stall {
        length: Duration,
        ping: Option<Duration>,
    },
    Repeat,
}

/// An error answer, before a wire gives it its shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) status: u16,
    /// The vendor's error type, when the script insists on one.
    pub(crate) kind: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) retry_after: Option<u32>,
    pub(crate) retry_after_ms: Option<u32>,
    /// What our gateway would call it.
    pub(crate) reason: Option<String>,
}

impl Failure {
    /// Returns the failure that the vendor's own words for the status describe.
    pub(crate) fn of_status(status: u16) -> Self {
        Self {
            status,
            kind: None,
            message: None,
            retry_after: None,
            retry_after_ms: None,
            reason: None,
        }
    }

    pub(crate) fn new(status: u16, message: impl Into<String>) -> Self {
        Self {
            message: Some(message.into()),
            ..Self::of_status(status)
        }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(400, message)
    }
}

/// A fault and the number of content deltas that go before it.
#[derive(Clone, Debug)]
pub(crate) struct Strike {
    pub(crate) fault: Fault,
    pub(crate) after_chunks: usize,
}

/// Returns the fault that strikes an attempt, counted from zero.
///
/// The faults of a step follow each other, each for its `times`: two refusals and one cut make the
/// fourth attempt the first to succeed.
pub(crate) fn strike(step: &Step, attempt: u32) -> Option<Strike> {
    let fail = step.fail.as_ref().map(|fail| {
        let failure = Failure {
            status: fail.status,
            kind: fail.kind.clone(),
            message: fail.message.clone(),
            retry_after: fail.retry_after,
            retry_after_ms: fail.retry_after_ms,
            reason: fail.reason.clone(),
        };
        (Fault::Refuse(failure), 0, fail.times)
    });
    let cut = step.cut.as_ref().map(|cut| {
        (
            Fault::Cut { inside: cut.inside },
            cut.after_chunks,
            cut.times,
        )
    });
    let report = step.error_event.as_ref().map(|event| {
        let failure = Failure {
            kind: event.kind.clone(),
            message: event.message.clone(),
            ..Failure::of_status(529)
        };
        (Fault::Report(failure), event.after_chunks, event.times)
    });
    let garbage = step
        .garbage
        .as_ref()
        .map(|g| (Fault::Garbage, g.after_chunks, g.times));
    let stall = step.stall.as_ref().map(|stall| {
        (
            Fault::Stall {
                length: Duration::from_millis(stall.ms),
                ping: stall.ping_ms.map(|ms| Duration::from_millis(ms.get())),
            },
            stall.after_chunks,
            stall.times,
        )
    });
    let repeat = step
        .repeat
        .as_ref()
        .map(|repeat| (Fault::Repeat, repeat.after_chunks, repeat.times));
    let mut before = 0_u32;
    [fail, cut, report, garbage, stall, repeat]
        .into_iter()
        .flatten()
        .find_map(|(fault, after_chunks, times)| {
            before = before.saturating_add(times);
            (attempt < before).then_some(Strike {
                fault,
                after_chunks,
            })
        })
}

/// Counts how often each request body came.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    counts: HashMap<blake3::Hash, u32>,
    order: VecDeque<blake3::Hash>,
}

impl Attempts {
    /// Returns how often the body came before, and counts it.
    pub(crate) fn count(&mut self, body: &[u8]) -> u32 {
        let hash = blake3::hash(body);
        if let Some(count) = self.counts.get_mut(&hash) {
            let before = *count;
            *count = count.saturating_add(1);
            return before;
        }
        if self.order.len() >= BODIES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.counts.remove(&oldest);
        }
        self.order.push_back(hash);
        self.counts.insert(hash, 1);
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Script;

    #[test]
    fn faults_follow_each_other() {
        let script = Script::parse(
            "[[conversation]]\n[[conversation.step]]\ntext = 'a'\n\
             fail = { status = 429, times = 2 }\ncut = { after_chunks = 3 }\nstall = { ms = 5 }",
        )
        .unwrap();
        let step = &script.conversations[0].steps[0];
        let faults: Vec<String> = (0..5)
            .map(|attempt| match strike(step, attempt) {
                None => "none".to_owned(),
                Some(Strike {
                    fault: Fault::Refuse(failure),
                    ..
                }) => failure.status.to_string(),
                Some(strike) => format!("{:?} after {}", strike.fault, strike.after_chunks),
            })
            .collect();
        assert_eq!(
            faults,
            [
                "429",
                "429",
                "Cut { inside: false } after 3",
                "Stall { length: 5ms, ping: None } after 0",
                "none"
            ]
        );
    }

    #[test]
    fn attempts_are_counted_per_body_and_bounded() {
        let mut attempts = Attempts::default();
        assert_eq!(
            [
                attempts.count(b"a"),
                attempts.count(b"a"),
                attempts.count(b"b")
            ],
            [0, 1, 0]
        );
        for body in 0..BODIES_MAX {
            attempts.count(&body.to_be_bytes());
        }
        assert_eq!(attempts.counts.len(), BODIES_MAX);
        assert_eq!(attempts.count(b"a"), 0, "the oldest start over");
    }
}
