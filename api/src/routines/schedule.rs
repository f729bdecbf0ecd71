//! When a routine is due.
//!
//! An expression of cron speaks of local time, and local time jumps. It is read on a calendar without jumps first, and
//! what comes of it is looked up in the zone: a time that a change of clocks leaves out is the first moment behind the
//! gap, one that comes twice is the first of the two. So whatever is named by an hour happens once on every day.

use cocoonbox_proto::log::v1::RoutineDefinition;
use cronexpr::{Crontab, FallbackTimezoneOption, MakeTimestamp, ParseOptions};
use jiff::{
    Timestamp,
    civil::DateTime,
    tz::{AmbiguousOffset, TimeZone},
};

/// Local times that map to a moment that is over, one after the other: as many minutes as the widest jump of clocks
/// that ever was has (Samoa left a day out), and some.
const STEPS_MAX: u32 = 2 * 24 * 60;

/// An expression of cron and where it is meant.
#[derive(Debug)]
pub(super) struct Schedule {
    cron: Crontab,
    zone: TimeZone,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadSchedule {
    #[error("is not five fields of cron, such as `0 9 * * 1-5`: {0}")]
    Cron(String),
    #[error("is not a time zone that this host knows, such as `Europe/Berlin`")]
    Zone,
    #[error("names no time in the next four years")]
    Never,
    #[error("is over")]
    Past,
}

impl Schedule {
    pub(super) fn new(cron: &str, zone: &str) -> Result<Self, BadSchedule> {
        // A sixth field would be a zone; there is one field for it already.
        if cron.split_ascii_whitespace().count() != 5 {
            let count = "it has another number of fields".to_owned();
            return Err(BadSchedule::Cron(count));
        }
        let mut options = ParseOptions::default();
        options.fallback_timezone_option = FallbackTimezoneOption::UTC;
        let cron = cronexpr::parse_crontab_with(cron, options);
        let cron = cron.map_err(|error| BadSchedule::Cron(one_line(&error.to_string())))?;
        let zone = match zone {
            "" => TimeZone::UTC,
            name => TimeZone::get(name).map_err(|_| BadSchedule::Zone)?,
        };
        Ok(Self { cron, zone })
    }

    /// Returns the first moment behind `after_us` that is named, both microseconds since the epoch.
    pub(super) fn next_us(&self, after_us: i64) -> Result<i64, BadSchedule> {
        let after = Timestamp::from_microsecond(after_us).map_err(|_| BadSchedule::Never)?;
        let mut local = self.zone.to_datetime(after);
        for _ in 0..STEPS_MAX {
            local = self.next_local(local)?;
            let at = self.moment(local)?;
            if at > after {
                return Ok(at.as_microsecond());
            }
        }
        Err(BadSchedule::Never)
    }

    /// The next time on the calendar that matches, whatever the clocks do.
    fn next_local(&self, local: DateTime) -> Result<DateTime, BadSchedule> {
        let as_utc = TimeZone::UTC.to_timestamp(local);
        let as_utc = as_utc.map_err(|_| BadSchedule::Never)?;
        let from = MakeTimestamp::from_microsecond(as_utc.as_microsecond());
        let next = from.and_then(|from| self.cron.find_next(from));
        let next = next.map_err(|_| BadSchedule::Never)?;
        let next = Timestamp::from_microsecond(next.timestamp().as_microsecond());
        let next = next.map_err(|_| BadSchedule::Never)?;
        Ok(TimeZone::UTC.to_datetime(next))
    }

    /// The moment that a local time names in the zone.
    fn moment(&self, local: DateTime) -> Result<Timestamp, BadSchedule> {
        let ambiguous = self.zone.to_ambiguous_timestamp(local);
        let AmbiguousOffset::Gap { before, .. } = ambiguous.offset() else {
            return ambiguous.earlier().map_err(|_| BadSchedule::Never);
        };
        // Read with the offset from before the jump the time lies behind it; the jump is what came last.
        let behind = before.to_timestamp(local);
        let behind = behind.map_err(|_| BadSchedule::Never)?;
        let jump = self.zone.preceding(behind).next();
        Ok(jump.map_or(behind, |jump| jump.timestamp()))
    }
}

/// Returns when a definition is due first behind `now_us`.
pub(super) fn first_us(definition: &RoutineDefinition, now_us: i64) -> Result<i64, BadSchedule> {
    if definition.cron.is_empty() {
        return if definition.at_us > now_us {
            Ok(definition.at_us)
        } else {
            Err(BadSchedule::Past)
        };
    }
    Schedule::new(&definition.cron, &definition.zone)?.next_us(now_us)
}

/// Returns when a definition is due again behind `now_us`; 0 = never by itself.
pub(super) fn next_us(definition: &RoutineDefinition, now_us: i64) -> i64 {
    if definition.cron.is_empty() {
        return 0;
    }
    // It was checked when it was set. A zone that this host no longer knows names no time.
    let schedule = Schedule::new(&definition.cron, &definition.zone);
    schedule
        .and_then(|schedule| schedule.next_us(now_us))
        .unwrap_or(0)
}

/// The parser draws where it is wrong over several lines; its last one says what.
fn one_line(error: &str) -> String {
    error.lines().last().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests;
