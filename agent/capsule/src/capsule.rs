//! A capsule: a store, the keys to it, and what it was made with.

use crate::{
    encoding::{self, Bytes, put_number},
    error::{Damage, Error},
    generation::{self, Generation},
    id::{ObjectId, SnapshotId},
    index::{self, Index},
    key::{Keys, Kind, UserKey},
    pack,
    seal::{self, Sealed},
    snapshot::{self, Snapshot},
    store::{self, Created, Store},
};

/// The first object, which says what all others are.
pub const FORMAT: &str = "capsule";
const MAGIC: &[u8; 6] = b"CBCAPS";
/// The newest format this program knows.
pub const VERSION: u32 = 1;
const HEADER: usize = 8;

/// One user's capsule in one store.
pub struct Capsule {
    store: Box<dyn Store>,
    keys: Keys,
    id: ObjectId,
}

impl Capsule {
    /// Makes a new one.
    pub fn init(store: Box<dyn Store>, key: &UserKey) -> Result<Self, Error> {
        let keys = Keys::derive(key);
        let id = ObjectId::random()?;
        let mut plain = id.0.to_vec();
        put_number(&mut plain, VERSION.into());
        let mut bytes = head();
        seal::seal(&keys, Sealed::Format, b"", &plain, &mut bytes)?;
        match store.create(FORMAT, &bytes)? {
            Created::Made => Ok(Self { store, keys, id }),
            Created::Existed => Err(Error::CapsuleExists),
        }
    }

    /// Opens one, with the key it was made with.
    pub fn open(store: Box<dyn Store>, key: &UserKey) -> Result<Self, Error> {
        let keys = Keys::derive(key);
        let mut bytes = match store.get(FORMAT) {
            Ok(bytes) => bytes,
            Err(store::Error::NotFound(_)) => return Err(Error::NoCapsule),
            Err(error) => return Err(error.into()),
        };
        let bad = |damage: Damage| Error::damaged(FORMAT, damage);
        if bytes.len() < HEADER || &bytes[..6] != MAGIC || bytes[7] != 0 {
            return Err(bad(Damage::Magic));
        }
        let found = u32::from(bytes[6]);
        if found != VERSION {
            return Err(Error::FormatUnknown {
                found,
                known: VERSION,
            });
        }
        let plain = seal::open(&keys, Sealed::Format, b"", &mut bytes[HEADER..])
            .map_err(|_| Error::WrongKey)?;
        let id = read_format(plain).map_err(|error| bad(error.into()))?;
        Ok(Self { store, keys, id })
    }

    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Tells capsules apart: names what is kept beside one locally.
    pub fn id(&self) -> ObjectId {
        self.id
    }

    /// The newest generation.
    pub fn generation(&self) -> Result<Generation, Error> {
        generation::latest(self.store(), &self.keys)
    }

    /// Where chunks of a kind are.
    pub fn index(&self, kind: Kind, generation: &Generation) -> Result<Index, Error> {
        let given_up = generation.packs();
        Index::load(self.store(), &self.keys, kind, &given_up)
    }

    /// How much the store holds of it: how many objects, and their bytes.
    pub fn usage(&self) -> Result<(u64, u64), Error> {
        let (mut objects, mut bytes) = (1, self.store.stat(FORMAT)?.bytes);
        let folders = [Kind::Data, Kind::Tree].map(pack::folder);
        let others = [index::FOLDER, snapshot::FOLDER, generation::FOLDER];
        for folder in folders.into_iter().chain(others) {
            for stored in self.store.list(folder)? {
                objects += 1;
                bytes += stored.bytes;
            }
        }
        Ok((objects, bytes))
    }

    /// Ids of all snapshots, oldest first, without opening them.
    pub fn snapshot_ids(&self) -> Result<Vec<SnapshotId>, Error> {
        let list = self.store.list(snapshot::FOLDER)?;
        Ok(list
            .iter()
            .filter_map(|stored| snapshot::from_name(&stored.name))
            .collect())
    }

    /// Opens a snapshot's record.
    pub fn snapshot(&self, id: SnapshotId) -> Result<Snapshot, Error> {
        Snapshot::read(self.store(), &self.keys, id)
    }

    /// Finds a snapshot by `latest`, its id, or the beginning of it.
    pub fn find_snapshot(&self, text: &str) -> Result<Snapshot, Error> {
        let ids = self.snapshot_ids()?;
        if text == "latest" {
            let id = ids.last().ok_or(Error::SnapshotNotFound(text.into()))?;
            return self.snapshot(*id);
        }
        let found: Vec<_> = ids
            .iter()
            .filter(|id| !text.is_empty() && id.to_string().starts_with(text))
            .collect();
        match found[..] {
            [] => Err(Error::SnapshotNotFound(text.into())),
            [id] => self.snapshot(*id),
            _ => Err(Error::SnapshotAmbiguous {
                text: text.into(),
                count: found.len(),
            }),
        }
    }
}

fn head() -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&[u8::try_from(VERSION).expect("one byte"), 0]);
    bytes
}

fn read_format(plain: &[u8]) -> Result<ObjectId, encoding::Error> {
    let mut bytes = Bytes::new(plain);
    let id = ObjectId(bytes.array("capsule id")?);
    if bytes.number("version")? != u64::from(VERSION) {
        return Err(encoding::Error::Value("version"));
    }
    bytes.end()?;
    Ok(id)
}
