//! Where everything of a box lies: disks in the data folder, mounts and cgroup named after both.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::BoxId;

/// Mounts live here and not in the data folder: they die with a reboot as this folder does, and a data
/// folder below a 0700 home could not be walked by the box's root, which is an ordinary uid outside.
const MOUNTS: &str = "/run/cocoonbox";

/// The paths of one data folder.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    data: PathBuf,
    mounts: PathBuf,
    tag: String,
}

/// The paths of one box.
#[derive(Clone, Debug)]
pub(super) struct BoxLayout {
    pub(super) id: BoxId,
    /// `$DATA/boxes/<id>`: what is kept.
    pub(super) disks: PathBuf,
    /// `/run/cocoonbox/<tag>/boxes/<id>`: mount points while the box runs, and nothing else.
    pub(super) mounts: PathBuf,
    /// The cgroup, below the root of each hierarchy.
    pub(super) cgroup: String,
}

impl Layout {
    /// Makes the folders and derives the tag that keeps two data folders on one host apart.
    pub(super) fn prepare(data: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(data)?;
        let data = data.canonicalize()?;
        let tag = blake3::hash(data.as_os_str().as_bytes()).to_hex()[..12].to_owned();
        let layout = Self {
            mounts: Path::new(MOUNTS).join(&tag),
            data,
            tag,
        };
        // Files below carry uids of a box, setuid root among them: nobody but root may walk in.
        make(&layout.boxes(), 0o700)?;
        make(&layout.deleted(), 0o700)?;
        make(&layout.images(), 0o755)?;
        make(&layout.runc_root(), 0o700)?;
        make(&layout.locks(), 0o700)?;
        Ok(layout)
    }

    pub(super) fn boxes(&self) -> PathBuf {
        self.data.join("boxes")
    }

    /// Disks that are being removed. The name is not a box id.
    pub(super) fn deleted(&self) -> PathBuf {
        self.boxes().join(".deleted")
    }

    pub(super) fn images(&self) -> PathBuf {
        self.data.join("images")
    }

    pub(super) fn runc_root(&self) -> PathBuf {
        self.data.join("run/runc")
    }

    /// Held for moments: while an id range is drawn, the agent copied, an image mounted or released.
    pub(super) fn shared_lock(&self) -> PathBuf {
        self.data.join("run/machines.lock")
    }

    /// Held by whoever changes this box.
    pub(super) fn box_lock(&self, id: &BoxId) -> PathBuf {
        self.locks().join(id.as_str())
    }

    fn locks(&self) -> PathBuf {
        self.data.join("run/locks")
    }

    /// Everything of this data folder that is mounted is below this folder.
    pub(super) fn mounts(&self) -> &Path {
        &self.mounts
    }

    /// Makes the folder of the box's mount points. The box's root may walk in, other accounts of the host
    /// may not: what is mounted there is as readable as the box makes it.
    pub(super) fn make_mounts(&self, of: &BoxLayout, uid_base: u32) -> io::Result<()> {
        for folder in [Path::new(MOUNTS), &self.mounts, &self.box_mounts()] {
            make(folder, 0o711)?;
        }
        make(&self.image_mounts(), 0o700)?;
        make(&of.mounts, 0o710)?;
        std::os::unix::fs::chown(&of.mounts, Some(0), Some(uid_base))
    }

    /// Mount points of images.
    pub(super) fn image_mounts(&self) -> PathBuf {
        self.mounts.join("images")
    }

    /// Mount points of boxes.
    pub(super) fn box_mounts(&self) -> PathBuf {
        self.mounts.join("boxes")
    }

    pub(super) fn of(&self, id: &BoxId) -> BoxLayout {
        BoxLayout {
            id: id.clone(),
            disks: self.boxes().join(id.as_str()),
            mounts: self.box_mounts().join(id.as_str()),
            cgroup: format!("/cocoonbox/{}.{id}", self.tag),
        }
    }
}

impl BoxLayout {
    pub(super) fn machine_file(&self) -> PathBuf {
        self.disks.join("machine.json")
    }

    pub(super) fn run(&self) -> PathBuf {
        self.disks.join("run")
    }

    pub(super) fn wake_file(&self) -> PathBuf {
        self.run().join("wake.json")
    }

    pub(super) fn pid_file(&self) -> PathBuf {
        self.run().join("init.pid")
    }

    pub(super) fn console(&self) -> PathBuf {
        self.run().join("console.log")
    }

    pub(super) fn runc_log(&self) -> PathBuf {
        self.run().join("runc.log")
    }

    pub(super) fn bundle(&self) -> PathBuf {
        self.run().join("bundle")
    }

    pub(super) fn identity(&self) -> PathBuf {
        self.run().join("identity")
    }

    /// The file that holds the disks of a box whose size is limited; others have folders.
    pub(super) fn volume(&self) -> PathBuf {
        self.disks.join("disk.img")
    }

    /// Where the volume is mounted while the box runs.
    pub(super) fn volume_mount(&self) -> PathBuf {
        self.mount_point("disk")
    }

    /// Where the disk `name` of this box is: `upper`, `home` or `workspace`.
    pub(super) fn folder(&self, name: &str) -> PathBuf {
        if self.volume().exists() {
            self.volume_mount().join(name)
        } else {
            self.disks.join(name)
        }
    }

    /// The mount point `name` of this box.
    pub(super) fn mount_point(&self, name: &str) -> PathBuf {
        self.mounts.join(name)
    }
}

/// Makes `folder` with exactly this mode, whatever the umask. Its parents are made as usual.
pub(super) fn make(folder: &Path, mode: u32) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    std::fs::set_permissions(folder, PermissionsExt::from_mode(mode))
}

/// Replaces `path` in one step, so that a reader sees the old or the new content.
pub(super) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let staged = path.with_extension("tmp");
    std::fs::write(&staged, content)?;
    std::fs::rename(staged, path)
}

/// Succeeds if what was to be removed was not there.
pub(super) fn gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
