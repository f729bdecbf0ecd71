//! What the bytes of a text file say, and how changed text goes back into bytes: encoding and byte order
//! mark stay what they were.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

/// How much of a file tells whether it is text.
const SNIFF_BYTES: usize = 8 * 1024;
const MARK: &[u8] = b"\xef\xbb\xbf";

/// A text file in memory.
#[derive(Debug)]
pub(super) struct Text {
    /// UTF-8, or what was meant as such; without a byte order mark.
    pub(super) bytes: Vec<u8>,
    encoding: &'static Encoding,
    has_mark: bool,
}

impl Text {
    /// Finds out how a file is encoded. `None`: it is not text.
    pub(super) fn of(raw: &[u8]) -> Option<Self> {
        if let Some((encoding, mark)) = Encoding::for_bom(raw) {
            let rest = &raw[mark..];
            if encoding == UTF_8 {
                return (!rest.contains(&0)).then(|| Self::plain(rest, true));
            }
            return Self::decoded(rest, encoding, true);
        }
        let beginning = &raw[..raw.len().min(SNIFF_BYTES)];
        if beginning.contains(&0) {
            return Self::decoded(raw, wide(beginning)?, false)
                .filter(|text| text.bytes.iter().all(|b| *b >= b' ' || is_blank(*b)));
        }
        if is_utf8_with_damage(raw) {
            return Some(Self::plain(raw, false));
        }
        let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
        detector.feed(raw, true);
        let guessed = detector.guess(None, Utf8Detection::Deny);
        // Windows-1252 takes and gives back every byte.
        Self::decoded(raw, guessed, false).or_else(|| Self::decoded(raw, WINDOWS_1252, false))
    }

    /// The encoding's name, where it is worth saying.
    pub(super) fn unusual(&self) -> Option<&'static str> {
        (self.encoding != UTF_8).then(|| self.encoding.name())
    }

    /// The bytes of a file that says `bytes` in the encoding of this one; or the first character that
    /// the encoding does not have.
    pub(super) fn encode(&self, bytes: Vec<u8>) -> Result<Vec<u8>, char> {
        if self.encoding == UTF_8 {
            return Ok(if self.has_mark {
                [MARK, &bytes].concat()
            } else {
                bytes
            });
        }
        // It was decoded here, and what was put in is a string.
        let text = String::from_utf8(bytes).map_err(|_| char::REPLACEMENT_CHARACTER)?;
        encode(&text, self.encoding, self.has_mark)
    }

    pub(super) fn encoding(&self) -> &'static str {
        self.encoding.name()
    }

    fn plain(bytes: &[u8], has_mark: bool) -> Self {
        Self {
            bytes: bytes.to_vec(),
            encoding: UTF_8,
            has_mark,
        }
    }

    /// `None` where the bytes would not come back as they are.
    fn decoded(raw: &[u8], encoding: &'static Encoding, has_mark: bool) -> Option<Self> {
        let text = encoding.decode_without_bom_handling_and_without_replacement(raw)?;
        let back = encode(&text, encoding, false).ok()?;
        (back == raw).then(|| Self {
            bytes: text.into_owned().into_bytes(),
            encoding,
            has_mark,
        })
    }
}

fn encode(text: &str, encoding: &'static Encoding, has_mark: bool) -> Result<Vec<u8>, char> {
    let marked = has_mark.then_some('\u{feff}');
    let units = || {
        let mut units = [0; 2];
        let all = marked.into_iter().chain(text.chars());
        all.flat_map(move |c| c.encode_utf16(&mut units).to_vec())
    };
    if encoding == UTF_16LE {
        return Ok(units().flat_map(u16::to_le_bytes).collect());
    }
    if encoding == UTF_16BE {
        return Ok(units().flat_map(u16::to_be_bytes).collect());
    }
    let (bytes, _, has_unknown) = encoding.encode(text);
    if !has_unknown {
        return Ok(bytes.into_owned());
    }
    let unknown = text.chars().find(|c| {
        let mut one = [0; 4];
        encoding.encode(c.encode_utf8(&mut one)).2
    });
    Err(unknown.unwrap_or(char::REPLACEMENT_CHARACTER))
}

/// UTF-16 without a mark: Latin letters leave every second byte empty.
fn wide(beginning: &[u8]) -> Option<&'static Encoding> {
    let empty = |at: usize| beginning.iter().skip(at).step_by(2).filter(|b| **b == 0);
    let (high, low) = (empty(0).count(), empty(1).count());
    let enough = beginning.len() / 5;
    match (high, low) {
        (0, low) if low > enough => Some(UTF_16LE),
        (high, 0) if high > enough => Some(UTF_16BE),
        _ => None,
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c | 0x1b)
}

/// Whether it is UTF-8, if need be with a few bytes in it that are not: then it is shown and edited as
/// what it was meant to be.
fn is_utf8_with_damage(raw: &[u8]) -> bool {
    let mut whole = 0_usize;
    let mut broken = 0_usize;
    for chunk in raw.utf8_chunks() {
        whole += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        broken += usize::from(!chunk.invalid().is_empty());
    }
    broken == 0 || whole > 2 * broken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(raw: &[u8]) -> Text {
        Text::of(raw).expect("text")
    }

    fn said(text: &Text) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&text.bytes)
    }

    #[test]
    fn knows_what_people_have_in_their_files() {
        for (raw, shown, encoding) in [
            (&b"plain\n"[..], "plain\n", "UTF-8"),
            ("h\u{e9}\n".as_bytes(), "h\u{e9}\n", "UTF-8"),
            (b"\xef\xbb\xbfmarked", "marked", "UTF-8"),
            (b"\xff\xfea\0\xe9\0", "a\u{e9}", "UTF-16LE"),
            (b"\xfe\xff\0a\0\xe9", "a\u{e9}", "UTF-16BE"),
            (b"w\0i\0d\0e\0\n\0", "wide\n", "UTF-16LE"),
            (
                b"caf\xe9 cr\xe8me\n",
                "caf\u{e9} cr\u{e8}me\n",
                "windows-1252",
            ),
            (
                "\u{e4}\u{f6}\u{fc}\u{df}x".as_bytes(),
                "\u{e4}\u{f6}\u{fc}\u{df}x",
                "UTF-8",
            ),
        ] {
            let text = of(raw);
            assert_eq!((&*said(&text), text.encoding()), (shown, encoding));
            assert_eq!(text.encode(text.bytes.clone()).as_deref(), Ok(raw));
        }
        let damaged = of(b"\xc3\xa4\xc3\xb6\xc3\xbc \xff\n");
        assert_eq!(said(&damaged), "\u{e4}\u{f6}\u{fc} \u{fffd}\n");
        for binary in [&b"\x7fELF\0\0\x01"[..], b"\0\0\0\0", b"\xff\xfe\0\xd8"] {
            assert!(Text::of(binary).is_none(), "{binary:?}");
        }
        let latin = of(b"caf\xe9\n");
        assert_eq!(latin.encode("\u{2713}".into()), Err('\u{2713}'));
    }

    proptest::proptest! {
        #[test]
        fn gives_back_every_byte(raw in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            if let Some(text) = Text::of(&raw) {
                proptest::prop_assert_eq!(text.encode(text.bytes.clone()), Ok(raw));
            }
        }

        #[test]
        fn wide_texts_survive(chars in ".{1,40}", big in proptest::bool::ANY) {
            let encoding = if big { UTF_16BE } else { UTF_16LE };
            let raw = encode(&chars, encoding, true).expect("every character");
            let text = of(&raw);
            proptest::prop_assert_eq!(&*said(&text), chars.as_str());
            proptest::prop_assert_eq!(text.encode(text.bytes.clone()), Ok(raw));
        }
    }
}
