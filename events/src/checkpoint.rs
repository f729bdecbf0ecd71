//! Signed checkpoints: what a log was, in words that its operator cannot take back.
//!
//! A checkpoint is a C2SP signed note (<https://c2sp.org/tlog-checkpoint>):
//!
//! ```text
//! <host>/log/<log id>
//! <size>
//! <base64 of the chain at position size>
//!
//! — <key name> <base64 of key id and signature>
//! ```
//!
//! The root is the link of the chain, not the root of a Merkle tree: it is checked by reading the log
//! from its start. The name of the key is the host; one key signs for all logs of an installation, so
//! that an auditor needs one key.
//!
//! Pure but for [`newest`]: no clock, no store. Notes of others are bounded by [`NOTE_BYTES_MAX`] and
//! [`SIGNATURES_MAX`].

mod key;
mod newest;
mod note;

use std::fmt;

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};

pub use self::{
    key::{BadKeyName, BadVerifierKey, KeyName, Signer, VerifierKey},
    newest::newest,
    note::{NOTE_BYTES_MAX, NoteError, SIGNATURES_MAX, Signature},
};
use crate::{chain::ChainHash, id::LogId, store};

/// Between the host and the log in an origin.
const LOG: &str = "/log/";

/// That a log of a host had this link at this position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    pub host: KeyName,
    pub log: LogId,
    /// The position that it speaks of; 0 is an empty log.
    pub size: u64,
    pub chain: ChainHash,
}

/// A statement with the signatures of those who stand for it. Nothing of it is true until
/// [`Note::signers`] has named a key that the reader trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub statement: Statement,
    /// What is signed, byte for byte.
    text: String,
    signatures: Vec<Signature>,
}

/// Why a note is not what it looks like.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Untrusted {
    #[error("no trusted key has signed it; signed by: {names}")]
    Stranger { names: String },
    #[error("the signature of `{name}` is not one of its key")]
    BadSignature { name: KeyName },
}

impl Statement {
    /// Names the log among all logs of the world.
    pub fn origin(&self) -> String {
        format!("{}{LOG}{}", self.host, self.log)
    }

    /// Signs it with each of the keys, in this order.
    pub fn sign<'a>(&self, signers: impl IntoIterator<Item = &'a Signer>) -> Note {
        let text = self.to_string();
        let signatures = signers.into_iter().map(|signer| signer.sign(&text));
        Note {
            statement: self.clone(),
            signatures: signatures.collect(),
            text,
        }
    }
}

/// The text that is signed.
impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let root = BASE64.encode(self.chain.0);
        write!(f, "{}\n{}\n{root}\n", self.origin(), self.size)
    }
}

impl Note {
    /// Reads a note. Says nothing of its signatures but that they have the right form.
    pub fn parse(note: &str) -> Result<Self, NoteError> {
        let (text, signatures) = note::split(note)?;
        Ok(Self {
            statement: statement(text).ok_or(NoteError::Statement)?,
            signatures,
            text: text.to_owned(),
        })
    }

    /// Returns those of the trusted keys that have signed it. Signatures of other keys are passed
    /// over, as the specification wants: witnesses may have added theirs.
    pub fn signers<'k>(
        &self,
        trusted: impl IntoIterator<Item = &'k VerifierKey>,
    ) -> Result<Vec<&'k VerifierKey>, Untrusted> {
        let mut found = Vec::new();
        for key in trusted {
            for signature in self.signatures.iter().filter(|one| one.is_of(key)) {
                if !key.has_signed(&self.text, signature) {
                    return Err(Untrusted::BadSignature {
                        name: key.name().clone(),
                    });
                }
                found.push(key);
            }
        }
        if found.is_empty() {
            let names = self.signatures.iter().map(|one| one.name.as_str());
            return Err(Untrusted::Stranger {
                names: names.collect::<Vec<_>>().join(", "),
            });
        }
        Ok(found)
    }

    pub fn signatures(&self) -> &[Signature] {
        &self.signatures
    }

    /// What a store keeps of it.
    pub fn to_checkpoint(&self) -> store::Checkpoint {
        store::Checkpoint {
            size: self.statement.size,
            chain: self.statement.chain,
            note: self.to_string(),
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.text)?;
        self.signatures
            .iter()
            .try_for_each(|one| writeln!(f, "{one}"))
    }
}

/// Reads the text of a checkpoint; lines behind the third are signed and not understood.
fn statement(text: &str) -> Option<Statement> {
    let mut lines = text.strip_suffix('\n')?.split('\n');
    let (origin, size, root) = (lines.next()?, lines.next()?, lines.next()?);
    if lines.any(str::is_empty) {
        return None;
    }
    let (host, log) = origin.rsplit_once(LOG)?;
    let number: u64 = size.parse().ok()?;
    let root = BASE64.decode(root).ok()?;
    let log_id: LogId = log.parse().ok()?;
    // One text for one statement: no `+7`, no `007`, no capital or hyphened id.
    let is_exact = number.to_string() == size && log_id.to_string() == log;
    Some(Statement {
        host: KeyName::new(host).ok()?,
        log: log_id,
        size: number,
        chain: ChainHash::from_slice(&root)?,
    })
    .filter(|_| is_exact)
}

#[cfg(test)]
mod tests;
