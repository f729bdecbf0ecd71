//! The disk that a box's reads and writes go to.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Numbers of a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Device {
    pub(super) major: i64,
    pub(super) minor: i64,
}

/// Returns the whole disk below `folder`: the kernel throttles disks and not their partitions. `None` where the file
/// system has no disk of its own, as on btrfs, an overlay or a network.
pub(super) fn below(folder: &Path) -> io::Result<Option<Device>> {
    let of = folder.metadata()?.dev();
    let (major, minor) = (rustix::fs::major(of), rustix::fs::minor(of));
    let known = Path::new("/sys/dev/block").join(format!("{major}:{minor}"));
    let Ok(device) = known.canonicalize() else {
        return Ok(None);
    };
    let disk = match device.parent() {
        Some(disk) if device.join("partition").exists() => disk,
        _ => &device,
    };
    Ok(read(&std::fs::read_to_string(disk.join("dev"))?))
}

fn read(numbers: &str) -> Option<Device> {
    let (major, minor) = numbers.trim().split_once(':')?;
    Some(Device {
        major: major.parse().ok()?,
        minor: minor.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_and_a_memory_has_no_disk() {
        let (major, minor) = (259, 3);
        assert_eq!(read("259:3\n"), Some(Device { major, minor }));
        assert_eq!(read("sda"), None);
        assert_eq!(below(Path::new("/proc")).unwrap(), None);
    }
}
