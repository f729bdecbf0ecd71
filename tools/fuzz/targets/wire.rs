//! Every message of the protocol as a client or a box sends it.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, prost::Message};

static MESSAGES: LazyLock<Vec<MessageDescriptor>> = LazyLock::new(|| {
    let pool = DescriptorPool::decode(cocoonbox_proto::DESCRIPTORS).unwrap();
    let ours = pool.all_messages();
    ours.filter(|message| message.full_name().starts_with("cocoonbox."))
        .collect()
});

/// By name, so that a seed stays of its message when there are more of them: FNV-1a, folded.
fn short(name: &str) -> u16 {
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let [a, b, c, d] = name.bytes().fold(0x811c_9dc5, step).to_be_bytes();
    u16::from_be_bytes([a ^ c, b ^ d])
}

fuzz_target!(|input: (u16, &[u8])| {
    let (which, bytes) = input;
    let named = MESSAGES.iter().find(|one| short(one.full_name()) == which);
    let message = named.unwrap_or(&MESSAGES[usize::from(which) % MESSAGES.len()]);
    if let Ok(read) = DynamicMessage::decode(message.clone(), bytes) {
        let written = read.encode_to_vec();
        let again = DynamicMessage::decode(message.clone(), written.as_slice()).unwrap();
        assert_eq!(again.encode_to_vec(), written);
        let _ = cocoonbox_proto::json::render(message.full_name(), &written);
    }
});
