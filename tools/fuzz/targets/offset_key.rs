//! Offset keys, stream names and ids as clients send them: read or refused, and read to what was written.

#![no_main]

use cocoonbox_events::{CommandId, LogId, OffsetKey, StreamName};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(key) = text.parse::<OffsetKey>() {
        let written = key.to_string();
        assert_eq!(written.parse::<OffsetKey>().unwrap(), key);
        assert_eq!(
            written.len(),
            58,
            "fixed width, so that keys of one log sort as text"
        );
        assert_eq!(written, text.to_ascii_lowercase());
    }
    if let Ok(name) = StreamName::new(text) {
        assert_eq!(name.as_str(), text);
        assert!(name.as_str().len() <= 200);
        let _ = name.id();
    }
    if let Ok(log) = text.parse::<LogId>() {
        assert_eq!(log.to_string().parse::<LogId>().unwrap(), log);
    }
    let _ = text.parse::<CommandId>();
});
