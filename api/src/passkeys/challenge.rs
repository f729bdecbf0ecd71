//! Challenges: what a passkey signs, so that a signature is good once.
//!
//! A challenge says itself when it was made and is authenticated, so nothing is kept for one that nobody answers, and
//! any process of a fleet can be answered. It also lies in a cookie of the browser that it was made for. That it is
//! answered once is decided in the user's log.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use cocoonbox_commands::user;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

/// How far the clock of the process that made one may be ahead of ours.
const AHEAD_US: i64 = 60 * 1_000_000;

const NONCE: usize = 16;
const TIME: usize = 8;
const MAC: usize = 32;
const SIZE: usize = NONCE + TIME + MAC;

/// Makes challenges, and knows them again.
#[derive(Clone)]
pub struct Challenges {
    key: Zeroizing<[u8; 32]>,
}

/// What an answer is for. A challenge is good for nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose<'a> {
    SignIn,
    /// A passkey is added by this session.
    Add {
        user_id: &'a str,
        token_id: &'a str,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    bytes: [u8; SIZE],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChallengeError {
    #[error("this browser was asked nothing, or something else; try again")]
    NotOurs,
    #[error("that took too long; try again")]
    Expired,
}

/// The system's random source does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system's random source does not answer")]
pub struct NoRandomness;

impl Challenges {
    /// All processes of an installation have the same key, of this purpose only.
    pub fn new(key: Zeroizing<[u8; 32]>) -> Self {
        Self { key }
    }

    pub fn make(&self, purpose: Purpose<'_>, now_us: i64) -> Result<Challenge, NoRandomness> {
        let mut bytes = [0; SIZE];
        getrandom::fill(&mut bytes[..NONCE]).map_err(|_| NoRandomness)?;
        bytes[NONCE..NONCE + TIME].copy_from_slice(&now_us.to_be_bytes());
        let mac = self.mac(purpose, &bytes[..NONCE + TIME]);
        bytes[NONCE + TIME..].copy_from_slice(&mac);
        Ok(Challenge { bytes })
    }

    /// Reads what a browser has kept, if it was made for this purpose and may still be answered.
    pub fn open(
        &self,
        text: &str,
        purpose: Purpose<'_>,
        now_us: i64,
    ) -> Result<Challenge, ChallengeError> {
        let bytes = BASE64.decode(text).ok();
        let bytes = bytes.and_then(|bytes| <[u8; SIZE]>::try_from(bytes).ok());
        let challenge = Challenge {
            bytes: bytes.ok_or(ChallengeError::NotOurs)?,
        };
        let (said, mac) = challenge.bytes.split_at(NONCE + TIME);
        if !bool::from(self.mac(purpose, said).ct_eq(mac)) {
            return Err(ChallengeError::NotOurs);
        }
        let age_us = now_us.saturating_sub(challenge.made_us());
        if (-AHEAD_US..=user::CHALLENGE_LIFE_US).contains(&age_us) {
            Ok(challenge)
        } else {
            Err(ChallengeError::Expired)
        }
    }

    fn mac(&self, purpose: Purpose<'_>, said: &[u8]) -> [u8; MAC] {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(said);
        match purpose {
            Purpose::SignIn => hasher.update(b"sign in"),
            // Ids have no zeros in them.
            Purpose::Add { user_id, token_id } => hasher
                .update(b"add\0")
                .update(user_id.as_bytes())
                .update(b"\0")
                .update(token_id.as_bytes()),
        };
        *hasher.finalize().as_bytes()
    }
}

impl Challenge {
    pub fn made_us(&self) -> i64 {
        let mut time = [0; TIME];
        time.copy_from_slice(&self.bytes[NONCE..NONCE + TIME]);
        i64::from_be_bytes(time)
    }

    /// As browsers are told of it, and as it lies in the cookie.
    pub fn text(&self) -> String {
        BASE64.encode(self.bytes)
    }

    /// Whether this is what was signed. Takes as long for any answer.
    pub fn is(&self, signed: &[u8]) -> bool {
        self.bytes.ct_eq(signed).into()
    }

    /// As the user's log knows it.
    pub fn of_log(&self) -> user::Challenge {
        user::Challenge {
            id: self.bytes[..NONCE].to_vec(),
            made_us: self.made_us(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_790_000_000_000_000;
    const ADD: Purpose<'_> = Purpose::Add {
        user_id: "u1",
        token_id: "t1",
    };

    #[test]
    fn a_challenge_is_good_for_its_purpose_and_its_time() {
        let ours = Challenges::new(Zeroizing::new([1; 32]));
        let made = ours.make(ADD, NOW).unwrap();
        let text = made.text();
        let later = NOW + user::CHALLENGE_LIFE_US;
        assert_eq!(ours.open(&text, ADD, later), Ok(made.clone()));
        assert!(made.is(&BASE64.decode(&text).unwrap()));
        assert!(!made.is(b"") && !made.is(&[0; SIZE]));
        for (now_us, why) in [(later + 1, "late"), (NOW - AHEAD_US - 1, "early")] {
            assert_eq!(
                ours.open(&text, ADD, now_us),
                Err(ChallengeError::Expired),
                "{why}"
            );
        }
        let other = Purpose::Add {
            user_id: "u1",
            token_id: "t2",
        };
        for purpose in [Purpose::SignIn, other] {
            assert_eq!(ours.open(&text, purpose, NOW), Err(ChallengeError::NotOurs));
        }
        let theirs = Challenges::new(Zeroizing::new([2; 32]));
        assert_eq!(theirs.open(&text, ADD, NOW), Err(ChallengeError::NotOurs));
        for bad in ["", "x", &text[1..], &text.replace(&text[..1], "_")] {
            assert_eq!(
                ours.open(bad, ADD, NOW),
                Err(ChallengeError::NotOurs),
                "{bad}"
            );
        }
        assert_ne!(ours.make(ADD, NOW).unwrap().of_log().id, made.of_log().id);
    }
}
