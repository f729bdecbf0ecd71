//! Server-sent events: bytes in, events out, however the bytes are split.

use super::failure::Failure;

/// Longest event. The largest a vendor sends is a block of a few hundred KiB.
const EVENT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// One event: its name (may be empty) and its data lines joined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) data: String,
}

/// Keeps what is between two events.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    line: Vec<u8>,
    /// The line before ended in a carriage return: a line feed right behind it belongs to it.
    after_return: bool,
    /// Anything was seen: a byte order mark counts at the very start only.
    begun: bool,
    name: String,
    data: Vec<u8>,
    has_data: bool,
}

impl Parser {
    /// Takes bytes in and returns the events that they complete.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<Vec<Event>, Failure> {
        let mut events = Vec::new();
        for byte in bytes {
            match byte {
                b'\n' if self.after_return => self.after_return = false,
                b'\n' | b'\r' => {
                    self.after_return = *byte == b'\r';
                    events.extend(self.end_line());
                }
                _ => {
                    self.after_return = false;
                    self.line.push(*byte);
                }
            }
            if self.line.len() + self.data.len() > EVENT_BYTES_MAX {
                return Err(Failure::garbled("an event is longer than 4 MiB".to_owned()));
            }
        }
        Ok(events)
    }

    fn end_line(&mut self) -> Option<Event> {
        let line = std::mem::take(&mut self.line);
        let mut line = line.as_slice();
        if !self.begun {
            self.begun = true;
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        if line.is_empty() {
            let name = std::mem::take(&mut self.name);
            let data = std::mem::take(&mut self.data);
            let complete = std::mem::take(&mut self.has_data);
            return complete.then(|| Event {
                name,
                data: String::from_utf8_lossy(&data).into_owned(),
            });
        }
        let (field, value) = match line.iter().position(|b| *b == b':') {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &line[line.len()..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
            // A comment, an id, a reconnection time, or something of the future.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(bytes: &[u8]) -> Vec<Event> {
        Parser::default().take(bytes).expect("short events")
    }

    #[test]
    fn reads_names_data_comments_and_endings() {
        let events = whole(
            b"\xef\xbb\xbf: hello\r\nevent: a\r\ndata: 1\r\ndata:2\r\n\r\nid: 7\n\ndata\n\ndata: \xf0\x9f\xa6\x8b\r\rdata: cut",
        );
        let event = |name: &str, data: &str| Event {
            name: name.into(),
            data: data.into(),
        };
        assert_eq!(events, [event("a", "1\n2"), event("", ""), event("", "🦋")]);
    }

    #[test]
    fn an_endless_event_is_garbled() {
        let mut parser = Parser::default();
        let block = vec![b'x'; 1024 * 1024];
        let failed = (0..5).find_map(|_| parser.take(&block).err());
        assert!(failed.is_some());
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_events(
            text in "(data: [a-z🦋:]{0,5}|event: [a-z]{1,3}|: x|data|\r|\n|\r\n){0,30}",
            cuts in proptest::collection::vec(0_usize..200, 0..12),
        ) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<_> = cuts.into_iter().filter(|cut| *cut <= bytes.len()).collect();
            cuts.push(bytes.len());
            cuts.sort_unstable();
            let mut parser = Parser::default();
            let mut events = Vec::new();
            let mut from = 0;
            for cut in cuts {
                events.extend(parser.take(&bytes[from..cut]).expect("short events"));
                from = cut;
            }
            prop_assert_eq!(events, whole(bytes));
        }
    }
}
