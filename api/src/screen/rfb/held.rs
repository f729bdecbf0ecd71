//! Keys and buttons that a viewer holds down in a box.
//!
//! A viewer that dies, or whose control ends, never sends their ups: a box would go on as if Ctrl were held.

use std::collections::VecDeque;

use super::message::What;

/// Hands have ten fingers. A viewer whose ups do not match its downs (another layout came in between) would
/// otherwise let this grow.
const KEYS_MAX: usize = 64;

/// What is down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// In the order in which they were pressed.
    keys: VecDeque<Key>,
    buttons: u8,
    at: (u16, u16),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    keysym: u32,
    /// `None`: the viewer did not say where it is.
    keycode: Option<u32>,
}

impl Held {
    /// Notes what a message does that is about to be sent. Returns what has to be sent before it.
    pub fn note(&mut self, what: What) -> Vec<u8> {
        match what {
            What::Key { down, keysym } => self.key(
                Key {
                    keysym,
                    keycode: None,
                },
                down,
            ),
            What::PlacedKey {
                down,
                keysym,
                keycode,
            } => self.key(
                Key {
                    keysym,
                    keycode: Some(keycode),
                },
                down,
            ),
            What::Pointer { buttons, x, y } => {
                (self.buttons, self.at) = (buttons, (x, y));
                Vec::new()
            }
            What::View | What::Clipboard | What::ClipboardAsked | What::Resize | What::Power => {
                Vec::new()
            }
        }
    }

    /// Lets everything go: returns the messages that do so, the last key first.
    pub fn release(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Some(key) = self.keys.pop_back() {
            bytes.extend(key.up());
        }
        if std::mem::take(&mut self.buttons) != 0 {
            let (x, y) = self.at;
            bytes.extend([5, 0]);
            bytes.extend(x.to_be_bytes());
            bytes.extend(y.to_be_bytes());
        }
        bytes
    }

    fn key(&mut self, key: Key, down: bool) -> Vec<u8> {
        self.keys.retain(|held| !held.is(key));
        if !down {
            return Vec::new();
        }
        self.keys.push_back(key);
        match self.keys.len() {
            0..=KEYS_MAX => Vec::new(),
            _ => self.keys.pop_front().map_or_else(Vec::new, Key::up),
        }
    }
}

impl Key {
    /// A key's place says more than what it types, which Shift may change while it is down.
    fn is(self, other: Self) -> bool {
        match (self.keycode, other.keycode) {
            (Some(one), Some(other_one)) if one != 0 || other_one != 0 => one == other_one,
            (None, Some(_)) | (Some(_), None) => false,
            _ => self.keysym == other.keysym,
        }
    }

    fn up(self) -> Vec<u8> {
        let mut bytes = match self.keycode {
            Some(_) => vec![255, 0, 0, 0],
            None => vec![4, 0, 0, 0],
        };
        bytes.extend(self.keysym.to_be_bytes());
        bytes.extend(self.keycode.iter().flat_map(|code| code.to_be_bytes()));
        bytes
    }
}
