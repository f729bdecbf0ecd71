//! A folder being filled. Its times are set when the last entry in it is done.

use std::{
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    sync::Arc,
};

use rustix::{
    fs::{self, AtFlags, Gid, Mode, OFlags, RenameFlags, Uid},
    io::Errno,
};

use crate::entry::{Entry, Meta};

use super::{Existing, Problem, Shared, file, gone::Gone};

/// A folder of the target. Everything in it holds it, so it ends after all of them.
pub(super) struct Folder<'s, 'r, 'a> {
    shared: &'s Shared<'r, 'a>,
    descriptor: Arc<OwnedFd>,
    /// From the base, with a slash before it; the base has none.
    pub(super) path: Vec<u8>,
    /// Whether this restore made it: then nothing in it is in the way.
    is_fresh: bool,
    /// What it gets at the end; passages get nothing.
    meta: Option<Meta>,
    /// Set after this one.
    _above: Option<Arc<Self>>,
}

impl<'s, 'r, 'a> Folder<'s, 'r, 'a> {
    pub(super) fn base(shared: &'s Shared<'r, 'a>) -> Arc<Self> {
        Arc::new(Self {
            shared,
            descriptor: shared.base.clone(),
            path: Vec::new(),
            is_fresh: false,
            meta: None,
            _above: None,
        })
    }

    /// A folder on the way to what is restored, left as it is if it is there.
    pub(super) fn passage(
        shared: &'s Shared<'r, 'a>,
        above: &Arc<Self>,
        name: &[u8],
    ) -> Result<Arc<Self>, Problem> {
        let mode = Mode::from_raw_mode(0o755);
        let (descriptor, is_fresh) = enter(above.descriptor(), name, mode, shared.owner)?;
        Ok(Arc::new(Self {
            shared,
            descriptor: Arc::new(descriptor),
            path: above.below(name),
            is_fresh,
            meta: None,
            _above: Some(above.clone()),
        }))
    }

    /// A folder as it was saved. One that is there is filled.
    pub(super) fn make(
        shared: &'s Shared<'r, 'a>,
        above: &Arc<Self>,
        entry: &Entry,
        was: Option<&Entry>,
    ) -> Result<Arc<Self>, Problem> {
        let entered = match enter(above.descriptor(), &entry.name, Mode::RWXU, None) {
            Err(Problem::Exists) => {
                above.clear(&entry.name, was)?;
                enter(above.descriptor(), &entry.name, Mode::RWXU, None)
            }
            entered => entered,
        };
        let (descriptor, is_fresh) = entered?;
        shared.done().tally.directories += 1;
        Ok(Arc::new(Self {
            shared,
            descriptor: Arc::new(descriptor),
            path: above.below(&entry.name),
            is_fresh,
            meta: Some(entry.meta.clone()),
            _above: Some(above.clone()),
        }))
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    pub(super) fn below(&self, name: &[u8]) -> Vec<u8> {
        let mut path = Vec::with_capacity(self.path.len() + 1 + name.len());
        path.extend_from_slice(&self.path);
        path.push(b'/');
        path.extend_from_slice(name);
        path
    }

    /// Puts something under a name: `make` is given a name where nothing is. What `was` expected there is not kept.
    pub(super) fn place(
        &self,
        name: &[u8],
        was: Option<&Entry>,
        mut make: impl FnMut(&[u8]) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        if self.is_fresh {
            return make(name);
        }
        // What is seen under the name is what was there, or all of what was saved.
        let beside = self.shared.beside("new", name);
        // Left by one that was killed, which is gone on with.
        fs::unlinkat(self.descriptor(), &beside[..], AtFlags::empty()).ok();
        let placed = make(&beside).and_then(|()| self.name(&beside, name, was));
        if placed.is_err() {
            fs::unlinkat(self.descriptor(), &beside[..], AtFlags::empty()).ok();
        }
        placed
    }

    fn name(&self, beside: &[u8], name: &[u8], was: Option<&Entry>) -> Result<(), Problem> {
        let rename = || {
            let here = self.descriptor();
            fs::renameat_with(here, beside, here, name, RenameFlags::NOREPLACE)
        };
        match rename() {
            Err(Errno::EXIST) => self.clear(name, was)?,
            renamed => return renamed.map_err(Problem::of("name")),
        }
        match rename() {
            Err(Errno::EXIST) => Err(Problem::Exists),
            renamed => renamed.map_err(Problem::of("name")),
        }
    }

    /// Moves what has a name out of the way, if that is wanted.
    fn clear(&self, name: &[u8], was: Option<&Entry>) -> Result<(), Problem> {
        if self.shared.existing == Existing::Refuse {
            return Err(Problem::Exists);
        }
        if let Some(was) = was
            && Gone::quietly(self.shared).take(self.descriptor(), name, was, &self.below(name))?
        {
            return Ok(());
        }
        let private = Mode::RWXU;
        let owner = self.shared.owner;
        let base = super::base(self.shared);
        let mut kept = enter(base, self.shared.kept.as_bytes(), private, owner)?.0;
        for part in self.path.split(|byte| *byte == b'/') {
            if !part.is_empty() {
                kept = enter(kept.as_fd(), part, private, owner)?.0;
            }
        }
        let mut to = name.to_vec();
        loop {
            match fs::renameat_with(
                self.descriptor(),
                name,
                &kept,
                &to[..],
                RenameFlags::NOREPLACE,
            ) {
                Ok(()) => break,
                // Kept by a restore of the same snapshot before.
                Err(Errno::EXIST) => to = random()?.into_bytes(),
                Err(errno) => return Err(Problem::of("keep what is there")(errno)),
            }
        }
        let path = self.below(name);
        self.shared
            .done()
            .replaced
            .push(&path, String::from_utf8_lossy(&to));
        Ok(())
    }
}

impl Drop for Folder<'_, '_, '_> {
    fn drop(&mut self) {
        let Some(meta) = self.meta.take() else { return };
        file::settle(self.shared, self.descriptor(), &meta, &self.path);
    }
}

/// Opens a folder in another, making it for its owner if there is nothing. Answers whether it was made.
fn enter(
    above: BorrowedFd<'_>,
    name: &[u8],
    mode: Mode,
    owner: Option<(u32, u32)>,
) -> Result<(OwnedFd, bool), Problem> {
    let is_fresh = match fs::mkdirat(above, name, mode) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(errno) => return Err(Problem::of("make folder")(errno)),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match fs::openat(above, name, flags, Mode::empty()) {
        Ok(folder) => {
            if let Some((uid, gid)) = owner.filter(|_| is_fresh) {
                let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
                fs::fchown(&folder, Some(uid), Some(gid))
                    .map_err(Problem::of("give folder away"))?;
            }
            Ok((folder, is_fresh))
        }
        // Something else has the name: a file, or a link that must not be followed.
        Err(Errno::NOTDIR | Errno::LOOP) => Err(Problem::Exists),
        Err(errno) => Err(Problem::of("open folder")(errno)),
    }
}

fn random() -> Result<String, Problem> {
    Ok(crate::id::ObjectId::random()?.to_string())
}
