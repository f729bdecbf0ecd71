//! A database without room: its tables on a small disk, mounted where nobody else sees it.

use std::{
    fs::File, io::Write as _, os::unix::fs::MetadataExt as _, path::Path, process::Command,
    sync::Arc,
};

use cocoonbox_events::{AppendError, Store};
use tempfile::TempDir;

use crate::support::{append, committed, fresh, opened, replica, verified, within};

/// Set in the process that has mounts of its own.
const OWN: &str = "COCOONBOX_TEST_OWN_MOUNTS";

/// Whether this process has mounts of its own. If not, the test is run again in one that has, with a
/// server of its own; its mounts go with it, however it ends.
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
    let run = unshare()
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(OWN, "1")
        .output()
        .unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr),
    );
    assert!(run.status.success(), "{out}{err}");
    assert!(out.contains("1 passed"), "{out}{err}");
    false
}

/// Mounts a small disk that belongs to whom the server runs as.
fn small_disk(url: &str, dir: &Path) {
    let host = url.split(['@', '/']).nth(3).unwrap();
    let server = std::fs::metadata(host.replace("%2F", "/")).unwrap();
    let (uid, gid) = (server.uid(), server.gid());
    let options = format!("size=6m,mode=0700,uid={uid},gid={gid}");
    let mut mount = Command::new("mount");
    mount
        .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
        .arg(dir);
    assert!(mount.status().unwrap().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_reads_on_and_recovers() {
    if !has_own_mounts("disk::a_full_disk_refuses_reads_on_and_recovers") {
        return;
    }
    let url = fresh();
    // Not below a folder that the server's user cannot enter.
    let dir = TempDir::with_prefix_in("cocoonbox-disk-", "/tmp").unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir.path(), open).unwrap();
    let disk = dir.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    small_disk(&url, &disk);
    let cluster = cocoonbox_postgres::shared();
    let small = format!("CREATE TABLESPACE small LOCATION '{}'", disk.display());
    cluster.run_sql(&url, &small).unwrap();
    let moved = "ALTER TABLE cocoonbox.event SET TABLESPACE small";
    cluster.run_sql(&url, moved).unwrap();

    let store = replica(&url).await;
    let log = opened(&*store).await;
    committed(store.append(log, append(&[("agent/a", "1")])).await);
    let filler = disk.join("ballast");
    let mut file = File::create(&filler).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
    drop(file);

    let text = "x".repeat(8 * 1024);
    let mut acked = 1;
    let refused = within(async {
        loop {
            match store.append(log, append(&[("agent/a", &text)])).await {
                Ok(appended) => acked = appended.range().last,
                Err(error) => break error,
            }
        }
    });
    let refused = refused.await;
    assert!(matches!(refused, AppendError::DiskFull), "{refused:?}");
    assert!(refused.is_retryable());
    // Many at once, each refused, none of them half there.
    let work: Vec<_> = (0..16).map(|_| append(&[("agent/a", &text)])).collect();
    let tasks = work.iter().cloned().map(|work| {
        let store: Arc<dyn Store> = store.clone();
        tokio::spawn(async move { store.append(log, work).await })
    });
    for task in tasks.collect::<Vec<_>>() {
        let refused = within(task).await.unwrap();
        assert!(matches!(refused, Err(AppendError::DiskFull)), "{refused:?}");
    }
    assert_eq!(verified(&*store, log).await.len() as u64, acked);

    std::fs::remove_file(filler).unwrap();
    for (work, pos) in work.iter().zip(acked + 1..) {
        let again = within(store.append(log, work.clone())).await;
        assert_eq!(committed(again).first, pos);
    }
    assert_eq!(verified(&*store, log).await.len() as u64, acked + 16);
    store.close().await;
    // The server is told to end before its disk goes.
    cluster.stop().unwrap();
}
