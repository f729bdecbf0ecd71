//! A sweep gives back what nobody needs, and never what somebody does.

use std::{fs, sync::Mutex};

use cocoonbox_capsule::{
    Capsule, Error, Folder, Store, save,
    snapshot::{self, Counts},
    store::{self, Created, Stored},
    sweep::{self, Options, Swept},
};

use crate::{
    noise::noise,
    scene::{Scene, key, now_ns, see},
};

fn at_once() -> Options {
    Options {
        grace_ns: 0,
        ..Options::default()
    }
}

fn sweep(scene: &Scene, options: &Options) -> Swept {
    sweep::sweep(&scene.capsule, options).unwrap()
}

fn forget(scene: &Scene, id: cocoonbox_capsule::SnapshotId) {
    scene.capsule.store().delete(&snapshot::object(id)).unwrap();
}

#[test]
fn what_no_snapshot_needs_goes_and_the_rest_stays() {
    let scene = Scene::new();
    let home = scene.home();
    fs::write(home.join("kept"), noise(1, 900_000)).unwrap();
    fs::write(home.join("dropped"), noise(2, 3_000_000)).unwrap();
    let first = scene.save();
    fs::remove_file(home.join("dropped")).unwrap();
    let second = scene.save();
    // Both are kept: nothing to do.
    let idle = sweep(&scene, &at_once());
    assert_eq!(
        (idle.packs_given_up, idle.packs_deleted, idle.generation),
        (0, 0, 0)
    );

    forget(&scene, first.id);
    let dry = sweep(
        &scene,
        &Options {
            is_dry: true,
            ..at_once()
        },
    );
    let planned = sweep(&scene, &at_once());
    assert_eq!(dry.packs_given_up, planned.packs_given_up);
    assert!(
        planned.packs_rewritten >= 1 && planned.packs_deleted == 0,
        "{planned:?}"
    );
    scene.is_sound();
    let swept = sweep(&scene, &at_once());
    assert!(swept.bytes_deleted > 3_000_000, "{swept:?}");
    scene.is_sound();
    let left: u64 = scene
        .capsule
        .store()
        .list("data")
        .unwrap()
        .iter()
        .map(|s| s.bytes)
        .sum();
    assert!(left < 1_000_000, "{left}");
    let out = scene.out("out");
    assert_eq!(scene.restore(&second, &out).problems.list, []);
    assert_eq!(see(&home), see(&scene.restored(&out)));
}

#[test]
fn nothing_is_deleted_before_its_time_or_while_an_older_save_is_under_way() {
    let scene = Scene::new();
    fs::write(scene.home().join("dropped"), noise(3, 500_000)).unwrap();
    let first = scene.save();
    fs::remove_file(scene.home().join("dropped")).unwrap();
    scene.save();
    forget(&scene, first.id);
    let store = scene.capsule.store();
    assert_eq!(store.create("saves/00", b"").unwrap(), Created::Made);
    let planned = sweep(&scene, &at_once());
    assert!(planned.packs_given_up > 0);
    let early = sweep(&scene, &Options::default());
    assert_eq!(
        (early.packs_deleted, early.packs_waiting),
        (0, planned.packs_given_up)
    );
    let held = sweep(&scene, &at_once());
    assert_eq!(
        (held.packs_deleted, held.packs_waiting),
        (0, planned.packs_given_up)
    );
    store.delete("saves/00").unwrap();
    let swept = sweep(&scene, &at_once());
    assert_eq!(swept.packs_deleted, planned.packs_given_up);
    scene.is_sound();
}

#[test]
fn a_save_after_the_plan_stores_again_what_was_given_up() {
    let scene = Scene::new();
    let home = scene.home();
    fs::write(home.join("comes and goes"), noise(4, 700_000)).unwrap();
    let first = scene.save();
    fs::remove_file(home.join("comes and goes")).unwrap();
    scene.save();
    forget(&scene, first.id);
    assert!(sweep(&scene, &at_once()).packs_given_up > 0);
    fs::write(home.join("comes and goes"), noise(4, 700_000)).unwrap();
    let third = scene.save();
    assert!(third.counts.bytes_added > 600_000, "{:?}", third.counts);
    sweep(&scene, &at_once());
    sweep(&scene, &at_once());
    scene.is_sound();
    let out = scene.out("out");
    assert_eq!(scene.restore(&third, &out).problems.list, []);
    assert_eq!(see(&home), see(&scene.restored(&out)));
}

type Step = Box<dyn FnOnce() + Send>;

/// A store that does something before the first object of some name is made: a save that stands still
/// there.
struct Paused {
    folder: Folder,
    before: &'static str,
    step: Mutex<Option<Step>>,
}

impl Store for Paused {
    fn create(&self, name: &str, bytes: &[u8]) -> Result<Created, store::Error> {
        if name.starts_with(self.before)
            && let Some(step) = self.step.lock().unwrap().take()
        {
            step();
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
        self.folder.delete(name)
    }
    fn tidy(&self, now_ns: i64, age_ns: i64) -> Result<usize, store::Error> {
        self.folder.tidy(now_ns, age_ns)
    }
}

/// A save of what only a forgotten snapshot has stands still before it makes `before`, while two sweeps
/// run.
fn overtaken(before: &'static str) {
    let scene = Scene::new();
    let home = scene.home();
    fs::write(home.join("shared"), noise(5, 800_000)).unwrap();
    let first = scene.save();
    fs::remove_file(home.join("shared")).unwrap();
    fs::write(home.join("other"), noise(6, 1000)).unwrap();
    scene.save();
    forget(&scene, first.id);
    // Back again: the save finds its chunks in the store and leans on them.
    fs::write(home.join("shared"), noise(5, 800_000)).unwrap();

    let root = scene.store();
    let step: Step = Box::new(move || {
        let capsule = Capsule::open(Box::new(Folder::open(root).unwrap()), &key()).unwrap();
        assert!(sweep::sweep(&capsule, &at_once()).unwrap().packs_given_up > 0);
        assert_eq!(sweep::sweep(&capsule, &at_once()).unwrap().packs_deleted, 0);
    });
    let store = Paused {
        folder: Folder::open(scene.store()).unwrap(),
        before,
        step: Mutex::new(Some(step)),
    };
    let capsule = Capsule::open(Box::new(store), &key()).unwrap();
    let roots = || vec![home.to_str().unwrap().as_bytes().to_vec()];
    let mut progress = |_: &Counts| {};
    let saved = save::save(
        &capsule,
        save::Options::new(roots(), &now_ns, &mut progress),
    );
    match saved {
        Err(error @ Error::Overtaken { .. }) => assert!(error.is_retryable()),
        saved => panic!("{saved:?}"),
    }
    assert_eq!(scene.capsule.snapshot_ids().unwrap().len(), 1);
    scene.is_sound();
    // The same save again sees the new generation, and stores what it needs.
    let saved = scene.save();
    sweep(&scene, &at_once());
    sweep(&scene, &at_once());
    scene.is_sound();
    let out = scene.out("out");
    assert_eq!(scene.restore(&saved, &out).problems.list, []);
    assert_eq!(see(&home), see(&scene.restored(&out)));
}

#[test]
fn a_save_overtaken_while_it_stores_fails_whole() {
    overtaken("trees");
}

#[test]
fn a_save_overtaken_before_its_record_takes_it_back() {
    overtaken("snapshots");
}
