//! What is known of a tool before it runs.

use cocoonbox_proto::log::v1::Effect;

/// Says whether running the tool `name` again may change the world. A name that is not known here
/// counts as one that does.
pub fn effect(name: &str) -> Effect {
    match name {
        "read" | "ls" | "grep" => Effect::ReadOnly,
        _ => Effect::SideEffect,
    }
}

/// Returns what an approval is for: exactly this tool with exactly these arguments.
pub fn args_hash(name: &str, args_json: &str) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(name.as_bytes());
    hasher.update(&[0]);
    hasher.update(args_json.as_bytes());
    *hasher.finalize().as_bytes()
}
