//! Small texts: times, durations, tables, and what a terminal must not get.

use std::time::Duration;

use serde_json::Value;
use time::OffsetDateTime;

/// Replaces what would steer a terminal: a box is not trusted with ours.
pub fn plain(text: &str) -> String {
    let keep = |c: char| !c.is_control() || c == '\n' || c == '\t';
    text.chars()
        .map(|c| if keep(c) { c } else { '\u{fffd}' })
        .collect()
}

/// One line of at most `width` characters; what was cut shows as `…`.
pub fn short(text: &str, width: usize) -> String {
    let mut line = String::new();
    for (index, word) in text.split_whitespace().enumerate() {
        if index > 0 {
            line.push(' ');
        }
        line.push_str(word);
        // Enough is known; the rest of a long text need not be looked at.
        if line.len() > width.saturating_mul(4) {
            break;
        }
    }
    if line.chars().count() <= width {
        return plain(&line);
    }
    let kept: String = line.chars().take(width.saturating_sub(1)).collect();
    plain(&format!("{}…", kept.trim_end()))
}

/// A moment in UTC, to the millisecond; 0 is one that nobody noted.
pub fn moment(at_ms: i64) -> String {
    if at_ms == 0 {
        return "-".to_owned();
    }
    let Ok(at) = OffsetDateTime::from_unix_timestamp_nanos(i128::from(at_ms) * 1_000_000) else {
        return format!("{at_ms} ms");
    };
    let (day, (hour, minute, second, milli)) = (at.date(), at.time().as_hms_milli());
    format!("{day} {hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// `{"a":1,"b":"x"}` as `a=1 b=x`: the fields of an event on a line.
pub fn fields(value: &Value) -> String {
    let Value::Object(map) = value else {
        return value.to_string();
    };
    let parts = map.iter().map(|(name, value)| match value {
        Value::String(text) => format!("{name}={text}"),
        other => format!("{name}={other}"),
    });
    parts.collect::<Vec<_>>().join(" ")
}

/// Columns as wide as their widest cell; the last one is not padded.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = head.iter().map(|cell| cell.len()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let head: Vec<String> = head.iter().map(|&cell| cell.to_owned()).collect();
    let lines = std::iter::once(&head).chain(rows).map(|row| {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, &width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Reads `30s`, `1500ms`, `5m`, `2h`, or seconds without a unit.
pub fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let count: u64 = digits
        .parse()
        .map_err(|_| format!("`{text}` is not like 30s, 500ms, 5m or 2h"))?;
    let duration = match &text[digits.len()..] {
        "ms" => Some(Duration::from_millis(count)),
        "" | "s" => Some(Duration::from_secs(count)),
        "m" => count.checked_mul(60).map(Duration::from_secs),
        "h" => count.checked_mul(3600).map(Duration::from_secs),
        unit => return Err(format!("`{unit}` is not a unit; use ms, s, m or h")),
    };
    duration.ok_or_else(|| format!("`{text}` is too long"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_get_no_commands() {
        assert_eq!(
            plain("a\x1b]52;c;x\x07b\n\tc\r\u{9b}1m"),
            "a\u{fffd}]52;c;x\u{fffd}b\n\tc\u{fffd}\u{fffd}1m"
        );
    }

    #[test]
    fn long_lines_are_cut_and_say_so() {
        assert_eq!(short("one\n two   three", 40), "one two three");
        assert_eq!(short("one two three", 8), "one two…");
        assert_eq!(short("ééééé", 4), "ééé…");
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("7"), Ok(Duration::from_secs(7)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2h"), Ok(Duration::from_hours(2)));
        assert!(duration("x").is_err());
        assert!(duration("5d").is_err());
        assert!(duration("18446744073709551615h").is_err());
    }

    #[test]
    fn moments_are_utc() {
        assert_eq!(moment(1_700_000_000_123), "2023-11-14 22:13:20.123Z");
    }

    #[test]
    fn tables_align() {
        let rows = vec![
            vec!["main".into(), "RUNNING".into()],
            vec!["été".into(), "HIBERNATED".into()],
        ];
        insta::assert_snapshot!(table(&["NAME", "STATE"], &rows), @"
        NAME  STATE
        main  RUNNING
        été   HIBERNATED
        ");
    }
}
