//! The format does not change by accident: the README's vectors, and a capsule that was written once.

use std::{fs, path::Path};

use cocoonbox_capsule::{
    Capsule, Folder, ObjectId, Reader, Snapshot, SnapshotId, UserKey,
    chunk::{CUT_MAX, Rule},
    encoding::Bytes,
    entry::{Entry, FileNode, Node, Pieces},
    generation::Generation,
    key::{Keys, Kind},
    pack::Directory,
    reader::{FileReader, Stretch},
    tree::TreeNode,
};

use crate::scene;

/// 00 01 02 … 1f.
fn key() -> UserKey {
    let mut bytes = [0; 32];
    for (at, byte) in (0u8..).zip(&mut bytes) {
        *byte = at;
    }
    UserKey::new(bytes)
}

#[test]
fn ids_are_those_of_the_readme() {
    let keys = Keys::derive(&key());
    let readme =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    for (kind, plain) in [
        (Kind::Data, &b"hello"[..]),
        (Kind::Tree, b"hello"),
        (Kind::Tree, &[0, 0]),
    ] {
        let id = keys.chunk_id(kind, plain).to_string();
        assert!(readme.contains(&id), "{kind:?} {plain:?}: {id}");
    }
}

#[test]
fn files_are_cut_where_they_always_were() {
    let bytes: Vec<u8> = (0u32..1 << 20)
        .flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes())
        .collect();
    let mut cuts = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let window = &bytes[at..bytes.len().min(at + CUT_MAX)];
        let is_end = at + window.len() == bytes.len();
        at += Rule::Content.next(0x0123_4567_89ab_cdef, at as u64, window, is_end);
        cuts.push(at);
    }
    assert_eq!(cuts, CUTS);
    assert_eq!(
        Rule::Blocks.next(0, 16384 + 100, &bytes[..40_000], true),
        16384 - 100
    );
}

const CUTS: &[usize] = &[
    283_146, 511_037, 666_310, 965_670, 1_232_961, 1_542_309, 2_031_640, 2_206_241, 2_393_785,
    2_852_265, 3_139_891, 3_478_993, 4_092_212, 4_194_304,
];

/// Written by format 1 on 2026-11-30; see the README of the folder. Append-only: a reader that cannot read
/// it is broken.
#[test]
fn a_capsule_of_format_1_is_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/v1");
    // Opening a store makes a folder in it.
    let copy = tempfile::tempdir().unwrap();
    copy_all(&folder, copy.path());
    let store = Folder::open(copy.path()).unwrap();
    let capsule = Capsule::open(Box::new(store), &key()).unwrap();
    let snapshot = capsule.find_snapshot("latest").unwrap();
    assert_eq!(snapshot.label, b"vector");
    let reader = Reader::new(&capsule).unwrap();
    let find = |name: &str| -> Entry {
        let mut path = snapshot.roots[0].path.clone();
        path.extend_from_slice(name.as_bytes());
        reader.lookup(&snapshot, &path).unwrap()
    };
    let read = |name: &str| -> Vec<u8> {
        let Node::File(file) = find(name).node else {
            panic!()
        };
        content(&reader, &file)
    };
    assert_eq!(read("/inline"), b"inline");
    assert_eq!(
        read("/docs/text"),
        "a line of text\n".repeat(400).as_bytes()
    );
    assert_eq!(read("/sparse").len(), 1 << 20);
    assert_eq!(&read("/sparse")[500_000..500_003], &[0, 0, 0]);
    let Node::Symlink { target } = find("/link").node else {
        panic!()
    };
    assert_eq!(target, b"docs/text");
    assert_eq!(find("/docs/text").meta.mode, 0o640);
    assert_eq!(find("/docs/text").meta.mtime.nanos, 123_456_789);
    let twins = [find("/docs/text"), find("/twin")].map(|entry| match entry.node {
        Node::File(file) => file.link.unwrap(),
        _ => panic!(),
    });
    assert_eq!(twins[0], twins[1]);

    assert!(scene::check(&capsule).unwrap().is_good());
}

fn content(reader: &Reader<'_>, file: &FileNode) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut source = FileReader::new(reader, file);
    while let Some(stretch) = source.next_stretch().unwrap() {
        match stretch {
            Stretch::Inline(part) => bytes.extend_from_slice(&part),
            Stretch::Chunk(part) => bytes.extend_from_slice(&part),
            Stretch::Hole(length) => {
                bytes.resize(bytes.len() + usize::try_from(length).unwrap(), 0);
            }
        }
    }
    bytes
}

fn copy_all(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir_all(&to).unwrap();
            copy_all(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), &to).unwrap();
        }
    }
}

/// The seeds of the fuzz target are what the decoders take, but for the one that points outside.
#[test]
fn seeds_are_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/fuzz/seeds/capsule");
    let seed = |name: &str| fs::read(folder.join(name)).unwrap()[1..].to_vec();
    assert!(matches!(TreeNode::decode(&seed("leaf")), Ok(TreeNode::Leaf(list)) if list.len() == 6));
    assert!(
        matches!(TreeNode::decode(&seed("branch")), Ok(TreeNode::Branch(list)) if list.len() == 2)
    );
    assert!(TreeNode::decode(&seed("outside")).is_err());
    assert!(Pieces::decode(&mut Bytes::new(&seed("pieces"))).is_ok());
    assert!(
        Directory::decode(
            ObjectId([0; 16]),
            Kind::Data,
            &mut Bytes::new(&seed("directory"))
        )
        .is_ok()
    );
    assert!(Snapshot::decode(SnapshotId([0; 16]), &seed("snapshot")).is_ok());
    assert!(Generation::decode(&seed("generation")).is_ok());
}
