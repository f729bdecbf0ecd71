//! The disk is full, on either side: nothing is half under its name, nothing that was there is lost, and with room all
//! goes on.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    process::Command,
};

use cocoonbox_capsule::{Error, store};

use crate::scene::{Scene, see};

/// A file system of its own.
struct Disk(PathBuf);

impl Disk {
    fn new(path: PathBuf, size: &str) -> Self {
        fs::create_dir_all(&path).unwrap();
        let options = ["-t", "tmpfs", "-o", size, "tmpfs"];
        let mounted = Command::new("mount").args(options).arg(&path).status();
        assert!(mounted.unwrap().success(), "root can mount");
        Self(path)
    }

    /// Takes every byte that is free.
    fn fill(&self) {
        let mut fill = fs::File::create(self.0.join("fill")).unwrap();
        let filled = std::io::copy(&mut fs::File::open("/dev/zero").unwrap(), &mut fill);
        assert_eq!(filled.unwrap_err().kind(), ErrorKind::StorageFull);
    }

    fn make_room(&self) {
        fs::remove_file(self.0.join("fill")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(&self.0).status().ok();
    }
}

fn bytes(seed: usize, count: usize) -> Vec<u8> {
    let mut state = seed as u64 + 1;
    let mut bytes = Vec::with_capacity(count + 8);
    while bytes.len() < count {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1442);
        bytes.extend_from_slice(&state.to_be_bytes());
    }
    bytes
}

/// Files by their contents, at any depth.
fn contents(folder: &Path, into: &mut Vec<Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            contents(&entry.path(), into);
        } else {
            into.push(fs::read(entry.path()).unwrap());
        }
    }
}

#[test]
fn a_restore_in_place_onto_a_full_disk_loses_nothing_and_is_undone() {
    let scene = Scene::new();
    let disk = Disk::new(scene.home(), "size=24m");
    let docs = scene.home().join("docs");
    fs::create_dir(&docs).unwrap();
    let path = |n: usize| docs.join(format!("f{n:02}"));
    for n in 0..16 {
        fs::write(path(n), bytes(n, 1 << 20)).unwrap();
    }
    let first = scene.save();
    for n in 0..16 {
        // Half of them are gone, the others are newer.
        if n % 2 == 0 {
            fs::remove_file(path(n)).unwrap();
        } else {
            fs::write(path(n), format!("newer {n}")).unwrap();
        }
    }
    let second = scene.save();
    let seen = see(&docs);
    disk.fill();
    // Room for some of it.
    let fill = fs::File::options()
        .write(true)
        .open(disk.0.join("fill"))
        .unwrap();
    let length = fill.metadata().unwrap().len();
    fill.set_len(length - (5 << 20)).unwrap();
    // What is open still takes its room.
    drop(fill);
    let refused = scene.try_restore_in_place(&first, &[&docs]);
    assert!(matches!(refused, Err(Error::TargetFull)), "{refused:?}");
    let mut there = Vec::new();
    contents(&docs, &mut there);
    let mut kept = Vec::new();
    let beside = scene.home().join(format!(".cocoonbox-kept-{}", first.id));
    if beside.exists() {
        contents(&beside, &mut kept);
    }
    let old: Vec<_> = (0..16).map(|n| bytes(n, 1 << 20)).collect();
    let newer: Vec<_> = (0..16).map(|n| format!("newer {n}").into_bytes()).collect();
    for file in &there {
        assert!(
            old.contains(file) || newer.contains(file),
            "half a file of {} bytes",
            file.len()
        );
    }
    for n in (1..16).step_by(2) {
        assert!(
            there.contains(&newer[n]) || kept.contains(&newer[n]),
            "{n} is lost"
        );
    }
    assert!(
        there.iter().any(|file| old.contains(file)),
        "there was room for some"
    );
    // What comes back needs room too, before it takes the place of the other.
    disk.make_room();
    let undone = scene.undo(&first, &second, &[&docs]);
    assert_eq!(undone.restored.problems.list, []);
    assert_eq!(see(&docs), seen);
    assert!(!beside.exists());
    scene.restore_in_place(&first, &[&docs]);
    for (n, old) in old.iter().enumerate() {
        assert_eq!(&fs::read(path(n)).unwrap(), old);
    }
}

#[test]
fn a_save_into_a_full_store_fails_whole_and_the_next_one_is_kept() {
    let mut scene = Scene::new();
    let disk = Disk::new(scene.dir.path().join("full"), "size=24m");
    scene.move_store(&disk.0);
    fs::write(scene.home().join("a"), bytes(1, 4 << 20)).unwrap();
    let first = scene.save();
    let seen = see(&scene.home());
    disk.fill();
    fs::write(scene.home().join("b"), bytes(2, 4 << 20)).unwrap();
    let refused = scene.try_save().unwrap_err();
    let Error::Store(store::Error::Io { source, .. }) = &refused else {
        panic!("{refused:?}")
    };
    assert_eq!(source.kind(), ErrorKind::StorageFull);
    assert_eq!(scene.capsule.snapshot_ids().unwrap(), [first.id]);
    scene.is_sound();
    let out = scene.out("out");
    assert_eq!(scene.restore(&first, &out).problems.list, []);
    assert_eq!(see(&scene.restored(&out)), seen);
    disk.make_room();
    let second = scene.save();
    scene.is_sound();
    let out = scene.out("later");
    assert_eq!(scene.restore(&second, &out).problems.list, []);
    assert_eq!(see(&scene.restored(&out)), see(&scene.home()));
}
