//! What a save takes over from the one before.

use rustix::fs::Stat;

use crate::{
    cache::{Seen, StatCache},
    capsule::Capsule,
    entry::{Content, Entry, FileNode, Node},
    error::Error,
    key::Kind,
    reader::{FileReader, Reader},
    snapshot::Snapshot,
};

use super::{meta, sink::Sink};

/// Clocks of file systems are this coarse at worst: what changed so shortly before it was looked at may
/// change again and show the same time.
const RACY_NS: i64 = 2_000_000_000;
/// The same where the kernel stamps times from its own clock, which moves a hundred times a second or more
/// (`CONFIG_HZ`).
const RACY_FINE_NS: i64 = 50_000_000;
/// File systems that do so, as `statfs(2)` names them: ext4, XFS, Btrfs, F2FS, overlay, tmpfs. Those over a network take
/// another machine's time.
const FINE: [u64; 6] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0xf2f5_2010,
    0x794c_7630,
    0x0102_1994,
];
const SECOND_NS: i64 = 1_000_000_000;

/// How many records are opened in search of a parent.
const SEARCHED: usize = 200;

/// The snapshot that this save is compared with.
pub(super) struct Parent<'a> {
    pub(super) reader: &'a Reader<'a>,
    pub(super) snapshot: Snapshot,
    pub(super) seen: Option<StatCache>,
}

/// The newest snapshot of the same label that has one of the roots.
pub(super) fn find_parent(
    capsule: &Capsule,
    label: &[u8],
    roots: &[Vec<u8>],
) -> Result<Option<Snapshot>, Error> {
    let ids = capsule.snapshot_ids()?;
    for id in ids.into_iter().rev().take(SEARCHED) {
        // A damaged record, or one that was pruned meanwhile, costs time and not the save.
        let Ok(snapshot) = capsule.snapshot(id) else {
            continue;
        };
        let has_root = |root: &crate::snapshot::Root| roots.contains(&root.path);
        if snapshot.label == label && snapshot.roots.iter().any(has_root) {
            return Ok(Some(snapshot));
        }
    }
    Ok(None)
}

/// How long ago a file must have changed, with this time of change, to show that it does so again.
pub(super) fn racy_ns(file_system: u64, ctime_ns: i64) -> i64 {
    // An old ext4 keeps whole seconds only.
    if FINE.contains(&file_system) && ctime_ns % SECOND_NS != 0 {
        RACY_FINE_NS
    } else {
        RACY_NS
    }
}

/// Whether the parent's content of a file can be taken over, and whether its attributes can be too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    Nothing,
    Content,
    All,
}

impl Parent<'_> {
    /// Judges by what `stat` says of a file that the parent has as `entry`.
    pub(super) fn trust(&self, entry: &Entry, stat: &Stat, seen: Seen) -> Trust {
        let Node::File(file) = &entry.node else {
            return Trust::Nothing;
        };
        let is_alike = !file.is_unsettled
            && file.size == meta::size(stat)
            && entry.meta.mtime == meta::mtime(stat);
        if !is_alike {
            return Trust::Nothing;
        }
        match &self.seen {
            Some(cache) if cache.vouches_for(seen) => Trust::All,
            Some(_) => Trust::Nothing,
            None => {
                let settled = self.snapshot.started_ns.saturating_sub(RACY_NS);
                if entry.meta.mtime.nanoseconds() < settled {
                    Trust::Content
                } else {
                    Trust::Nothing
                }
            }
        }
    }

    /// Whether all chunks of a file are in the store for good. What is not is read and stored again, so a
    /// lost pack heals.
    pub(super) fn is_whole(&self, file: &FileNode, sink: &Sink<'_>) -> bool {
        let Content::Pieces(pieces) = &file.content else {
            return true;
        };
        if pieces.depth == 0 {
            return pieces
                .list
                .iter()
                .filter_map(|piece| piece.chunk.as_ref())
                .all(|id| sink.has(Kind::Data, id));
        }
        let are_lists_kept = pieces
            .list
            .iter()
            .filter_map(|piece| piece.chunk.as_ref())
            .all(|id| sink.has(Kind::Tree, id));
        if !are_lists_kept {
            return false;
        }
        let mut file = FileReader::new(self.reader, file);
        loop {
            match file.next_piece() {
                Ok(None) => return true,
                Ok(Some(piece)) => {
                    if piece
                        .chunk
                        .as_ref()
                        .is_some_and(|id| !sink.has(Kind::Data, id))
                    {
                        return false;
                    }
                }
                Err(_) => return false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clocks_that_are_known_to_be_fine_are_trusted_soon() {
        assert_eq!(racy_ns(0xef53, 1_700_000_000_123_456_789), RACY_FINE_NS);
        assert_eq!(racy_ns(0xef53, 1_700_000_000_000_000_000), RACY_NS);
        // NFS, FUSE.
        for other in [0x6969, 0x6573_5546] {
            assert_eq!(racy_ns(other, 1_700_000_000_123_456_789), RACY_NS);
        }
    }
}
