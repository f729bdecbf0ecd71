//! Any message as canonical protobuf JSON, by descriptor: what people and scripts read.

use std::sync::LazyLock;

use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};
use serde_json::Value;

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(crate::DESCRIPTORS).expect("the build script wrote valid descriptors")
});

/// Renders encoded bytes of the message `name` (for example `cocoonbox.log.v1.BoxCreated`).
///
/// Field names stay as in the `.proto` files. Returns `None` if the name is unknown or the bytes are
/// not such a message.
pub fn render(name: &str, bytes: &[u8]) -> Option<Value> {
    let descriptor = POOL.get_message_by_name(name)?;
    let message = DynamicMessage::decode(descriptor, bytes).ok()?;
    let options = SerializeOptions::new()
        .use_proto_field_name(true)
        .stringify_64_bit_integers(false)
        .skip_default_fields(true);
    message
        .serialize_with_options(serde_json::value::Serializer, &options)
        .ok()
}

/// Renders a message of the type `M` whose full name is `name`.
pub fn render_message<M: prost::Message>(name: &str, message: &M) -> Option<Value> {
    render(name, &message.encode_to_vec())
}
