//! What is printed.

use std::fmt::Write;

use serde::Serialize;

use crate::samples::Samples;

/// Everything that one run says.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) host: String,
    pub(crate) tables: Vec<Table>,
}

#[derive(Serialize)]
pub(crate) struct Table {
    title: String,
    columns: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    /// What has to be known to read the numbers.
    notes: Vec<String>,
}

impl Table {
    pub(crate) fn new(title: impl Into<String>, columns: &[&'static str]) -> Self {
        Self {
            title: title.into(),
            columns: columns.to_vec(),
            rows: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Adds a row; it has a cell for each column.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// A table of durations, one row for each.
    pub(crate) fn timed(title: impl Into<String>, rows: &[(&str, &Samples)]) -> Self {
        let mut table = Self::new(title, &["what", "p50", "p95", "samples"]);
        for (name, samples) in rows {
            let count = samples.len().to_string();
            let name = (*name).to_owned();
            table.row(vec![name, samples.show(50), samples.show(95), count]);
        }
        table
    }

    pub(crate) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }
}

impl Report {
    pub(crate) fn markdown(&self) -> String {
        let mut out = format!("Measured on {}.\n", self.host);
        for table in &self.tables {
            // Writing to a string cannot fail.
            let _ = write!(
                out,
                "\n**{}**\n\n| {} |\n",
                table.title,
                table.columns.join(" | ")
            );
            let rule = vec!["---"; table.columns.len()].join(" | ");
            let _ = writeln!(out, "| {rule} |");
            for row in &table.rows {
                let _ = writeln!(out, "| {} |", row.join(" | "));
            }
            for note in &table.notes {
                let _ = write!(out, "\n{note}\n");
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_markdown() {
        let mut table = Table::new("Appends", &["producers", "events/s"]);
        table.row(vec!["1".to_owned(), "2".to_owned()]);
        table.note("Open.");
        let report = Report {
            host: "a host".to_owned(),
            tables: vec![table],
        };
        assert_eq!(
            report.markdown(),
            "Measured on a host.\n\n**Appends**\n\n| producers | events/s |\n| --- | --- |\n\
             | 1 | 2 |\n\nOpen.\n"
        );
    }
}
