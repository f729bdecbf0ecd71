//! Snapshot records: what a save kept, and what it left out.

use crate::{
    encoding::{self, Bytes, put_bytes, put_number, put_signed},
    entry::Entry,
    error::{Damage, Error},
    id::SnapshotId,
    key::Keys,
    seal::{self, Sealed},
    store::{self, Created, Store},
};

/// Where records lie.
pub const FOLDER: &str = "snapshots";
const MAGIC: &[u8; 8] = b"CBSNAP\x01\0";

/// How many lines of a kind a record keeps; the counts are whole.
pub const LINES_MAX: usize = 1000;

/// One save.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub id: SnapshotId,
    /// By the clock of the machine that saved, nanoseconds since 1970.
    pub started_ns: i64,
    pub ended_ns: i64,
    pub parent: Option<SnapshotId>,
    /// The generation the save began in.
    pub generation: u64,
    /// What was saved, a box's name for instance.
    pub label: Vec<u8>,
    /// The folders that were saved, in order of their paths.
    pub roots: Vec<Root>,
    pub counts: Counts,
    /// What was left out by a rule.
    pub excluded: Lines,
    /// What could not be kept: sockets, devices, what may not be read.
    pub skipped: Lines,
    /// Files that changed each time they were read.
    pub unsettled: Lines,
}

/// A folder that was saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Absolute, without `.` or `..`.
    pub path: Vec<u8>,
    /// Its own entry, without a name.
    pub entry: Entry,
}

/// How much there is and how much of it was new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub files: u64,
    pub directories: u64,
    pub symlinks: u64,
    /// Sizes of all files.
    pub bytes: u64,
    /// Files whose bytes were read.
    pub files_read: u64,
    /// Of those, files that are not as in the parent.
    pub files_changed: u64,
    pub bytes_read: u64,
    /// Chunks that the store did not have.
    pub chunks_added: u64,
    /// Bytes in new packs.
    pub bytes_added: u64,
}

/// Paths with a reason each: the first of them and the number of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    pub count: u64,
    pub list: Vec<Line>,
}

/// A path and why it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub path: Vec<u8>,
    pub why: String,
}

impl Lines {
    pub fn push(&mut self, path: &[u8], why: impl Into<String>) {
        self.count += 1;
        if self.list.len() < LINES_MAX {
            self.list.push(Line {
                path: path.to_vec(),
                why: why.into(),
            });
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_number(out, self.count);
        put_number(out, self.list.len() as u64);
        for line in &self.list {
            put_bytes(out, &line.path);
            put_bytes(out, line.why.as_bytes());
        }
    }

    fn decode(bytes: &mut Bytes<'_>) -> Result<Self, encoding::Error> {
        let count = bytes.number("lines")?;
        let mut list = Vec::new();
        for _ in 0..bytes.count(2, "lines")? {
            list.push(Line {
                path: bytes.bytes("path")?.to_vec(),
                why: String::from_utf8_lossy(bytes.bytes("reason")?).into_owned(),
            });
        }
        Ok(Self { count, list })
    }
}

impl Counts {
    fn numbers(&mut self) -> [&mut u64; 9] {
        [
            &mut self.files,
            &mut self.directories,
            &mut self.symlinks,
            &mut self.bytes,
            &mut self.files_read,
            &mut self.files_changed,
            &mut self.bytes_read,
            &mut self.chunks_added,
            &mut self.bytes_added,
        ]
    }
}

impl Snapshot {
    /// The plain bytes of a record; its id is its name.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_signed(&mut out, self.started_ns);
        put_signed(&mut out, self.ended_ns);
        match &self.parent {
            None => out.push(0),
            Some(parent) => {
                out.push(1);
                out.extend_from_slice(&parent.0);
            }
        }
        put_number(&mut out, self.generation);
        put_bytes(&mut out, &self.label);
        put_number(&mut out, self.roots.len() as u64);
        for root in &self.roots {
            put_bytes(&mut out, &root.path);
            root.entry.encode_nameless(&mut out);
        }
        for number in self.counts.clone().numbers() {
            put_number(&mut out, *number);
        }
        for lines in [&self.excluded, &self.skipped, &self.unsettled] {
            lines.encode(&mut out);
        }
        out
    }

    /// Reads what [`Self::encode`] wrote.
    pub fn decode(id: SnapshotId, plain: &[u8]) -> Result<Self, encoding::Error> {
        let mut bytes = Bytes::new(plain);
        let started_ns = bytes.signed("start")?;
        let ended_ns = bytes.signed("end")?;
        let parent = match bytes.byte("parent")? {
            0 => None,
            1 => Some(SnapshotId(bytes.array("parent")?)),
            _ => return Err(encoding::Error::Value("parent")),
        };
        let generation = bytes.number("generation")?;
        let label = bytes.bytes("label")?.to_vec();
        let mut roots: Vec<Root> = Vec::new();
        for _ in 0..bytes.count(10, "roots")? {
            let path = bytes.bytes("root")?.to_vec();
            if !is_root(&path) {
                return Err(encoding::Error::NameOutside);
            }
            if roots.last().is_some_and(|last| last.path >= path) {
                return Err(encoding::Error::Order);
            }
            let entry = Entry::decode_nameless(Vec::new(), &mut bytes)?;
            roots.push(Root { path, entry });
        }
        let mut counts = Counts::default();
        for number in counts.numbers() {
            *number = bytes.number("counts")?;
        }
        let mut lines = [Lines::default(), Lines::default(), Lines::default()];
        for lines in &mut lines {
            *lines = Lines::decode(&mut bytes)?;
        }
        let [excluded, skipped, unsettled] = lines;
        bytes.end()?;
        Ok(Self {
            id,
            started_ns,
            ended_ns,
            parent,
            generation,
            label,
            roots,
            counts,
            excluded,
            skipped,
            unsettled,
        })
    }

    /// Writes the record. From then on the snapshot exists.
    pub fn write(&self, store: &dyn Store, keys: &Keys) -> Result<(), Error> {
        let mut bytes = MAGIC.to_vec();
        seal::seal(
            keys,
            Sealed::Snapshot,
            &self.id.0,
            &self.encode(),
            &mut bytes,
        )?;
        match store.create(&object(self.id), &bytes)? {
            Created::Made => Ok(()),
            Created::Existed => Err(Error::Randomness),
        }
    }

    /// Reads a record.
    pub fn read(store: &dyn Store, keys: &Keys, id: SnapshotId) -> Result<Self, Error> {
        let name = object(id);
        let bad = |damage: Damage| Error::damaged(&name, damage);
        let mut bytes = match store.get(&name) {
            Ok(bytes) => bytes,
            Err(store::Error::NotFound(_)) => return Err(Error::SnapshotNotFound(id.to_string())),
            Err(error) => return Err(error.into()),
        };
        let (head, sealed) = bytes
            .split_at_mut_checked(MAGIC.len())
            .ok_or_else(|| bad(Damage::Short))?;
        if head != MAGIC {
            return Err(bad(Damage::Magic));
        }
        let plain = seal::open(keys, Sealed::Snapshot, &id.0, sealed).map_err(bad)?;
        Self::decode(id, plain).map_err(|error| bad(error.into()))
    }
}

/// The record's name in the store.
pub fn object(id: SnapshotId) -> String {
    format!("{FOLDER}/{id}")
}

/// The id in a name of the store.
pub fn from_name(name: &str) -> Option<SnapshotId> {
    SnapshotId::parse(name.strip_prefix(FOLDER)?.strip_prefix('/')?)
}

fn is_root(path: &[u8]) -> bool {
    path == b"/"
        || (path.first() == Some(&b'/')
            && path[1..].split(|b| *b == b'/').all(crate::entry::is_name))
}
