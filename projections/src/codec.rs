//! How a row lies in the database: a version byte, then bincode.
//!
//! Views are disposable, so their bytes owe nothing to the future: a change of a row is a new version
//! of its projection, which is rebuilt. That allows the smallest codec there is instead of one that
//! can evolve. The version byte is for this module itself, should the codec be replaced.

use bincode::config::{Configuration, standard};
use serde::{Serialize, de::DeserializeOwned};

/// First byte of every row.
pub const VERSION: u8 = 1;

const CONFIG: Configuration = standard();

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("a row starts with {found:?}, expected version byte {VERSION}")]
    Version { found: Option<u8> },
    #[error("a row cannot be encoded")]
    Encode(#[source] Box<bincode::error::EncodeError>),
    #[error("a row cannot be decoded")]
    Decode(#[source] Box<bincode::error::DecodeError>),
    #[error("a row has {bytes} bytes behind its end")]
    Trailing { bytes: usize },
}

/// Encodes a row.
pub fn encode<T: Serialize>(row: &T) -> Result<Vec<u8>, Error> {
    let mut out = vec![VERSION];
    bincode::serde::encode_into_std_write(row, &mut out, CONFIG)
        .map_err(|source| Error::Encode(Box::new(source)))?;
    Ok(out)
}

/// Decodes a row; every byte must belong to it.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    let Some((&VERSION, body)) = bytes.split_first() else {
        return Err(Error::Version {
            found: bytes.first().copied(),
        });
    };
    let (row, used) = bincode::serde::decode_from_slice(body, CONFIG)
        .map_err(|source| Error::Decode(Box::new(source)))?;
    if used == body.len() {
        Ok(row)
    } else {
        Err(Error::Trailing {
            bytes: body.len() - used,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_comes_back_and_damage_is_told() {
        let row = (String::from("büchse"), 7_u64, vec![Some(1_i32), None]);
        let bytes = encode(&row).unwrap();
        assert_eq!(
            decode::<(String, u64, Vec<Option<i32>>)>(&bytes).unwrap(),
            row
        );

        let mut other = bytes.clone();
        other[0] = 9;
        assert!(matches!(
            decode::<(String,)>(&other),
            Err(Error::Version { found: Some(9) })
        ));
        assert!(matches!(
            decode::<(String,)>(&bytes),
            Err(Error::Trailing { .. })
        ));
        assert!(matches!(
            decode::<(String, u64, Vec<Option<i32>>)>(&bytes[..4]),
            Err(Error::Decode(_))
        ));
        assert!(matches!(
            decode::<u8>(&[]),
            Err(Error::Version { found: None })
        ));
    }
}
