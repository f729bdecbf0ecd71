//! What a viewer sends, from its first byte on, in pieces of any size.
//!
//! The edge greets a viewer itself, as a server without a password (it has checked who calls): so what a viewer
//! may send never hangs on what a box has said.

use super::message::{self, Error, Message};

/// What the edge says first.
pub const VERSION: &[u8; 12] = b"RFB 003.008\n";
/// Security type None.
const NONE: u8 = 1;

/// What is to be done with what a viewer has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// The viewer is to be answered this.
    Answer(Vec<u8>),
    /// It wants to see the screen. Whether it would share it makes no difference: one viewer must not end another.
    Ready,
    Message(Message),
}

/// Reads one viewer. Behind an error nothing more is read.
#[derive(Clone, Debug, Default)]
pub struct Viewer {
    stage: Stage,
    /// The beginning of something that is not whole. At most one message.
    part: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Version,
    Security {
        /// From 3.8 on the outcome is told.
        tells: bool,
    },
    Init,
    Messages,
    Failed(Error),
}

impl Viewer {
    /// Reads on.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Said>, Error> {
        let mut all = std::mem::take(&mut self.part);
        all.extend_from_slice(bytes);
        let (mut said, mut at) = (Vec::new(), 0);
        while let Some(rest) = all.get(at..).filter(|rest| !rest.is_empty()) {
            match self.step(rest) {
                Ok(Some((length, item))) => {
                    said.extend(item);
                    at += length;
                }
                Ok(None) => break,
                Err(error) => {
                    self.stage = Stage::Failed(error);
                    break;
                }
            }
        }
        match self.stage {
            // What stands before the fault is still good.
            Stage::Failed(error) if said.is_empty() => Err(error),
            Stage::Failed(_) => Ok(said),
            _ => {
                self.part = all.split_off(at);
                Ok(said)
            }
        }
    }

    /// Why nothing more is read, if so.
    pub fn error(&self) -> Option<Error> {
        match self.stage {
            Stage::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// Takes one thing off the front: how long it is and what it says. `None`: it is not whole.
    fn step(&mut self, bytes: &[u8]) -> Result<Option<(usize, Option<Said>)>, Error> {
        match self.stage {
            Stage::Failed(error) => Err(error),
            Stage::Version => {
                // Told early, so that a browser or a shell that came here by mistake is not waited for.
                let seen = bytes.len().min(4);
                if bytes[..seen] != VERSION[..seen] {
                    return Err(Error::Version);
                }
                let Some(version) = bytes.first_chunk::<12>() else {
                    return Ok(None);
                };
                let answer = self.version(version)?;
                Ok(Some((12, Some(Said::Answer(answer)))))
            }
            Stage::Security { tells } => {
                if bytes[0] != NONE {
                    return Err(Error::Security(bytes[0]));
                }
                self.stage = Stage::Init;
                let answer = tells.then(|| Said::Answer(vec![0; 4]));
                Ok(Some((1, answer)))
            }
            Stage::Init => {
                self.stage = Stage::Messages;
                Ok(Some((1, Some(Said::Ready))))
            }
            Stage::Messages => {
                let length = message::length(bytes)?.filter(|length| *length <= bytes.len());
                let Some(length) = length else {
                    return Ok(None);
                };
                let message = message::read(bytes[..length].to_vec())?;
                Ok(Some((length, Some(Said::Message(message)))))
            }
        }
    }

    /// Whatever is not a version of the RFC is the oldest one, as the RFC wants it.
    fn version(&mut self, version: &[u8; 12]) -> Result<Vec<u8>, Error> {
        let is_digits = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
        let is_version = is_digits(&version[4..7])
            && version[7] == b'.'
            && is_digits(&version[8..11])
            && version[11] == b'\n';
        if !is_version {
            return Err(Error::Version);
        }
        let minor = (&version[4..7] == b"003").then_some(&version[8..11]);
        Ok(match minor {
            Some(b"008") => {
                self.stage = Stage::Security { tells: true };
                vec![1, NONE]
            }
            Some(b"007") => {
                self.stage = Stage::Security { tells: false };
                vec![1, NONE]
            }
            _ => {
                self.stage = Stage::Init;
                u32::from(NONE).to_be_bytes().to_vec()
            }
        })
    }
}
