//! Saves that come to no end: what they stored is paid for once.

use std::{
    fs, io,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use cocoonbox_capsule::{
    Capsule, Error, Folder, Snapshot, Store, save,
    snapshot::Counts,
    store::{self, Created, Stored},
};

use crate::{
    noise::noise,
    scene::{Scene, key, now_ns, see},
};

/// What is saved, and how much of it the store takes before it is full.
const BYTES: usize = 60_000_000;
const ROOM: u64 = 36_000_000;

/// A store that is full from some point on.
struct Full {
    folder: Folder,
    room: AtomicU64,
    /// Nothing that would be done after the first refusal is done: as if the process had been killed.
    dies: bool,
    is_dead: AtomicBool,
}

impl Full {
    fn refused(&self, name: &str) -> store::Error {
        self.is_dead.store(self.dies, Ordering::SeqCst);
        full(name)
    }
}

fn full(name: &str) -> store::Error {
    store::Error::Io {
        name: name.into(),
        doing: "written",
        source: io::ErrorKind::StorageFull.into(),
    }
}

impl Store for Full {
    fn create(&self, name: &str, bytes: &[u8]) -> Result<Created, store::Error> {
        if self.is_dead.load(Ordering::SeqCst) {
            return Err(full(name));
        }
        if name.starts_with("data") {
            let bytes = bytes.len() as u64;
            let take = |room: u64| room.checked_sub(bytes);
            let taken = self
                .room
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, take);
            if taken.is_err() {
                return Err(self.refused(name));
            }
        }
        self.folder.create(name, bytes)
    }
    fn get(&self, name: &str) -> Result<Vec<u8>, store::Error> {
        self.folder.get(name)
    }
    fn get_range(&self, name: &str, offset: u64, length: usize) -> Result<Vec<u8>, store::Error> {
        self.folder.get_range(name, offset, length)
    }
    fn stat(&self, name: &str) -> Result<Stored, store::Error> {
        self.folder.stat(name)
    }
    fn list(&self, prefix: &str) -> Result<Vec<Stored>, store::Error> {
        self.folder.list(prefix)
    }
    fn delete(&self, name: &str) -> Result<(), store::Error> {
        if self.is_dead.load(Ordering::SeqCst) {
            return Err(full(name));
        }
        self.folder.delete(name)
    }
    fn tidy(&self, now_ns: i64, age_ns: i64) -> Result<usize, store::Error> {
        self.folder.tidy(now_ns, age_ns)
    }
}

fn save_to(scene: &Scene, store: impl Store + 'static) -> Result<Snapshot, Error> {
    let capsule = Capsule::open(Box::new(store), &key()).unwrap();
    let mut progress = |_: &Counts| {};
    let roots = vec![scene.home().to_str().unwrap().as_bytes().to_vec()];
    let options = save::Options::new(roots, &now_ns, &mut progress);
    Ok(save::save(&capsule, options)?.into_snapshot())
}

fn stored(scene: &Scene) -> u64 {
    let data = scene.capsule.store().list("data").unwrap();
    data.iter().map(|stored| stored.bytes).sum()
}

fn is_whole(scene: &Scene, snapshot: &Snapshot) {
    scene.is_sound();
    let out = scene.out("out");
    assert_eq!(scene.restore(snapshot, &out).problems.list, []);
    assert_eq!(see(&scene.home()), see(&scene.restored(&out)));
}

/// A save that ends with a full store, dead or alive, and one that comes after.
fn cut(dies: bool) {
    let scene = Scene::new();
    fs::write(scene.home().join("large"), noise(1, BYTES)).unwrap();
    let store = Full {
        folder: Folder::open(scene.store()).unwrap(),
        room: AtomicU64::new(ROOM),
        dies,
        is_dead: AtomicBool::new(false),
    };
    match save_to(&scene, store) {
        Err(Error::Store(store::Error::Io { source, .. })) => {
            assert_eq!(source.kind(), io::ErrorKind::StorageFull);
        }
        saved => panic!("{saved:?}"),
    }
    assert_eq!(scene.capsule.snapshot_ids().unwrap(), []);
    assert!(stored(&scene) > ROOM / 3);
    assert_eq!(
        scene.capsule.store().list("saves").unwrap().len(),
        usize::from(dies)
    );
    let snapshot = scene.save();
    let all = stored(&scene);
    assert!(
        all < BYTES as u64 + 1_000_000,
        "{all} bytes are stored for {BYTES}"
    );
    is_whole(&scene, &snapshot);
}

#[test]
fn a_full_store_fails_the_save_and_the_next_pays_for_the_rest() {
    cut(false);
}

#[test]
fn what_a_killed_save_has_stored_is_found_by_the_next() {
    cut(true);
}
