//! A restore leaves alone what is there, and never leaves its folder.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, symlink},
};

use cocoonbox_capsule::{
    Error, Reader,
    entry::{Content, Entry, FileNode, Meta, Node},
    restore::Existing,
    tree::TreeNode,
};

use crate::scene::{Scene, see};

#[test]
fn what_is_there_stays_or_is_kept() {
    let scene = Scene::new();
    let home = scene.home();
    fs::create_dir(home.join("docs")).unwrap();
    fs::write(home.join("docs/note"), "old").unwrap();
    fs::write(home.join("docs/other"), "other").unwrap();
    let snapshot = scene.save();
    fs::write(home.join("docs/note"), "newer and precious").unwrap();
    fs::remove_file(home.join("docs/other")).unwrap();

    let root = std::path::Path::new("/");
    let docs = home.join("docs");
    let refused = scene
        .restore_paths(&snapshot, root, &[&docs], Existing::Refuse)
        .unwrap();
    assert_eq!(refused.problems.count, 1);
    assert_eq!(refused.problems.list[0].why, "something is there already");
    assert_eq!(
        fs::read_to_string(docs.join("note")).unwrap(),
        "newer and precious"
    );
    assert_eq!(fs::read_to_string(docs.join("other")).unwrap(), "other");

    let target = scene.out("place");
    let there = scene.restored(&target).join("docs/note");
    fs::create_dir_all(there.parent().unwrap()).unwrap();
    fs::write(&there, "newer and precious").unwrap();
    for _ in 0..2 {
        let kept = scene
            .restore_paths(&snapshot, &target, &[&docs], Existing::Keep)
            .unwrap();
        assert_eq!(kept.problems.list, []);
        assert!(kept.replaced.count >= 1);
        assert_eq!(fs::read_to_string(&there).unwrap(), "old");
        let kept = target.join(kept.kept.unwrap());
        let found = fs::read_to_string(scene.restored(&kept).join("docs/note")).unwrap();
        assert_eq!(found, "newer and precious");
    }
}

#[test]
fn a_link_in_the_way_is_not_followed() {
    let scene = Scene::new();
    let home = scene.home();
    fs::create_dir(home.join("docs")).unwrap();
    fs::write(home.join("docs/note"), "saved").unwrap();
    let snapshot = scene.save();

    let outside = scene.out("outside");
    fs::create_dir(&outside).unwrap();
    let target = scene.out("target");
    let docs = scene.restored(&target).join("docs");
    fs::create_dir_all(docs.parent().unwrap()).unwrap();
    symlink(&outside, &docs).unwrap();
    let restored = scene.restore(&snapshot, &target);
    assert_eq!(restored.problems.count, 1);
    assert!(fs::read_dir(&outside).unwrap().next().is_none());

    let restored = scene
        .restore_paths(&snapshot, &target, &[], Existing::Keep)
        .unwrap();
    assert_eq!(restored.problems.list, []);
    assert!(docs.symlink_metadata().unwrap().is_dir());
    assert!(fs::read_dir(&outside).unwrap().next().is_none());
}

#[test]
fn a_part_is_restored_alone() {
    let scene = Scene::new();
    let home = scene.home();
    fs::create_dir_all(home.join("a/b")).unwrap();
    fs::write(home.join("a/b/one"), "1").unwrap();
    fs::write(home.join("a/two"), "2").unwrap();
    let snapshot = scene.save();
    let out = scene.out("out");
    let one = home.join("a/b/one");
    let restored = scene
        .restore_paths(&snapshot, &out, &[&one], Existing::Refuse)
        .unwrap();
    assert_eq!(restored.tally.files, 1);
    assert_eq!(
        fs::read_to_string(scene.restored(&out).join("a/b/one")).unwrap(),
        "1"
    );
    assert!(!scene.restored(&out).join("a/two").exists());
    let missing = home.join("a/three");
    let error = scene.restore_paths(&snapshot, &out, &[&missing], Existing::Refuse);
    assert!(matches!(error, Err(Error::PathNotFound { .. })));
}

#[test]
fn links_to_one_file_are_one_file() {
    let scene = Scene::new();
    let home = scene.home();
    for n in 0..50 {
        fs::create_dir(home.join(format!("d{n}"))).unwrap();
        fs::write(home.join(format!("d{n}/first")), format!("{n}").repeat(900)).unwrap();
        fs::hard_link(
            home.join(format!("d{n}/first")),
            home.join(format!("d{n}/second")),
        )
        .unwrap();
        fs::hard_link(home.join(format!("d{n}/first")), home.join(format!("z{n}"))).unwrap();
    }
    let snapshot = scene.save();
    assert_eq!(snapshot.counts.files_read, 50);
    let out = scene.out("out");
    let restored = scene.restore(&snapshot, &out);
    assert_eq!(restored.problems.list, []);
    assert_eq!((restored.tally.files, restored.tally.links), (50, 100));
    assert_eq!(see(&home), see(&scene.restored(&out)));
    // A second save takes everything over, links too.
    let second = scene.save_later();
    let third = scene.save_later();
    assert_eq!(second.roots, snapshot.roots);
    assert_eq!((third.roots, third.counts.files_read), (second.roots, 0));
    assert_eq!(
        scene.restored(&out).join("z7").metadata().unwrap().nlink(),
        3
    );
}

/// Bytes of a leaf with one entry of any name.
fn leaf(name: &[u8]) -> Vec<u8> {
    let entry = Entry {
        name: name.to_vec(),
        meta: Meta::default(),
        node: Node::File(FileNode {
            size: 2,
            link: None,
            is_unsettled: false,
            content: Content::Inline(b"hi".to_vec()),
        }),
    };
    let mut bytes = vec![0, 1];
    entry.encode(&mut bytes);
    bytes
}

#[test]
fn a_tree_that_points_outside_is_refused() {
    assert!(TreeNode::decode(&leaf(b"name")).is_ok());
    for name in [
        &b".."[..],
        b".",
        b"",
        b"a/b",
        b"/etc",
        b"../../x",
        b"a\0b",
        &[b'n'; 256],
    ] {
        assert_eq!(
            TreeNode::decode(&leaf(name)),
            Err(cocoonbox_capsule::encoding::Error::NameOutside),
            "{name:?}"
        );
    }
}

#[test]
fn paths_are_found_by_name() {
    let scene = Scene::new();
    let many = scene.home().join("many");
    fs::create_dir(&many).unwrap();
    for n in 0..5000 {
        fs::write(many.join(format!("item-{n:04}")), format!("{n}")).unwrap();
    }
    let snapshot = scene.save();
    let reader = Reader::new(&scene.capsule).unwrap();
    for n in [0, 1, 2499, 4999] {
        let path = many.join(format!("item-{n:04}"));
        let entry = reader
            .lookup(&snapshot, path.to_str().unwrap().as_bytes())
            .unwrap();
        let Node::File(file) = entry.node else {
            panic!()
        };
        assert_eq!(file.content, Content::Inline(n.to_string().into_bytes()));
    }
    let behind = many.join("zzz");
    assert!(
        reader
            .lookup(&snapshot, behind.to_str().unwrap().as_bytes())
            .is_err()
    );
}
