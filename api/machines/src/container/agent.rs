//! The agent binary as boxes see it: a copy by content, so that a rebuild on the host changes nothing
//! under a running box.

use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::layout::{Layout, make};

pub(super) const NAME: &str = "cocoonbox-agent";

/// Remembers the last binary, which is some tens of megabytes to hash.
#[derive(Debug, Default)]
pub(super) struct Copies(Mutex<Option<(Version, PathBuf)>>);

/// Changes whenever the file does.
type Version = (PathBuf, u64, u64, i64, i64);

impl Copies {
    /// Returns a folder that holds a copy of `binary`, and nothing else.
    pub(super) fn folder(&self, layout: &Layout, binary: &Path) -> io::Result<PathBuf> {
        let facts = binary.metadata()?;
        let version = (
            binary.to_owned(),
            facts.ino(),
            facts.size(),
            facts.mtime(),
            facts.mtime_nsec(),
        );
        let mut last = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((known, folder)) = &*last
            && *known == version
            && folder.is_dir()
        {
            return Ok(folder.clone());
        }
        let content = std::fs::read(binary)?;
        let hash = blake3::hash(&content).to_hex();
        let folder = layout.images().join(format!("agent-{}", &hash[..16]));
        if !folder.is_dir() {
            let staged = layout.images().join(format!(".agent-{}", &hash[..16]));
            if staged.exists() {
                std::fs::remove_dir_all(&staged)?;
            }
            make(&staged, 0o755)?;
            std::fs::write(staged.join(NAME), &content)?;
            std::fs::set_permissions(staged.join(NAME), PermissionsExt::from_mode(0o755))?;
            std::fs::rename(&staged, &folder)?;
        }
        *last = Some((version, folder.clone()));
        Ok(folder)
    }
}
