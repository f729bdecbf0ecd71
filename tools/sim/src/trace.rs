//! What happened in a run: a hash over everything, and the last lines for people.

use std::collections::VecDeque;

/// Lines that are kept. A run of the usual length has fewer.
const LINES_MAX: usize = 50_000;

/// The record of a run. Two runs of one seed have the same hash, bit for bit.
#[derive(Clone, Default)]
pub struct Trace {
    hasher: blake3::Hasher,
    lines: VecDeque<Line>,
}

#[derive(Clone, Debug)]
pub struct Line {
    pub at_us: i64,
    pub who: String,
    pub text: String,
}

impl Trace {
    /// Counts a poll of a task in.
    pub fn step(&mut self, task: u64) {
        self.hasher.update(&task.to_le_bytes());
    }

    pub fn line(&mut self, at_us: i64, who: &str, text: String) {
        self.hasher.update(&at_us.to_le_bytes());
        self.hasher.update(who.as_bytes());
        self.hasher.update(text.as_bytes());
        if self.lines.len() == LINES_MAX {
            self.lines.pop_front();
        }
        let who = who.to_owned();
        self.lines.push_back(Line { at_us, who, text });
    }

    pub fn hash(&self) -> String {
        self.hasher.finalize().to_hex()[..16].to_owned()
    }

    pub fn lines(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter()
    }

    /// Returns the lines that speak of one of `words`, at most the last `lines_max`.
    pub fn about(&self, words: &[String], lines_max: usize) -> Vec<&Line> {
        let speaks = |line: &&Line| {
            words
                .iter()
                .any(|word| line.who.contains(word.as_str()) || line.text.contains(word.as_str()))
        };
        let mut found: Vec<&Line> = self.lines.iter().filter(speaks).collect();
        found.drain(..found.len().saturating_sub(lines_max));
        found
    }
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = self.at_us;
        write!(
            f,
            "{:>5}.{:06} {:<10} {}",
            at / 1_000_000,
            at % 1_000_000,
            self.who,
            self.text
        )
    }
}
