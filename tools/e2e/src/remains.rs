//! What an installation leaves on the host: found, named, and cleared away.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::process::{self, cgroups, in_cgroups};

/// Where the container driver mounts. Below it a folder per data folder.
const MOUNTS: &str = "/run/cocoonbox";
/// Killed processes leave their cgroup within moments.
const EMPTY: Duration = Duration::from_secs(10);

/// Everything on the host that belongs to one data folder.
#[derive(Clone, Debug)]
pub struct Remains {
    data: PathBuf,
    tag: String,
}

impl Remains {
    pub fn of(data: &Path) -> Self {
        let data = data.canonicalize().unwrap_or_else(|_| data.to_owned());
        let bytes = data.as_os_str().as_encoded_bytes();
        let tag = blake3::hash(bytes).to_hex()[..12].to_owned();
        Self { data, tag }
    }

    /// Lists what is there, a line each: containers, processes, cgroups, mounts.
    pub fn list(&self) -> Vec<String> {
        let mut found: Vec<String> = self
            .containers()
            .iter()
            .map(|id| format!("container {id}"))
            .collect();
        found.extend(
            in_cgroups(|name| self.owns(name))
                .iter()
                .map(|process| format!("process {} `{}`", process.pid, process.command)),
        );
        found.extend(
            cgroups(|name| self.owns(name))
                .iter()
                .map(|at| format!("cgroup {}", at.display())),
        );
        found.extend(
            self.mounts()
                .iter()
                .map(|at| format!("mount {}", at.display())),
        );
        found
    }

    /// As [`Self::list`], without what the driver keeps mounted between boxes: images.
    pub fn of_boxes(&self) -> Vec<String> {
        let images = format!("{MOUNTS}/{}/images", self.tag);
        self.list()
            .into_iter()
            .filter(|line| !line.contains(&images))
            .collect()
    }

    /// Folders of boxes in the data folder.
    pub fn disks(&self) -> Vec<String> {
        let boxes = fs::read_dir(self.data.join("boxes"))
            .into_iter()
            .flatten()
            .flatten();
        let names = boxes.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| !name.starts_with('.')).collect()
    }

    /// Ends and removes everything, by force. What cannot be removed is left.
    pub fn clear(&self) {
        let deadline = Instant::now() + EMPTY;
        while !in_cgroups(|name| self.owns(name)).is_empty() && Instant::now() < deadline {
            for process in in_cgroups(|name| self.owns(name)) {
                process.kill();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        for id in self.containers() {
            let root = self.data.join("run/runc");
            quiet(
                Command::new("runc")
                    .arg("--root")
                    .arg(root)
                    .args(["delete", "--force", &id]),
            );
        }
        for folder in cgroups(|name| self.owns(name)) {
            let _busy = fs::remove_dir(folder);
        }
        for at in self.mounts().iter().rev() {
            quiet(Command::new("umount").arg("--lazy").arg(at));
        }
        // Only mount points are in there, and they are empty by now.
        let _gone = fs::remove_dir_all(Path::new(MOUNTS).join(&self.tag));
    }

    fn owns(&self, cgroup: &str) -> bool {
        cgroup
            .strip_prefix(&self.tag)
            .is_some_and(|rest| rest.starts_with('.'))
    }

    fn containers(&self) -> Vec<String> {
        let root = self.data.join("run/runc");
        if !root.is_dir() {
            return Vec::new();
        }
        let list = Command::new("runc")
            .arg("--root")
            .arg(root)
            .args(["list", "-q"])
            .output();
        let list = list.map(|output| output.stdout).unwrap_or_default();
        String::from_utf8_lossy(&list)
            .lines()
            .map(str::to_owned)
            .collect()
    }

    fn mounts(&self) -> Vec<PathBuf> {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let points = table
            .lines()
            .filter_map(|line| line.split(' ').nth(4))
            .map(PathBuf::from);
        let ours = Path::new(MOUNTS).join(&self.tag);
        points
            .filter(|at| at.starts_with(&ours) || at.starts_with(&self.data))
            .collect()
    }
}

/// Clears away what test processes that were killed left below `base`. `prefix<pid>-…` names the owner.
pub(crate) fn sweep(base: &Path, prefix: &str) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(owner) = name
            .strip_prefix(prefix)
            .and_then(|rest| rest.split('-').next())
        else {
            continue;
        };
        let Ok(owner) = owner.parse::<i32>() else {
            continue;
        };
        if Path::new("/proc").join(owner.to_string()).is_dir() {
            continue;
        }
        let data = entry.path().join("data");
        for data in [&data, &entry.path().join("data2")] {
            let pid = fs::read_to_string(data.join("run/api.pid")).unwrap_or_default();
            if let Ok(pid) = pid.trim().parse::<i32>()
                && process::Process::find(pid).is_some_and(|api| api.command.contains(&name))
            {
                process::kill(pid);
            }
        }
        Remains::of(&data).clear();
        let _busy = fs::remove_dir_all(entry.path());
    }
}

fn quiet(command: &mut Command) {
    let _failed = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}
