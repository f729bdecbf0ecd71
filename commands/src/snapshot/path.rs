//! Paths in a box, as callers write them.

/// Paths of one restore.
pub const PATHS_MAX: usize = 1_000;
/// Of a path; the kernel takes no longer one at once.
pub const PATH_BYTES_MAX: usize = 4_096;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPath {
    #[error("a path begins with `/`")]
    Relative,
    #[error("a path has at most {PATH_BYTES_MAX} bytes")]
    Long,
    #[error("a path has no `.`, no `..`, no empty name and no zero byte in it")]
    Name,
    #[error("a restore has 1 to {PATHS_MAX} paths")]
    Count,
}

/// Checks that a path is absolute and means the same whatever is on the disk.
pub fn check_path(path: &[u8]) -> Result<(), BadPath> {
    let Some(rest) = path.strip_prefix(b"/") else {
        return Err(BadPath::Relative);
    };
    if path.len() > PATH_BYTES_MAX {
        return Err(BadPath::Long);
    }
    let is_name = |name: &[u8]| !matches!(name, b"" | b"." | b"..") && !name.contains(&0);
    if rest.split(|byte| *byte == b'/').all(is_name) {
        Ok(())
    } else {
        Err(BadPath::Name)
    }
}

pub(super) fn check_paths(paths: &[Vec<u8>]) -> Result<(), BadPath> {
    if !(1..=PATHS_MAX).contains(&paths.len()) {
        return Err(BadPath::Count);
    }
    paths.iter().try_for_each(|path| check_path(path))
}
