//! Reads a shell's text as commands and words, as far as they can be known before it runs.

/// Nested texts deeper than this are not looked at: they count as not understood.
pub(super) const DEPTH_MAX: usize = 8;

/// What a text consists of.
#[derive(Debug, Default)]
pub(super) struct Text {
    pub(super) commands: Vec<Vec<Word>>,
    /// Files that output goes to.
    pub(super) targets: Vec<Word>,
    /// What runs inside of words: `$(…)`, backticks, `<(…)`.
    pub(super) nested: Vec<String>,
    /// Something in it is not understood.
    pub(super) opaque: bool,
}

/// A word without its quotes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    /// What it is in the end is known only when it runs.
    pub(super) expanded: bool,
}

impl Word {
    pub(super) fn plain(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            expanded: false,
        }
    }
}

struct Reader {
    chars: Vec<char>,
    at: usize,
    text: Text,
    command: Vec<Word>,
    word: Option<Word>,
    /// The next word is where output goes to.
    is_target: bool,
    /// The next word is input, or the end of a text that follows.
    is_source: bool,
    here: Option<String>,
    heres: Vec<String>,
}

pub(super) fn read(text: &str) -> Text {
    let mut reader = Reader::new(text);
    while let Some(c) = reader.take() {
        reader.step(c);
    }
    reader.end_command();
    // The end of what follows never came.
    reader.text.opaque |= !reader.heres.is_empty();
    reader.text
}

impl Reader {
    fn new(text: &str) -> Self {
        Self {
            chars: text.chars().collect(),
            at: 0,
            text: Text::default(),
            command: Vec::new(),
            word: None,
            is_target: false,
            is_source: false,
            here: None,
            heres: Vec::new(),
        }
    }

    fn take(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        Some(c)
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn is_next(&self, c: char) -> bool {
        self.peek() == Some(c)
    }

    fn word(&mut self) -> &mut Word {
        self.word.get_or_insert_default()
    }

    fn step(&mut self, c: char) {
        match c {
            '\'' => self.single(),
            '"' => self.double(),
            '\\' => match self.take() {
                Some('\n') => {}
                Some(c) => self.word().text.push(c),
                None => self.text.opaque = true,
            },
            '$' => self.dollar(),
            '`' => self.backtick(),
            '#' if self.word.is_none() => {
                while self.peek().is_some_and(|c| c != '\n') {
                    self.at += 1;
                }
            }
            '\n' => {
                self.end_command();
                self.skip_here();
            }
            '&' if self.is_next('>') => self.end_word(),
            ';' | '|' | '&' | ')' => self.end_command(),
            '(' => {
                // A function: what it does depends on when it is called.
                self.text.opaque |= self.is_next(')');
                self.end_command();
            }
            '<' | '>' if self.is_next('(') => {
                self.at += 1;
                self.inner(')');
            }
            '>' => self.output(),
            '<' => self.input(),
            c if c.is_whitespace() => self.end_word(),
            '*' | '?' | '[' | '{' | '~' => {
                let word = self.word();
                // A lone brace groups commands, a tilde at the beginning is a home.
                word.expanded |= c != '~' && !(c == '[' && word.text.is_empty());
                word.text.push(c);
            }
            c => self.word().text.push(c),
        }
    }

    fn single(&mut self) {
        self.word();
        loop {
            match self.take() {
                Some('\'') => return,
                Some(c) => self.word().text.push(c),
                None => {
                    self.text.opaque = true;
                    return;
                }
            }
        }
    }

    fn double(&mut self) {
        self.word();
        loop {
            match self.take() {
                Some('"') => return,
                Some('\\') => match self.take() {
                    Some(c) if matches!(c, '"' | '\\' | '$' | '`') => self.word().text.push(c),
                    Some('\n') => {}
                    Some(c) => self.word().text.extend(['\\', c]),
                    None => self.text.opaque = true,
                },
                Some('$') => self.dollar(),
                Some('`') => self.backtick(),
                Some(c) => self.word().text.push(c),
                None => {
                    self.text.opaque = true;
                    return;
                }
            }
        }
    }

    fn dollar(&mut self) {
        match self.peek() {
            Some('(') => {
                self.at += 1;
                self.inner(')');
            }
            Some('{') => {
                self.at += 1;
                self.inner('}');
            }
            // `$'…'` has escapes of its own.
            Some('\'') => self.word().expanded = true,
            Some(c) if c.is_alphanumeric() || "_@*#?!-$".contains(c) => {
                let word = self.word();
                word.expanded = true;
                word.text.push('$');
            }
            _ => self.word().text.push('$'),
        }
    }

    /// Takes what runs, or is put together, up to the bracket that closes it.
    fn inner(&mut self, close: char) {
        let open = if close == ')' { '(' } else { '{' };
        let mut depth = 1;
        let mut inner = String::new();
        self.word().expanded = true;
        self.word().text.push('$');
        while let Some(c) = self.take() {
            if c == open {
                depth += 1;
            } else if c == close {
                depth -= 1;
                if depth == 0 {
                    // A plain variable runs nothing.
                    if close == ')' || inner.contains(['(', '`']) {
                        self.text.nested.push(inner);
                    }
                    return;
                }
            }
            inner.push(c);
        }
        self.text.opaque = true;
    }

    fn backtick(&mut self) {
        let mut inner = String::new();
        self.word().expanded = true;
        self.word().text.push('$');
        while let Some(c) = self.take() {
            match c {
                '`' => {
                    self.text.nested.push(inner);
                    return;
                }
                '\\' => inner.extend(self.take()),
                c => inner.push(c),
            }
        }
        self.text.opaque = true;
    }

    fn output(&mut self) {
        self.end_descriptor();
        while self.peek().is_some_and(|c| matches!(c, '>' | '|')) {
            self.at += 1;
        }
        if self.is_next('&') {
            self.at += 1;
            // `2>&1` goes nowhere else.
            if self.peek().is_some_and(|c| c.is_ascii_digit() || c == '-') {
                while self.peek().is_some_and(|c| c.is_ascii_digit() || c == '-') {
                    self.at += 1;
                }
                return;
            }
        }
        self.is_target = true;
    }

    fn input(&mut self) {
        self.end_descriptor();
        if !self.is_next('<') {
            if self.is_next('&') {
                self.at += 1;
            }
            // `<>` opens for both.
            self.is_target = self.is_next('>');
            self.at += usize::from(self.is_target);
            self.is_source = !self.is_target;
            return;
        }
        self.at += 1;
        self.is_source = true;
        if self.is_next('<') {
            self.at += 1;
            return;
        }
        let tabs = self.is_next('-');
        self.at += usize::from(tabs);
        self.here = Some(String::new());
    }

    /// Ends the word before a redirection; a number is the descriptor that it is about.
    fn end_descriptor(&mut self) {
        let is_number = |word: &Word| word.text.chars().all(|c| c.is_ascii_digit());
        if self.word.as_ref().is_some_and(is_number) {
            self.word = None;
        }
        self.end_word();
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        if self.is_target {
            self.text.targets.push(word);
        } else if self.is_source {
            if self.here.take().is_some() {
                self.heres.push(word.text);
            }
        } else {
            self.command.push(word);
        }
        self.is_target = false;
        self.is_source = false;
    }

    fn end_command(&mut self) {
        self.end_word();
        // Nothing came where a file was to be named.
        self.text.opaque |= self.is_target;
        self.is_target = false;
        self.is_source = false;
        if !self.command.is_empty() {
            self.text.commands.push(std::mem::take(&mut self.command));
        }
    }

    /// Passes over texts that commands are given. What runs inside of them is looked at.
    fn skip_here(&mut self) {
        for end in std::mem::take(&mut self.heres) {
            let mut body = String::new();
            loop {
                if self.at >= self.chars.len() {
                    self.text.opaque = true;
                    return;
                }
                let mut line = String::new();
                while let Some(c) = self.take() {
                    if c == '\n' {
                        break;
                    }
                    line.push(c);
                }
                if line.trim_start_matches('\t') == end {
                    break;
                }
                body.push_str(&line);
                body.push('\n');
            }
            // Quotes mean nothing in it, but what it puts in runs.
            let mut inner = Reader::new(&body);
            while let Some(c) = inner.take() {
                match c {
                    '$' => inner.dollar(),
                    '`' => inner.backtick(),
                    '\\' => drop(inner.take()),
                    _ => {}
                }
            }
            self.text.nested.append(&mut inner.text.nested);
            self.text.opaque |= inner.text.opaque;
        }
    }
}
