//! What is kept of a box between two runs, and the range of host ids it runs with.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use serde::{Deserialize, Serialize};

use super::layout::{BoxLayout, Layout, gone, make, replace};
use super::lock::Lock;
use super::mounts::IDS;
use super::{program, volume};
use crate::machine::{BoxId, Fill, UserFolder};

/// Ids as the image has them. Disks carry them as they are: the shift to host ids is the mounts' work.
const USER: u32 = 1000;
const AGENT: u32 = 990;

/// Ranges start in the upper half of the ids, where neither accounts nor `/etc/subuid` nor other
/// container managers draw from. No disk ever carries such an id.
const FIRST_RANGE: u32 = 0x8000;
/// One less than all: the last range holds the id that means "nobody".
const RANGES: u32 = 0x7fff;

/// What a box's disks consist of; the rest is of one run. All but the agent's are in the volume, if there is one.
const DISKS: [&str; 5] = ["disk.img", "upper", "home", "workspace", "agent"];

/// A workspace may hold millions of files.
const REMOVE_TIMEOUT: Duration = Duration::from_mins(10);

/// As many files, and their contents where blocks cannot be shared.
const COPY_TIMEOUT: Duration = Duration::from_hours(1);

/// `usage` is asked often; a box with more files than this is reported too small, not waited for.
const FILES_COUNTED_MAX: usize = 500_000;

/// `machine.json`: facts of a box that outlive its runs.
#[derive(Serialize, Deserialize)]
struct Kept {
    uid_base: u32,
}

/// Makes the disks of a new box, and returns the first host id of the box. `machine.json` comes last:
/// where it is, the disks are whole. The caller holds the shared lock: two boxes must not draw one range. With
/// `bytes_max`, the disks are a volume of that size.
pub(super) fn claim(layout: &Layout, of: &BoxLayout, bytes_max: Option<u64>) -> io::Result<u32> {
    if let Some(kept) = read(of)? {
        return Ok(kept.uid_base);
    }
    let taken = taken(layout)?;
    let mut range = FIRST_RANGE + random()? % RANGES;
    while taken.contains(&(range * IDS)) {
        range = FIRST_RANGE + (range - FIRST_RANGE + 1) % RANGES;
    }
    let kept = Kept {
        uid_base: range * IDS,
    };
    make(&of.disks, 0o700)?;
    // Disks that are there already are those of a box whose `machine.json` was lost.
    let is_new = !of.volume().exists() && !of.disks.join("workspace").exists();
    match bytes_max.filter(|_| is_new) {
        Some(bytes) => make_volume(layout, of, bytes)?,
        None if of.volume().exists() => {}
        None => make_folders(&of.disks)?,
    }
    make_all(&of.disks, &OF_THE_AGENT)?;
    replace(&of.machine_file(), &serde_json::to_vec(&kept)?)?;
    Ok(kept.uid_base)
}

/// Gives a box that has none a copy of another's disks. They appear in one step, whole and on the medium; what a
/// killed process leaves of a copy is swept. Blocks are shared where the file system can.
pub(super) fn copy(layout: &Layout, from: &BoxLayout, to: &BoxLayout) -> io::Result<()> {
    let draft = layout
        .deleted()
        .join(format!("{}.{:08x}", to.id, random()?));
    make(&draft, 0o700)?;
    let mut command = Command::new("cp");
    command.args(["--archive", "--reflink=auto", "--one-file-system", "--"]);
    let disks = DISKS.map(|disk| from.disks.join(disk));
    command
        .args(disks.iter().filter(|disk| disk.exists()))
        .arg(&draft);
    let output = program::run(command.stderr(Stdio::piped()), COPY_TIMEOUT)?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        destroy(&draft)?;
        return Err(io::Error::other(stderr));
    }
    rustix::fs::syncfs(std::fs::File::open(&draft)?)?;
    std::fs::rename(&draft, &to.disks)?;
    std::fs::File::open(layout.boxes())?.sync_all()
}

/// Gives a box that has none disks with what `fill` puts into them. They appear as those of a copy do.
pub(super) fn fill(
    layout: &Layout,
    to: &BoxLayout,
    bytes_max: Option<u64>,
    fill: Fill,
) -> io::Result<()> {
    let draft = layout
        .deleted()
        .join(format!("{}.{:08x}", to.id, random()?));
    let filled = fill_draft(&draft, bytes_max, fill);
    if let Err(error) = filled {
        destroy(&draft)?;
        return Err(error);
    }
    rustix::fs::syncfs(std::fs::File::open(&draft)?)?;
    std::fs::rename(&draft, &to.disks)?;
    std::fs::File::open(layout.boxes())?.sync_all()
}

fn fill_draft(draft: &Path, bytes_max: Option<u64>, fill: Fill) -> io::Result<()> {
    make(draft, 0o700)?;
    let tree = match bytes_max {
        Some(_) => draft.join("tree"),
        None => draft.to_owned(),
    };
    make(&tree, 0o700)?;
    make_all(&tree, &OF_THE_USER)?;
    fill(&in_disks(|disk| tree.join(disk)))?;
    if let Some(bytes) = bytes_max {
        volume::make(&draft.join("disk.img"), bytes, &tree)?;
        destroy(&tree)?;
    }
    make_all(draft, &OF_THE_AGENT)
}

/// The folders whose files are the user's. What the user installs in the rest of the system is in the upper layer
/// of the root, which goes with the image.
pub(super) fn user_folders(of: &BoxLayout) -> Vec<UserFolder> {
    in_disks(|disk| of.folder(disk))
}

fn in_disks(place: impl Fn(&str) -> PathBuf) -> Vec<UserFolder> {
    [("/home/user", "home"), ("/workspace", "workspace")]
        .map(|(path, disk)| UserFolder {
            path,
            place: place(disk),
            owner: (USER, USER),
        })
        .into()
}

/// Takes the disks out of sight in one step, then removes them.
pub(super) fn remove(layout: &Layout, of: &BoxLayout) -> io::Result<()> {
    let mut target = layout.deleted().join(of.id.as_str());
    while target.symlink_metadata().is_ok() {
        target = layout
            .deleted()
            .join(format!("{}.{:08x}", of.id, random()?));
    }
    match std::fs::rename(&of.disks, &target) {
        Ok(()) => destroy(&target),
        Err(e) => gone(Err(e)),
    }
}

/// Removes disks that were taken out of sight by a process that did not get to the end. What a living one
/// is at is left to it.
pub(super) fn sweep(layout: &Layout) -> io::Result<()> {
    for entry in std::fs::read_dir(layout.deleted())? {
        let entry = entry?;
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.split('.').next());
        let Some(id) = id.and_then(|id| BoxId::new(id).ok()) else {
            continue;
        };
        if let Some(lock) = Lock::try_take(&layout.box_lock(&id))? {
            destroy(&entry.path())?;
            if !layout.of(&id).disks.exists() {
                lock.remove()?;
            }
        }
    }
    Ok(())
}

fn destroy(disks: &Path) -> io::Result<()> {
    // `rm` and not `remove_dir_all`, which runs out of descriptors in a tree that is deep on purpose.
    let mut command = Command::new("rm");
    command.args(["-rf", "--one-file-system", "--"]).arg(disks);
    let output = program::run(command.stderr(Stdio::piped()), REMOVE_TIMEOUT)?;
    if output.status.success() {
        Ok(())
    } else {
        Err(io::Error::other(
            String::from_utf8_lossy(&output.stderr).into_owned(),
        ))
    }
}

/// Counts the bytes that the box's disks take.
///
/// The box may move its folders while this looks: every step is resolved below the disk's own folder and
/// through no link.
pub(super) fn bytes(of: &BoxLayout) -> io::Result<u64> {
    let mut total = 0;
    let mut left = FILES_COUNTED_MAX;
    let counted: &[&str] = match of.volume().symlink_metadata() {
        Ok(facts) => {
            total += std::os::unix::fs::MetadataExt::blocks(&facts) * 512;
            &["agent"]
        }
        Err(_) => &["upper/u", "home", "workspace", "agent"],
    };
    for disk in counted {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let top = rustix::fs::open(of.disks.join(disk), flags, Mode::empty())?;
        total += bytes_below(&top, &mut left)?;
    }
    Ok(total)
}

fn bytes_below(top: &OwnedFd, left: &mut usize) -> io::Result<u64> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let mut total = 0;
    let mut folders = vec![PathBuf::from(".")];
    while let Some(folder) = folders.pop() {
        // Gone, or deeper than a path can say.
        let Ok(opened) = rustix::fs::openat2(top, &folder, flags, Mode::empty(), resolve) else {
            continue;
        };
        for entry in rustix::fs::Dir::read_from(&opened)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            if *left == 0 {
                return Ok(total);
            }
            *left -= 1;
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            let Ok(facts) = rustix::fs::statat(&opened, entry.file_name(), flags) else {
                continue;
            };
            total += u64::try_from(facts.st_blocks).unwrap_or(0) * 512;
            if FileType::from_raw_mode(facts.st_mode).is_dir() {
                folders.push(folder.join(OsStr::from_bytes(name)));
            }
        }
    }
    Ok(total)
}

/// A file that is not there or was cut short by a power loss means a new range, which costs nothing.
fn read(of: &BoxLayout) -> io::Result<Option<Kept>> {
    match std::fs::read(of.machine_file()) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
        Err(e) => gone(Err(e)).map(|()| None),
    }
}

fn taken(layout: &Layout) -> io::Result<HashSet<u32>> {
    let mut taken = HashSet::new();
    for entry in std::fs::read_dir(layout.boxes())? {
        let Ok(bytes) = std::fs::read(entry?.path().join("machine.json")) else {
            continue;
        };
        if let Ok(kept) = serde_json::from_slice::<Kept>(&bytes) {
            taken.insert(kept.uid_base);
        }
    }
    Ok(taken)
}

/// Makes the volume aside, and puts it where it belongs once it is whole.
fn make_volume(layout: &Layout, of: &BoxLayout, bytes: u64) -> io::Result<()> {
    let draft = layout
        .deleted()
        .join(format!("{}.{:08x}", of.id, random()?));
    let (tree, file) = (draft.join("tree"), draft.join("disk.img"));
    make(&tree, 0o700)?;
    make_all(&tree, &OF_THE_USER)?;
    volume::make(&file, bytes, &tree)?;
    std::fs::rename(&file, of.volume())?;
    destroy(&draft)
}

/// A folder below the disks, its mode and its owner.
type Folder = (&'static str, u32, u32);

const OF_THE_USER: [Folder; 4] = [
    ("upper/u", 0o755, 0),
    ("upper/w", 0o700, 0),
    ("home", 0o750, USER),
    ("workspace", 0o755, USER),
];
/// Never in a volume: what a full disk must not stop.
const OF_THE_AGENT: [Folder; 3] = [
    ("agent", 0o700, AGENT),
    ("run/identity", 0o755, 0),
    ("run/bundle", 0o700, 0),
];

fn make_folders(disks: &Path) -> io::Result<()> {
    make_all(disks, &OF_THE_USER)?;
    make_all(disks, &OF_THE_AGENT)
}

fn make_all(disks: &Path, folders: &[Folder]) -> io::Result<()> {
    for &(name, mode, owner) in folders {
        let folder = disks.join(name);
        make(&folder, mode)?;
        std::os::unix::fs::chown(&folder, Some(owner), Some(owner))?;
    }
    Ok(())
}

fn random() -> io::Result<u32> {
    let mut bytes = [0; 4];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u32::from_ne_bytes(bytes))
}
