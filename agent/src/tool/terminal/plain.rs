//! What a terminal was sent, as the lines that a reader would see: no escapes, lines written over as
//! they were written over.

use vte::{Params, Parser, Perform};

/// A longer line is broken.
const LINE_CHARS_MAX: usize = 16 * 1024;
const TAB: usize = 8;

/// Returns a text without escapes and with its carriage returns obeyed.
pub(crate) fn plain(text: &str) -> String {
    if !text.contains(|c: char| c.is_control() && c != '\n' && c != '\t') {
        return text.to_owned();
    }
    let mut lines = Lines::default();
    Parser::new().advance(&mut lines, text.as_bytes());
    lines.finish()
}

/// Lines that are finished, and the one that is being written.
#[derive(Debug, Default)]
pub(super) struct Lines {
    done: String,
    line: Vec<char>,
    at: usize,
    /// What the shell says of itself, for whoever drives the parser.
    pub(super) marks: Vec<Mark>,
}

/// What our shells send at their prompts (the sequences that terminals of editors use, too).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// A prompt begins.
    Prompt,
    /// The line is read; what follows is output.
    Output,
    /// A command is done.
    Done(i32),
    Folder(String),
}

impl Lines {
    /// Takes what is finished.
    pub(super) fn take_done(&mut self) -> String {
        std::mem::take(&mut self.done)
    }

    /// The line that is being written.
    pub(super) fn current(&self) -> String {
        self.line.iter().collect::<String>().trim_end().to_owned()
    }

    /// Drops the line that is being written.
    pub(super) fn drop_current(&mut self) {
        self.line.clear();
        self.at = 0;
    }

    fn finish(mut self) -> String {
        self.done.extend(self.line.iter());
        self.done
    }

    fn put(&mut self, character: char) {
        if self.at >= LINE_CHARS_MAX {
            self.end_line();
        }
        while self.line.len() < self.at {
            self.line.push(' ');
        }
        match self.line.get_mut(self.at) {
            Some(there) => *there = character,
            None => self.line.push(character),
        }
        self.at += 1;
    }

    fn end_line(&mut self) {
        self.done.extend(self.line.drain(..));
        self.done.push('\n');
        self.at = 0;
    }

    fn blank(&mut self, from: usize, to: usize) {
        let to = to.min(self.line.len());
        if let Some(part) = self.line.get_mut(from.min(to)..to) {
            part.fill(' ');
        }
    }
}

impl Perform for Lines {
    fn print(&mut self, character: char) {
        if !character.is_control() {
            self.put(character);
        }
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\n' => self.end_line(),
            b'\r' => self.at = 0,
            b'\x08' => self.at = self.at.saturating_sub(1),
            b'\t' => {
                let next = (self.at / TAB + 1) * TAB;
                // A tab that ends a line's text stays one, as in a file that is shown.
                if self.at == self.line.len() {
                    self.line.push('\t');
                    self.at += 1;
                } else {
                    self.at = next.min(LINE_CHARS_MAX);
                }
            }
            _ => {}
        }
    }

    fn csi_dispatch(&mut self, params: &Params, _: &[u8], ignore: bool, action: char) {
        if ignore {
            return;
        }
        let first = params
            .iter()
            .next()
            .and_then(|param| param.first().copied());
        let first = usize::from(first.unwrap_or(0));
        let count = first.max(1);
        match action {
            'C' => self.at = (self.at + count).min(LINE_CHARS_MAX),
            'D' => self.at = self.at.saturating_sub(count),
            'G' => self.at = (count - 1).min(LINE_CHARS_MAX),
            'K' => match first {
                0 => self.line.truncate(self.at),
                1 => self.blank(0, self.at + 1),
                _ => self.blank(0, LINE_CHARS_MAX),
            },
            'P' => {
                let to = (self.at + count).min(self.line.len());
                self.line.drain(self.at.min(to)..to);
            }
            'X' => self.blank(self.at, self.at + count),
            '@' => {
                let at = self.at.min(self.line.len());
                let room = LINE_CHARS_MAX.saturating_sub(self.line.len());
                self.line
                    .splice(at..at, std::iter::repeat_n(' ', count.min(room)));
            }
            _ => {}
        }
    }

    fn osc_dispatch(&mut self, params: &[&[u8]], _: bool) {
        let mark = match params {
            [b"133", b"A", ..] => Mark::Prompt,
            [b"133", b"C", ..] => Mark::Output,
            [b"133", b"D", rest @ ..] => {
                let code = rest.first().and_then(|code| std::str::from_utf8(code).ok());
                Mark::Done(code.and_then(|code| code.parse().ok()).unwrap_or(0))
            }
            [b"7", folder, ..] => Mark::Folder(String::from_utf8_lossy(folder).into_owned()),
            _ => return,
        };
        self.marks.push(mark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_as_a_person_would_see_it() {
        for (sent, seen) in [
            ("plain\ttext\n", "plain\ttext\n"),
            ("\x1b[31mred\x1b[0m\r\n", "red\n"),
            ("10%\r50%\r100%\n", "100%\n"),
            ("long line\rshort\x1b[K\n", "short\n"),
            ("abc\x08\x08X\n", "aXc\n"),
            ("\x1b]0;a title\x07shown", "shown"),
            ("\x1bP+q544e\x1b\\x", "x"),
            ("half \x1b[", "half "),
            ("\x1b[2Kagain\x1b[1G>", ">gain"),
            ("nul\0bell\x07", "nulbell"),
        ] {
            assert_eq!(plain(sent), seen, "{sent:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn never_lets_an_escape_through(sent in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            let seen = plain(&String::from_utf8_lossy(&sent));
            proptest::prop_assert!(!seen.contains(|c: char| c.is_ascii_control() && c != '\n' && c != '\t'), "{seen:?}");
        }
    }
}
