//! Disks of a size: one sparse file with a file system in it, which every file system of a host can hold.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::layout::BoxLayout;
use super::program;

/// A loop device is let go of a moment after what was mounted of it.
const RELEASE_WAIT: Duration = Duration::from_secs(5);
const RELEASE_STEP: Duration = Duration::from_millis(2);

/// Makes `file` with the folders of `tree` in it, as they are, owners and modes included. What is not written takes no
/// room on the host.
pub(super) fn make(file: &Path, bytes: u64, tree: &Path) -> io::Result<()> {
    std::fs::File::create_new(file)?.set_len(bytes)?;
    let mut command = Command::new("mkfs.ext4");
    command
        .args(["-q", "-F", "-m", "0", "-E"])
        .arg("lazy_itable_init=1,lazy_journal_init=1,root_owner=0:0")
        .arg("-d")
        .arg(tree)
        .arg(file);
    run(&mut command, "e2fsprogs")
}

/// Mounts the box's volume, if it has one, where [`BoxLayout::folder`] looks for it. What is deleted in it is given
/// back to the host.
pub(super) fn mount(of: &BoxLayout) -> io::Result<()> {
    if !of.volume().exists() {
        return Ok(());
    }
    let target = of.volume_mount();
    super::layout::make(&target, 0o700)?;
    let mut command = Command::new("mount");
    // It takes the loop device that the file has, if it has one: two would be two caches of one disk.
    command
        .args(["-t", "ext4", "-o", "loop,nosuid,nodev,noatime,discard"])
        .arg(of.volume())
        .arg(&target);
    run(&mut command, "mount")
}

/// Waits until nothing holds the box's volume any more, so that the file is all there is of it.
pub(super) fn released(of: &BoxLayout) -> io::Result<()> {
    let file = of.volume();
    if !file.exists() {
        return Ok(());
    }
    let deadline = Instant::now() + RELEASE_WAIT;
    while is_held(&file)? {
        if Instant::now() >= deadline {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        std::thread::sleep(RELEASE_STEP);
    }
    Ok(())
}

fn is_held(file: &Path) -> io::Result<bool> {
    for device in std::fs::read_dir("/sys/block")? {
        let backing = device?.path().join("loop/backing_file");
        // Other devices have none, and one that is let go of just now has none any more.
        let Ok(path) = std::fs::read_to_string(backing) else {
            continue;
        };
        if Path::new(path.trim_end_matches('\n')) == file {
            return Ok(true);
        }
    }
    Ok(false)
}

fn run(command: &mut Command, package: &str) -> io::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = program::run(
        command.stdout(Stdio::null()).stderr(Stdio::piped()),
        program::TIMEOUT,
    );
    let output = output.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => io::Error::other(format!(
            "`{program}` is not installed: apt-get install {package}"
        )),
        _ => error,
    })?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{program}: {}", stderr.trim())))
}
