//! A folder under way.

use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

use rustix::fs::{OFlags, Stat, fstat};

use crate::{
    cursor::Cursor,
    entry::{Entry, Meta, Node},
    error::Error,
    tree::TreeBuilder,
};

use super::super::{
    exclude::Rules,
    meta::{self, Names},
    sink::Sink,
};

pub(super) struct Level<'w, 'a> {
    folder: Option<OwnedFd>,
    stat: Stat,
    pub(super) name: Vec<u8>,
    pub(super) names: Names,
    pub(super) next: usize,
    pub(super) parent: Option<Cursor<'w, 'a>>,
    pub(super) rules: Option<Rules>,
    /// How much of the walk's path leads here.
    pub(super) path_length: usize,
    pub(super) path_hash: u64,
    builder: TreeBuilder,
    files: u64,
    bytes: u64,
}

impl<'w, 'a> Level<'w, 'a> {
    pub(super) fn open(
        folder: OwnedFd,
        name: Vec<u8>,
        path_length: usize,
        path_hash: u64,
        parent: Option<Cursor<'w, 'a>>,
    ) -> io::Result<Self> {
        Ok(Self {
            stat: fstat(&folder)?,
            names: Names::read(folder.as_fd())?,
            folder: Some(folder),
            name,
            next: 0,
            parent,
            rules: None,
            path_length,
            path_hash,
            builder: TreeBuilder::default(),
            files: 0,
            bytes: 0,
        })
    }

    /// Its descriptor. The innermost folder always has one.
    pub(super) fn folder(&self) -> BorrowedFd<'_> {
        self.folder
            .as_ref()
            .expect("only outer folders are shut")
            .as_fd()
    }

    /// Gives the descriptor back.
    pub(super) fn shut(&mut self) {
        self.folder = None;
    }

    /// Opens the folder again by way of one in it, if it was shut. Where that leads elsewhere, the rest of
    /// this folder is given up.
    pub(super) fn reopen_from(&mut self, below: &Self) -> io::Result<()> {
        if self.folder.is_some() {
            return Ok(());
        }
        let folder = meta::open(below.folder(), b"..", OFlags::DIRECTORY)?;
        let stat = fstat(&folder)?;
        let is_it = (stat.st_dev, stat.st_ino) == (self.stat.st_dev, self.stat.st_ino);
        // Even a wrong one serves as a descriptor: no name of it is used.
        self.folder = Some(folder);
        if is_it {
            return Ok(());
        }
        self.names = Names::default();
        Err(io::Error::other("the folder was moved while it was saved"))
    }

    /// Passes over all names but one.
    pub(super) fn keep_only(&mut self, name: &[u8]) {
        self.names = self.names.only(name);
    }

    pub(super) fn meta(&self) -> Meta {
        meta::meta(&self.stat)
    }

    /// Adds what was kept under the next name.
    pub(super) fn push(&mut self, entry: &Entry, sink: &mut Sink<'_>) -> Result<(), Error> {
        match &entry.node {
            Node::File(file) => {
                self.files += 1;
                self.bytes = self.bytes.saturating_add(file.size);
            }
            Node::Directory { files, bytes, .. } => {
                self.files += files;
                self.bytes = self.bytes.saturating_add(*bytes);
            }
            Node::Symlink { .. } => {}
        }
        self.builder.push(entry, sink)
    }

    /// The folder's own entry.
    pub(super) fn finish(&mut self, meta: Meta, sink: &mut Sink<'_>) -> Result<Entry, Error> {
        let tree = std::mem::take(&mut self.builder).finish(sink)?;
        Ok(Entry {
            name: std::mem::take(&mut self.name),
            meta,
            node: Node::Directory {
                tree,
                files: self.files,
                bytes: self.bytes,
            },
        })
    }
}
