//! The form of a signed note (<https://c2sp.org/signed-note>): a text, an empty line, signatures.

use std::fmt;

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};

use super::key::{KeyName, VerifierKey};

/// Larger notes are refused before they are read. Sixteen post-quantum signatures fit.
pub const NOTE_BYTES_MAX: usize = 128 * 1024;
/// The specification wants at least 16.
pub const SIGNATURES_MAX: usize = 32;
/// An em dash and a space begin each line of a signature.
const DASH: &str = "\u{2014} ";
const KEY_ID_BYTES: usize = 4;

/// A line that says who has signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    pub name: KeyName,
    /// Tells the keys of one name apart.
    pub key_id: [u8; KEY_ID_BYTES],
    pub(super) bytes: Vec<u8>,
}

/// Why a text is not a signed checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    #[error("the note has {bytes} bytes; {NOTE_BYTES_MAX} are read")]
    TooLarge { bytes: usize },
    #[error("the note has control characters")]
    Control,
    #[error("the note has no empty line between its text and its signatures")]
    NoSignatures,
    #[error("the note has more than {SIGNATURES_MAX} signatures")]
    TooManySignatures,
    #[error("signature {number} of the note is not of the form `— name base64`")]
    Signature { number: usize },
    #[error("the text is not an origin `<host>/log/<log>`, a size and a root")]
    Statement,
}

impl Signature {
    /// Whether it says that it was made with this key.
    pub fn is_of(&self, key: &VerifierKey) -> bool {
        self.name == *key.name() && self.key_id == key.id()
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = [&self.key_id, &self.bytes[..]].concat();
        write!(f, "{DASH}{} {}", self.name, BASE64.encode(bytes))
    }
}

/// Takes a note apart. The text ends with its newline; the empty line belongs to neither part.
pub(super) fn split(note: &str) -> Result<(&str, Vec<Signature>), NoteError> {
    if note.len() > NOTE_BYTES_MAX {
        return Err(NoteError::TooLarge { bytes: note.len() });
    }
    if note.bytes().any(|byte| byte < 0x20 && byte != b'\n') {
        return Err(NoteError::Control);
    }
    let end = note.rfind("\n\n").ok_or(NoteError::NoSignatures)?;
    let (text, lines) = (&note[..=end], &note[end + 2..]);
    let lines = lines.strip_suffix('\n').ok_or(NoteError::NoSignatures)?;
    let mut signatures = Vec::new();
    for (index, line) in lines.split('\n').enumerate() {
        if index == SIGNATURES_MAX {
            return Err(NoteError::TooManySignatures);
        }
        let number = index + 1;
        signatures.push(signature(line).ok_or(NoteError::Signature { number })?);
    }
    Ok((text, signatures))
}

fn signature(line: &str) -> Option<Signature> {
    let (name, bytes) = line.strip_prefix(DASH)?.split_once(' ')?;
    let bytes = BASE64.decode(bytes).ok()?;
    let (key_id, bytes) = bytes.split_first_chunk::<KEY_ID_BYTES>()?;
    Some(Signature {
        name: KeyName::new(name).ok()?,
        key_id: *key_id,
        bytes: bytes.to_vec(),
    })
    .filter(|one| !one.bytes.is_empty())
}
