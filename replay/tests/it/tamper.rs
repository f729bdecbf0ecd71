//! Every byte of every row, changed; rows dropped, moved, written anew; logs swapped; keys forged.
//!
//! One byte of each cell by default, drawn by a seed. `COCOONBOX_TEST_TAMPER=all` takes every byte,
//! `COCOONBOX_TEST_SEED=N` other bytes.

use std::collections::HashMap;

use cocoonbox_events::LogId;
use rusqlite::{Connection, params_from_iter, types::Value};

use crate::evidence::{Evidence, named, of};

/// Tables with their keys.
const TABLES: &[(&str, &[&str])] = &[
    ("event", &["event_no"]),
    ("stream", &["stream_id"]),
    ("log", &["log_no"]),
    ("checkpoint", &["log_no", "size"]),
    ("command", &["log_no", "command_id"]),
];

/// What no other row and no link tells of. Nothing reads `created_us`; the digest of a command is known
/// to who sent it, and the time beside it is of the file, not of history.
const UNCOVERED: &[(&str, &str)] = &[
    ("log", "created_us"),
    ("command", "digest"),
    ("command", "recorded_us"),
];

struct Row {
    table: &'static str,
    keys: &'static [&'static str],
    columns: Vec<String>,
    values: Vec<Value>,
}

impl Row {
    fn all(file: &Connection) -> Vec<Self> {
        let mut rows = Vec::new();
        for (table, keys) in TABLES {
            let mut statement = file.prepare(&format!("SELECT * FROM {table}")).unwrap();
            let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
            let mut found = statement.query([]).unwrap();
            while let Some(row) = found.next().unwrap() {
                let value = |index| row.get(index).unwrap();
                rows.push(Self {
                    table,
                    keys,
                    columns: columns.clone(),
                    values: (0..columns.len()).map(value).collect(),
                });
            }
        }
        rows
    }

    fn get(&self, column: &str) -> &Value {
        let at = self.columns.iter().position(|one| one == column).unwrap();
        &self.values[at]
    }

    fn number(&self, column: &str) -> i64 {
        let Value::Integer(number) = self.get(column) else {
            panic!("{column} is no number")
        };
        *number
    }

    fn with(&self, at: usize, value: Value) -> Self {
        let (table, keys, columns) = (self.table, self.keys, self.columns.clone());
        let mut values = self.values.clone();
        values[at] = value;
        Self {
            table,
            keys,
            columns,
            values,
        }
    }

    fn delete(&self, file: &Connection) {
        let wanted: Vec<String> = self.keys.iter().map(|key| format!("{key} IS ?")).collect();
        let sql = format!("DELETE FROM {} WHERE {}", self.table, wanted.join(" AND "));
        let keys = self.keys.iter().map(|key| self.get(key));
        assert_eq!(file.execute(&sql, params_from_iter(keys)).unwrap(), 1);
    }

    fn insert(&self, file: &Connection) -> rusqlite::Result<()> {
        let places = vec!["?"; self.values.len()].join(", ");
        let sql = format!("INSERT INTO {} VALUES ({places})", self.table);
        file.execute(&sql, params_from_iter(&self.values)).map(drop)
    }
}

/// Where things are, before anything was changed.
struct Map {
    logs: HashMap<i64, LogId>,
    /// Log and first position of each stream.
    streams: HashMap<i64, (LogId, u64)>,
}

impl Map {
    fn of(rows: &[Row]) -> Self {
        let id = |row: &Row| {
            let Value::Blob(id) = row.get("log_id") else {
                panic!()
            };
            LogId::from_slice(id).unwrap()
        };
        let logs: HashMap<i64, LogId> = rows
            .iter()
            .filter(|row| row.table == "log")
            .map(|row| (row.number("log_no"), id(row)))
            .collect();
        let mut streams = HashMap::new();
        for row in rows.iter().filter(|row| row.table == "event") {
            let place = place(row, &logs);
            streams.entry(row.number("stream_id")).or_insert(place);
        }
        Self { logs, streams }
    }

    /// Log and position at which a change of this cell has to be named; `None`: the log's own row, which
    /// is at no position, or a checkpoint, which may have lost the log that it is of.
    fn expected(&self, row: &Row, column: &str) -> Option<(LogId, u64)> {
        let log = |row: &Row| self.logs[&row.number("log_no")];
        match (row.table, column) {
            ("event", _) => Some(place(row, &self.logs)),
            ("stream", "head_seq" | "head_pos") => {
                Some((log(row), u64::try_from(row.number("head_pos")).unwrap()))
            }
            ("stream", _) => Some(self.streams[&row.number("stream_id")]),
            ("checkpoint", "chain" | "note") => {
                Some((log(row), u64::try_from(row.number("size")).unwrap()))
            }
            ("command", "first_pos" | "last_pos" | "command_id") => {
                Some((log(row), u64::try_from(row.number("first_pos")).unwrap()))
            }
            _ => None,
        }
    }
}

fn place(row: &Row, logs: &HashMap<i64, LogId>) -> (LogId, u64) {
    let number = row.number("event_no");
    let pos = u64::try_from(number & ((1 << 40) - 1)).unwrap();
    (logs[&(number >> 40)], pos)
}

/// Small, and the same everywhere.
struct Dice(u64);

impl Dice {
    fn seeded() -> Self {
        let seed = std::env::var("COCOONBOX_TEST_SEED").ok();
        Self(seed.map_or(1, |seed| seed.parse().unwrap()))
    }

    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

/// The cell with one byte of it changed, in one way or for each byte.
fn changed(value: &Value, is_all: bool, dice: &mut Dice) -> Vec<Value> {
    let bytes = match value {
        Value::Null => return vec![Value::Blob(vec![1]), Value::Integer(1)],
        Value::Integer(number) => number.to_le_bytes().to_vec(),
        Value::Real(_) => panic!("there are none"),
        Value::Text(text) => text.as_bytes().to_vec(),
        Value::Blob(bytes) => bytes.clone(),
    };
    let places: Vec<usize> = match bytes.len() {
        0 => return vec![Value::Text("x".into())],
        length if is_all => (0..length).collect(),
        length => vec![dice.below(length)],
    };
    let flip = |at: usize, mask: u8| {
        let mut bytes = bytes.clone();
        bytes[at] ^= mask;
        match value {
            Value::Integer(_) => Value::Integer(i64::from_le_bytes(bytes.try_into().unwrap())),
            Value::Text(_) => match String::from_utf8(bytes) {
                Ok(text) => Value::Text(text),
                // SQLite takes any bytes for a text; the driver does not.
                Err(error) => {
                    let bytes = error.into_bytes();
                    Value::Text(String::from_utf8_lossy(&bytes).into_owned())
                }
            },
            _ => Value::Blob(bytes),
        }
    };
    places
        .into_iter()
        .map(|at| flip(at, 1 << dice.below(7)))
        .collect()
}

#[tokio::test]
async fn untouched_evidence_is_good_and_proved_to_its_end() {
    let evidence = Evidence::laid_down().await;
    for against in [evidence.trust(), evidence.kept()] {
        let report = evidence.verify(&against).await;
        assert!(report.is_good(), "{report:#?}");
        assert_eq!(report.logs.len(), 6);
        assert_eq!(report.keys.len(), 2, "the first key vouches for the second");
        for log in &report.logs {
            assert_eq!(log.proved, log.tail, "{report:#?}");
        }
    }
    // Whoever knows only the newest key can look back with it.
    let mut against = evidence.trust();
    against.trust = vec![evidence.second_key.clone()];
    let report = evidence.verify(&against).await;
    assert!(report.is_good(), "{report:#?}");
    assert_eq!(report.keys.len(), 2);
}

#[tokio::test]
async fn a_changed_byte_of_any_row_is_found_where_it_is() {
    let evidence = Evidence::laid_down().await;
    let file = evidence.meddler();
    let rows = Row::all(&file);
    let map = Map::of(&rows);
    let against = evidence.trust();
    let is_all = std::env::var("COCOONBOX_TEST_TAMPER").is_ok_and(|what| what == "all");
    let mut dice = Dice::seeded();
    let mut bad: Vec<String> = Vec::new();
    let mut tried: HashMap<(&str, String), u32> = HashMap::new();
    for row in &rows {
        for (at, column) in row.columns.iter().enumerate() {
            for value in changed(&row.values[at], is_all, &mut dice) {
                let shown = format!(
                    "{} {column} of {:?}: {:?} is {value:?}",
                    row.table, row.values, row.values[at]
                );
                let other = row.with(at, value);
                row.delete(&file);
                // Another row may be there, or the type may be refused.
                if other.insert(&file).is_err() {
                    row.insert(&file).unwrap();
                    continue;
                }
                let report = evidence.verify(&against).await;
                other.delete(&file);
                row.insert(&file).unwrap();
                let name = (row.table, column.clone());
                let is_covered = !UNCOVERED.contains(&(row.table, column.as_str()));
                *tried.entry(name).or_default() += 1;
                let mut wrong = |what: &str| bad.push(format!("{what}: {shown}: {report:?}"));
                if report.is_good() == is_covered {
                    wrong("not found");
                }
                let Some((log, pos)) = map.expected(row, column).filter(|_| is_covered) else {
                    continue;
                };
                if !named(&report, log).contains(&pos) {
                    wrong("not named");
                }
                let first = of(&report, log).and_then(|one| one.first_break.as_ref());
                if row.table == "event" && first.is_none_or(|first| first.pos != pos) {
                    wrong("not first");
                }
            }
        }
    }
    assert!(
        bad.is_empty(),
        "{}: {:#?}",
        bad.len(),
        &bad[..bad.len().min(20)]
    );
    let columns: usize = TABLES
        .iter()
        .map(|(table, _)| {
            rows.iter()
                .find(|row| row.table == *table)
                .unwrap()
                .columns
                .len()
        })
        .sum();
    assert_eq!(tried.len(), columns, "{tried:?}");
    assert!(
        evidence.verify(&against).await.is_good(),
        "all was put back"
    );
}
