//! The root of a box: its image below, its own upper on top, both by the box's id map.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, MountFlags, UnmountFlags};
use rustix::thread::CapabilitiesSecureBits;

use super::layout::{BoxLayout, Layout, make};
use super::{kernel, mounts};

/// An upper whose last mount was just detached is busy until the kernel has let go of it.
const BUSY_WAIT: Duration = Duration::from_secs(5);
const BUSY_STEP: Duration = Duration::from_millis(10);

/// Returns the folder that shows `image`, which is mounted if it is a file and was not yet.
pub(super) fn lower(layout: &Layout, image: &Path) -> io::Result<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    let image = image.canonicalize()?;
    let facts = image.metadata()?;
    if facts.is_dir() {
        return Ok(image);
    }
    // A file that is replaced under its name is another image.
    let name = format!("{}-{}-{}", facts.dev(), facts.ino(), facts.mtime());
    let target = layout.image_mounts().join(name);
    if !mounts::is_mounted(&target)? {
        mounts::image(&image, &target)?;
    }
    Ok(target)
}

/// Unmounts the images if no box is up, and removes the mount points. Overlays hold what they use, so this
/// can hurt nobody but a start in progress: the caller keeps the two apart.
pub(super) fn release_images(layout: &Layout) -> io::Result<()> {
    if mounts::below(&layout.box_mounts())?.is_empty() {
        mounts::clear(layout.mounts())?;
    }
    Ok(())
}

/// Mounts the root of a box and returns where.
pub(super) fn mount(
    of: &BoxLayout,
    lower: &Path,
    ids: impl AsFd,
    base: u32,
) -> io::Result<PathBuf> {
    let root = of.mount_point("root");
    make(&root, 0o755)?;
    // Old kernels take layers by path only, so the clones are attached for the moment of the mount.
    let (below, above) = (of.mount_point("lower"), of.mount_point("upper"));
    mounts::clone(lower, &below, MountAttrFlags::empty(), ids.as_fd())?;
    mounts::clone(
        &of.folder("upper"),
        &above,
        MountAttrFlags::empty(),
        ids.as_fd(),
    )?;
    let layers = format!(
        "lowerdir={},upperdir={up}/u,workdir={up}/w",
        below.display(),
        up = above.display()
    );
    let mounted = mount_as(base, &layers, &root);
    for layer in [below, above] {
        rustix::mount::unmount(&layer, UnmountFlags::DETACH)?;
    }
    mounted?;
    let facts = rustix::fs::statvfs(&root)?;
    if facts.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY) {
        return Err(io::ErrorKind::ReadOnlyFilesystem.into());
    }
    Ok(root)
}

/// Overlay works on its layers with the credentials of whoever mounts it. Root is not mapped in the
/// layers' id map, and overlay then falls back to read-only without a word: so the mount is made as the
/// box's root, on a thread that ends with it, keeping root's capabilities over the change of ids.
fn mount_as(base: u32, layers: &str, root: &Path) -> io::Result<()> {
    let work = || {
        let bits = rustix::thread::capabilities_secure_bits()?;
        rustix::thread::set_capabilities_secure_bits(
            bits | CapabilitiesSecureBits::NO_SETUID_FIXUP,
        )?;
        kernel::set_file_system_ids(base)?;
        let deadline = Instant::now() + BUSY_WAIT;
        let mut index = "on";
        loop {
            match overlay(&format!("{layers},index={index}"), root) {
                Err(Errno::BUSY) if Instant::now() < deadline => std::thread::sleep(BUSY_STEP),
                // The upper was indexed over another image. Without the index hard links into the image
                // break when written to, as they do on any overlay by default.
                Err(Errno::STALE | Errno::INVAL) if index == "on" => index = "off",
                other => return Ok(other?),
            }
        }
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("overlay".into())
            .spawn_scoped(scope, work)?;
        thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the mounting thread panicked")))
    })
}

fn overlay(options: &str, root: &Path) -> rustix::io::Result<()> {
    let options = std::ffi::CString::new(options).map_err(|_| Errno::INVAL)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("overlay", root, "overlay", flags, options.as_c_str())
}
