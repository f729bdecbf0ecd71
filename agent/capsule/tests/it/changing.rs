//! Files that change while they are saved, and saves that are killed.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use cocoonbox_capsule::{Capsule, Folder, save};

use crate::scene::{Scene, key, now_ns, see};

#[test]
fn a_file_that_grows_for_ever_is_saved_and_marked() {
    let scene = Scene::new();
    let path = scene.home().join("log");
    fs::write(&path, vec![7; 48 << 20]).unwrap();
    fs::write(scene.home().join("still"), "still").unwrap();
    let is_done = AtomicBool::new(false);
    let snapshot = thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = OpenOptions::new().append(true).open(&path).unwrap();
            while !is_done.load(Ordering::Relaxed) {
                file.write_all(&[7; 512]).unwrap();
            }
        });
        let snapshot = scene.save();
        is_done.store(true, Ordering::Relaxed);
        snapshot
    });
    assert_eq!(snapshot.unsettled.count, 1);
    assert!(snapshot.unsettled.list[0].path.ends_with(b"/log"));
    let out = scene.out("out");
    assert_eq!(scene.restore(&snapshot, &out).problems.list, []);
    let back = fs::read(scene.restored(&out).join("log")).unwrap();
    assert!(back.len() >= 48 << 20 && back.iter().all(|byte| *byte == 7));
    // It is read again as soon as it is still.
    let second = scene.save_later();
    assert_eq!(second.unsettled.count, 0);
    let out = scene.out("later");
    scene.restore(&second, &out);
    assert_eq!(
        fs::read(scene.restored(&out).join("log")).unwrap(),
        fs::read(&path).unwrap()
    );
}

const HOME: &str = "CAPSULE_TEST_HOME";
const STORE: &str = "CAPSULE_TEST_STORE";

/// Not a test of its own: the process that is killed.
#[test]
#[ignore = "run by `a_save_killed_anywhere_is_made_up_for`"]
fn child() {
    let path = |name| PathBuf::from(std::env::var_os(name).unwrap());
    let store = Folder::open(path(STORE)).unwrap();
    let capsule = Capsule::open(Box::new(store), &key()).unwrap();
    let mut progress = |_: &_| {};
    let roots = vec![path(HOME).as_os_str().as_bytes().to_vec()];
    save::save(&capsule, save::Options::new(roots, &now_ns, &mut progress)).unwrap();
}

fn files(folder: &Path) -> usize {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    entries
        .flatten()
        .map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => files(&entry.path()),
            _ => 1,
        })
        .sum()
}

#[test]
fn a_save_killed_anywhere_is_made_up_for() {
    let scene = Scene::new();
    let mut state = 9u64;
    for n in 0..12 {
        let mut bytes = Vec::with_capacity(12 << 20);
        while bytes.len() < 12 << 20 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1442);
            bytes.extend_from_slice(&state.to_be_bytes());
        }
        fs::create_dir(scene.home().join(format!("d{n}"))).unwrap();
        fs::write(scene.home().join(format!("d{n}/large")), bytes).unwrap();
        fs::write(
            scene.home().join(format!("d{n}/small")),
            format!("{n}").repeat(500),
        )
        .unwrap();
    }
    // Counted in files of the store, finished or not: the mark of the save, each pack, each segment, the
    // record. The last kills come when all is done.
    let mut killed = 0;
    for count in 2..16 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "changing::child", "--ignored"])
            .env(HOME, scene.home())
            .env(STORE, scene.store())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let before = files(&scene.store());
        let exited = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break Some(status);
            }
            if files(&scene.store()) >= before + count {
                child.kill().unwrap();
                child.wait().unwrap();
                break None;
            }
            thread::yield_now();
        };
        match exited {
            None => killed += 1,
            Some(status) => assert!(status.success()),
        }
        for id in scene.capsule.snapshot_ids().unwrap() {
            let out = scene.out("half");
            let snapshot = scene.capsule.snapshot(id).unwrap();
            assert_eq!(scene.restore(&snapshot, &out).problems.list, []);
            assert_eq!(see(&scene.home()), see(&scene.restored(&out)));
            fs::remove_dir_all(out).unwrap();
        }
    }
    // On a busy machine some end before they are killed.
    assert!(killed > 2, "{killed}");
    let whole = scene.save();
    // What killed saves had listed was found again.
    assert!(whole.counts.bytes_added < 144 << 20, "{:?}", whole.counts);
    scene.is_sound();
    let out = scene.out("out");
    assert_eq!(scene.restore(&whole, &out).problems.list, []);
    assert_eq!(see(&scene.home()), see(&scene.restored(&out)));
}
