//! What happened to the desktop, counted, for whoever writes it into the box's log.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use cocoonbox_proto::{
    log::v1::{DesktopPart, DesktopPartFailed, DesktopPartStarted, desktop_part_failed::Reason},
    toolhost::v1::{DesktopParts, DesktopReport, desktop_report::What},
};
use tokio::{sync::watch, time::Instant};

use super::{
    part::{Ending, Happened},
    plan::Part,
};

/// Reports that are kept for a writer that is away. It is back within seconds; a part that fails all the time
/// makes one every 30 s.
const KEPT_MAX: usize = 256;

/// The reports of this process's life. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Reports(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    session: String,
    parts: DesktopParts,
    began: Instant,
    kept: Mutex<VecDeque<DesktopReport>>,
    /// Number of the last report.
    last: watch::Sender<u64>,
}

impl Reports {
    pub(super) fn begin(session: String, parts: &[Part]) -> Self {
        let part = |part: &Part| DesktopPart {
            name: part.name.clone(),
            needs: part.needs.clone(),
            on_demand: part.on_demand,
        };
        Self(Arc::new(Inner {
            session,
            parts: DesktopParts {
                parts: parts.iter().map(part).collect(),
            },
            began: Instant::now(),
            kept: Mutex::default(),
            last: watch::Sender::new(0),
        }))
    }

    pub(super) fn add(&self, happened: Happened) {
        let mut kept = self.kept();
        let number = *self.0.last.borrow() + 1;
        let report = self.report(number, what(number, happened));
        if kept.len() == KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back(report);
        self.0.last.send_replace(number);
    }

    /// The parts, which come before everything else.
    pub(super) fn parts(&self) -> DesktopReport {
        self.report(0, What::Parts(self.0.parts.clone()))
    }

    /// The number behind which somebody who has taken `after` of `session` goes on.
    pub(super) fn position(&self, session: &str, after: u64) -> u64 {
        if session == self.0.session { after } else { 0 }
    }

    /// Returns the kept reports behind this one.
    pub(super) fn behind(&self, number: u64) -> Vec<DesktopReport> {
        let kept = self.kept();
        let behind = kept.iter().filter(|report| report.number > number);
        behind.cloned().collect()
    }

    /// Follows the number of the last report.
    pub(super) fn last(&self) -> watch::Receiver<u64> {
        self.0.last.subscribe()
    }

    fn report(&self, number: u64, what: What) -> DesktopReport {
        DesktopReport {
            session: self.0.session.clone(),
            number,
            since_ms: ms(self.0.began.elapsed()),
            what: Some(what),
        }
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<DesktopReport>> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn what(number: u64, happened: Happened) -> What {
    match happened {
        Happened::Started { part, took } => What::Started(DesktopPartStarted {
            report: number,
            part,
            took_ms: ms(took),
        }),
        Happened::Ended { part } => What::Ended(part),
        Happened::Failed {
            part,
            ending,
            output,
            failures,
            wait,
        } => {
            let (reason, code, output) = match ending {
                Ending::Exited(code) => (Reason::Exited, code, output),
                Ending::Signalled(signal) => (Reason::Signalled, signal, output),
                Ending::NotStarted(why) => (Reason::NotStarted, 0, why),
                Ending::Silent => (Reason::Silent, 0, output),
            };
            What::Failed(DesktopPartFailed {
                report: number,
                part,
                reason: reason.into(),
                code,
                output,
                failures,
                retry_ms: ms(wait),
            })
        }
    }
}

fn ms(of: Duration) -> u64 {
    u64::try_from(of.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(reports: &[DesktopReport]) -> Vec<u64> {
        reports.iter().map(|report| report.number).collect()
    }

    #[test]
    fn reports_are_counted_and_the_oldest_are_dropped() {
        let reports = Reports::begin("s".to_owned(), &[]);
        for _ in 0..KEPT_MAX + 10 {
            reports.add(Happened::Started {
                part: "a".to_owned(),
                took: Duration::from_millis(5),
            });
        }
        let last = u64::try_from(KEPT_MAX).unwrap() + 10;
        assert_eq!(numbers(&reports.behind(last - 2)), [last - 1, last]);
        assert_eq!(numbers(&reports.behind(0)), (11..=last).collect::<Vec<_>>());
        assert_eq!(*reports.last().borrow(), last);
        assert_eq!(reports.position("s", 7), 7);
        assert_eq!(reports.position("of an earlier life", 7), 0);
    }
}
