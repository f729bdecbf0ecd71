//! Nothing that is wrong in the store goes unseen, and nothing else is lost with it.

use std::{collections::BTreeSet, fs, path::Path};

use cocoonbox_capsule::{Capsule, Error, Folder, UserKey, sweep};

use crate::scene::{Scene, key, see};

fn objects(store: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![store.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(store).unwrap();
                found.insert(name.to_str().unwrap().to_owned());
            }
        }
    }
    found
}

fn scene() -> Scene {
    let scene = Scene::new();
    let home = scene.home();
    for n in 0..30 {
        fs::create_dir(home.join(format!("d{n}"))).unwrap();
        for m in 0..4u32 {
            let text = format!("{n} {m} ").repeat(200 + n * 50);
            fs::write(home.join(format!("d{n}/f{m}")), text).unwrap();
        }
    }
    scene.save();
    scene
}

#[test]
fn a_flipped_bit_in_any_object_is_found_and_named() {
    let scene = scene();
    assert!(scene.check().unwrap().is_good());
    let all = objects(&scene.store());
    let kinds: BTreeSet<_> = all
        .iter()
        .map(|name| name.split('/').next().unwrap())
        .collect();
    assert_eq!(
        kinds.into_iter().collect::<Vec<_>>(),
        ["capsule", "data", "index", "snapshots", "trees"]
    );
    for name in &all {
        let path = scene.store().join(name);
        let good = fs::read(&path).unwrap();
        // Every byte of short objects, a sample of long ones, and both ends of each.
        let step = (good.len() / 97).max(1);
        let places = (0..good.len())
            .step_by(step)
            .chain([good.len() - 1, good.len() - 5]);
        for at in places {
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            fs::write(&path, &bad).unwrap();
            let place = format!("{name} at {at}");
            if name == "capsule" {
                let store = Folder::open(scene.store()).unwrap();
                let opened = Capsule::open(Box::new(store), &key());
                assert!(opened.is_err(), "{place}");
            } else {
                let checked = scene.check().unwrap();
                assert!(checked.bad.contains_key(name), "{place}: {checked:?}");
            }
        }
        fs::write(&path, &good).unwrap();
    }
    assert!(scene.check().unwrap().is_good());
}

#[test]
fn a_damaged_segment_costs_nothing() {
    let scene = scene();
    for name in objects(&scene.store()) {
        if name.starts_with("index/") {
            fs::write(scene.store().join(name), "gone").unwrap();
        }
    }
    let out = scene.out("out");
    let snapshot = scene.capsule.find_snapshot("latest").unwrap();
    assert_eq!(scene.restore(&snapshot, &out).problems.list, []);
    assert_eq!(see(&scene.home()), see(&scene.restored(&out)));
}

#[test]
fn a_lost_pack_is_named_with_its_files_and_heals_by_saving() {
    let scene = scene();
    let snapshot = scene.capsule.find_snapshot("latest").unwrap();
    let pack = objects(&scene.store())
        .into_iter()
        .find(|name| name.starts_with("data/"))
        .unwrap();
    fs::remove_file(scene.store().join(&pack)).unwrap();
    let checked = scene.check().unwrap();
    assert_eq!(checked.bad.keys().collect::<Vec<_>>(), [&pack]);
    assert_eq!(checked.files[&snapshot.id].count, 120);
    let out = scene.out("out");
    let restored = scene.restore(&snapshot, &out);
    assert_eq!(restored.problems.count, 120);
    assert_eq!(restored.tally.directories, 31);

    sweep::give_up(&scene.capsule, &checked.bad_packs).unwrap();
    let healed = scene.save_later();
    assert_eq!(
        (healed.counts.files_read, healed.counts.files_changed),
        (120, 0)
    );
    // The old snapshot is whole again too: the chunks have the same ids.
    let out = scene.out("again");
    assert_eq!(scene.restore(&snapshot, &out).problems.list, []);
    assert_eq!(see(&scene.home()), see(&scene.restored(&out)));
}

#[test]
fn another_key_opens_nothing() {
    let scene = scene();
    let store = Folder::open(scene.store()).unwrap();
    let opened = Capsule::open(Box::new(store), &UserKey::new([8; 32]));
    assert!(matches!(opened, Err(Error::WrongKey)));
    let again = Folder::open(scene.store()).unwrap();
    let made = Capsule::init(Box::new(again), &key());
    assert!(matches!(made, Err(Error::CapsuleExists)));
}

#[test]
fn an_object_under_another_name_is_refused() {
    let scene = scene();
    fs::write(scene.home().join("more"), "m".repeat(5000)).unwrap();
    scene.save();
    for folder in ["data", "trees", "index", "snapshots"] {
        let mut names: Vec<_> = objects(&scene.store())
            .into_iter()
            .filter(|name| name.starts_with(folder))
            .collect();
        let (last, first) = (names.pop().unwrap(), names.swap_remove(0));
        let path = scene.store().join(&last);
        let good = fs::read(&path).unwrap();
        fs::copy(scene.store().join(&first), &path).unwrap();
        let checked = scene.check().unwrap();
        assert!(checked.bad.contains_key(&last), "{last}: {checked:?}");
        fs::write(&path, good).unwrap();
    }
}
