//! Looking into a snapshot, on threads that may block.

use cocoonbox_capsule::{
    Capsule, Error, Reader, Snapshot, SnapshotId,
    cursor::Cursor,
    diff,
    entry::{Content, Entry, FileNode, Node},
    key::Kind,
    reader::FileReader,
};
use cocoonbox_proto::control::v1::{DiffPage, FileBytes, FileEntry};
use tokio::sync::mpsc::Sender;
use tonic::Status;

use super::{Place, PlaceError, failure, shown};

/// Entries of one answer, and their bytes: names may be long.
const ENTRIES_MAX: usize = 1_000;
const ENTRIES: usize = 500;
const PAGE_BYTES_MAX: usize = 1 << 20;
/// Of one message. A chunk of a file is up to one mebibyte.
const DATA_BYTES_MAX: usize = 256 << 10;
const DIFFERENCES: usize = 500;

/// A snapshot of a user's capsule.
#[derive(Clone)]
pub(super) struct Shelf {
    pub(super) place: Place,
    pub(super) user: String,
}

/// Some entries of a folder, and the name behind which there are more.
pub(super) type Page = (Vec<FileEntry>, Option<Vec<u8>>);

impl Shelf {
    pub(super) fn open(&self, id: &str) -> Result<(Capsule, Snapshot), PlaceError> {
        let capsule = self.place.open(&self.user)?;
        let snapshot = record(&capsule, id)?;
        Ok((capsule, snapshot))
    }

    /// Lists a folder, or the folders that were saved.
    pub(super) fn list(
        &self,
        id: &str,
        path: &[u8],
        after: Vec<u8>,
        size: usize,
    ) -> Result<Page, PlaceError> {
        let (capsule, snapshot) = self.open(id)?;
        if path.is_empty() {
            let roots = snapshot.roots.into_iter();
            let named = roots.map(|root| Entry {
                name: root.path,
                ..root.entry
            });
            return Ok((named.map(shown::entry).collect(), None));
        }
        let reader = Reader::new(&capsule)?;
        let entry = reader.lookup(&snapshot, path)?;
        let Node::Directory { tree, .. } = entry.node else {
            return Err(wrong(path, &entry, "a folder").into());
        };
        let size = match size {
            0 => ENTRIES,
            size => size.min(ENTRIES_MAX),
        };
        let mut cursor = Cursor::behind(&reader, tree, after);
        let (mut entries, mut bytes) = (Vec::new(), 0);
        while let Some(entry) = cursor.next_entry()? {
            let entry = shown::entry(entry);
            bytes += entry.name.len() + entry.target.len();
            entries.push(entry);
            if entries.len() >= size || bytes >= PAGE_BYTES_MAX {
                let more = cursor.peek()?.is_some();
                let last = entries.last().filter(|_| more);
                let last = last.map(|entry| entry.name.clone());
                return Ok((entries, last));
            }
        }
        Ok((entries, None))
    }

    /// Sends a file's bytes until there are no more, or nobody takes them.
    pub(super) fn read(
        &self,
        id: &str,
        path: &[u8],
        offset: u64,
        to: &Sender<Result<FileBytes, Status>>,
    ) {
        if let Err(error) = self.try_read(id, path, offset, to) {
            to.blocking_send(Err(failure::answer(error))).ok();
        }
    }

    fn try_read(
        &self,
        id: &str,
        path: &[u8],
        offset: u64,
        to: &Sender<Result<FileBytes, Status>>,
    ) -> Result<(), PlaceError> {
        let (capsule, snapshot) = self.open(id)?;
        let reader = Reader::new(&capsule)?;
        let entry = reader.lookup(&snapshot, path)?;
        let Node::File(file) = &entry.node else {
            return Err(wrong(path, &entry, "a file").into());
        };
        let file = file.clone();
        let head = FileBytes {
            file: Some(shown::entry(entry)),
            data: Vec::new(),
        };
        if to.blocking_send(Ok(head)).is_err() {
            return Ok(());
        }
        let mut send = |data: &[u8]| {
            data.chunks(DATA_BYTES_MAX).all(|part| {
                let part = FileBytes {
                    file: None,
                    data: part.to_vec(),
                };
                to.blocking_send(Ok(part)).is_ok()
            })
        };
        Ok(bytes(&reader, &file, offset, &mut send)?)
    }

    /// Sends what is different between two snapshots, in pages.
    pub(super) fn diff(
        &self,
        (before, after): (&str, &str),
        path: &[u8],
        to: &Sender<Result<DiffPage, Status>>,
    ) {
        if let Err(error) = self.try_diff((before, after), path, to) {
            to.blocking_send(Err(failure::answer(error))).ok();
        }
    }

    fn try_diff(
        &self,
        (before, after): (&str, &str),
        path: &[u8],
        to: &Sender<Result<DiffPage, Status>>,
    ) -> Result<(), PlaceError> {
        let (capsule, before) = self.open(before)?;
        let after = record(&capsule, after)?;
        let reader = Reader::new(&capsule)?;
        let mut page = DiffPage::default();
        let mut bytes = 0;
        let is_wanted = |found: &[u8]| {
            let rest = found.strip_prefix(path);
            rest.is_some_and(|rest| path.is_empty() || rest.first().is_none_or(|b| *b == b'/'))
        };
        let told = diff::diff(&reader, &before, &after, &mut |found| {
            if !is_wanted(found.path) {
                return Ok(());
            }
            bytes += found.path.len();
            page.differences.push(shown::difference(found));
            if page.differences.len() >= DIFFERENCES || bytes >= PAGE_BYTES_MAX {
                bytes = 0;
                let full = std::mem::take(&mut page);
                return to.blocking_send(Ok(full)).map_err(|_| Error::Cancelled);
            }
            Ok(())
        });
        match told {
            // Nobody listens any more.
            Err(Error::Cancelled) => Ok(()),
            Err(error) => Err(error.into()),
            Ok(()) => {
                to.blocking_send(Ok(page)).ok();
                Ok(())
            }
        }
    }
}

fn record(capsule: &Capsule, id: &str) -> Result<Snapshot, Error> {
    let id = SnapshotId::parse(id).ok_or_else(|| Error::SnapshotNotFound(id.to_owned()))?;
    capsule.snapshot(id)
}

fn wrong(path: &[u8], entry: &Entry, wanted: &'static str) -> Error {
    Error::WrongKind {
        path: String::from_utf8_lossy(path).into_owned(),
        is: entry.node.kind(),
        wanted,
    }
}

/// Hands out a file's bytes from an offset on; what is before it is not read. Ends when `send` says so.
fn bytes(
    reader: &Reader<'_>,
    file: &FileNode,
    offset: u64,
    send: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<(), Error> {
    let within = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
    if let Content::Inline(bytes) = &file.content {
        send(bytes.get(within(offset)..).unwrap_or_default());
        return Ok(());
    }
    let zeros = vec![0; DATA_BYTES_MAX];
    let mut pieces = FileReader::new(reader, file);
    let mut at = 0_u64;
    while let Some(piece) = pieces.next_piece()? {
        let (start, end) = (at, at.saturating_add(piece.bytes));
        at = end;
        if end <= offset {
            continue;
        }
        let skip = offset.saturating_sub(start);
        if let Some(id) = piece.chunk {
            let chunk = reader.chunk(Kind::Data, &id)?;
            if !send(chunk.get(within(skip)..).unwrap_or_default()) {
                return Ok(());
            }
            continue;
        }
        let mut left = piece.bytes - skip;
        while left > 0 {
            let now = within(left).min(zeros.len());
            if !send(&zeros[..now]) {
                return Ok(());
            }
            left -= now as u64;
        }
    }
    Ok(())
}
