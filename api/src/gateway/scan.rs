//! Finds one member of a JSON object while the object passes by, in bounded memory.

/// Bytes of a key or a value that are kept. A usage object has some hundreds.
const KEPT_BYTES_MAX: usize = 16 << 10;

/// Reads an object byte by byte and keeps the value of one top-level member. Of several members with
/// the name, the last counts: that is the one most servers read.
///
/// Input that is not JSON finds nothing, or something that does not parse.
#[derive(Debug)]
pub(crate) struct Member {
    name: &'static str,
    depth: u32,
    in_string: bool,
    escaped: bool,
    before_key: bool,
    matched: bool,
    keeping: bool,
    kept: Vec<u8>,
    found: Option<Vec<u8>>,
}

impl Member {
    pub(crate) fn new(name: &'static str) -> Self {
        Self {
            name,
            depth: 0,
            in_string: false,
            escaped: false,
            before_key: false,
            matched: false,
            keeping: false,
            kept: Vec::new(),
            found: None,
        }
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some((&byte, after)) = rest.split_first() {
            if self.in_string && !self.keeping && !self.escaped {
                // Most bytes are in strings that nobody asked for.
                let boring = rest.iter().position(|b| matches!(b, b'"' | b'\\'));
                let boring = boring.unwrap_or(rest.len());
                if boring > 0 {
                    rest = &rest[boring..];
                    continue;
                }
            }
            self.byte(byte);
            rest = after;
        }
    }

    /// Returns the value as it was written.
    pub(crate) fn value(&self) -> Option<&[u8]> {
        self.found.as_deref()
    }

    fn byte(&mut self, byte: u8) {
        if self.in_string {
            self.keep(byte);
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => {
                if self.depth == 1 && self.before_key {
                    self.kept.clear();
                    self.keeping = true;
                }
                self.keep(byte);
                self.in_string = true;
            }
            b':' if self.depth == 1 && self.before_key => {
                let key = serde_json::from_slice::<String>(&self.kept);
                self.matched = self.keeping && key.is_ok_and(|key| key == self.name);
                self.keeping = self.matched;
                self.kept.clear();
                self.before_key = false;
            }
            b',' if self.depth == 1 => {
                self.value_ended();
                self.before_key = true;
            }
            b'{' | b'[' => {
                self.keep(byte);
                self.depth = self.depth.saturating_add(1);
                if self.depth == 1 {
                    self.before_key = byte == b'{';
                }
            }
            b'}' | b']' => {
                if self.depth == 1 {
                    self.value_ended();
                    self.before_key = false;
                }
                self.keep(byte);
                self.depth = self.depth.saturating_sub(1);
            }
            _ => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        if !self.keeping {
            return;
        }
        if self.kept.len() < KEPT_BYTES_MAX {
            self.kept.push(byte);
        } else {
            self.keeping = false;
        }
    }

    fn value_ended(&mut self) {
        if self.matched && self.keeping {
            self.found = Some(std::mem::take(&mut self.kept));
        }
        self.matched = false;
        self.keeping = false;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value};

    use super::*;

    fn find(name: &'static str, chunks: &[&[u8]]) -> Option<String> {
        let mut member = Member::new(name);
        for chunk in chunks {
            member.feed(chunk);
        }
        member
            .value()
            .map(|value| String::from_utf8_lossy(value).trim().to_owned())
    }

    #[test]
    fn only_the_top_level_counts() {
        let body =
            br#"{"messages":[{"model":"no","x":"\"model\":\"no\","}],"model": "yes" ,"n":1}"#;
        assert_eq!(find("model", &[body]).unwrap(), r#""yes""#);
        assert_eq!(find("absent", &[body]), None);
        assert_eq!(find("model", &[br#"[{"model":"no"}]"#]), None);
        assert_eq!(find("model", &[br#"["model",":","x"]"#]), None);
    }

    #[test]
    fn the_last_of_several_and_escaped_names_count() {
        let body = br#"{"model":"cheap","mod\u0065l":"dear"}"#;
        assert_eq!(find("model", &[body]).unwrap(), r#""dear""#);
    }

    #[test]
    fn memory_is_bounded() {
        let mut member = Member::new("model");
        member.feed(br#"{"model":""#);
        for _ in 0..1000 {
            member.feed(&[b'x'; 1000]);
        }
        member.feed(br#"","usage":1}"#);
        assert!(member.kept.capacity() <= 2 * KEPT_BYTES_MAX && member.value().is_none());
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            "[\\PC\"\\\\{}\\[\\]:,]{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("usage|[a-z\"\\\\]{0,3}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn agrees_with_a_parser_however_it_is_cut(
            members in prop::collection::btree_map("usage|[a-z\"\\\\{}:,]{0,5}", value(), 0..6),
            pretty in any::<bool>(),
            cut in 1_usize..9,
        ) {
            let object: Map<String, Value> = members.into_iter().collect();
            let object = Value::Object(object);
            let text = if pretty { serde_json::to_vec_pretty(&object) } else { serde_json::to_vec(&object) };
            let text = text.unwrap();
            let chunks: Vec<&[u8]> = text.chunks(cut).collect();
            let found = find("usage", &chunks).map(|text| serde_json::from_str::<Value>(&text).unwrap());
            prop_assert_eq!(found.as_ref(), object.get("usage"));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _found = find("usage", &[&bytes]);
        }
    }
}
