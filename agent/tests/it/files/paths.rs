//! Which paths are gone to, and which lead out.

use cocoonbox_proto::toolhost::v1::{EditRequest, GrepRequest, LsRequest};

use super::{Host, refused};

#[tokio::test]
async fn no_path_leads_out() {
    use std::os::unix::fs::symlink;
    let mut host = Host::new().await;
    let workspace = host.world.workspace();
    std::fs::create_dir(workspace.join("in")).expect("a folder");
    host.put("in/file", "inside");
    symlink("/etc", workspace.join("etc")).expect("a link");
    symlink("/etc/passwd", workspace.join("passwd")).expect("a link");
    symlink("../../..", workspace.join("up")).expect("a link");
    symlink("in/file", workspace.join("near")).expect("a link");
    symlink("/proc/self/root/etc", workspace.join("magic")).expect("a link");
    symlink("loop", workspace.join("loop")).expect("a link");
    assert_eq!(host.read("near", 0, 0).await.text, "inside");
    for path in [
        "etc/passwd",
        "passwd",
        "up/etc/passwd",
        "../../etc/passwd",
        "magic/passwd",
        "loop",
        "in/../../x",
    ] {
        refused(&host.read(path, 0, 0).await, "leads out");
        refused(
            &host.write(path, "x").await,
            if path == "passwd" || path == "loop" {
                "symbolic link"
            } else {
                "leads out"
            },
        );
    }
    refused(&host.read("/etc/passwd", 0, 0).await, "outside of");
    refused(&host.read("a\0b", 0, 0).await, "NUL");
    refused(&host.read("", 0, 0).await, "empty");
    refused(&host.read("missing", 0, 0).await, "does not exist");
    refused(&host.read("in", 0, 0).await, "is a directory");
    refused(&host.read("in/file/x", 0, 0).await, "not a directory");
    refused(&host.write("near", "x").await, "symbolic link");
    refused(&host.write("in/", "x").await, "directory");
    refused(&host.write("..", "x").await, "directory");
    assert_eq!(host.get("in/file"), b"inside");
    let ls = host
        .client
        .ls(LsRequest { path: "etc".into() })
        .await
        .expect("an answer");
    refused(&ls.into_inner(), "leads out");
    let grep = GrepRequest {
        pattern: "root".into(),
        path: "etc".into(),
        ..Default::default()
    };
    refused(
        &host
            .client
            .grep(grep)
            .await
            .expect("an answer")
            .into_inner(),
        "leads out",
    );
    let grep = GrepRequest {
        pattern: "root".into(),
        ..Default::default()
    };
    let text = host
        .client
        .grep(grep)
        .await
        .expect("an answer")
        .into_inner()
        .text;
    assert!(text.contains("nothing matches"), "{text}");
}

#[tokio::test]
async fn special_files_are_not_waited_for() {
    let mut host = Host::new().await;
    let fifo = host.world.workspace().join("fifo");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .expect("mkfifo")
            .success()
    );
    refused(&host.read("fifo", 0, 0).await, "not a regular file");
    refused(&host.write("fifo", "x").await, "not a regular file");
    let grep = GrepRequest {
        pattern: "x".into(),
        ..Default::default()
    };
    assert!(
        host.client
            .grep(grep)
            .await
            .expect("an answer")
            .into_inner()
            .ok
    );
}

/// A folder becomes a link to the outside and back as fast as it goes, while files are read, written,
/// edited and searched through it.
#[tokio::test]
async fn a_link_that_comes_and_goes_leads_nowhere() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let mut host = Host::new().await;
    let workspace = host.world.workspace();
    let outside = tempfile::TempDir::with_prefix("outside").expect("a folder");
    std::fs::write(outside.path().join("f"), "secret").expect("a write");
    std::fs::create_dir(workspace.join("real")).expect("a folder");
    host.put("real/f", "inside");
    let stop = std::sync::Arc::new(AtomicBool::new(false));
    let flips = std::thread::spawn({
        let (stop, target) = (std::sync::Arc::clone(&stop), outside.path().to_owned());
        move || {
            std::os::unix::fs::symlink(&target, workspace.join("link")).expect("a link");
            let mut flips = 0_u32;
            while !stop.load(Ordering::Relaxed) {
                let (a, b) = (workspace.join("real"), workspace.join("link"));
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(rustix::fs::CWD, a, rustix::fs::CWD, b, flags)
                    .expect("an exchange");
                flips += 1;
            }
            flips
        }
    });
    let (mut reached, mut refusals) = (0, 0);
    let deadline = tokio::time::Instant::now() + crate::world::DEADLINE;
    while (reached < 100 || refusals < 100) && tokio::time::Instant::now() < deadline {
        let read = host.read("real/f", 0, 0).await;
        assert!(!read.text.contains("secret"), "{read:?}");
        let written = host.write("real/f", "inside").await;
        let edit = EditRequest {
            path: "real/f".into(),
            old: "s".into(),
            new: "S".into(),
            replace_all: true,
            ..EditRequest::default()
        };
        host.client.edit(edit).await.expect("an answer");
        let grep = GrepRequest {
            pattern: "secret".into(),
            path: "real".into(),
            ..GrepRequest::default()
        };
        let found = host
            .client
            .grep(grep)
            .await
            .expect("an answer")
            .into_inner();
        assert!(!found.text.contains("secret\n"), "{found:?}");
        reached += u32::from(written.ok);
        refusals += u32::from(!written.ok);
    }
    stop.store(true, Ordering::Relaxed);
    assert!(flips.join().expect("no panic") > 0 && reached > 0 && refusals > 0);
    assert_eq!(
        std::fs::read(outside.path().join("f")).expect("a file"),
        b"secret"
    );
    let beside: Vec<_> = std::fs::read_dir(outside.path())
        .expect("a folder")
        .flatten()
        .collect();
    assert_eq!(beside.len(), 1, "nothing was written beside it");
}
