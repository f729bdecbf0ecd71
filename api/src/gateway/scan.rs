//! Finds members of a JSON object while the object passes by, in bounded memory.

/// Bytes of a key or a value that are kept. A usage object has some hundreds.
const KEPT_BYTES_MAX: usize = 16 << 10;

/// A string at least this long of nothing but base64 is a picture or a document, which vendors do not
/// count by its letters.
const BLOB_BYTES_MIN: u64 = 4 << 10;

/// What vendors count a large picture as, at most about. A document of many pages counts more; it is settled
/// with what the vendor says.
const BLOB_TOKENS_MAX: u64 = 3_000;

/// Reads an object byte by byte and keeps the values of some members. Of several members with
/// a name, the last counts: that is the one most servers read.
///
/// Input that is not JSON finds nothing, or something that does not parse.
#[derive(Debug)]
pub(crate) struct Members {
    names: &'static [&'static str],
    /// How deep the members lie: 1 is the top level, 2 is in any of its objects.
    at: u32,
    depth: u32,
    in_string: bool,
    escaped: bool,
    before_key: bool,
    matched: Option<usize>,
    keeping: bool,
    kept: Vec<u8>,
    found: Vec<Option<Vec<u8>>>,
    /// Bytes of the string that is being read, as long as all of them are base64.
    blob: Option<u64>,
    blobs: Blobs,
}

/// Strings that are pictures or documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Blobs {
    pub(crate) bytes: u64,
    /// What they count as, about.
    pub(crate) tokens: u64,
}

impl Members {
    pub(crate) fn new(names: &'static [&'static str]) -> Self {
        Self::at(1, names)
    }

    /// Looks for members of the objects in the object.
    pub(crate) fn inner(names: &'static [&'static str]) -> Self {
        Self::at(2, names)
    }

    fn at(at: u32, names: &'static [&'static str]) -> Self {
        Self {
            names,
            at,
            depth: 0,
            in_string: false,
            escaped: false,
            before_key: false,
            matched: None,
            keeping: false,
            kept: Vec::new(),
            found: vec![None; names.len()],
            blob: None,
            blobs: Blobs::default(),
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
                    self.weigh(&rest[..boring]);
                    rest = &rest[boring..];
                    continue;
                }
            }
            self.byte(byte);
            rest = after;
        }
    }

    /// Returns the value of the member with this name as it was written.
    pub(crate) fn value(&self, name: &str) -> Option<&[u8]> {
        let index = self.names.iter().position(|one| *one == name)?;
        self.found[index].as_deref()
    }

    /// Returns the pictures and documents so far.
    pub(crate) fn blobs(&self) -> Blobs {
        self.blobs
    }

    /// Takes a piece of a string, without its quotes.
    fn weigh(&mut self, piece: &[u8]) {
        let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=_-:;,.".contains(byte);
        self.blob = self
            .blob
            .filter(|_| piece.iter().all(is_base64))
            .map(|bytes| bytes.saturating_add(piece.len() as u64));
    }

    fn string_ended(&mut self) {
        if let Some(bytes) = self.blob.take().filter(|bytes| *bytes >= BLOB_BYTES_MIN) {
            self.blobs.bytes = self.blobs.bytes.saturating_add(bytes);
            self.blobs.tokens = self
                .blobs
                .tokens
                .saturating_add(BLOB_TOKENS_MAX.min(bytes / 3));
        }
    }

    fn byte(&mut self, byte: u8) {
        if self.in_string {
            self.keep(byte);
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => {
                    self.escaped = true;
                    self.blob = None;
                }
                b'"' => {
                    self.in_string = false;
                    self.string_ended();
                }
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => {
                if self.depth == self.at && self.before_key {
                    self.kept.clear();
                    self.keeping = true;
                }
                self.keep(byte);
                self.in_string = true;
                self.blob = Some(0);
            }
            b':' if self.depth == self.at && self.before_key => {
                let key = serde_json::from_slice::<String>(&self.kept).ok();
                let key = key.filter(|_| self.keeping);
                self.matched = key.and_then(|key| self.names.iter().position(|one| *one == key));
                self.keeping = self.matched.is_some();
                self.kept.clear();
                self.before_key = false;
            }
            b',' if self.depth == self.at => {
                self.value_ended();
                self.before_key = true;
            }
            b'{' | b'[' => {
                self.keep(byte);
                self.depth = self.depth.saturating_add(1);
                if self.depth == self.at {
                    self.before_key = byte == b'{';
                }
            }
            b'}' | b']' => {
                if self.depth == self.at {
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
        if let Some(index) = self.matched.take().filter(|_| self.keeping) {
            self.found[index] = Some(std::mem::take(&mut self.kept));
        }
        self.keeping = false;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value};

    use super::*;

    fn find(name: &'static str, chunks: &[&[u8]]) -> Option<String> {
        read(Members::new(&["usage", "absent", "model"]), name, chunks)
    }

    fn read(mut members: Members, name: &str, chunks: &[&[u8]]) -> Option<String> {
        for chunk in chunks {
            members.feed(chunk);
        }
        members
            .value(name)
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
    fn the_level_below_can_be_read() {
        let body = br#"{"usage":1,"a":[{"usage":2}],"response":{"x":{"usage":3},"usage":{"n":4},"y":"usage"},"z":5}"#;
        for cut in 1..body.len() {
            let chunks: Vec<&[u8]> = body.chunks(cut).collect();
            let found = read(Members::inner(&["usage"]), "usage", &chunks);
            assert_eq!(found.unwrap(), r#"{"n":4}"#);
        }
    }

    #[test]
    fn pictures_are_told_from_text() {
        let weigh = |body: &str, cut| {
            let mut members = Members::new(&["model"]);
            body.as_bytes()
                .chunks(cut)
                .for_each(|chunk| members.feed(chunk));
            members.blobs()
        };
        let picture = "iVBORw0KGgo+/".repeat(1_000);
        let prose = "one two three ".repeat(1_000);
        let body = format!(
            r#"{{"model":"m","a":[{{"data":"{picture}"}},"data:image/png;base64,{picture}","{prose}","{prose}
"]}}"#
        );
        for cut in [1, 7, 4_096, body.len()] {
            let blobs = weigh(&body, cut);
            assert_eq!(blobs.bytes, 2 * picture.len() as u64 + 22);
            assert_eq!(blobs.tokens, 2 * BLOB_TOKENS_MAX);
        }
        assert_eq!(weigh(r#"["AAAA"]"#, 1), Blobs::default());
    }

    #[test]
    fn memory_is_bounded() {
        let mut member = Members::new(&["model"]);
        member.feed(br#"{"model":""#);
        for _ in 0..1000 {
            member.feed(&[b'x'; 1000]);
        }
        member.feed(br#"","usage":1}"#);
        assert!(member.kept.capacity() <= 2 * KEPT_BYTES_MAX && member.value("model").is_none());
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
