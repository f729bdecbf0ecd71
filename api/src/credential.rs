//! The edge's word to a box: this call was meant for you, in this life of yours. Seeds 12.1.
//!
//! `x-cocoonbox-credential: v1.<b64url(key_id|box_id|wake_id|exp_unix)>.<b64url(signature)>`, the
//! signature (Ed25519) over everything before the last dot. The box holds the public key only.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use ed25519_dalek::{Signer as _, SigningKey};

pub const HEADER: &str = "x-cocoonbox-credential";

/// Bounds replay within one life of a box; a wake id bounds it across lives.
const LIFETIME_S: i64 = 600;

/// Signs for boxes.
pub struct Signer {
    key: SigningKey,
    key_id: String,
}

impl Signer {
    pub fn new(seed: &[u8; 32]) -> Self {
        let key = SigningKey::from_bytes(seed);
        let key_id = hex::encode(&blake3::hash(key.verifying_key().as_bytes()).as_bytes()[..4]);
        Self { key, key_id }
    }

    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    /// The public key as it stands in a box's identity file.
    pub fn public_key(&self) -> String {
        BASE64.encode(self.key.verifying_key().as_bytes())
    }

    /// Makes the header's value for one life of a box.
    pub fn sign(&self, box_id: &str, wake_id: &str, now_us: i64) -> String {
        let expires = now_us / 1_000_000 + LIFETIME_S;
        let claims = BASE64.encode(format!("{}|{box_id}|{wake_id}|{expires}", self.key_id));
        let signed = format!("v1.{claims}");
        let signature = self.key.sign(signed.as_bytes());
        format!("{signed}.{}", BASE64.encode(signature.to_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::Verifier as _;

    use super::*;

    #[test]
    fn signs_the_claims_in_the_documented_form() {
        let signer = Signer::new(&[7; 32]);
        let credential = signer.sign("b1", "w1", 1_000_000_000_000);
        let (signed, signature) = credential.rsplit_once('.').unwrap();
        let claims = BASE64.decode(signed.strip_prefix("v1.").unwrap()).unwrap();
        let expected = format!("{}|b1|w1|1000600", signer.key_id());
        assert_eq!(String::from_utf8(claims).unwrap(), expected);
        let signature: [u8; 64] = BASE64.decode(signature).unwrap().try_into().unwrap();
        let key = SigningKey::from_bytes(&[7; 32]).verifying_key();
        key.verify(signed.as_bytes(), &signature.into()).unwrap();
        assert!(key.verify(b"v1.other", &signature.into()).is_err());
    }
}
