//! The edge's credential: `v1.<b64url(key_id|box_id|wake_id|exp_unix)>.<b64url(signature)>`.
//!
//! The signature is ed25519 over the ASCII bytes of everything before the last dot. A credential is for
//! one box and one wake of it, so that a misrouted call and one from before a wake are refused whatever
//! the clock says; `exp` bounds replay within a wake.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use ed25519_dalek::Signature;

use crate::identity::Identity;

/// Metadata key.
pub const HEADER: &str = "x-cocoonbox-credential";

/// A woken guest's clock may lag until it is set.
const SKEW_S: i64 = 120;

/// Ids are short; a longer text is not looked at.
const BYTES_MAX: usize = 1_024;

/// Why a call is not the edge's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the call carries no credential")]
    Missing,
    #[error("the credential is not of the form v1.<payload>.<signature>")]
    Malformed,
    #[error("the credential's signature does not verify")]
    BadSignature,
    #[error("the credential is for another box")]
    OtherBox,
    #[error("the credential is from another wake of this box")]
    OldWake,
    #[error("the credential has expired")]
    Expired,
}

impl Error {
    /// The reason as clients see it.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Missing => "CREDENTIAL_MISSING",
            Self::Malformed => "CREDENTIAL_MALFORMED",
            Self::BadSignature => "BAD_SIGNATURE",
            Self::OtherBox => "OTHER_BOX",
            Self::OldWake => "OLD_WAKE",
            Self::Expired => "EXPIRED",
        }
    }
}

/// Checks a credential against who this box is and the time (Unix seconds).
pub fn verify(text: Option<&str>, identity: &Identity, now_s: i64) -> Result<(), Error> {
    let text = text.ok_or(Error::Missing)?;
    if text.len() > BYTES_MAX {
        return Err(Error::Malformed);
    }
    let (signed, signature) = text.rsplit_once('.').ok_or(Error::Malformed)?;
    let payload = signed.strip_prefix("v1.").ok_or(Error::Malformed)?;
    let decode = |text: &str| {
        BASE64_URL_SAFE_NO_PAD
            .decode(text)
            .map_err(|_| Error::Malformed)
    };
    let payload = String::from_utf8(decode(payload)?).map_err(|_| Error::Malformed)?;
    let signature = Signature::from_slice(&decode(signature)?).map_err(|_| Error::Malformed)?;
    let fields: Vec<_> = payload.split('|').collect();
    let [key_id, box_id, wake_id, expires] = fields[..] else {
        return Err(Error::Malformed);
    };
    let expires: i64 = expires.parse().map_err(|_| Error::Malformed)?;
    // First who signed it: nothing of an unsigned text is worth an answer of its own.
    if key_id != identity.key_id
        || identity
            .public_key
            .verify_strict(signed.as_bytes(), &signature)
            .is_err()
    {
        return Err(Error::BadSignature);
    }
    if box_id != identity.box_id {
        return Err(Error::OtherBox);
    }
    if wake_id != identity.wake_id {
        return Err(Error::OldWake);
    }
    if expires.saturating_add(SKEW_S) < now_s {
        return Err(Error::Expired);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use ed25519_dalek::{Signer, SigningKey};

    use super::*;

    fn sign(key: &SigningKey, fields: &str) -> String {
        let signed = format!("v1.{}", BASE64_URL_SAFE_NO_PAD.encode(fields));
        let signature = key.sign(signed.as_bytes()).to_bytes();
        format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
    }

    fn identity(key: &SigningKey) -> Identity {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let json = serde_json::json!({
            "box_id": "b1",
            "wake_id": "w1",
            "key_id": "k1",
            "public_key": BASE64_URL_SAFE_NO_PAD.encode(key.verifying_key().as_bytes()),
            "models": { "main": { "wire": "anthropic", "model": "m" } },
        });
        file.write_all(json.to_string().as_bytes())
            .expect("a write");
        Identity::read(file.path()).expect("an identity")
    }

    #[test]
    fn each_field_is_checked() {
        let key = SigningKey::from_bytes(&[7; 32]);
        let other = SigningKey::from_bytes(&[8; 32]);
        let identity = identity(&key);
        let check = |text: &str| verify(Some(text), &identity, 1_000);
        assert_eq!(check(&sign(&key, "k1|b1|w1|1000")), Ok(()));
        assert_eq!(check(&sign(&key, "k1|b1|w1|880")), Ok(()));
        assert_eq!(check(&sign(&key, "k1|b1|w1|879")), Err(Error::Expired));
        assert_eq!(check(&sign(&key, "k1|b2|w1|1000")), Err(Error::OtherBox));
        assert_eq!(check(&sign(&key, "k1|b1|w0|1000")), Err(Error::OldWake));
        assert_eq!(
            check(&sign(&key, "k2|b1|w1|1000")),
            Err(Error::BadSignature)
        );
        assert_eq!(
            check(&sign(&other, "k1|b1|w1|1000")),
            Err(Error::BadSignature)
        );
        assert_eq!(check(&sign(&key, "k1|b1|w1")), Err(Error::Malformed));
        assert_eq!(check(&sign(&key, "k1|b1|w1|soon")), Err(Error::Malformed));
        assert_eq!(verify(None, &identity, 1_000), Err(Error::Missing));
        for text in [
            "",
            "v1",
            "v1.a",
            "v2.a.b",
            "v1.!.!",
            "v1..",
            &"x".repeat(5_000),
        ] {
            assert_eq!(check(text), Err(Error::Malformed), "{text}");
        }
    }

    #[test]
    fn a_changed_payload_does_not_verify() {
        let key = SigningKey::from_bytes(&[7; 32]);
        let good = sign(&key, "k1|b2|w1|1000");
        let (_, signature) = good.rsplit_once('.').expect("a dot");
        let forged = format!(
            "v1.{}.{signature}",
            BASE64_URL_SAFE_NO_PAD.encode("k1|b1|w1|1000")
        );
        assert_eq!(
            verify(Some(&forged), &identity(&key), 1_000),
            Err(Error::BadSignature)
        );
    }
}
