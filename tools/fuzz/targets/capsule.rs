//! What is sealed in a capsule, as somebody with the key could have made it up: whatever is read is what
//! would be written, stays in its directory, and is no larger than it was.

#![no_main]

use cocoonbox_capsule::{
    ObjectId, Snapshot, SnapshotId,
    encoding::Bytes,
    entry::{self, Pieces},
    generation::Generation,
    key::Kind,
    pack::Directory,
    tree::TreeNode,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((which, bytes)) = input.split_first() else {
        return;
    };
    match which {
        b't' => tree(bytes),
        b'l' => {
            let mut read = Bytes::new(bytes);
            if let Ok(pieces) = Pieces::decode(&mut read) {
                let mut out = Vec::new();
                pieces.encode(&mut out);
                assert_eq!(out, bytes[..bytes.len() - read.left()]);
            }
        }
        b'd' => {
            let mut read = Bytes::new(bytes);
            if let Ok(directory) = Directory::decode(ObjectId([0; 16]), Kind::Data, &mut read) {
                let mut out = Vec::new();
                directory.encode(&mut out);
                assert_eq!(out, bytes[..bytes.len() - read.left()]);
                assert!(directory.frames_end() >= 8);
            }
        }
        b's' => {
            if let Ok(snapshot) = Snapshot::decode(SnapshotId([0; 16]), bytes) {
                // Reasons are text: what is none is shown with marks, and stays so.
                let out = snapshot.encode();
                assert_eq!(Snapshot::decode(snapshot.id, &out), Ok(snapshot));
            }
        }
        b'g' => {
            if let Ok(generation) = Generation::decode(bytes) {
                assert_eq!(generation.encode(), bytes);
            }
        }
        _ => {}
    }
});

fn tree(bytes: &[u8]) {
    match TreeNode::decode(bytes) {
        Ok(TreeNode::Leaf(entries)) => {
            let mut out = Vec::new();
            for entry in &entries {
                assert!(entry::is_name(&entry.name));
                entry.encode(&mut out);
            }
            assert!(bytes.ends_with(&out));
        }
        Ok(TreeNode::Branch(children)) => {
            assert!(children.iter().all(|child| entry::is_name(&child.first)));
        }
        Err(_) => {}
    }
}
