//! The place in a file that is most like a text that is not in it.

use std::{collections::HashMap, fmt::Write};

/// Files with more lines are not looked through.
const LINES_MAX: usize = 100_000;
/// Lines of the text that are compared, and shown of the file.
const WINDOW_MAX: usize = 12;
/// Characters of a line that are compared and shown.
const LINE_CHARS_MAX: usize = 160;
/// Less alike than this is no help.
const LIKENESS_MIN: f64 = 0.5;

/// Describes the place, for a model that is to try again and behind a sentence; empty if there is none.
pub(super) fn describe(content: &str, old: &str) -> String {
    let lines: Vec<&str> = content.lines().take(LINES_MAX + 1).collect();
    let wanted: Vec<&str> = old.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.len() > LINES_MAX || wanted.is_empty() {
        return String::new();
    }
    let squeezed: Vec<String> = wanted.iter().map(|line| squeeze(line)).collect();
    if let Some(at) = same_but_spaces(&lines, &squeezed) {
        let end = at + wanted.len();
        return format!(
            ". The same text with other spaces or line breaks is at line {}:\n{}",
            at + 1,
            numbered(&lines, at, end)
        );
    }
    match most_alike(&lines, &squeezed) {
        Some(at) => format!(
            ". The most similar place is at line {}:\n{}",
            at + 1,
            numbered(&lines, at, at + wanted.len())
        ),
        None => String::new(),
    }
}

fn squeeze(line: &str) -> String {
    let cut: String = line.chars().take(LINE_CHARS_MAX).collect();
    cut.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Where the lines are the wanted ones if one does not look at white space and empty lines.
fn same_but_spaces(lines: &[&str], wanted: &[String]) -> Option<usize> {
    let first = wanted.first()?;
    let holds = |at: &usize| {
        let mut rest = lines[*at..].iter().filter(|line| !line.trim().is_empty());
        wanted
            .iter()
            .all(|line| rest.next().is_some_and(|there| squeeze(there) == *line))
    };
    (0..lines.len())
        .filter(|at| squeeze(lines[*at]) == *first)
        .find(holds)
}

fn most_alike(lines: &[&str], wanted: &[String]) -> Option<usize> {
    let wanted = &wanted[..wanted.len().min(WINDOW_MAX)];
    let pairs: Vec<HashMap<[char; 2], i32>> = wanted.iter().map(|line| pairs(line)).collect();
    let first = pairs.first()?;
    let mut best = (LIKENESS_MIN, None);
    for (at, line) in lines.iter().enumerate() {
        let here = squeeze(line);
        // Most lines have nothing of the first wanted one; the rest of the window is not worth a look.
        let start = likeness(first, &here);
        if start <= LIKENESS_MIN / 2.0 {
            continue;
        }
        let mut sum = start;
        for (more, pairs) in pairs.iter().enumerate().skip(1) {
            sum += lines
                .get(at + more)
                .map_or(0.0, |line| likeness(pairs, &squeeze(line)));
        }
        #[expect(clippy::cast_precision_loss, reason = "at most twelve")]
        let mean = sum / pairs.len() as f64;
        if mean > best.0 {
            best = (mean, Some(at));
        }
    }
    best.1
}

fn pairs(line: &str) -> HashMap<[char; 2], i32> {
    let mut counted = HashMap::new();
    for pair in line.chars().zip(line.chars().skip(1)) {
        *counted.entry([pair.0, pair.1]).or_insert(0) += 1;
    }
    counted
}

/// Dice's measure over pairs of characters: 1 for the same, 0 for nothing in common.
fn likeness(wanted: &HashMap<[char; 2], i32>, there: &str) -> f64 {
    let there = pairs(there);
    let total: i32 = wanted.values().sum::<i32>() + there.values().sum::<i32>();
    if total == 0 {
        return 0.0;
    }
    let common: i32 = wanted
        .iter()
        .map(|(pair, count)| there.get(pair).copied().unwrap_or(0).min(*count))
        .sum();
    f64::from(2 * common) / f64::from(total)
}

fn numbered(lines: &[&str], from: usize, to: usize) -> String {
    let mut text = String::new();
    let to = to.min(lines.len()).min(from + WINDOW_MAX);
    for (at, line) in lines.iter().enumerate().take(to).skip(from) {
        let shown: String = line.chars().take(LINE_CHARS_MAX).collect();
        let written = writeln!(text, "{}: {shown}", at + 1);
        debug_assert!(written.is_ok(), "writing to a string cannot fail");
    }
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_meant() {
        let file = "fn main() {\n    let total = add(1, 2);\n    println!(\"{total}\");\n}\n";
        let spaces = describe(file, "let total  = add(1, 2);\n  println!(\"{total}\");");
        assert!(
            spaces.contains("other spaces") && spaces.contains("line 2:\n2:     let total"),
            "{spaces}"
        );
        let like = describe(file, "    let totals = add(1, 3);\n");
        assert!(like.contains("most similar place is at line 2"), "{like}");
        assert_eq!(describe(file, "nothing of the kind at all"), "");
        assert_eq!(describe("", "x"), "");
    }
}
