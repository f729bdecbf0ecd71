//! Checkpoint notes and verifier keys as an auditor brings them: no input is taken for signed.

#![no_main]

use std::sync::LazyLock;

use cocoonbox_events::checkpoint::{KeyName, Note, Signer, VerifierKey};
use libfuzzer_sys::fuzz_target;

/// Has signed nothing.
static KEY: LazyLock<VerifierKey> = LazyLock::new(|| {
    let name = KeyName::new("example.com/log").unwrap();
    Signer::new(name, &[9; 32].into()).verifier()
});

fuzz_target!(|text: &str| {
    if let Ok(note) = Note::parse(text) {
        assert!(note.signers([&*KEY]).is_err(), "a forged note was believed");
        let written = note.to_string();
        assert_eq!(Note::parse(&written).unwrap().to_string(), written);
    }
    if let Ok(key) = text.parse::<VerifierKey>() {
        assert_eq!(key.to_string().parse::<VerifierKey>().unwrap(), key);
    }
});
