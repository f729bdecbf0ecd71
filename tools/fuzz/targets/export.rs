//! A line of an export as somebody hands it in.

#![no_main]

use cocoonbox_replay::export::{decode_line, encode_line};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(line) = decode_line(bytes) {
        let written = encode_line(&line, false).unwrap();
        let again = decode_line(&written).unwrap();
        assert_eq!(encode_line(&again, false).unwrap(), written);
    }
});
