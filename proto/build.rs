//! Compiles the `.proto` files in pure Rust, so that no protoc is needed.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message;

const FILES: [&str; 24] = [
    "cocoonbox/log/v1/envelope.proto",
    "cocoonbox/log/v1/account.proto",
    "cocoonbox/log/v1/box.proto",
    "cocoonbox/log/v1/agent.proto",
    "cocoonbox/log/v1/desktop.proto",
    "cocoonbox/log/v1/routine.proto",
    "cocoonbox/log/v1/snapshot.proto",
    "cocoonbox/log/v1/capsule.proto",
    "cocoonbox/log/v1/share.proto",
    "cocoonbox/control/v1/boxes.proto",
    "cocoonbox/control/v1/users.proto",
    "cocoonbox/control/v1/budgets.proto",
    "cocoonbox/control/v1/capsule.proto",
    "cocoonbox/control/v1/checkpoints.proto",
    "cocoonbox/control/v1/erasure.proto",
    "cocoonbox/control/v1/history.proto",
    "cocoonbox/control/v1/operator.proto",
    "cocoonbox/control/v1/routines.proto",
    "cocoonbox/control/v1/shares.proto",
    "cocoonbox/agent/v1/control.proto",
    "cocoonbox/agent/v1/saves.proto",
    "cocoonbox/agent/v1/session.proto",
    "cocoonbox/agent/v1/agents.proto",
    "cocoonbox/toolhost/v1/toolhost.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    for file in FILES {
        println!("cargo:rerun-if-changed={file}");
    }
    let descriptors = protox::compile(FILES, ["."])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        // A screen is many megabytes a second: not copied more often than it has to be.
        .bytes(".cocoonbox.agent.v1.ScreenRequest")
        .bytes(".cocoonbox.agent.v1.ScreenResponse")
        // Whoever prints an answer must not print a key.
        .skip_debug([
            ".cocoonbox.control.v1.CapsuleKey",
            ".cocoonbox.control.v1.Share",
        ])
        .compile_fds(descriptors)?;
    Ok(())
}
