//! Writes the golden bytes of event kinds that have none: `cargo run -p cocoonbox-events --example golden`.
//!
//! Never overwrites: what is committed there is what logs out in the world hold.

use std::{fs::OpenOptions, io::Write, path::Path};

use cocoonbox_events::Kind;
use prost::Message;
use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, Kind as FieldKind, MapKey, MessageDescriptor,
    Value,
};

/// Messages in messages are filled this deep.
const DEPTH: u32 = 4;

fn main() {
    let pool = DescriptorPool::decode(cocoonbox_proto::DESCRIPTORS).expect("valid descriptors");
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    for kind in Kind::ALL {
        let path = dir.join(format!("{}.v{}.bin", kind.name(), kind.version()));
        let descriptor = pool
            .get_message_by_name(kind.message())
            .expect("a registered message");
        let bytes = filled(&descriptor, DEPTH, 0).encode_to_vec();
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                file.write_all(&bytes).expect("a writable folder");
                println!("{}", path.display());
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => panic!("`{}`: {error}", path.display()),
        }
    }
}

/// A message with every field set to something that tells it from the others; of a oneof the `n`th.
fn filled(descriptor: &MessageDescriptor, depth: u32, n: usize) -> DynamicMessage {
    let mut message = DynamicMessage::new(descriptor.clone());
    for field in descriptor.fields() {
        let is_other = field.containing_oneof().is_some_and(|oneof| {
            let turn = n % oneof.fields().len();
            oneof.fields().position(|other| other == field) != Some(turn)
        });
        if is_other || (depth == 0 && matches!(field.kind(), FieldKind::Message(_))) {
            continue;
        }
        let value = if let (true, FieldKind::Message(entry)) = (field.is_map(), field.kind()) {
            let key = MapKey::String(field.name().to_owned());
            let value = value(&entry.map_entry_value_field(), 0, depth);
            Value::Map([(key, value)].into())
        } else if field.is_list() {
            Value::List(
                (0..elements(&field))
                    .map(|n| value(&field, n, depth))
                    .collect(),
            )
        } else {
            value(&field, 0, depth)
        };
        message.set_field(&field, value);
    }
    message
}

/// Two, or one for each case of the element's oneof.
fn elements(field: &FieldDescriptor) -> u32 {
    let FieldKind::Message(descriptor) = field.kind() else {
        return 2;
    };
    let cases = descriptor
        .oneofs()
        .map(|oneof| oneof.fields().len())
        .max()
        .unwrap_or(0);
    u32::try_from(cases.max(2)).expect("a handful")
}

fn value(field: &FieldDescriptor, n: u32, depth: u32) -> Value {
    let number = field.number() * 10 + n + 1;
    match field.kind() {
        FieldKind::Bool => Value::Bool(true),
        FieldKind::Int32 | FieldKind::Sint32 | FieldKind::Sfixed32 => {
            Value::I32(i32::try_from(number).expect("a field number"))
        }
        FieldKind::Int64 | FieldKind::Sint64 | FieldKind::Sfixed64 => Value::I64(i64::from(number)),
        FieldKind::Uint32 | FieldKind::Fixed32 => Value::U32(number),
        FieldKind::Uint64 | FieldKind::Fixed64 => Value::U64(u64::from(number) << 33),
        FieldKind::Float => Value::F32(0.5),
        FieldKind::Double => Value::F64(f64::from(number) + 0.5),
        FieldKind::String => Value::String(format!("{} {n}", field.name())),
        FieldKind::Bytes => Value::Bytes(vec![number.to_le_bytes()[0]; 3].into()),
        FieldKind::Enum(values) => {
            let last = values.values().last().map_or(0, |value| value.number());
            Value::EnumNumber(last)
        }
        FieldKind::Message(descriptor) => {
            Value::Message(filled(&descriptor, depth - 1, n as usize))
        }
    }
}
