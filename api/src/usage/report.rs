//! What was used, summed as it was asked for.

use std::collections::{BTreeMap, HashSet};

use cocoonbox_proto::control::v1::{UsageDimension, UsageRow};
use time::{Date, Month};

/// How rows are put together.
#[derive(Clone, Debug)]
pub struct Report {
    by: HashSet<UsageDimension>,
    from: String,
    to: String,
    rows: BTreeMap<[String; 8], UsageRow>,
}

/// Why there is no such report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadReport {
    #[error("field `{0}` is not a day, yyyy-mm-dd")]
    Day(&'static str),
    #[error("dimension {0} is not known")]
    Dimension(i32),
}

impl Report {
    pub fn new(group_by: &[i32], from_day: &str, to_day: &str) -> Result<Self, BadReport> {
        let mut by = HashSet::new();
        for number in group_by {
            match UsageDimension::try_from(*number) {
                Ok(UsageDimension::Unspecified) | Err(_) => {
                    return Err(BadReport::Dimension(*number));
                }
                Ok(dimension) => by.insert(dimension),
            };
        }
        if by.is_empty() {
            by.extend([
                UsageDimension::Day,
                UsageDimension::Box,
                UsageDimension::Vendor,
                UsageDimension::Model,
            ]);
        }
        Ok(Self {
            by,
            from: day("from_day", from_day)?,
            to: day("to_day", to_day)?,
            rows: BTreeMap::new(),
        })
    }

    /// Whether a day is in the span.
    pub fn spans(&self, day: &str) -> bool {
        let is_early = day < self.from.as_str();
        let is_late = !self.to.is_empty() && day > self.to.as_str();
        !is_early && !is_late
    }

    /// Takes a row in, if it is in the span.
    pub fn add(&mut self, row: UsageRow) {
        if !self.spans(&row.day) {
            return;
        }
        let keep = |dimension, word: String| {
            if self.by.contains(&dimension) {
                word
            } else {
                String::new()
            }
        };
        let key = [
            keep(UsageDimension::User, row.user_id),
            keep(UsageDimension::Day, row.day),
            keep(UsageDimension::Box, row.box_id),
            keep(UsageDimension::Routine, row.routine_id),
            keep(UsageDimension::Agent, row.agent_id),
            keep(UsageDimension::Role, row.role),
            keep(UsageDimension::Vendor, row.vendor),
            keep(UsageDimension::Model, row.model),
        ];
        let [
            user_id,
            day,
            box_id,
            routine_id,
            agent_id,
            role,
            vendor,
            model,
        ] = key.clone();
        let sum = self.rows.entry(key).or_insert_with(|| UsageRow {
            day,
            box_id,
            vendor,
            model,
            agent_id,
            role,
            user_id,
            routine_id,
            ..UsageRow::default()
        });
        for (sum, more) in [
            (&mut sum.calls, row.calls),
            (&mut sum.failed_calls, row.failed_calls),
            (&mut sum.input_tokens, row.input_tokens),
            (&mut sum.output_tokens, row.output_tokens),
            (&mut sum.cache_read_tokens, row.cache_read_tokens),
            (&mut sum.cache_write_tokens, row.cache_write_tokens),
            (&mut sum.cost_micros, row.cost_micros),
            (&mut sum.unpriced_calls, row.unpriced_calls),
            (&mut sum.estimated_calls, row.estimated_calls),
        ] {
            *sum = sum.saturating_add(more);
        }
    }

    /// Returns the rows in order.
    pub fn rows(self) -> Vec<UsageRow> {
        self.rows.into_values().collect()
    }
}

fn day(field: &'static str, text: &str) -> Result<String, BadReport> {
    if text.is_empty() || is_day(text).is_some() {
        Ok(text.to_owned())
    } else {
        Err(BadReport::Day(field))
    }
}

fn is_day(text: &str) -> Option<()> {
    let [year, month, day] = text.split('-').collect::<Vec<_>>()[..] else {
        return None;
    };
    if (year.len(), month.len(), day.len()) != (4, 2, 2) {
        return None;
    }
    let month = Month::try_from(month.parse::<u8>().ok()?).ok()?;
    let date = Date::from_calendar_date(year.parse().ok()?, month, day.parse().ok()?);
    date.ok().map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(day: &str, box_id: &str, agent_id: &str, model: &str, calls: u64) -> UsageRow {
        UsageRow {
            day: day.into(),
            box_id: box_id.into(),
            agent_id: agent_id.into(),
            model: model.into(),
            vendor: "anthropic".into(),
            calls,
            cost_micros: calls * 10,
            ..UsageRow::default()
        }
    }

    fn report(by: &[UsageDimension], from: &str, to: &str) -> Vec<(String, String, String, u64)> {
        let by: Vec<i32> = by.iter().map(|one| *one as i32).collect();
        let mut report = Report::new(&by, from, to).unwrap();
        report.add(row("2026-11-29", "b1", "x", "m", 1));
        report.add(row("2026-11-30", "b1", "x", "m", 2));
        report.add(row("2026-11-30", "b1", "y", "m", 4));
        report.add(row("2026-11-30", "b2", "y", "n", 8));
        report.add(row("2026-12-01", "b2", "y", "n", 16));
        let rows = report.rows().into_iter();
        rows.map(|row| {
            assert_eq!(row.cost_micros, row.calls * 10);
            (row.day, row.agent_id, row.model, row.calls)
        })
        .collect()
    }

    #[test]
    fn what_is_not_asked_for_is_summed() {
        let none = String::new;
        let by_agent = report(&[UsageDimension::Agent], "", "");
        assert_eq!(
            by_agent,
            [
                (none(), "x".into(), none(), 3),
                (none(), "y".into(), none(), 28)
            ]
        );
        let by_model = report(&[UsageDimension::Model], "2026-11-30", "2026-11-30");
        assert_eq!(
            by_model,
            [
                (none(), none(), "m".into(), 6),
                (none(), none(), "n".into(), 8)
            ]
        );
        assert_eq!(report(&[], "", "").len(), 4);
        assert_eq!(report(&[UsageDimension::Vendor], "2027-01-01", ""), []);
    }

    #[test]
    fn nonsense_is_refused() {
        let bad = |by: &[i32], from, to| Report::new(by, from, to).unwrap_err();
        assert_eq!(bad(&[99], "", ""), BadReport::Dimension(99));
        assert_eq!(bad(&[0], "", ""), BadReport::Dimension(0));
        assert_eq!(bad(&[], "2026-13-01", ""), BadReport::Day("from_day"));
        assert_eq!(bad(&[], "", "today"), BadReport::Day("to_day"));
    }
}
