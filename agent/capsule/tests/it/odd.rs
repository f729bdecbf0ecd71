//! Files at the ends of what is possible.

use std::{
    fs::{self, File},
    os::{
        fd::OwnedFd,
        unix::fs::{FileExt as _, MetadataExt as _},
    },
    path::Path,
};

use rustix::{
    fs::{AtFlags, Mode, OFlags, mkdirat, open, openat, unlinkat},
    process::{Resource, getrlimit, setrlimit},
};

use crate::scene::{Scene, see};

#[test]
fn fifty_gigabytes_of_holes_are_saved_in_a_moment() {
    let scene = Scene::new();
    let path = scene.home().join("disk.img");
    let file = File::create(&path).unwrap();
    file.set_len(50 << 30).unwrap();
    file.write_all_at(&[1; 8192], 0).unwrap();
    file.write_all_at(b"in the middle", 25 << 30).unwrap();
    file.write_all_at(&vec![2; 300_000], (50 << 30) - 400_000)
        .unwrap();
    let snapshot = scene.save();
    assert_eq!(snapshot.counts.bytes, 50 << 30);
    assert!(
        snapshot.counts.bytes_added < 64 << 10,
        "{:?}",
        snapshot.counts
    );
    let out = scene.out("out");
    assert_eq!(scene.restore(&snapshot, &out).problems.list, []);
    assert_eq!(see(&scene.home()), see(&scene.restored(&out)));
    let back = File::open(scene.restored(&out).join("disk.img")).unwrap();
    assert!(back.metadata().unwrap().blocks() < 2048);
    let mut middle = [0; 13];
    back.read_exact_at(&mut middle, 25 << 30).unwrap();
    assert_eq!(&middle, b"in the middle");
    let mut end = vec![0; 300_000];
    back.read_exact_at(&mut end, (50 << 30) - 400_000).unwrap();
    assert!(end.iter().all(|byte| *byte == 2));
}

#[test]
fn a_large_file_has_lists_of_lists() {
    let scene = Scene::new();
    let path = scene.home().join("large");
    // More pieces than one list holds: a run of data and a hole in turn.
    let file = File::create(&path).unwrap();
    for n in 0..9000u64 {
        file.write_all_at(&[u8::try_from(n % 251).unwrap() + 1; 4096], n * 16384)
            .unwrap();
    }
    let snapshot = scene.save();
    let out = scene.out("out");
    assert_eq!(scene.restore(&snapshot, &out).problems.list, []);
    assert_eq!(see(&scene.home()), see(&scene.restored(&out)));
    let back = File::open(scene.restored(&out).join("large")).unwrap();
    for n in [0u64, 1, 4000, 8999] {
        let mut page = [0; 4096];
        back.read_exact_at(&mut page, n * 16384).unwrap();
        assert_eq!(page, [u8::try_from(n % 251).unwrap() + 1; 4096]);
    }
    let second = scene.save_later();
    let third = scene.save_later();
    assert_eq!((third.counts.files_read, third.roots), (0, second.roots));
}

/// So many names in one folder; a million is the bench's.
const MANY: usize = 100_000;

#[test]
fn a_hundred_thousand_files_in_a_folder_are_listed_and_given_back() {
    let scene = Scene::new();
    let many = scene.home().join("many");
    fs::create_dir(&many).unwrap();
    for n in 0..MANY {
        File::create(many.join(format!("item-{n:06}"))).unwrap();
    }
    let snapshot = scene.save();
    assert_eq!(
        (snapshot.counts.files, &snapshot.skipped.list[..]),
        (MANY as u64, &[][..])
    );
    // One name more costs a part of the folder, not all of it.
    fs::write(many.join("item-050000x"), "more").unwrap();
    let second = scene.save_later();
    assert_eq!(second.counts.files, MANY as u64 + 1);
    assert!(second.counts.bytes_added < 200 << 10, "{:?}", second.counts);
    let out = scene.out("out");
    assert_eq!(scene.restore(&second, &out).problems.list, []);
    let restored = scene.restored(&out).join("many");
    assert_eq!(fs::read_dir(&restored).unwrap().count(), MANY + 1);
    assert_eq!(fs::read(restored.join("item-050000x")).unwrap(), b"more");
}

const DEEP: usize = 4000;
const NAME: &str = "a-folder-in-a-folder-in-a-folder";

fn enter(above: &OwnedFd) -> OwnedFd {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(above, NAME, flags, Mode::empty()).unwrap()
}

fn folder(path: &Path) -> OwnedFd {
    open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
}

/// No path is long enough to remove it by.
fn remove(path: &Path) {
    let mut above = vec![folder(path)];
    for _ in 0..DEEP {
        let next = enter(above.last().unwrap());
        above.push(next);
    }
    unlinkat(above.pop().unwrap(), "leaf", AtFlags::empty()).unwrap();
    while let Some(folder) = above.pop() {
        unlinkat(folder, NAME, AtFlags::REMOVEDIR).unwrap();
    }
}

#[test]
fn a_path_four_thousand_deep_comes_back() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    let scene = Scene::new();
    let mut at = folder(&scene.home());
    for _ in 0..DEEP {
        mkdirat(&at, NAME, Mode::RWXU).unwrap();
        at = enter(&at);
    }
    let flags = OFlags::WRONLY | OFlags::CREATE;
    let leaf = openat(&at, "leaf", flags, Mode::RUSR).unwrap();
    File::from(leaf).write_all_at(b"down here", 0).unwrap();

    let snapshot = scene.save();
    assert_eq!(snapshot.skipped.list, []);
    assert_eq!(snapshot.counts.directories, 1 + DEEP as u64);
    let second = scene.save();
    assert_eq!(second.roots, snapshot.roots);
    let out = scene.out("out");
    let restored = scene.restore(&snapshot, &out);
    let mut at = folder(&scene.restored(&out));
    for _ in 0..DEEP {
        at = enter(&at);
    }
    let leaf = openat(&at, "leaf", OFlags::RDONLY, Mode::empty()).unwrap();
    let mut bytes = [0; 9];
    File::from(leaf).read_exact_at(&mut bytes, 0).unwrap();
    remove(&scene.home());
    remove(&scene.restored(&out));
    assert_eq!(&bytes, b"down here");
    assert_eq!(restored.problems.list, []);
}

#[test]
fn files_from_long_ago_and_far_ahead_keep_their_times() {
    use rustix::fs::{Timespec, Timestamps, futimens};
    let scene = Scene::new();
    for (name, seconds) in [("before", -86_400), ("epoch", 0), ("ahead", 4_102_444_800)] {
        let path = scene.home().join(name);
        fs::write(&path, name).unwrap();
        let time = Timespec {
            tv_sec: seconds,
            tv_nsec: 123_456_789,
        };
        let times = Timestamps {
            last_access: time,
            last_modification: time,
        };
        futimens(File::open(&path).unwrap(), &times).unwrap();
    }
    let snapshot = scene.save();
    let out = scene.out("out");
    assert_eq!(scene.restore(&snapshot, &out).problems.list, []);
    assert_eq!(see(&scene.home()), see(&scene.restored(&out)));
}
