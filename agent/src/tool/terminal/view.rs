//! What a model has seen of a session, and what is new.

use std::num::NonZero;

use cocoonbox_proto::toolhost::v1::WindowSize;
use vte::Parser;

use super::plain::{Lines, Mark};
use crate::exec::Screen;

/// Of new text, at its beginning and at its end.
const HEAD_BYTES_MAX: usize = 5_000;
const TAIL_BYTES_MAX: usize = 10_000;
/// Taken from the screen at once.
const PIECE_BYTES_MAX: usize = 16 * 1024;
/// As our shells are told to prompt.
const PROMPT: &str = "$ ";
const ROWS: NonZero<u16> = NonZero::new(40).expect("not zero");
const COLS: NonZero<u16> = NonZero::new(120).expect("not zero");

/// One session as its model sees it.
pub(super) struct View {
    screen: Screen,
    /// Bytes looked at.
    at: u64,
    parser: Parser,
    lines: Lines,
    /// The same for programs that fill the screen.
    full: vt100::Parser,
    /// Between a prompt and the command's output.
    in_prompt: bool,
    /// What comes at the prompt is the echo of what was typed, and not of a job in the background.
    is_typing: bool,
    pub(super) folder: String,
    /// Of this call.
    pub(super) exit_code: Option<i32>,
    pub(super) has_output: bool,
    head: String,
    tail: String,
    left_out: u64,
}

impl View {
    pub(super) fn new(screen: Screen, size: WindowSize) -> Self {
        let (rows, cols) = cells(size);
        Self {
            screen,
            at: 0,
            parser: Parser::new(),
            lines: Lines::default(),
            full: vt100::Parser::new(rows, cols, 0),
            in_prompt: false,
            is_typing: false,
            folder: String::new(),
            exit_code: None,
            has_output: false,
            head: String::new(),
            tail: String::new(),
            left_out: 0,
        }
    }

    /// Begins a call: what came since the last one is told with it.
    pub(super) fn begin(&mut self, is_typing: bool) {
        self.look();
        self.exit_code = None;
        self.has_output = false;
        self.is_typing = is_typing;
    }

    pub(super) fn resize(&mut self, size: WindowSize) {
        let (rows, cols) = cells(size);
        self.full.screen_mut().set_size(rows, cols);
    }

    /// Looks at everything that is new; false if nothing is.
    pub(super) fn look(&mut self) -> bool {
        let before = self.at;
        loop {
            let piece = self.screen.since(self.at, PIECE_BYTES_MAX);
            if piece.skipped > 0 {
                // An escape sequence may have lost its beginning.
                self.parser = Parser::new();
                self.left_out += piece.skipped;
            }
            self.at += piece.skipped + piece.bytes.len() as u64;
            if piece.bytes.is_empty() {
                return self.at > before;
            }
            self.full.process(&piece.bytes);
            // Byte by byte, because a mark says what the text on both of its sides is.
            for byte in piece.bytes {
                self.parser.advance(&mut self.lines, &[byte]);
                for mark in std::mem::take(&mut self.lines.marks) {
                    self.mark(mark);
                }
            }
            self.keep();
        }
    }

    /// Waits for more.
    pub(super) async fn more(&self) {
        self.screen.beyond(self.at).await;
    }

    /// Whether the shell waits for a command.
    pub(super) fn is_at_prompt(&self) -> bool {
        self.in_prompt
    }

    /// What is new, with the line that is not ended yet: where a pattern is looked for.
    pub(super) fn recent(&self) -> String {
        let text = if self.tail.is_empty() {
            &self.head
        } else {
            &self.tail
        };
        format!("{text}{}", self.unfinished())
    }

    /// Gives out what is new.
    pub(super) fn text(&mut self) -> String {
        if self.full.screen().alternate_screen() {
            self.forget();
            let shown = self.full.screen().contents();
            return format!("[the program fills the screen]\n{}", shown.trim_end());
        }
        let (head, tail) = (
            std::mem::take(&mut self.head),
            std::mem::take(&mut self.tail),
        );
        let unfinished = self.unfinished();
        let middle = match self.left_out {
            0 => String::new(),
            bytes => format!("\n[{bytes} bytes left out; the log has more of them]\n"),
        };
        self.forget();
        let text = format!("{head}{middle}{tail}{unfinished}");
        match text.trim_end() {
            "" => "[nothing new]".to_owned(),
            text => text.to_owned(),
        }
    }

    fn forget(&mut self) {
        self.head.clear();
        self.tail.clear();
        self.left_out = 0;
    }

    /// The line that is being written, unless it is a prompt of ours.
    fn unfinished(&self) -> String {
        let current = self.lines.current();
        if self.in_prompt && (self.exit_code.is_some() || current == PROMPT.trim_end()) {
            return String::new();
        }
        current
    }

    fn mark(&mut self, mark: Mark) {
        match mark {
            Mark::Prompt => {
                self.keep();
                self.in_prompt = true;
                self.lines.drop_current();
            }
            Mark::Output => {
                // The echo of what was typed.
                self.lines.take_done();
                self.lines.drop_current();
                self.in_prompt = false;
                self.is_typing = false;
            }
            Mark::Done(code) => {
                // Output without a line end at its end.
                if !self.in_prompt && !self.lines.current().is_empty() {
                    let rest = self.lines.current();
                    self.lines.drop_current();
                    self.add(&rest);
                    self.add("\n");
                }
                self.exit_code = Some(code);
            }
            Mark::Folder(folder) => self.folder = folder,
        }
    }

    /// Moves finished lines to what is told.
    fn keep(&mut self) {
        if self.in_prompt && self.is_typing {
            return;
        }
        let done = self.lines.take_done();
        if self.in_prompt {
            self.has_output |= !done.is_empty();
            self.add(done.strip_prefix(PROMPT).unwrap_or(&done));
        } else {
            self.has_output |= !done.is_empty() || !self.lines.current().is_empty();
            self.add(&done);
        }
    }

    fn add(&mut self, text: &str) {
        let room = HEAD_BYTES_MAX.saturating_sub(self.head.len());
        let room = if self.tail.is_empty() { room } else { 0 };
        let (head, rest) = text.split_at(text.floor_char_boundary(room.min(text.len())));
        self.head.push_str(head);
        self.tail.push_str(rest);
        let over = self.tail.len().saturating_sub(TAIL_BYTES_MAX);
        let over = self.tail.ceil_char_boundary(over);
        self.tail.drain(..over);
        self.left_out += over as u64;
    }
}

fn cells(size: WindowSize) -> (NonZero<u16>, NonZero<u16>) {
    let cells = |asked: u32, usual| {
        u16::try_from(asked)
            .ok()
            .and_then(NonZero::new)
            .unwrap_or(usual)
    };
    (cells(size.rows, ROWS), cells(size.cols, COLS))
}
