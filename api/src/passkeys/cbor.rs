//! CBOR (RFC 8949) as authenticators write it: a few items of definite length, hardly nested.
//!
//! Written by whoever likes, so all is bounded, and nothing is reserved because of a length that is only said. A map
//! that has a key twice is refused: two readers could take it for two things.

/// Items in one array or map. What is read here has at most seven.
const ITEMS_MAX: usize = 64;
/// As authenticators may nest (CTAP 2.1, section 8).
const DEPTH_MAX: usize = 4;

/// An item, as far as what is read here has such.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    Unsigned(u64),
    /// -1 - n.
    Negative(u64),
    Bytes(&'a [u8]),
    Text(&'a str),
    Array(Vec<Value<'a>>),
    Map(Vec<(Value<'a>, Value<'a>)>),
    /// `false`, `true`, `null`, `undefined` and others without content, by number.
    Simple(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Bad {
    #[error("it ends too early")]
    Short,
    #[error("it has an item that is not read here")]
    Unknown,
    #[error("text in it is not UTF-8")]
    Text,
    #[error("it has more than {ITEMS_MAX} items in one")]
    TooMany,
    #[error("it is nested deeper than {DEPTH_MAX}")]
    TooDeep,
    #[error("a map in it has a key twice")]
    Twice,
    #[error("something follows it")]
    Long,
}

/// Reads one item, and returns what follows it.
pub fn read(bytes: &[u8]) -> Result<(Value<'_>, &[u8]), Bad> {
    let mut rest = bytes;
    let value = item(&mut rest, DEPTH_MAX)?;
    Ok((value, rest))
}

/// Reads one item that nothing follows.
pub fn read_all(bytes: &[u8]) -> Result<Value<'_>, Bad> {
    match read(bytes)? {
        (value, []) => Ok(value),
        _ => Err(Bad::Long),
    }
}

impl<'a> Value<'a> {
    /// Returns what a map has under a name.
    pub fn named(&self, name: &str) -> Option<&Value<'a>> {
        self.entry(|key| matches!(key, Value::Text(text) if *text == name))
    }

    /// Returns what a map has under a number.
    pub fn numbered(&self, number: i64) -> Option<&Value<'a>> {
        self.entry(|key| key.number() == Some(number))
    }

    pub fn number(&self) -> Option<i64> {
        match self {
            Value::Unsigned(n) => i64::try_from(*n).ok(),
            Value::Negative(n) => Some(-1 - i64::try_from(*n).ok()?),
            _ => None,
        }
    }

    pub fn bytes(&self) -> Option<&'a [u8]> {
        match self {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    pub fn text(&self) -> Option<&'a str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    fn entry(&self, is: impl Fn(&Value<'a>) -> bool) -> Option<&Value<'a>> {
        let Value::Map(entries) = self else {
            return None;
        };
        entries.iter().find(|(key, _)| is(key)).map(|(_, of)| of)
    }
}

fn item<'a>(rest: &mut &'a [u8], depth: usize) -> Result<Value<'a>, Bad> {
    let [first] = take(rest, 1)? else {
        return Err(Bad::Short);
    };
    let (sort, short) = (first >> 5, first & 0x1f);
    let argument = argument(rest, short)?;
    Ok(match sort {
        0 => Value::Unsigned(argument),
        1 => Value::Negative(argument),
        2 => Value::Bytes(take_long(rest, argument)?),
        3 => {
            let text = std::str::from_utf8(take_long(rest, argument)?);
            Value::Text(text.map_err(|_| Bad::Text)?)
        }
        4 => {
            let depth = depth.checked_sub(1).ok_or(Bad::TooDeep)?;
            let items = (0..count(argument)?).map(|_| item(rest, depth));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        5 => {
            let depth = depth.checked_sub(1).ok_or(Bad::TooDeep)?;
            let mut entries: Vec<(Value<'a>, Value<'a>)> = Vec::new();
            for _ in 0..count(argument)? {
                let key = item(rest, depth)?;
                if entries.iter().any(|(other, _)| *other == key) {
                    return Err(Bad::Twice);
                }
                entries.push((key, item(rest, depth)?));
            }
            Value::Map(entries)
        }
        // Floating numbers and tags are in nothing that is read here.
        7 if short < 24 => Value::Simple(short),
        _ => return Err(Bad::Unknown),
    })
}

/// The number in or behind the first byte of an item.
fn argument(rest: &mut &[u8], short: u8) -> Result<u64, Bad> {
    let size = match short {
        0..24 => return Ok(u64::from(short)),
        24 => 1,
        25 => 2,
        26 => 4,
        27 => 8,
        // Lengths that are not said beforehand.
        _ => return Err(Bad::Unknown),
    };
    let bytes = take(rest, size)?;
    Ok(bytes
        .iter()
        .fold(0, |sum, byte| (sum << 8) | u64::from(*byte)))
}

fn count(said: u64) -> Result<usize, Bad> {
    let count = usize::try_from(said).ok();
    count
        .filter(|count| *count <= ITEMS_MAX)
        .ok_or(Bad::TooMany)
}

fn take_long<'a>(rest: &mut &'a [u8], said: u64) -> Result<&'a [u8], Bad> {
    take(rest, usize::try_from(said).map_err(|_| Bad::Short)?)
}

fn take<'a>(rest: &mut &'a [u8], size: usize) -> Result<&'a [u8], Bad> {
    let (taken, left) = rest.split_at_checked(size).ok_or(Bad::Short)?;
    *rest = left;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn head(sort: u8, argument: u64, out: &mut Vec<u8>) {
        let sort = sort << 5;
        match argument {
            0..24 => out.push(sort | u8::try_from(argument).unwrap()),
            24..0x100 => out.extend([sort | 0x18, u8::try_from(argument).unwrap()]),
            0x100..0x1_0000 => {
                out.push(sort | 0x19);
                out.extend(u16::try_from(argument).unwrap().to_be_bytes());
            }
            0x1_0000..0x1_0000_0000 => {
                out.push(sort | 0x1a);
                out.extend(u32::try_from(argument).unwrap().to_be_bytes());
            }
            _ => {
                out.push(sort | 0x1b);
                out.extend(argument.to_be_bytes());
            }
        }
    }

    fn write(value: &Value<'_>, out: &mut Vec<u8>) {
        match value {
            Value::Unsigned(n) => head(0, *n, out),
            Value::Negative(n) => head(1, *n, out),
            Value::Bytes(bytes) => {
                head(2, bytes.len() as u64, out);
                out.extend(*bytes);
            }
            Value::Text(text) => {
                head(3, text.len() as u64, out);
                out.extend(text.as_bytes());
            }
            Value::Array(items) => {
                head(4, items.len() as u64, out);
                for item in items {
                    write(item, out);
                }
            }
            Value::Map(entries) => {
                head(5, entries.len() as u64, out);
                for (key, value) in entries {
                    write(key, out);
                    write(value, out);
                }
            }
            Value::Simple(n) => out.push(0xe0 | n),
        }
    }

    /// Any item, of pieces that live for the whole test.
    fn any_value() -> impl Strategy<Value = Value<'static>> {
        let bytes: &'static [u8] = &[0xa5; 300];
        let text = "a map may have any text as its key, längere auch";
        let leaf = prop_oneof![
            any::<u64>().prop_map(Value::Unsigned),
            any::<u64>().prop_map(Value::Negative),
            (0..bytes.len()).prop_map(move |end| Value::Bytes(&bytes[..end])),
            (0..20_usize).prop_map(move |end| Value::Text(&text[..end])),
            (0..24_u8).prop_map(Value::Simple),
        ];
        leaf.prop_recursive(3, 40, 8, |inner| {
            let map = prop::collection::vec((0..1_000_u64, inner.clone()), 0..8);
            let map = map.prop_map(|mut entries| {
                entries.sort_by_key(|(key, _)| *key);
                entries.dedup_by_key(|(key, _)| *key);
                let entries = entries.into_iter();
                Value::Map(
                    entries
                        .map(|(key, of)| (Value::Unsigned(key), of))
                        .collect(),
                )
            });
            prop_oneof![
                prop::collection::vec(inner, 0..8).prop_map(Value::Array),
                map
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(value in any_value(), tail in prop::collection::vec(any::<u8>(), 0..4)) {
            let mut bytes = Vec::new();
            write(&value, &mut bytes);
            prop_assert_eq!(read_all(&bytes), Ok(value.clone()));
            for end in 0..bytes.len() {
                prop_assert_eq!(read(&bytes[..end]), Err(Bad::Short));
            }
            bytes.extend(&tail);
            prop_assert_eq!(read(&bytes), Ok((value, tail.as_slice())));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok((value, rest)) = read(&bytes) {
                prop_assert!(rest.len() < bytes.len());
                let mut written = Vec::new();
                write(&value, &mut written);
                prop_assert_eq!(read_all(&written), Ok(value));
                // Ours is the shortest form.
                prop_assert!(written.len() <= bytes.len() - rest.len());
            }
        }
    }

    #[test]
    fn what_is_not_bounded_is_refused() {
        for (bytes, why) in [
            (&[0x5f, 0x41, 0x00, 0xff][..], Bad::Unknown),
            (&[0xfb, 0, 0, 0, 0, 0, 0, 0, 0], Bad::Unknown),
            (&[0xc0, 0x00], Bad::Unknown),
            (
                &[0x5b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
                Bad::Short,
            ),
            (
                &[0xbb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
                Bad::TooMany,
            ),
            (&[0x81, 0x81, 0x81, 0x81, 0x81, 0x00], Bad::TooDeep),
            (&[0xa2, 0x01, 0x00, 0x01, 0x00], Bad::Twice),
            (&[0x61, 0xff], Bad::Text),
            (&[], Bad::Short),
        ] {
            assert_eq!(read(bytes), Err(why), "{bytes:x?}");
        }
        assert_eq!(read_all(&[0x00, 0x00]), Err(Bad::Long));
    }
}
