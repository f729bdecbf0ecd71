//! Public keys of passkeys, as authenticators write them (`COSE_Key`, RFC 9053), and the signatures that they check.

use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey,
};

use super::cbor::{self, Value};

/// What browsers are asked for, the best first, by COSE's numbers: EdDSA, ES256, and RS256, which is all that some of
/// Windows' own authenticators have.
pub const ALGORITHMS: [i64; 3] = [-8, -7, -257];

/// Labels in a `COSE_Key` (RFC 9052, 7.1; RFC 9053, 7; RFC 8230, 4).
const KEY_TYPE: i64 = 1;
const ALGORITHM: i64 = 3;
const CURVE: i64 = -1;
const X: i64 = -2;
const Y: i64 = -3;
const N: i64 = -1;
const E: i64 = -2;

/// Bytes of a coordinate, and of a key on edwards25519.
const SIDE: usize = 32;
/// Of 2048 to 4096 bits.
const MODULUS_BYTES: std::ops::RangeInclusive<usize> = 256..=512;

/// A key that signatures are checked with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublicKey {
    /// EdDSA on edwards25519.
    Ed25519([u8; SIDE]),
    /// ECDSA on P-256 with SHA-256: the point, uncompressed.
    Es256([u8; 1 + 2 * SIDE]),
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256 { n: Vec<u8>, e: Vec<u8> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    #[error("its public key cannot be read")]
    Cbor(#[from] cbor::Bad),
    #[error("its public key is of a sort that was not asked for")]
    Algorithm,
    #[error("its public key lacks a part, or has one of a wrong size")]
    Part,
}

/// The signature is not of this key over these bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotSigned;

impl PublicKey {
    /// Reads a `COSE_Key` that nothing follows.
    pub fn parse(bytes: &[u8]) -> Result<Self, BadKey> {
        let key = cbor::read_all(bytes)?;
        let number = |label| key.numbered(label).and_then(Value::number);
        let part = |label| {
            key.numbered(label)
                .and_then(Value::bytes)
                .ok_or(BadKey::Part)
        };
        let side = |label| -> Result<[u8; SIDE], BadKey> {
            part(label)?.try_into().map_err(|_| BadKey::Part)
        };
        let (sort, algorithm) = (number(KEY_TYPE), number(ALGORITHM));
        match (sort, algorithm, number(CURVE)) {
            // OKP, EdDSA, Ed25519.
            (Some(1), Some(-8), Some(6)) => Ok(Self::Ed25519(side(X)?)),
            // EC2, ES256, P-256. Compressed points (a `y` that is a bool) are not allowed here.
            (Some(2), Some(-7), Some(1)) => {
                let mut point = [4; 1 + 2 * SIDE];
                point[1..=SIDE].copy_from_slice(&side(X)?);
                point[1 + SIDE..].copy_from_slice(&side(Y)?);
                Ok(Self::Es256(point))
            }
            // RSA, RS256: what a curve is elsewhere is the modulus here.
            (Some(3), Some(-257), None) => {
                let (n, e) = (part(N)?, part(E)?);
                let is_whole = n.first().is_some_and(|first| *first != 0);
                if !is_whole || !MODULUS_BYTES.contains(&n.len()) || !(1..=8).contains(&e.len()) {
                    return Err(BadKey::Part);
                }
                Ok(Self::Rs256 {
                    n: n.to_vec(),
                    e: e.to_vec(),
                })
            }
            _ => Err(BadKey::Algorithm),
        }
    }

    /// Checks a signature.
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> Result<(), NotSigned> {
        let checked = match self {
            Self::Ed25519(key) => UnparsedPublicKey::new(&ED25519, key).verify(message, signature),
            Self::Es256(point) => {
                let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point);
                key.verify(message, signature)
            }
            Self::Rs256 { n, e } => {
                let key = RsaPublicKeyComponents { n, e };
                key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
        };
        checked.map_err(|_| NotSigned)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ring::{
        rand::SystemRandom,
        signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _},
    };

    use super::*;

    const MESSAGE: &[u8] = b"what was signed";
    /// Of a key that was drawn for this, and what it has signed, by `openssl dgst -sha256 -sign`.
    const MODULUS: &str = concat!(
        "ae012ed8c9a65b08d5bf745ffecd901203645f0332c4c2e3407ab2e40c8e4b4f83be6b7a245fb2987351",
        "88ec77387d83eee7b52247373f17888e58eed44a31927372eeba3c10ed89ca324594e8bed90fc5088dd9",
        "1a5fc22511316a15c73e30f3aff0c872741a2874e0a50eecc5c4a892adec9f4fb9f945722235810e0241",
        "fd6267272c5a68256e5d245d5161a350af2238ccedc65f25d2b45e4cb6bc771c1ed583284d38310042cb",
        "1790200236c1f1904159caadc0a97eec51e426a341b2d42e66ff53854bf4973ec0a38bb0f9f56d300fb4",
        "b1dec2d86d7bdd06582c88bb9ce699b1c397401777cd5f8fb0a88fc0025faac60a3a233b7dee6996fc2b",
        "21c04e6b",
    );
    const SIGNATURE: &str = concat!(
        "05fe887f0999a6201cda093420fe13392491c35d0f4e314562ced62a55d188c2f65c1df1303621034579",
        "48382b59be7427382a82c7fbd0e825156d41fa78e8ac96b2d950ddf1f8cbf7ed94c4d5d3c9944f5e3d43",
        "09804703c7bbaaaf7d1756d67f5bd182a7428866f0d260ae1ac00fa477e7c7238ac802a4413c3e7058b5",
        "97a5da1f3656601a93f91c86c0bc659941589ecfbcab4b282fd39b1a1ccf7fe6bb22e205af8c614f3b63",
        "328967007d1859ccb1d51248f199452891bd32b9b123c96d7214398a3ea6337782d42fd66c7c5c36f3ca",
        "3f037ad24720ab42ef279c48593f344cfd0af621f8ae20cab7b071966a275f27ce1757e2b5358a13fada",
        "01d8426d",
    );

    fn es256() -> (Vec<u8>, Vec<u8>) {
        let (sort, random) = (&ECDSA_P256_SHA256_ASN1_SIGNING, SystemRandom::new());
        let made = EcdsaKeyPair::generate_pkcs8(sort, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(sort, made.as_ref(), &random).unwrap();
        let point = pair.public_key().as_ref();
        let mut key = b"\xa5\x01\x02\x03\x26\x20\x01\x21\x58\x20".to_vec();
        key.extend(&point[1..33]);
        key.extend(b"\x22\x58\x20");
        key.extend(&point[33..]);
        (key, pair.sign(&random, MESSAGE).unwrap().as_ref().to_vec())
    }

    fn ed25519() -> (Vec<u8>, Vec<u8>) {
        let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(made.as_ref()).unwrap();
        let mut key = b"\xa4\x01\x01\x03\x27\x20\x06\x21\x58\x20".to_vec();
        key.extend(pair.public_key().as_ref());
        (key, pair.sign(MESSAGE).as_ref().to_vec())
    }

    fn rs256() -> (Vec<u8>, Vec<u8>) {
        let mut key = b"\xa4\x01\x03\x03\x39\x01\x00\x20\x59\x01\x00".to_vec();
        key.extend(hex::decode(MODULUS).unwrap());
        key.extend(b"\x21\x43\x01\x00\x01");
        (key, hex::decode(SIGNATURE).unwrap())
    }

    #[test]
    fn signatures_of_all_sorts_are_checked() {
        for (key, signature) in [es256(), ed25519(), rs256()] {
            let parsed = PublicKey::parse(&key).unwrap();
            assert_eq!(parsed.verify(MESSAGE, &signature), Ok(()));
            assert_eq!(parsed.verify(b"something else", &signature), Err(NotSigned));
            for broken in [&signature[1..], &signature[..signature.len() - 1], &[]] {
                assert_eq!(parsed.verify(MESSAGE, broken), Err(NotSigned));
            }
            for end in 0..key.len() {
                assert_eq!(
                    PublicKey::parse(&key[..end]),
                    Err(BadKey::Cbor(cbor::Bad::Short))
                );
            }
        }
    }

    #[test]
    fn keys_that_were_not_asked_for_are_refused() {
        let (key, _) = es256();
        let with = |at: usize, byte: u8| {
            let mut other = key.clone();
            other[at] = byte;
            PublicKey::parse(&other)
        };
        // Another type, another algorithm (ES384), another curve (P-384), no `x`.
        assert_eq!(with(2, 1), Err(BadKey::Algorithm));
        assert_eq!(with(4, 0x38), Err(BadKey::Cbor(cbor::Bad::Twice)));
        assert_eq!(with(4, 0x27), Err(BadKey::Algorithm));
        assert_eq!(with(6, 2), Err(BadKey::Algorithm));
        assert_eq!(with(7, 0x23), Err(BadKey::Part));
        // A point that is not on the curve signs nothing.
        let mut off = key.clone();
        *off.last_mut().unwrap() ^= 1;
        let off = PublicKey::parse(&off).unwrap();
        assert_eq!(off.verify(MESSAGE, &es256().1), Err(NotSigned));
        let (rsa, _) = rs256();
        let mut small = rsa[..11].to_vec();
        small[9..11].copy_from_slice(&[0, 0x80]);
        small.extend(&rsa[11..11 + 128]);
        small.extend(b"\x21\x43\x01\x00\x01");
        assert_eq!(PublicKey::parse(&small), Err(BadKey::Part));
    }

    proptest! {
        #[test]
        fn one_byte_makes_it_another_key(at in 10..42_usize, bit in 0..8_u8) {
            for (mut key, signature) in [es256(), ed25519()] {
                key[at] ^= 1 << bit;
                let parsed = PublicKey::parse(&key).unwrap();
                prop_assert_eq!(parsed.verify(MESSAGE, &signature), Err(NotSigned));
            }
        }
    }
}
