//! An authenticator in software, which also lies when it is told to.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use ring::{
    digest::{SHA256, digest},
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use serde_json::{Value, json};

const PRESENT: u8 = 1;
const VERIFIED: u8 = 4;
const HAS_CREDENTIAL: u8 = 64;

/// Holds one passkey.
pub(super) struct Authenticator {
    key: EcdsaKeyPair,
    pub(super) id: Vec<u8>,
    pub(super) user: Vec<u8>,
    pub(super) count: u32,
}

/// What a browser and an authenticator say, where it is not what they were asked for.
#[derive(Clone, Default)]
pub(super) struct Lie {
    pub(super) origin: Option<String>,
    pub(super) host: Option<&'static str>,
    pub(super) sort: Option<&'static str>,
    pub(super) challenge: Option<Value>,
    pub(super) cross_origin: bool,
    /// Flags that are turned over.
    pub(super) flags: u8,
    /// Goes into what is told about the authenticator.
    pub(super) attestation: bool,
    pub(super) id: Option<Vec<u8>>,
    pub(super) user: Option<Vec<u8>>,
    /// Signs with another key.
    pub(super) forged: bool,
}

impl Authenticator {
    pub(super) fn new() -> Self {
        let mut id = vec![0; 20];
        getrandom::fill(&mut id).unwrap();
        Self {
            key: draw(),
            id,
            user: Vec::new(),
            count: 0,
        }
    }

    /// Answers `navigator.credentials.create`.
    pub(super) fn create(&mut self, options: &Value, origin: &str, lie: &Lie) -> Value {
        assert_eq!(options["attestation"], "none");
        assert_eq!(
            options["authenticatorSelection"]["userVerification"],
            "required"
        );
        assert_eq!(options["authenticatorSelection"]["residentKey"], "required");
        self.user = bytes(&options["user"]["id"]);
        let host = lie.host.or(options["rp"]["id"].as_str()).unwrap();
        let mut data = self.said(host, HAS_CREDENTIAL ^ lie.flags);
        data.extend([0; 16]);
        data.extend(u16::try_from(self.id.len()).unwrap().to_be_bytes());
        data.extend(&self.id);
        // {1: 2, 3: -7, -1: 1, -2: x, -3: y}
        let point = self.key.public_key().as_ref();
        data.extend([0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 32]);
        data.extend(&point[1..33]);
        data.extend([0x22, 0x58, 32]);
        data.extend(&point[33..]);
        let mut object = vec![0xa3];
        if lie.attestation {
            object.extend(b"\x63fmt\x66packed\x67attStmt\xa1\x63alg\x26");
        } else {
            object.extend(b"\x63fmt\x64none\x67attStmt\xa0");
        }
        object.extend(b"\x68authData\x59");
        object.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
        object.extend(data);
        let client = client("webauthn.create", options, origin, lie);
        let id = lie.id.as_ref().unwrap_or(&self.id);
        json!({
            "id": text(id),
            "rawId": text(id),
            "type": "public-key",
            "response": {"clientDataJSON": text(&client), "attestationObject": text(&object)},
        })
    }

    /// Answers `navigator.credentials.get`.
    pub(super) fn get(&self, options: &Value, origin: &str, lie: &Lie) -> Value {
        assert_eq!(options["userVerification"], "required");
        let host = lie.host.or(options["rpId"].as_str()).unwrap();
        let data = self.said(host, lie.flags);
        let client = client("webauthn.get", options, origin, lie);
        let signed = [&data[..], digest(&SHA256, &client).as_ref()].concat();
        let other = draw();
        let key = if lie.forged { &other } else { &self.key };
        let signature = key.sign(&SystemRandom::new(), &signed).unwrap();
        let id = lie.id.as_ref().unwrap_or(&self.id);
        json!({
            "id": text(id),
            "rawId": text(id),
            "type": "public-key",
            "response": {
                "clientDataJSON": text(&client),
                "authenticatorData": text(&data),
                "signature": text(signature.as_ref()),
                "userHandle": text(lie.user.as_ref().unwrap_or(&self.user)),
            },
        })
    }

    fn said(&self, host: &str, flags: u8) -> Vec<u8> {
        let mut data = digest(&SHA256, host.as_bytes()).as_ref().to_vec();
        data.push((PRESENT | VERIFIED) ^ flags);
        data.extend(self.count.to_be_bytes());
        data
    }
}

fn client(sort: &str, options: &Value, origin: &str, lie: &Lie) -> Vec<u8> {
    let challenge = lie.challenge.as_ref().unwrap_or(&options["challenge"]);
    let said = json!({
        "type": lie.sort.unwrap_or(sort),
        "challenge": challenge,
        "origin": lie.origin.as_deref().unwrap_or(origin),
        "crossOrigin": lie.cross_origin,
        "other_keys_can_be_added_here": "and are not looked at",
    });
    said.to_string().into_bytes()
}

fn draw() -> EcdsaKeyPair {
    let (sort, random) = (&ECDSA_P256_SHA256_ASN1_SIGNING, SystemRandom::new());
    let made = EcdsaKeyPair::generate_pkcs8(sort, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(sort, made.as_ref(), &random).unwrap()
}

fn text(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

fn bytes(text: &Value) -> Vec<u8> {
    BASE64.decode(text.as_str().unwrap()).unwrap()
}
