//! The two ceremonies: adding a passkey (WebAuthn, 7.1) and signing in with one (7.2), as far as they are checked
//! without asking anybody.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Deserializer, de::Error as _};

use super::{
    authenticator::{self, AuthenticatorData},
    cbor::{self, Value},
    challenge::Challenge,
    key::{BadKey, PublicKey},
    place::Place,
};

/// What a browser says of a ceremony is some 200 bytes.
const CLIENT_DATA_BYTES_MAX: usize = 4 * 1024;
/// The largest keys and credential ids fit several times.
const AUTHENTICATOR_BYTES_MAX: usize = 8 * 1024;

/// Bytes, in JSON as base64url without padding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

/// `RegistrationResponseJSON`, as far as it is looked at.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Registration {
    pub raw_id: Bytes,
    pub response: Attested,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attested {
    #[serde(rename = "clientDataJSON")]
    pub client_data: Bytes,
    pub attestation_object: Bytes,
}

/// `AuthenticationResponseJSON`, as far as it is looked at.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Assertion {
    pub raw_id: Bytes,
    pub response: Asserted,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Asserted {
    #[serde(rename = "clientDataJSON")]
    pub client_data: Bytes,
    pub authenticator_data: Bytes,
    pub signature: Bytes,
    /// Whose passkey it is: the id of a user, as they were told apart when it was added.
    #[serde(default)]
    pub user_handle: Bytes,
}

/// `CollectedClientData`, as far as it is looked at; a browser may add to it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClientData {
    #[serde(rename = "type")]
    sort: String,
    challenge: Bytes,
    origin: String,
    #[serde(default)]
    cross_origin: bool,
}

/// Which of the two a browser was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    Create,
    Get,
}

/// What is known of a passkey that signs.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// A `COSE_Key`.
    pub public_key: &'a [u8],
    pub host: &'a str,
    pub may_be_copied: bool,
}

/// A passkey that was made, for this place and this challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    pub credential_id: Vec<u8>,
    /// A `COSE_Key` of a sort that was asked for.
    pub public_key: Vec<u8>,
    pub sign_count: u32,
    pub may_be_copied: bool,
    pub is_copied: bool,
}

/// What a good signature came with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signed {
    pub sign_count: u32,
    pub is_copied: bool,
}

/// Why an answer of a browser counts for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("what the browser says of it cannot be read")]
    ClientData,
    #[error("the browser answers something that it was not asked")]
    Sort,
    #[error("it answers another challenge; try again")]
    Challenge,
    #[error("it was made for another page")]
    Origin,
    #[error("it was made in a frame of another page")]
    CrossOrigin,
    #[error("what the authenticator says cannot be read")]
    AuthenticatorData(#[source] authenticator::Bad),
    #[error("it is for another host name")]
    Host,
    #[error("the authenticator did not ask anybody")]
    NotPresent,
    #[error(
        "the authenticator did not find out who you are: set up a PIN, a finger or a face, and try again"
    )]
    NotVerified,
    #[error("what the authenticator says of copies does not fit together")]
    Copies,
    #[error("what the browser made cannot be read")]
    Attestation(#[source] cbor::Bad),
    #[error("the browser made something else than it was asked to")]
    AttestationForm,
    #[error("the browser tells about the authenticator, and was asked not to")]
    AttestationSort,
    #[error(transparent)]
    Key(#[from] BadKey),
    #[error("the signature is wrong")]
    Signature,
}

impl Registration {
    /// Checks that a passkey was made as it was asked for. Who made it is known by the session.
    pub fn check(&self, challenge: &Challenge, place: &Place) -> Result<Made, Refused> {
        check_client(&self.response.client_data.0, Sort::Create, challenge, place)?;
        let object = &self.response.attestation_object.0;
        let data = attested(object)?;
        let data = check_data(data, place)?;
        let credential = data.credential.as_ref();
        let credential = credential.ok_or(Refused::AttestationForm)?;
        if credential.id != self.raw_id.0 {
            return Err(Refused::AttestationForm);
        }
        PublicKey::parse(credential.public_key)?;
        Ok(Made {
            credential_id: credential.id.to_vec(),
            public_key: credential.public_key.to_vec(),
            sign_count: data.sign_count,
            may_be_copied: data.may_be_copied(),
            is_copied: data.is_copied(),
        })
    }
}

impl Assertion {
    /// Checks that this passkey has signed what it was asked to sign. Whether its count goes up is decided in the log.
    pub fn check(
        &self,
        challenge: &Challenge,
        place: &Place,
        known: Known<'_>,
    ) -> Result<Signed, Refused> {
        let said = &self.response;
        check_client(&said.client_data.0, Sort::Get, challenge, place)?;
        let bytes = &said.authenticator_data.0;
        let data = check_data(bytes, place)?;
        if known.host != place.host {
            return Err(Refused::Host);
        }
        // Whether it may be copied was settled when it was made.
        if data.may_be_copied() != known.may_be_copied {
            return Err(Refused::Copies);
        }
        let key = PublicKey::parse(known.public_key)?;
        let client_hash = digest(&SHA256, &said.client_data.0);
        let signed = [bytes, client_hash.as_ref()].concat();
        key.verify(&signed, &said.signature.0)
            .map_err(|_| Refused::Signature)?;
        Ok(Signed {
            sign_count: data.sign_count,
            is_copied: data.is_copied(),
        })
    }
}

/// Finds the authenticator's words in an `attestationObject` that attests nothing.
pub fn attested(object: &[u8]) -> Result<&[u8], Refused> {
    if object.len() > AUTHENTICATOR_BYTES_MAX {
        return Err(Refused::AttestationForm);
    }
    let object = cbor::read_all(object).map_err(Refused::Attestation)?;
    let sort = object.named("fmt").and_then(Value::text);
    let statement = object.named("attStmt");
    match (sort, statement) {
        (Some("none"), Some(Value::Map(nothing))) if nothing.is_empty() => {}
        (Some(_), Some(Value::Map(_))) => return Err(Refused::AttestationSort),
        _ => return Err(Refused::AttestationForm),
    }
    let data = object.named("authData").and_then(Value::bytes);
    data.ok_or(Refused::AttestationForm)
}

fn check_client(
    bytes: &[u8],
    sort: Sort,
    challenge: &Challenge,
    place: &Place,
) -> Result<(), Refused> {
    if bytes.len() > CLIENT_DATA_BYTES_MAX {
        return Err(Refused::ClientData);
    }
    let said: ClientData = serde_json::from_slice(bytes).map_err(|_| Refused::ClientData)?;
    let wanted = match sort {
        Sort::Create => "webauthn.create",
        Sort::Get => "webauthn.get",
    };
    if said.sort != wanted {
        return Err(Refused::Sort);
    }
    if !challenge.is(&said.challenge.0) {
        return Err(Refused::Challenge);
    }
    if said.origin != place.origin {
        return Err(Refused::Origin);
    }
    if said.cross_origin {
        return Err(Refused::CrossOrigin);
    }
    Ok(())
}

fn check_data<'a>(bytes: &'a [u8], place: &Place) -> Result<AuthenticatorData<'a>, Refused> {
    if bytes.len() > AUTHENTICATOR_BYTES_MAX {
        return Err(Refused::AuthenticatorData(authenticator::Bad::Long));
    }
    let data = AuthenticatorData::parse(bytes).map_err(Refused::AuthenticatorData)?;
    if digest(&SHA256, place.host.as_bytes()).as_ref() != data.host_hash {
        return Err(Refused::Host);
    }
    if !data.is_present() {
        return Err(Refused::NotPresent);
    }
    if !data.is_verified() {
        return Err(Refused::NotVerified);
    }
    if data.is_copied() && !data.may_be_copied() {
        return Err(Refused::Copies);
    }
    Ok(data)
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // `null` is what a browser says of a user handle that there is not.
        let text = Option::<String>::deserialize(from)?.unwrap_or_default();
        BASE64.decode(text).map(Self).map_err(D::Error::custom)
    }
}
