//! What browsers and authenticators send of passkeys: read or refused, and never believed without a signature.

#![no_main]

use cocoonbox_api::passkeys::{AuthenticatorData, PublicKey, authenticator, cbor, ceremony};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok((value, rest)) = cbor::read(bytes) {
        let read = &bytes[..bytes.len() - rest.len()];
        assert_eq!(cbor::read_all(read), Ok(value));
    }
    if let Ok(key) = PublicKey::parse(bytes) {
        assert!(key.verify(b"nothing that it has signed", bytes).is_err());
    }
    let said = ceremony::attested(bytes).unwrap_or(bytes);
    if let Ok(data) = AuthenticatorData::parse(said) {
        if let Some(made) = &data.credential {
            assert!((1..=authenticator::CREDENTIAL_ID_BYTES_MAX).contains(&made.id.len()));
            assert!(cbor::read_all(made.public_key).is_ok());
            let _ = PublicKey::parse(made.public_key);
        }
        // What is cut or goes on is something else.
        assert!(AuthenticatorData::parse(&said[..said.len() - 1]).is_err());
        assert!(AuthenticatorData::parse(&[said, &[0]].concat()).is_err());
    }
});
