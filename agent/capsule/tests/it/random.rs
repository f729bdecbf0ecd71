//! Any tree comes back, after any change too.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs::{self, File},
    io::{Seek as _, SeekFrom, Write as _},
    os::unix::{
        ffi::OsStrExt as _,
        fs::{PermissionsExt as _, symlink},
    },
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

use proptest::prelude::*;
use rustix::fs::XattrFlags;

use crate::scene::{Scene, Seen, see};

#[derive(Clone, Debug)]
enum Kind {
    Directory,
    File { size: usize, seed: u64 },
    Sparse { hole: u64, size: usize },
    Database { pages: usize, seed: u64 },
    Symlink { target: Vec<u8> },
    HardLink { of: prop::sample::Index },
}

#[derive(Clone, Debug)]
struct Node {
    within: prop::sample::Index,
    name: Vec<u8>,
    kind: Kind,
    mode: u32,
    mtime: (u64, u32),
    xattr: Option<(String, Vec<u8>)>,
}

/// Any bytes that the kernel takes.
fn name() -> impl Strategy<Value = Vec<u8>> {
    let byte = any::<u8>().prop_filter("no name has it", |byte| *byte != 0 && *byte != b'/');
    prop_oneof![
        prop::collection::vec(byte.clone(), 1..12),
        prop::collection::vec(byte, 255..=255),
        "[a-c]{1,2}".prop_map(String::into_bytes),
    ]
    .prop_filter("taken", |name| name != b"." && name != b"..")
}

fn kind() -> impl Strategy<Value = Kind> {
    let size = prop_oneof![
        4 => 0usize..300,
        3 => 300usize..20_000,
        1 => 200_000usize..700_000,
        1 => 1_500_000usize..3_000_000,
    ];
    prop_oneof![
        3 => Just(Kind::Directory),
        5 => (size.clone(), any::<u64>()).prop_map(|(size, seed)| Kind::File { size, seed }),
        1 => (0u64..40_000_000, 0usize..100_000).prop_map(|(hole, size)| Kind::Sparse { hole, size }),
        1 => (1usize..60, any::<u64>()).prop_map(|(pages, seed)| Kind::Database { pages, seed }),
        1 => name().prop_map(|target| Kind::Symlink { target }),
        2 => any::<prop::sample::Index>().prop_map(|of| Kind::HardLink { of }),
    ]
}

fn node() -> impl Strategy<Value = Node> {
    let xattr = prop::option::weighted(
        0.2,
        ("[a-z]{1,20}", prop::collection::vec(any::<u8>(), 0..900)),
    );
    (
        any::<prop::sample::Index>(),
        name(),
        kind(),
        0u32..0o10000,
        (0u64..4_000_000_000, 0u32..1_000_000_000),
        xattr,
    )
        .prop_map(|(within, name, kind, mode, mtime, xattr)| Node {
            within,
            name,
            kind,
            mode,
            mtime,
            xattr,
        })
}

/// Bytes that compress a little and repeat a little.
fn bytes(size: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let word = if state.is_multiple_of(3) { seed } else { state };
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}

/// Makes what can be made of the nodes. What has a name already is left.
fn build(home: &Path, nodes: &[Node]) {
    let mut folders = vec![home.to_owned()];
    let mut files: Vec<PathBuf> = Vec::new();
    let mut made: Vec<(PathBuf, &Node)> = Vec::new();
    for node in nodes {
        let path = node
            .within
            .get(&folders)
            .join(OsStr::from_bytes(&node.name));
        if path.symlink_metadata().is_ok() || path.as_os_str().len() > 3000 {
            continue;
        }
        match &node.kind {
            Kind::Directory => {
                fs::create_dir(&path).unwrap();
                folders.push(path.clone());
            }
            Kind::File { size, seed } => fs::write(&path, bytes(*size, *seed)).unwrap(),
            Kind::Sparse { hole, size } => {
                let mut file = File::create(&path).unwrap();
                file.seek(SeekFrom::Start(*hole)).unwrap();
                file.write_all(&bytes(*size, *hole)).unwrap();
                file.set_len(hole * 2 + *size as u64).unwrap();
            }
            Kind::Database { pages, seed } => {
                let mut content = b"SQLite format 3\0".to_vec();
                content.extend(bytes(pages * 4096, *seed));
                fs::write(&path, content).unwrap();
            }
            Kind::Symlink { target } => symlink(OsStr::from_bytes(target), &path).unwrap(),
            Kind::HardLink { of } if !files.is_empty() => {
                fs::hard_link(of.get(&files), &path).unwrap();
            }
            Kind::HardLink { .. } => continue,
        }
        if !matches!(node.kind, Kind::Directory | Kind::Symlink { .. }) {
            files.push(path.clone());
        }
        made.push((path, node));
    }
    for (path, node) in made.iter().rev() {
        if matches!(node.kind, Kind::Symlink { .. }) {
            continue;
        }
        if let Some((key, value)) = &node.xattr {
            let key = format!("user.{key}");
            rustix::fs::setxattr(path, key, value, XattrFlags::empty()).unwrap();
        }
        // Root reads and enters what it likes; others need their own bits to look at it again.
        let mode = if rustix::process::geteuid().is_root() {
            node.mode
        } else {
            node.mode | 0o700
        };
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let mtime = UNIX_EPOCH + Duration::new(node.mtime.0, node.mtime.1);
        let file = File::open(path).unwrap();
        file.set_modified(mtime).unwrap();
    }
}

fn comes_back(before: &[Node], after: &[Node], has_cache: bool) -> Result<(), TestCaseError> {
    let mut scene = Scene::new();
    scene.has_cache = has_cache;
    scene.has_default_excludes = false;
    let home = scene.home();
    build(&home, before);
    let first = scene.save();
    prop_assert_eq!(&first.skipped.list, &[]);
    let saved = see(&home);
    let out = scene.out("out");
    let restored = scene.restore(&first, &out);
    prop_assert_eq!(&restored.problems.list, &[]);
    prop_assert_eq!(&saved, &see(&scene.restored(&out)));

    // A second moment; the first stays what it was.
    build(&home, after);
    let second = scene.save();
    let later = scene.out("later");
    prop_assert_eq!(&scene.restore(&second, &later).problems.list, &[]);
    prop_assert_eq!(&see(&home), &see(&scene.restored(&later)));
    let again = scene.out("again");
    prop_assert_eq!(&scene.restore(&first, &again).problems.list, &[]);
    prop_assert_eq!(&saved, &see(&scene.restored(&again)));

    scene.is_sound();
    Ok(())
}

fn is_undone(before: &[Node], after: &[Node], gone: &[Node]) -> Result<(), TestCaseError> {
    let mut scene = Scene::new();
    scene.has_default_excludes = false;
    let docs = scene.home().join("docs");
    fs::create_dir(&docs).unwrap();
    build(&docs, before);
    let first = scene.save();
    // Some of it goes, some changes, and there is more.
    for node in gone {
        let names: Vec<_> = fs::read_dir(&docs).unwrap().map(Result::unwrap).collect();
        if names.is_empty() {
            break;
        }
        let path = node.within.get(&names).path();
        match fs::remove_file(&path) {
            Ok(()) => {}
            Err(_) => fs::remove_dir_all(&path).unwrap(),
        }
    }
    build(&docs, after);
    let second = scene.save();
    let seen = see(&docs);
    let restored = scene.restore_in_place(&first, &[&docs]);
    prop_assert_eq!(&restored.problems.list, &[]);
    let undone = scene.undo(&first, &second, &[&docs]);
    prop_assert_eq!(&undone.restored.problems.list, &[]);
    prop_assert_eq!(&undone.restored.replaced.list, &[]);
    prop_assert_eq!(&undone.stayed.list, &[]);
    // A file with several names, some of them in folders that are equal in both moments, can come back as two files.
    let alone = |seen: BTreeMap<PathBuf, Seen>| -> BTreeMap<_, _> {
        let alone = seen.into_iter().map(|(path, one)| (path, one.alone()));
        alone.collect()
    };
    prop_assert_eq!(alone(seen), alone(see(&docs)));
    let names: Vec<_> = fs::read_dir(scene.home())
        .unwrap()
        .map(|one| one.unwrap().file_name())
        .collect();
    prop_assert_eq!(names, ["docs"]);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn any_tree_comes_back(
        before in prop::collection::vec(node(), 0..40),
        after in prop::collection::vec(node(), 0..20),
        has_cache: bool,
    ) {
        comes_back(&before, &after, has_cache)?;
    }

    #[test]
    fn any_restore_in_place_is_undone(
        before in prop::collection::vec(node(), 0..40),
        after in prop::collection::vec(node(), 0..20),
        gone in prop::collection::vec(node(), 0..6),
    ) {
        is_undone(&before, &after, &gone)?;
    }
}
