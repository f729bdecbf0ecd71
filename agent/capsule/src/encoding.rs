//! Numbers and byte strings as all sealed parts write them.
//!
//! Numbers are LEB128 in the fewest bytes, signed ones zigzag before that; byte strings have their length
//! before them. A reader never allocates more than the bytes it was given.

/// Why bytes are not what they should be.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error("the bytes end within `{0}`")]
    Short(&'static str),
    #[error("`{0}` is not a number of this format")]
    Number(&'static str),
    #[error("`{0}` has a value that nothing writes")]
    Value(&'static str),
    #[error("bytes follow where nothing should")]
    Trailing,
    #[error("a name leads out of its directory")]
    NameOutside,
    #[error("names are not in order")]
    Order,
}

/// Appends an unsigned number.
pub fn put_number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).unwrap_or(0) | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap_or(0));
}

/// Appends a signed number.
pub fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_number(out, ((value << 1) ^ (value >> 63)).cast_unsigned());
}

/// Appends a byte string with its length.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads from a slice, never beyond it.
#[derive(Clone, Debug)]
pub struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// How many bytes are left.
    pub fn left(&self) -> usize {
        self.0.len()
    }

    /// Takes `count` bytes.
    pub fn take(&mut self, count: usize, what: &'static str) -> Result<&'a [u8], Error> {
        let (head, tail) = self.0.split_at_checked(count).ok_or(Error::Short(what))?;
        self.0 = tail;
        Ok(head)
    }

    /// Takes as many bytes as `N`.
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Error> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N, what)?);
        Ok(out)
    }

    /// Takes one byte.
    pub fn byte(&mut self, what: &'static str) -> Result<u8, Error> {
        Ok(self.take(1, what)?[0])
    }

    /// Takes an unsigned number.
    pub fn number(&mut self, what: &'static str) -> Result<u64, Error> {
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.byte(what)?;
            let bits = u64::from(byte & 0x7f);
            if (shift == 63 && bits > 1) || (shift > 0 && byte == 0) {
                return Err(Error::Number(what));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Error::Number(what))
    }

    /// Takes an unsigned number of 32 bits.
    pub fn number32(&mut self, what: &'static str) -> Result<u32, Error> {
        u32::try_from(self.number(what)?).map_err(|_| Error::Number(what))
    }

    /// Takes a signed number.
    pub fn signed(&mut self, what: &'static str) -> Result<i64, Error> {
        let raw = self.number(what)?;
        Ok((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed())
    }

    /// Takes a count of things that have at least `least` bytes each, so no more than can follow.
    pub fn count(&mut self, least: usize, what: &'static str) -> Result<usize, Error> {
        let count = usize::try_from(self.number(what)?).map_err(|_| Error::Number(what))?;
        if count > self.left() / least.max(1) {
            return Err(Error::Short(what));
        }
        Ok(count)
    }

    /// Takes a byte string with its length.
    pub fn bytes(&mut self, what: &'static str) -> Result<&'a [u8], Error> {
        let count = self.count(1, what)?;
        self.take(count, what)
    }

    /// Says that nothing should be left.
    pub fn end(&self) -> Result<(), Error> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Error::Trailing)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_come_back(value: u64, signed: i64, bytes: Vec<u8>) {
            let mut out = Vec::new();
            put_number(&mut out, value);
            put_signed(&mut out, signed);
            put_bytes(&mut out, &bytes);
            let mut read = Bytes::new(&out);
            prop_assert_eq!(read.number("value"), Ok(value));
            prop_assert_eq!(read.signed("signed"), Ok(signed));
            prop_assert_eq!(read.bytes("bytes"), Ok(&bytes[..]));
            prop_assert_eq!(read.end(), Ok(()));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let mut read = Bytes::new(&bytes);
            while let Ok(value) = read.number("value") {
                let mut out = Vec::new();
                put_number(&mut out, value);
                prop_assert!(bytes.windows(out.len()).any(|part| part == out));
            }
        }
    }

    #[test]
    fn a_number_has_one_form() {
        assert_eq!(Bytes::new(&[0x80, 0]).number("n"), Err(Error::Number("n")));
        assert_eq!(Bytes::new(&[0x80]).number("n"), Err(Error::Short("n")));
        assert_eq!(Bytes::new(&[0xff; 11]).number("n"), Err(Error::Number("n")));
    }
}
