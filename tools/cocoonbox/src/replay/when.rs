//! Moments as people name them.

use cocoonbox_events::{Clock, OffsetKey, SystemClock};
use jiff::{
    SignedDuration, Timestamp,
    civil::{Date, Time, Weekday},
    tz::TimeZone,
};

use crate::{failure::Failure, output::Out};

/// A place in a log's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    Pos(u64),
    Key(OffsetKey),
    Time(Timestamp),
}

/// What "today" and "9:00" mean.
pub(crate) struct Calendar {
    now: Timestamp,
    zone: TimeZone,
}

impl Calendar {
    /// This host's clock and time zone.
    pub(crate) fn here() -> Self {
        let now = Timestamp::from_microsecond(SystemClock.now_us()).unwrap_or_default();
        let zone = TimeZone::try_system().unwrap_or(TimeZone::UTC);
        Self { now, zone }
    }

    /// Reads a position, an offset key or a time.
    pub(super) fn moment(&self, text: &str) -> Result<Moment, Failure> {
        if let Ok(pos) = text.parse() {
            return Ok(Moment::Pos(pos));
        }
        if let Ok(key) = text.parse() {
            return Ok(Moment::Key(key));
        }
        match self.read(text) {
            Some(at) => Ok(Moment::Time(at)),
            None => Err(Failure::usage(format!(
                "`{text}` is neither a position nor an offset key nor a time"
            ))
            .advise("times are like 10m, 9:00, 'yesterday 9:00', 2026-11-29T09:00:00Z")),
        }
    }

    /// Reads a time.
    pub(crate) fn time(&self, text: &str) -> Result<Timestamp, Failure> {
        self.read(text).ok_or_else(|| {
            Failure::usage(format!("`{text}` is not a time"))
                .advise("times are like 10m, 9:00, 'yesterday 9:00', 2026-11-29T09:00:00Z")
        })
    }

    /// Reads a time that is to come: `in 30m`, `tomorrow 9:00`; times of the day and weekdays are the next ones.
    pub(crate) fn ahead(&self, text: &str) -> Result<Timestamp, Failure> {
        self.read_ahead(text).filter(|at| *at > self.now).ok_or_else(|| {
            Failure::usage(format!("`{text}` is not a time that is to come")).advise(
                "times are like 'in 30m', 9:00, 'tomorrow 9:00', 'friday 18:00', 2026-12-24T18:00:00Z",
            )
        })
    }

    /// The name of this host's time zone, if it has one.
    pub(crate) fn zone_name(&self) -> Option<&str> {
        self.zone.iana_name()
    }

    fn read_ahead(&self, text: &str) -> Option<Timestamp> {
        let text = text.trim().to_ascii_lowercase();
        let wait = text.strip_prefix("in ").unwrap_or(&text);
        if !wait.ends_with("ago")
            && let Some(wait) = ago(wait)
        {
            return self.now.checked_add(wait).ok();
        }
        if let Some(time) = text.strip_prefix("tomorrow") {
            let time = match time.trim() {
                "" => Time::midnight(),
                time => clock(time)?,
            };
            return self.at(self.today().tomorrow().ok()?, time);
        }
        let at = self.read(&text)?;
        if at > self.now {
            return Some(at);
        }
        let first = text.split(' ').next().unwrap_or_default();
        let days = match (clock(&text), weekday(first)) {
            (Some(_), _) => 1,
            (None, Some(_)) => 7,
            (None, None) => return Some(at),
        };
        let local = at.to_zoned_datetime(self.zone.clone());
        let day = local.date().checked_add(jiff::Span::new().days(days));
        self.at(day.ok()?, local.time())
    }

    /// Says which time was understood, and in which zone.
    pub(super) fn say(&self, out: &mut Out, word: &str, at: Timestamp) {
        out.note(format!("{word} {}; events are shown in UTC", self.text(at)));
    }

    pub(super) fn text(&self, at: Timestamp) -> String {
        let local = at.to_zoned_datetime(self.zone.clone());
        let zone = self.zone.iana_name().unwrap_or("this host's offset");
        format!("{} ({zone})", local.strftime("%Y-%m-%dT%H:%M:%S%:z"))
    }

    fn read(&self, text: &str) -> Option<Timestamp> {
        let text = text.trim().to_ascii_lowercase();
        if text == "now" {
            return Some(self.now);
        }
        if let Some(ago) = ago(&text) {
            return self.now.checked_sub(ago).ok();
        }
        if let Ok(exact) = text.to_ascii_uppercase().parse::<Timestamp>() {
            return Some(exact);
        }
        let (day, time) = match text.split_once([' ', 't']) {
            // `today` and `tuesday` have a t that is none.
            Some((day, time)) if day.ends_with(|c: char| c.is_ascii_digit()) => (day, Some(time)),
            _ => match text.split_once(' ') {
                Some((day, time)) => (day, Some(time)),
                None => (text.as_str(), None),
            },
        };
        if time.is_none()
            && let Some(time) = clock(day)
        {
            return self.at(self.today(), time);
        }
        let time = match time {
            Some(time) => clock(time.trim())?,
            None => Time::midnight(),
        };
        self.at(self.day(day)?, time)
    }

    fn today(&self) -> Date {
        self.now.to_zoned_datetime(self.zone.clone()).date()
    }

    fn day(&self, text: &str) -> Option<Date> {
        let today = self.today();
        match text {
            "today" => Some(today),
            "yesterday" => today.yesterday().ok(),
            _ => match weekday(text) {
                // The last one; today if it is today.
                Some(day) if day == today.weekday() => Some(today),
                Some(day) => today.nth_weekday(-1, day).ok(),
                None => text.parse().ok(),
            },
        }
    }

    /// A time that the clocks skip is the one behind the gap; one that comes twice is the first.
    fn at(&self, day: Date, time: Time) -> Option<Timestamp> {
        self.zone.to_timestamp(day.to_datetime(time)).ok()
    }
}

/// Reads `9:00`, `09:00:05` and `9:00:05.25`.
fn clock(text: &str) -> Option<Time> {
    let (hour, rest) = text.split_once(':')?;
    if hour.is_empty() || hour.len() > 2 {
        return None;
    }
    format!("{hour:0>2}:{rest}").parse().ok()
}

/// Reads `10m`, `2h30m`, `1w 2d ago`.
fn ago(text: &str) -> Option<SignedDuration> {
    let text = text.strip_suffix("ago").unwrap_or(text).replace(' ', "");
    let mut rest = text.as_str();
    let mut total = SignedDuration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let count: i64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        let seconds = match &rest[..letters] {
            "s" => 1,
            "m" | "min" => 60,
            "h" => 3_600,
            "d" => 86_400,
            "w" => 604_800,
            _ => return None,
        };
        rest = &rest[letters..];
        let part = SignedDuration::from_secs(count.checked_mul(seconds)?);
        total = total.checked_add(part)?;
    }
    (!text.is_empty()).then_some(total)
}

fn weekday(text: &str) -> Option<Weekday> {
    let days = [
        ("monday", Weekday::Monday),
        ("tuesday", Weekday::Tuesday),
        ("wednesday", Weekday::Wednesday),
        ("thursday", Weekday::Thursday),
        ("friday", Weekday::Friday),
        ("saturday", Weekday::Saturday),
        ("sunday", Weekday::Sunday),
    ];
    days.into_iter()
        .find(|(name, _)| *name == text || name.get(..3) == Some(text))
        .map(|(_, day)| day)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Monday noon in winter, in Berlin.
    fn calendar() -> Calendar {
        Calendar {
            now: "2026-11-30T12:00:00+01:00".parse().unwrap(),
            zone: TimeZone::get("Europe/Berlin").unwrap(),
        }
    }

    fn read(text: &str) -> String {
        let found = calendar().read(text);
        found.map_or("-".to_owned(), |at| calendar().text(at))
    }

    #[test]
    fn times_as_people_say_them() {
        let texts = [
            "now",
            "10m",
            "2h30m",
            "3d ago",
            "1w",
            "9:00",
            "09:00:05.5",
            "today",
            "today 9:00",
            "yesterday",
            "yesterday 9:00",
            "Yesterday 23:59:59",
            "monday",
            "monday 17:30",
            "tue 8:00",
            "sunday",
            "2026-11-29",
            "2026-11-29 9:00",
            "2026-07-01T09:00",
            "2026-11-29t09:00:00z",
            "2026-11-29T09:00:00.25-05:00",
        ];
        let told: Vec<String> = texts
            .iter()
            .map(|text| format!("{text} = {}", read(text)))
            .collect();
        insta::assert_snapshot!(told.join("\n"), @"
        now = 2026-11-30T12:00:00+01:00 (Europe/Berlin)
        10m = 2026-11-30T11:50:00+01:00 (Europe/Berlin)
        2h30m = 2026-11-30T09:30:00+01:00 (Europe/Berlin)
        3d ago = 2026-11-27T12:00:00+01:00 (Europe/Berlin)
        1w = 2026-11-23T12:00:00+01:00 (Europe/Berlin)
        9:00 = 2026-11-30T09:00:00+01:00 (Europe/Berlin)
        09:00:05.5 = 2026-11-30T09:00:05+01:00 (Europe/Berlin)
        today = 2026-11-30T00:00:00+01:00 (Europe/Berlin)
        today 9:00 = 2026-11-30T09:00:00+01:00 (Europe/Berlin)
        yesterday = 2026-11-29T00:00:00+01:00 (Europe/Berlin)
        yesterday 9:00 = 2026-11-29T09:00:00+01:00 (Europe/Berlin)
        Yesterday 23:59:59 = 2026-11-29T23:59:59+01:00 (Europe/Berlin)
        monday = 2026-11-30T00:00:00+01:00 (Europe/Berlin)
        monday 17:30 = 2026-11-30T17:30:00+01:00 (Europe/Berlin)
        tue 8:00 = 2026-11-24T08:00:00+01:00 (Europe/Berlin)
        sunday = 2026-11-29T00:00:00+01:00 (Europe/Berlin)
        2026-11-29 = 2026-11-29T00:00:00+01:00 (Europe/Berlin)
        2026-11-29 9:00 = 2026-11-29T09:00:00+01:00 (Europe/Berlin)
        2026-07-01T09:00 = 2026-07-01T09:00:00+02:00 (Europe/Berlin)
        2026-11-29t09:00:00z = 2026-11-29T10:00:00+01:00 (Europe/Berlin)
        2026-11-29T09:00:00.25-05:00 = 2026-11-29T15:00:00+01:00 (Europe/Berlin)
        ");
    }

    #[test]
    fn times_to_come() {
        let ahead = |text: &str| {
            let calendar = calendar();
            calendar.ahead(text).map(|at| calendar.text(at))
        };
        let is = |text: &str, at: &str| {
            let read = ahead(text).unwrap_or_else(|_| panic!("{text}"));
            assert_eq!(read, format!("{at} (Europe/Berlin)"), "{text}");
        };
        is("in 30m", "2026-11-30T12:30:00+01:00");
        is("90m", "2026-11-30T13:30:00+01:00");
        is("18:00", "2026-11-30T18:00:00+01:00");
        is("9:00", "2026-12-01T09:00:00+01:00");
        is("tomorrow", "2026-12-01T00:00:00+01:00");
        is("Tomorrow 9:00", "2026-12-01T09:00:00+01:00");
        is("friday 18:00", "2026-12-04T18:00:00+01:00");
        is("monday 11:00", "2026-12-07T11:00:00+01:00");
        is("2026-12-24 18:00", "2026-12-24T18:00:00+01:00");
        is("2026-12-24T18:00:00Z", "2026-12-24T19:00:00+01:00");
        for past in [
            "yesterday 9:00",
            "now",
            "10m ago",
            "2026-11-30T10:00:00Z",
            "soon",
        ] {
            assert!(ahead(past).is_err(), "{past}");
        }
    }

    #[test]
    fn what_is_no_time() {
        for text in [
            "",
            "noon",
            "42",
            "10",
            "m",
            "10x",
            "25:00",
            "9:",
            ":30",
            "2026-13-01",
            "yesterday 9",
            "99999999999999999999d",
            "9999999999999w",
            "today 9:00 x",
            "2026-11-29T",
            "ago",
        ] {
            assert_eq!(read(text), "-", "`{text}`");
        }
    }

    #[test]
    fn hours_that_the_clocks_skip_or_repeat() {
        assert_eq!(
            read("2026-03-29 02:30"),
            "2026-03-29T03:30:00+02:00 (Europe/Berlin)"
        );
        assert_eq!(
            read("2026-10-25 02:30"),
            "2026-10-25T02:30:00+02:00 (Europe/Berlin)"
        );
    }

    #[test]
    fn moments_are_told_apart() {
        let key = "0123456789abcdef0123456789abcdef.0000000000000042.a1b2c3d4";
        let read = |text| calendar().moment(text).unwrap();
        assert_eq!(read("42"), Moment::Pos(42));
        assert!(matches!(read(key), Moment::Key(found) if found.pos == 42));
        assert!(matches!(read("yesterday 9:00"), Moment::Time(_)));
        assert!(calendar().moment("box:main").is_err());
    }
}
