//! What a model's vendor streams to an agent, on each of the three wires, in pieces of any size.

#![no_main]

use cocoonbox_agent::{Wire, read_stream};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((first, bytes)) = input.split_first() else {
        return;
    };
    let wire = match first % 3 {
        0 => Wire::AnthropicMessages,
        1 => Wire::OpenaiChat,
        _ => Wire::OpenaiResponses,
    };
    // The same reply, whole or not, however the bytes are split.
    let whole = read_stream(wire, &[bytes]);
    let size = usize::from(first / 3) + 1;
    let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
    assert_eq!(read_stream(wire, &pieces), whole);
});
