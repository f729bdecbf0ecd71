//! What the file system and the host say.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use cocoonbox_events::limits::{WAL_BYTES_DEGRADED, WAL_BYTES_WARNING};

use super::finding::Finding;

const DATABASES: [&str; 5] = [
    "log.db",
    "views.db",
    "vault.db",
    "keys.db",
    "checkpoints.db",
];
/// Files with secrets in them, or with what the logs hold sealed in the clear.
const PRIVATE: [&str; 4] = ["master.key", "views.db", "vault.db", "keys.db"];
/// A box's disks and an evening of logs.
const ROOM_WARNING: u64 = 5 * 1024 * 1024 * 1024;
/// The next commit may be refused.
const ROOM_WRONG: u64 = 512 * 1024 * 1024;
/// What boxes are run with, and what installs it.
const PROGRAMS: [(&str, &str); 4] = [
    ("runc", "apt-get install --no-install-recommends runc"),
    ("mount", "apt-get install mount"),
    ("cp", "apt-get install coreutils"),
    ("rm", "apt-get install coreutils"),
];
const MIB: u64 = 1024 * 1024;

pub(super) fn findings(data: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in DATABASES {
        let wal = data.join(format!("{name}-wal"));
        findings.extend(
            fs::metadata(wal)
                .ok()
                .and_then(|found| wal_of(name, found.len())),
        );
    }
    for name in PRIVATE {
        let mode = fs::metadata(data.join(name)).map(|found| found.permissions().mode());
        if mode.is_ok_and(|mode| mode & 0o077 != 0) {
            findings.push(
                Finding::wrong("PRIVATE", format!("others may read `{name}`"))
                    .advise(format!("chmod 600 {}", data.join(name).display())),
            );
        }
    }
    if let Ok(found) = rustix::fs::statvfs(data) {
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        findings.extend(room(data, free));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    for (program, advice) in PROGRAMS {
        if !folders.iter().any(|folder| folder.join(program).is_file()) {
            findings.push(
                Finding::wrong("PROGRAM", format!("`{program}` is not installed"))
                    .because("boxes are run with it")
                    .advise(advice),
            );
        }
    }
    findings
}

fn wal_of(name: &str, bytes: u64) -> Option<Finding> {
    let what = format!("the write-ahead log of `{name}` has {} MiB", bytes / MIB);
    let why = "somebody reads the database in one transaction for a long time";
    if bytes >= WAL_BYTES_DEGRADED {
        return Some(
            Finding::wrong("WAL", what)
                .because(why)
                .advise("end what reads it (`lsof` names it); it shrinks at the next checkpoint"),
        );
    }
    (bytes >= WAL_BYTES_WARNING).then(|| Finding::note("WAL", what).because(why))
}

fn room(data: &Path, free: u64) -> Option<Finding> {
    let what = format!("{} MiB are free in `{}`", free / MIB, data.display());
    if free < ROOM_WRONG {
        return Some(
            Finding::wrong("ROOM", what)
                .because("a full disk refuses every write until there is room")
                .advise("make room, or delete boxes that nobody needs: `cocoonbox delete`"),
        );
    }
    (free < ROOM_WARNING).then(|| Finding::note("ROOM", what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Severity;

    #[test]
    fn limits_are_told_apart() {
        assert_eq!(wal_of("log.db", 4 * MIB), None);
        let severity = |found: Option<Finding>| found.map(|one| one.severity);
        assert_eq!(severity(wal_of("log.db", 65 * MIB)), Some(Severity::Note));
        assert_eq!(severity(wal_of("log.db", 600 * MIB)), Some(Severity::Wrong));
        let data = Path::new("/data");
        assert_eq!(room(data, ROOM_WARNING), None);
        assert_eq!(severity(room(data, ROOM_WRONG)), Some(Severity::Note));
        assert_eq!(severity(room(data, 0)), Some(Severity::Wrong));
    }

    #[test]
    fn a_file_that_others_may_read_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("views.db");
        fs::write(&file, "").unwrap();
        let open = |mode| {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            findings(dir.path()).iter().any(|one| one.code == "PRIVATE")
        };
        assert!(open(0o644));
        assert!(!open(0o600));
    }
}
