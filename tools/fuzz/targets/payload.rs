//! Payloads as they lie in a log: of any kind, version and bytes.

#![no_main]

use cocoonbox_events::{Kind, Payload};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, u8, &[u8])| {
    let (number, version, bytes) = input;
    // Mostly kinds that there are, in the version that is written. By its number, so that a seed stays of
    // its kind when there are more of them.
    let (number, version) = match Kind::from_number(number.into()) {
        Some(kind) if version < 200 => (kind.number(), kind.version()),
        None if version < 200 => {
            let kind = Kind::ALL[usize::from(number) % Kind::ALL.len()];
            (kind.number(), kind.version())
        }
        _ => (number.into(), version.into()),
    };
    let Ok(payload) = Payload::decode(number, version, bytes) else {
        return;
    };
    assert_eq!(payload.kind().number(), number);
    // Encoding what was read reads the same again: nothing a fold sees depends on how it was written.
    let (kind, encoded) = payload.encode();
    let again = Payload::decode(kind.number(), kind.version(), &encoded).unwrap();
    assert_eq!(again.encode().1, encoded);
    let _ = cocoonbox_proto::json::render(kind.message(), &encoded);
});
