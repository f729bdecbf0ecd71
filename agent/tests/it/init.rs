//! `init` as process 1 of a small root of its own. Needs root; says so and passes without it.

use std::{
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;

use crate::{
    execs::NO_MODEL,
    trees::children_of,
    world::{World, eventually},
};

/// Makes a root out of the host's programs and starts init in it, without a network.
const SCRIPT: &str = r#"
set -e
mount --make-rprivate /
mount -t tmpfs none "$ROOT"
cd "$ROOT"
for name in bin sbin lib lib64 usr etc dev; do
  if [ -L /$name ]; then cp -P /$name $name
  elif [ -d /$name ]; then mkdir $name; mount --rbind /$name $name
  fi
done
mkdir -p proc run/cocoonbox-identity home/user workspace var/lib/cocoonbox
mkdir -m 1777 tmp
cp "$AGENT" agent
cp "$IDENTITY" run/cocoonbox-identity/identity
chmod 0755 agent . run run/cocoonbox-identity
chmod 0644 run/cocoonbox-identity/identity
mount -t proc none proc
exec chroot . /agent init
"#;

struct Init {
    unshare: Child,
    pid: u32,
    _root: TempDir,
}

impl Init {
    async fn start() -> Option<Self> {
        let may = Command::new("unshare")
            .args(["--pid", "--mount", "--net", "--fork", "true"])
            .stderr(Stdio::null())
            .status();
        if !may.is_ok_and(|status| status.success()) {
            return None;
        }
        let world = World::dark("anthropic", NO_MODEL).await;
        let root = TempDir::with_prefix("root").expect("a folder");
        let unshare = Command::new("unshare")
            .args(["--pid", "--mount", "--net", "--fork", "bash", "-c", SCRIPT])
            .env("ROOT", root.path())
            .env("AGENT", env!("CARGO_BIN_EXE_cocoonbox-agent"))
            .env("IDENTITY", world.path("identity"))
            .spawn()
            .expect("unshare");
        let outer = unshare.id();
        let mut pid = 0;
        eventually("init runs with both children", || {
            pid = children_of(outer).first().copied().unwrap_or_default();
            pid != 0 && child_of(pid, 990).is_some() && child_of(pid, 1000).is_some()
        })
        .await;
        // The identity has been copied: both children run behind that.
        drop(world);
        Some(Self {
            unshare,
            pid,
            _root: root,
        })
    }

    fn inside(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.pid))
    }
}

impl Drop for Init {
    fn drop(&mut self) {
        // Killing process 1 of a namespace kills everything in it.
        signal(self.pid, "KILL");
        self.unshare.wait().ok();
    }
}

fn signal(pid: u32, name: &str) {
    if pid != 0 {
        let mut kill = Command::new("kill");
        kill.arg(format!("-{name}")).arg(pid.to_string());
        kill.stderr(Stdio::null()).status().ok();
    }
}

fn child_of(parent: u32, uid: u32) -> Option<u32> {
    let is = |pid: &u32| std::fs::metadata(format!("/proc/{pid}")).is_ok_and(|m| m.uid() == uid);
    children_of(parent).into_iter().find(is)
}

#[tokio::test]
async fn prepares_restarts_reaps_and_stops() {
    let Some(mut init) = Init::start().await else {
        eprintln!("skipped: namespaces need root");
        return;
    };
    let socket = std::fs::metadata(init.inside("/run/cocoonbox/toolhost.sock")).expect("a socket");
    assert_eq!((socket.uid(), socket.gid()), (0, 990));
    assert_eq!(socket.permissions().mode() & 0o777, 0o660);
    let folders = [
        ("/run/cocoonbox", 0, 0o755),
        ("/run/user/1000", 1000, 0o700),
        ("/var/lib/cocoonbox", 990, 0o700),
        ("/workspace", 1000, 0o755),
        ("/home/user", 1000, 0o755),
    ];
    for (path, owner, mode) in folders {
        let folder = std::fs::metadata(init.inside(path)).expect("a folder");
        assert_eq!(
            (folder.uid(), folder.permissions().mode() & 0o777),
            (owner, mode),
            "{path}"
        );
    }
    let log = init.inside("/var/lib/cocoonbox/agent.db");
    eventually("the log is there", || log.exists()).await;
    assert_eq!(
        std::fs::metadata(&log).expect("a log").permissions().mode() & 0o777,
        0o600
    );

    for uid in [990, 1000] {
        let status = child_of(init.pid, uid).map(|pid| format!("/proc/{pid}/status"));
        let status = std::fs::read_to_string(status.expect("a child")).expect("a status");
        let line = |name: &str| {
            let found = status.lines().find_map(|line| line.strip_prefix(name));
            found.map(|line| line.trim().to_owned()).expect("a line")
        };
        assert_eq!(line("Groups:"), "");
        assert_eq!(line("CapEff:"), "0000000000000000");
        let first = child_of(init.pid, uid).expect("a child");
        signal(first, "KILL");
        let pid = init.pid;
        eventually("it is started again", || {
            child_of(pid, uid).is_some_and(|second| second != first)
        })
        .await;
    }

    signal(init.pid, "TERM");
    let status = tokio::task::spawn_blocking({
        let pid = init.unshare.id();
        move || {
            while !children_of(pid).is_empty() {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        }
    });
    tokio::time::timeout(std::time::Duration::from_secs(8), status)
        .await
        .expect("it stops in time")
        .expect("no panic");
    init.pid = 0;
    assert!(init.unshare.wait().expect("a status").success());
}
