//! What an authenticator says and signs (WebAuthn, section 6.1, "Authenticator Data").

use super::cbor;

/// Longer ones are not allowed (WebAuthn, section 4, "Credential ID").
pub const CREDENTIAL_ID_BYTES_MAX: usize = 1_023;
const HASH_BYTES: usize = 32;
const AAGUID_BYTES: usize = 16;

const PRESENT: u8 = 1 << 0;
const VERIFIED: u8 = 1 << 2;
const MAY_BE_COPIED: u8 = 1 << 3;
const IS_COPIED: u8 = 1 << 4;
const HAS_CREDENTIAL: u8 = 1 << 6;
const HAS_EXTENSIONS: u8 = 1 << 7;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthenticatorData<'a> {
    /// SHA-256 of the host name that it signs for.
    pub host_hash: [u8; HASH_BYTES],
    flags: u8,
    /// Signatures so far; 0 = it does not count.
    pub sign_count: u32,
    /// Only of a passkey that is being added.
    pub credential: Option<Credential<'a>>,
}

/// A passkey that an authenticator has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential<'a> {
    pub id: &'a [u8],
    /// A `COSE_Key`.
    pub public_key: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Bad {
    #[error("it ends too early")]
    Short,
    #[error("the id of its credential has no size that one may have")]
    CredentialId,
    #[error("the key in it cannot be read")]
    Key(#[source] cbor::Bad),
    #[error("the extensions in it cannot be read")]
    Extensions(#[source] cbor::Bad),
    #[error("something follows it")]
    Long,
}

impl<'a> AuthenticatorData<'a> {
    /// Reads all of it.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Bad> {
        let mut rest = bytes;
        let host_hash = *take::<HASH_BYTES>(&mut rest)?;
        let [flags] = *take(&mut rest)?;
        let sign_count = u32::from_be_bytes(*take(&mut rest)?);
        let credential = if flags & HAS_CREDENTIAL == 0 {
            None
        } else {
            take::<AAGUID_BYTES>(&mut rest)?;
            let size = usize::from(u16::from_be_bytes(*take(&mut rest)?));
            if !(1..=CREDENTIAL_ID_BYTES_MAX).contains(&size) {
                return Err(Bad::CredentialId);
            }
            let (id, after) = rest.split_at_checked(size).ok_or(Bad::Short)?;
            let (_, left) = cbor::read(after).map_err(Bad::Key)?;
            let (public_key, left) = after.split_at(after.len() - left.len());
            rest = left;
            Some(Credential { id, public_key })
        };
        if flags & HAS_EXTENSIONS != 0 {
            // None was asked for. Some say one all the same, and it says nothing that is needed here.
            let (_, left) = cbor::read(rest).map_err(Bad::Extensions)?;
            rest = left;
        }
        if !rest.is_empty() {
            return Err(Bad::Long);
        }
        Ok(Self {
            host_hash,
            flags,
            sign_count,
            credential,
        })
    }

    /// Somebody was there and touched it, or the like.
    pub fn is_present(&self) -> bool {
        self.flags & PRESENT != 0
    }

    /// It knows who: by a PIN, a finger, a face.
    pub fn is_verified(&self) -> bool {
        self.flags & VERIFIED != 0
    }

    pub fn may_be_copied(&self) -> bool {
        self.flags & MAY_BE_COPIED != 0
    }

    pub fn is_copied(&self) -> bool {
        self.flags & IS_COPIED != 0
    }
}

fn take<'a, const SIZE: usize>(rest: &mut &'a [u8]) -> Result<&'a [u8; SIZE], Bad> {
    let (taken, left) = rest.split_first_chunk().ok_or(Bad::Short)?;
    *rest = left;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The map `{1: 1}` stands for a key: what is in it is not looked at here.
    const KEY: &[u8] = &[0xa1, 0x01, 0x01];

    fn written(flags: u8, sign_count: u32, id: &[u8], extensions: &[u8]) -> Vec<u8> {
        let mut bytes = vec![7; HASH_BYTES];
        bytes.push(flags);
        bytes.extend(sign_count.to_be_bytes());
        if flags & HAS_CREDENTIAL != 0 {
            bytes.extend([0; AAGUID_BYTES]);
            bytes.extend(u16::try_from(id.len()).unwrap().to_be_bytes());
            bytes.extend(id);
            bytes.extend(KEY);
        }
        bytes.extend(extensions);
        bytes
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(flags: u8, sign_count: u32, id in prop::collection::vec(any::<u8>(), 1..80)) {
            let extensions: &[u8] = if flags & HAS_EXTENSIONS == 0 { &[] } else { b"\xa1\x61x\xf5" };
            let bytes = written(flags, sign_count, &id, extensions);
            let read = AuthenticatorData::parse(&bytes).unwrap();
            prop_assert_eq!(read.sign_count, sign_count);
            let said = [read.is_present(), read.is_verified(), read.may_be_copied(), read.is_copied()];
            prop_assert_eq!(said, [0, 2, 3, 4].map(|bit| flags >> bit & 1 == 1));
            let made = read.credential.map(|made| (made.id, made.public_key));
            prop_assert_eq!(made, (flags & HAS_CREDENTIAL != 0).then_some((&id[..], KEY)));
            for end in 0..bytes.len() {
                prop_assert!(AuthenticatorData::parse(&bytes[..end]).is_err());
            }
            let longer = [&bytes[..], &[0]].concat();
            prop_assert_eq!(AuthenticatorData::parse(&longer), Err(Bad::Long));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = AuthenticatorData::parse(&bytes);
        }
    }

    #[test]
    fn ids_have_a_size() {
        for (size, fits) in [
            (0, false),
            (1, true),
            (CREDENTIAL_ID_BYTES_MAX, true),
            (CREDENTIAL_ID_BYTES_MAX + 1, false),
        ] {
            let bytes = written(HAS_CREDENTIAL, 0, &vec![1; size], &[]);
            assert_eq!(AuthenticatorData::parse(&bytes).is_ok(), fits, "{size}");
        }
    }
}
