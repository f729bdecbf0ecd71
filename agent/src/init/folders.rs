//! The folders of a box, who owns them, and the socket between its two users.

use std::{
    fs, io,
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, CWD, Gid, Mode, OFlags, Uid},
    io::Errno,
};

use super::Error;
use crate::{browser, desktop};

/// `cbagent`, as the image has it.
pub(super) const AGENT_ID: u32 = 990;
/// `user`, as the image has it.
pub(super) const USER_ID: u32 = 1000;

/// Where things are.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Ours: the user can neither replace the socket in it nor make one beside it.
    pub run: PathBuf,
    pub user_run: PathBuf,
    pub data: PathBuf,
    pub workspace: PathBuf,
    pub home: PathBuf,
    pub temporary: PathBuf,
    /// What the desktop is made of, in images that have one.
    pub plan: PathBuf,
    /// The browser, in images that have one.
    pub browser: PathBuf,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            run: "/run/cocoonbox".into(),
            user_run: format!("/run/user/{USER_ID}").into(),
            data: "/var/lib/cocoonbox".into(),
            workspace: "/workspace".into(),
            home: "/home/user".into(),
            temporary: "/tmp".into(),
            plan: desktop::PLAN_PATH.into(),
            browser: browser::PROGRAM.into(),
        }
    }
}

pub(super) fn prepare(layout: &Layout) -> Result<(), Error> {
    let folders = [
        (&layout.run, 0, Some(0o755)),
        (&layout.user_run, USER_ID, Some(0o700)),
        (&layout.data, AGENT_ID, Some(0o700)),
        // Their modes are their owner's business.
        (&layout.workspace, USER_ID, None),
        (&layout.home, USER_ID, None),
    ];
    for (path, owner, mode) in folders {
        own(path, owner, mode).map_err(|source| Error::Folder {
            path: path.clone(),
            source,
        })?;
    }
    Ok(())
}

/// Makes the folders where X servers and session managers of any user listen: they refuse one that is not
/// root's.
pub(super) fn x11_sockets(layout: &Layout) -> Result<(), Error> {
    for name in [".X11-unix", ".ICE-unix"] {
        let path = layout.temporary.join(name);
        own(&path, 0, Some(0o1777)).map_err(|source| Error::Folder { path, source })?;
    }
    Ok(())
}

/// Makes a folder if it is missing, and gives it its owner and mode if it has others.
fn own(path: &Path, owner: u32, mode: Option<u32>) -> io::Result<()> {
    fs::create_dir_all(path)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = rustix::fs::open(path, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&folder)?;
    if stat.st_uid != owner || stat.st_gid != owner {
        let (uid, gid) = (Uid::from_raw(owner), Gid::from_raw(owner));
        rustix::fs::fchown(&folder, Some(uid), Some(gid))?;
    }
    if let Some(mode) = mode.filter(|mode| stat.st_mode & 0o7777 != *mode) {
        rustix::fs::fchmod(&folder, Mode::from_raw_mode(mode))?;
    }
    Ok(())
}

/// Who may connect to a socket.
#[derive(Clone, Copy, Debug)]
pub(super) enum Callers {
    /// `cbagent`'s group.
    Agent,
    /// Anyone; who listens looks who it is.
    All,
}

/// The parts of the desktop that are started when somebody connects to a socket, and who may.
pub(super) fn on_demand(layout: &Layout) -> Vec<(String, Callers)> {
    let plan = match desktop::Plan::read(&layout.plan) {
        Ok(plan) => plan,
        Err(error) => {
            // The desktop itself says so again, and goes without.
            tracing::error!(%error, "the plan of the desktop cannot be followed");
            None
        }
    };
    let parts = plan.into_iter().flat_map(|plan| plan.parts);
    let names = parts.filter(|part| part.on_demand).map(|part| part.name);
    let callers = |name: String| match name.as_str() {
        // The user's own programs open pages.
        "browser" if layout.browser.exists() => Some((name, Callers::All)),
        "computer" => Some((name, Callers::Agent)),
        _ if name.starts_with("display-") => Some((name, Callers::Agent)),
        _ => None,
    };
    names.filter_map(callers).collect()
}

/// Makes a socket: root's, and it is decided here who may connect.
pub(super) fn socket(layout: &Layout, name: &str, callers: Callers) -> io::Result<UnixListener> {
    let path = layout.run.join(name);
    match rustix::fs::unlinkat(CWD, &path, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    let listener = UnixListener::bind(&path)?;
    rustix::fs::chown(&path, Some(Uid::ROOT), Some(Gid::from_raw(AGENT_ID)))?;
    let mode = match callers {
        Callers::Agent => 0o660,
        Callers::All => 0o666,
    };
    rustix::fs::chmod(&path, Mode::from_raw_mode(mode))?;
    Ok(listener)
}
