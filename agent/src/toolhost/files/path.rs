//! From a path that a model wrote to an open file beneath a root.

use std::{
    ffi::OsStr,
    fs::File,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags},
    io::Errno,
};

use super::Refusal;

/// Neither `..` nor a symbolic link nor `/proc` magic leads out.
const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

/// The folders that file tools work in.
#[derive(Clone, Debug)]
pub struct Roots {
    workspace: String,
    home: String,
    temporary: String,
}

/// A path taken apart: the root it is in, and the rest.
#[derive(Debug)]
pub(super) struct Place {
    /// As the model wrote it, for messages.
    pub(super) shown: String,
    root: String,
    /// Relative to the root; `.` for the root itself.
    rest: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self::new("/workspace", "/home/user", "/tmp")
    }
}

impl Roots {
    pub fn new(workspace: &str, home: &str, temporary: &str) -> Self {
        let own = |path: &str| path.trim_end_matches('/').to_owned();
        Self {
            workspace: own(workspace),
            home: own(home),
            temporary: own(temporary),
        }
    }

    pub(crate) fn workspace(&self) -> &str {
        &self.workspace
    }

    pub(crate) fn home(&self) -> &str {
        &self.home
    }

    /// Finds the root of a path. Relative ones are in the workspace, `~` is the home.
    pub(super) fn place(&self, path: &str) -> Result<Place, Refusal> {
        if path.is_empty() {
            return Err(Refusal::NoPath);
        }
        if path.contains('\0') {
            return Err(Refusal::Nul);
        }
        let shown = shorten(path);
        let absolute = match path.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                PathBuf::from(format!("{}{rest}", self.home))
            }
            _ => Path::new(&self.workspace).join(path),
        };
        let roots = [&self.workspace, &self.home, &self.temporary];
        let found = roots.into_iter().find_map(|root| {
            let rest = absolute.strip_prefix(root).ok()?;
            Some((root.clone(), rest.to_path_buf()))
        });
        let Some((root, rest)) = found else {
            let [a, b, c] = roots;
            return Err(Refusal::Outside {
                path: shown,
                roots: format!("`{a}`, `{b}` and `{c}`"),
            });
        };
        let rest = if rest.as_os_str().is_empty() {
            PathBuf::from(".")
        } else {
            rest
        };
        Ok(Place { shown, root, rest })
    }
}

impl Place {
    /// Opens what is there.
    pub(super) fn open(&self, flags: OFlags) -> Result<OwnedFd, Refusal> {
        let root = self.root()?;
        self.open_at(&root, &self.rest, flags)
    }

    /// Opens a regular file for reading. Nothing else is waited on or read by mistake.
    pub(super) fn open_file(&self) -> Result<(File, rustix::fs::Stat), Refusal> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = self.open(flags)?;
        let stat = rustix::fs::fstat(&file).map_err(|errno| self.failed(errno))?;
        match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
            rustix::fs::FileType::RegularFile => Ok((File::from(file), stat)),
            rustix::fs::FileType::Directory => Err(Refusal::IsDirectory {
                path: self.shown.clone(),
            }),
            _ => Err(Refusal::NotRegular {
                path: self.shown.clone(),
            }),
        }
    }

    /// Opens the directory that the path's last name is in, making what is missing of it, and returns
    /// it with the name.
    pub(super) fn open_parent(&self) -> Result<(OwnedFd, &OsStr), Refusal> {
        let directory = || Refusal::IsDirectory {
            path: self.shown.clone(),
        };
        // `a/` and `a/..` name directories.
        let ends_open = self.shown.ends_with('/');
        let Some(Component::Normal(name)) = self.rest.components().next_back() else {
            return Err(directory());
        };
        if ends_open {
            return Err(directory());
        }
        let root = self.root()?;
        let parent = self.rest.parent().filter(|p| !p.as_os_str().is_empty());
        let Some(parent) = parent else {
            return Ok((root, name));
        };
        Ok((self.make_all(&root, parent)?, name))
    }

    /// Whatever the path says, as text that is the same for the same place.
    pub(super) fn full(&self) -> PathBuf {
        Path::new(&self.root).join(&self.rest)
    }

    pub(super) fn failed(&self, errno: Errno) -> Refusal {
        let path = self.shown.clone();
        match errno {
            Errno::NOENT => Refusal::Absent { path },
            Errno::XDEV | Errno::LOOP => Refusal::LeadsOut {
                path,
                root: self.root.clone(),
            },
            Errno::NOTDIR => Refusal::NotDirectory { path },
            Errno::ISDIR => Refusal::IsDirectory { path },
            Errno::NXIO => Refusal::NotRegular { path },
            _ => Refusal::System {
                path,
                why: errno.into(),
            },
        }
    }

    fn root(&self) -> Result<OwnedFd, Refusal> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(CWD, &self.root, flags, Mode::empty())
            .map_err(|errno| self.failed(errno))
    }

    fn open_at(&self, root: &OwnedFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Refusal> {
        loop {
            let flags = flags | OFlags::CLOEXEC;
            match rustix::fs::openat2(root, path, flags, Mode::empty(), BENEATH) {
                // Something was renamed while the kernel walked; it wants to be asked again.
                Err(Errno::AGAIN) => {}
                opened => return opened.map_err(|errno| self.failed(errno)),
            }
        }
    }

    fn make_all(&self, root: &OwnedFd, parent: &Path) -> Result<OwnedFd, Refusal> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        match self.open_at(root, parent, flags) {
            Err(Refusal::Absent { .. }) => {}
            opened => return opened,
        }
        let mut walked = PathBuf::new();
        let mut at = self.open_at(root, Path::new("."), flags)?;
        for component in parent.components() {
            walked.push(component);
            at = match self.open_at(root, &walked, flags) {
                Err(Refusal::Absent { .. }) => {
                    let name = component.as_os_str();
                    match rustix::fs::mkdirat(&at, name, Mode::from_raw_mode(0o755)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(errno) => return Err(self.failed(errno)),
                    }
                    self.open_at(root, &walked, flags)?
                }
                opened => opened?,
            };
        }
        Ok(at)
    }
}

/// Control characters would garble a message, and a megabyte of path would fill it.
fn shorten(path: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 300;
    path.chars()
        .take(SHOWN_CHARS_MAX)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

/// Shows a name that need not be UTF-8 or printable.
pub(super) fn show(name: &[u8]) -> String {
    shorten(&OsStr::from_bytes(name).to_string_lossy())
}
