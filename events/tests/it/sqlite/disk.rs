//! Disks without room, and disks that turn read-only: small real ones, mounted where nobody else sees
//! them.

use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use cocoonbox_events::{AppendError, NoKeys, SqliteStore, Store, sqlite::OpenError};
use tempfile::TempDir;

use super::{open, try_open};
use crate::support::{append, committed, opened, verified};

/// Set in the process that has mounts of its own.
const OWN: &str = "COCOONBOX_TEST_OWN_MOUNTS";

/// Whether this process has mounts of its own. If not, the test is run again in one that has; its
/// mounts go with it, however it ends.
fn has_own_mounts(test: &str) -> bool {
    if std::env::var_os(OWN).is_some() {
        return true;
    }
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private"]);
        command
    };
    if !unshare().arg("true").status().is_ok_and(|s| s.success()) {
        eprintln!("skipped: mounting a disk for the test needs root and unshare");
        return false;
    }
    let test = format!("sqlite::disk::{test}");
    let run = unshare()
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &test, "--nocapture", "--test-threads=1"])
        .env(OWN, "1")
        .output()
        .unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr),
    );
    assert!(run.status.success(), "{out}{err}");
    assert!(out.contains("1 passed"), "{out}{err}");
    eprint!("{err}");
    false
}

fn ran(program: &str, arguments: &[&str], path: &Path) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).arg(path);
    command.status().is_ok_and(|status| status.success())
}

/// Unmounts a disk once nobody has a file of it open: threads of a store close theirs a moment after it was dropped.
fn unmounted(disk: &Path) {
    for _ in 0..1_000 {
        if ran("umount", &[], disk) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{} stays busy", disk.display());
}

fn small_disk(dir: &Path) {
    let size = ["-t", "tmpfs", "-o", "size=4m", "tmpfs"];
    assert!(ran("mount", &size, dir));
}

/// Takes all the room there is.
fn ballast(dir: &Path) -> PathBuf {
    let path = dir.join("ballast");
    let mut file = File::create(&path).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
    path
}

#[tokio::test]
async fn a_full_disk_refuses_reads_on_and_recovers() {
    if !has_own_mounts("a_full_disk_refuses_reads_on_and_recovers") {
        return;
    }
    let dir = TempDir::new().unwrap();
    small_disk(dir.path());
    let path = dir.path().join("log.db");
    let store = Arc::new(open(&path));
    let log = opened(&*store).await;
    let filler = ballast(dir.path());

    let text = "x".repeat(8 * 1024);
    let mut acked = 0;
    let refused = loop {
        match store.append(log, append(&[("agent/a", &text)])).await {
            Ok(appended) => acked = appended.range().last,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, AppendError::DiskFull), "{refused:?}");
    // Many at once, each refused, none of them half there.
    let work: Vec<_> = (0..32).map(|_| append(&[("agent/a", &text)])).collect();
    let tasks = work.iter().cloned().map(|work| {
        let store = store.clone();
        tokio::spawn(async move { store.append(log, work).await })
    });
    for task in tasks.collect::<Vec<_>>() {
        let refused = task.await.unwrap();
        assert!(matches!(refused, Err(AppendError::DiskFull)), "{refused:?}");
    }
    assert_eq!(verified(&*store, log).await.len() as u64, acked);

    std::fs::remove_file(filler).unwrap();
    for (work, pos) in work.iter().zip(acked + 1..) {
        assert_eq!(committed(store.append(log, work.clone()).await).first, pos);
    }
    acked += 32;
    let filler = ballast(dir.path());
    drop(store);
    // Started on a full disk, it is there to be read.
    let store = open(&path);
    assert_eq!(verified(&store, log).await.len() as u64, acked);
    drop(store);
    std::fs::remove_file(filler).unwrap();
    let store = open(&path);
    committed(store.append(log, append(&[("agent/a", "on")])).await);
    assert_eq!(verified(&store, log).await.len() as u64, acked + 1);
}

#[tokio::test]
async fn a_disk_that_turns_read_only_is_read_on() {
    if !has_own_mounts("a_disk_that_turns_read_only_is_read_on") {
        return;
    }
    let dir = TempDir::new().unwrap();
    let (image, disk) = (dir.path().join("image"), dir.path().join("disk"));
    File::create(&image).unwrap().set_len(16 << 20).unwrap();
    std::fs::create_dir(&disk).unwrap();
    let mount = ["-o", "loop", image.to_str().unwrap()];
    if !ran("mkfs.ext4", &["-q", "-F"], &image) || !ran("mount", &mount, &disk) {
        eprintln!("skipped: a disk that can fail needs mkfs.ext4 and loop devices");
        return;
    }
    let path = disk.join("log.db");
    let store = open(&path);
    let log = opened(&store).await;
    for n in 0..5 {
        let text = n.to_string();
        committed(store.append(log, append(&[("agent/a", &text)])).await);
    }
    let before = verified(&store, log).await;
    // What the kernel does by itself when a disk fails it.
    assert!(ran("mount", &["-o", "remount,abort"], &disk));

    let late = [append(&[("agent/a", "5")]), append(&[("agent/a", "6")])];
    let refused = store.append(log, late[0].clone()).await;
    assert!(matches!(refused, Err(AppendError::Unknown)), "{refused:?}");
    for append in &late {
        let refused = store.append(log, append.clone()).await;
        assert!(matches!(refused, Err(AppendError::Stopped)), "{refused:?}");
    }
    assert_eq!(verified(&store, log).await, before);
    drop(store);
    let refused = try_open(&path, Arc::new(NoKeys)).err().unwrap();
    assert!(matches!(refused, OpenError::ReadOnly { .. }), "{refused:?}");
    let reader = SqliteStore::open_read_only(&path, Arc::new(NoKeys)).unwrap();
    assert_eq!(verified(&reader, log).await, before);
    drop(reader);

    unmounted(&disk);
    assert!(ran("mount", &mount, &disk));
    let store = open(&path);
    assert_eq!(verified(&store, log).await[..5], before);
    for append in late {
        store.append(log, append).await.unwrap();
    }
    assert_eq!(verified(&store, log).await.len(), 7);
}

#[tokio::test]
async fn a_copy_on_a_read_only_disk_says_what_is_missing() {
    if !has_own_mounts("a_copy_on_a_read_only_disk_says_what_is_missing") {
        return;
    }
    let dir = TempDir::new().unwrap();
    let (source, copy) = (dir.path().join("log.db"), dir.path().join("copy"));
    std::fs::create_dir(&copy).unwrap();
    small_disk(&copy);
    let store = open(&source);
    let log = opened(&store).await;
    committed(store.append(log, append(&[("agent/a", "1")])).await);
    let path = copy.join("log.db");
    let copies = |name: &str| std::fs::copy(dir.path().join(name), copy.join(name)).unwrap();
    copies("log.db");
    assert!(copies("log.db-wal") > 0);

    let open_copy = || SqliteStore::open_read_only(&path, Arc::new(NoKeys));
    let writable = |is: &str| assert!(ran("mount", &["-o", is], &copy));
    writable("remount,ro");
    let refused = try_open(&path, Arc::new(NoKeys)).err().unwrap();
    assert!(matches!(refused, OpenError::ReadOnly { .. }), "{refused:?}");
    // Without the write-ahead log the file would seem to end earlier than it does.
    let refused = open_copy().err().unwrap();
    assert!(
        matches!(refused, OpenError::WalUnreadable { .. }),
        "{refused:?}"
    );
    drop(store);
    writable("remount,rw");
    std::fs::remove_file(copy.join("log.db-wal")).unwrap();
    copies("log.db");
    writable("remount,ro");
    assert_eq!(verified(&open_copy().unwrap(), log).await.len(), 1);
}
