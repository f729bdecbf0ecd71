//! The contracts: every `.proto` file in this folder and what is generated from it. Nothing else.

#![forbid(unsafe_code)]

pub mod json;

/// The event log: envelope and payloads.
#[expect(clippy::pedantic, missing_docs, reason = "generated")]
pub mod log {
    pub mod v1 {
        tonic::include_proto!("cocoonbox.log.v1");
    }
}

/// The control plane.
#[expect(clippy::pedantic, clippy::large_enum_variant, reason = "generated")]
pub mod control {
    pub mod v1 {
        tonic::include_proto!("cocoonbox.control.v1");
    }
}

impl std::fmt::Debug for control::v1::CapsuleKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CapsuleKey(***)")
    }
}

impl std::fmt::Debug for control::v1::Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Share");
        shown.field("id", &self.id).finish_non_exhaustive()
    }
}

/// What a client asks of one box.
#[expect(clippy::pedantic, reason = "generated")]
pub mod agent {
    pub mod v1 {
        tonic::include_proto!("cocoonbox.agent.v1");
    }
}

/// Inside the box, between the loop and the desktop user's process.
#[expect(clippy::pedantic, reason = "generated")]
pub mod toolhost {
    pub mod v1 {
        tonic::include_proto!("cocoonbox.toolhost.v1");
    }
}

/// All descriptors, for gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
