//! Text that is nearly JSON. Only what has one reading is read.

mod string;

use serde_json::{Map, Number, Value};

use super::Repair;

/// As deep as the strict parser goes, and this one recurses too.
const DEPTH_MAX: usize = 100;

/// Reads a text that the strict parser refused. The error is a hint for the model.
pub(super) fn parse(text: &str, is_cut: bool) -> Result<(Value, Vec<Repair>), String> {
    let mut repairs = Vec::new();
    let text = match unfenced(text)? {
        Some(inner) => {
            repairs.push(Repair::Fence);
            inner
        }
        None => text,
    };
    if let Ok(value) = serde_json::from_str(text) {
        return Ok((value, repairs));
    }
    let mut parser = Parser {
        text,
        pos: 0,
        open: Vec::new(),
        unclosed: 0,
        could_end: None,
        repairs,
    };
    let value = parser.value()?;
    parser.space();
    if parser.pos < text.len() {
        return Err(parser.here("there is more text after the arguments"));
    }
    parser.closes_one_way(is_cut)?;
    let mut repairs = parser.repairs;
    repairs.sort();
    repairs.dedup();
    Ok((value, repairs))
}

/// What stands in a fenced block, if the whole text is one.
fn unfenced(text: &str) -> Result<Option<&str>, String> {
    let Some(rest) = text.strip_prefix("```") else {
        return Ok(None);
    };
    let word = rest.find(|c: char| !c.is_ascii_alphanumeric());
    let rest = &rest[word.unwrap_or(rest.len())..];
    let inner = rest.strip_suffix("```").unwrap_or(rest).trim();
    if inner.is_empty() {
        return Err("the code fence holds nothing".to_owned());
    }
    Ok(Some(inner))
}

struct Parser<'a> {
    text: &'a str,
    pos: usize,
    /// Brackets around this place: whether each is an object's.
    open: Vec<bool>,
    /// Brackets that were open when the text ended.
    unclosed: usize,
    /// The fewest brackets that would have to be closed at some comma for what follows to go on further
    /// out.
    could_end: Option<usize>,
    repairs: Vec<Repair>,
}

impl Parser<'_> {
    fn value(&mut self) -> Result<Value, String> {
        if self.open.len() >= DEPTH_MAX {
            return Err(self.here("this is nested too deeply"));
        }
        self.space();
        match self.peek() {
            Some('{') => self.object(),
            Some('[') => self.array(),
            Some('"' | '\'') => self.string().map(Value::String),
            Some('-' | '0'..='9') => self.number(),
            Some(c) if c.is_ascii_alphabetic() => self.literal(),
            Some(_) => Err(self.here("a value is expected")),
            None => Err("a value is missing at the end".to_owned()),
        }
    }

    fn object(&mut self) -> Result<Value, String> {
        self.enter(true);
        let mut members = Map::new();
        loop {
            if self.leaves(members.is_empty(), '}')? {
                return Ok(Value::Object(members));
            }
            let key = self.key()?;
            self.space();
            if !self.eat(':') {
                return Err(self.here("a `:` is expected"));
            }
            let value = self.value()?;
            match members.get(&key) {
                Some(other) if *other != value => {
                    return Err(format!("`{}` is there twice", shortened(&key)));
                }
                _ => drop(members.insert(key, value)),
            }
        }
    }

    fn array(&mut self) -> Result<Value, String> {
        self.enter(false);
        let mut items = Vec::new();
        loop {
            if self.leaves(items.is_empty(), ']')? {
                return Ok(Value::Array(items));
            }
            items.push(self.value()?);
        }
    }

    fn enter(&mut self, is_object: bool) {
        self.pos += 1;
        self.open.push(is_object);
    }

    /// Reads what stands between two members, and says whether the bracket ends here instead.
    fn leaves(&mut self, is_first: bool, end: char) -> Result<bool, String> {
        self.space();
        if self.eat(end) {
            self.open.pop();
            return Ok(true);
        }
        if self.peek().is_none() {
            return self.ends_open(is_first);
        }
        if is_first {
            return Ok(false);
        }
        if !self.eat(',') {
            let hint = if end == '}' {
                "a `,` or `}` is expected"
            } else {
                "a `,` or `]` is expected"
            };
            return Err(self.here(hint));
        }
        self.space();
        if self.eat(end) {
            self.open.pop();
            self.repairs.push(Repair::TrailingComma);
            return Ok(true);
        }
        if let Some(levels) = levels_to_same_kind(&self.open) {
            self.could_end = Some(self.could_end.map_or(levels, |least| least.min(levels)));
        }
        Ok(false)
    }

    /// The text ends inside a bracket.
    fn ends_open(&mut self, is_first: bool) -> Result<bool, String> {
        let before = self.text[..self.pos].trim_end();
        // A number may go on, and behind an opening bracket or a comma anything may be missing.
        if is_first || before.ends_with(|c: char| c == ',' || c.is_ascii_digit()) {
            return Err("the text ends in the middle".to_owned());
        }
        self.open.pop();
        self.unclosed += 1;
        self.repairs.push(Repair::Unclosed);
        Ok(true)
    }

    /// Whether missing brackets can only be missing at the end. An inner bracket that could have been
    /// closed at one of its commas, so that what follows belongs to an outer one, is another reading.
    fn closes_one_way(&self, is_cut: bool) -> Result<(), String> {
        if self.unclosed == 0 {
            return Ok(());
        }
        if is_cut || self.could_end.is_some_and(|levels| levels <= self.unclosed) {
            return Err("closing brackets are missing, and it is not clear where".to_owned());
        }
        Ok(())
    }

    fn key(&mut self) -> Result<String, String> {
        match self.peek() {
            Some('"' | '\'') => self.string(),
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                self.repairs.push(Repair::BareKey);
                Ok(self.word())
            }
            Some(_) => Err(self.here("a name in double quotes is expected")),
            None => Err("the text ends in the middle".to_owned()),
        }
    }

    fn number(&mut self) -> Result<Value, String> {
        let rest = &self.text[self.pos..];
        let end = rest.find(|c: char| !matches!(c, '-' | '+' | '.' | 'e' | 'E' | '0'..='9'));
        let text = &rest[..end.unwrap_or(rest.len())];
        let number =
            serde_json::from_str::<Number>(text).map_err(|_| self.here("this is not a number"))?;
        self.pos += text.len();
        Ok(Value::Number(number))
    }

    fn literal(&mut self) -> Result<Value, String> {
        let start = self.pos;
        let value = match self.word().as_str() {
            "true" => return Ok(Value::Bool(true)),
            "false" => return Ok(Value::Bool(false)),
            "null" => return Ok(Value::Null),
            "True" => Value::Bool(true),
            "False" => Value::Bool(false),
            "None" => Value::Null,
            _ => {
                self.pos = start;
                return Err(self.here("strings need double quotes"));
            }
        };
        self.repairs.push(Repair::PythonLiteral);
        Ok(value)
    }

    fn word(&mut self) -> String {
        let rest = &self.text[self.pos..];
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let word = &rest[..end.unwrap_or(rest.len())];
        self.pos += word.len();
        word.to_owned()
    }

    fn space(&mut self) {
        let rest = &self.text[self.pos..];
        self.pos += rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
    }

    fn peek(&self) -> Option<char> {
        self.text[self.pos..].chars().next()
    }

    fn eat(&mut self, wanted: char) -> bool {
        let is_there = self.peek() == Some(wanted);
        if is_there {
            self.pos += wanted.len_utf8();
        }
        is_there
    }

    /// Says something about this place.
    fn here(&self, what: &str) -> String {
        let before = &self.text[..self.pos];
        let start = before
            .char_indices()
            .rev()
            .take(20)
            .last()
            .map_or(0, |(at, _)| at);
        format!("{what} behind `{}`", before[start..].replace('\n', "\\n"))
    }
}

/// How many levels above the innermost bracket the next one of its kind is.
fn levels_to_same_kind(open: &[bool]) -> Option<usize> {
    let (inner, outer) = open.split_last()?;
    let levels = outer.iter().rev().position(|kind| kind == inner)?;
    Some(levels + 1)
}

fn shortened(text: &str) -> String {
    text.chars().take(60).collect()
}
