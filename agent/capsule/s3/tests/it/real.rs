//! Against a real server.

use std::{collections::BTreeMap, fs};

use cocoonbox_capsule::{
    Capsule, Reader, Store as _, UserKey, check,
    restore::{self, Existing},
    save,
    snapshot::Counts,
    store::{Created, Error},
    sweep,
};

use crate::{conformance::conforms, noise::noise, server::Server};

#[test]
fn a_bucket_conforms() {
    let server = Server::start();
    conforms(&server.store("deep/down"));
    conforms(&server.store(""));
}

#[test]
fn what_is_below_one_prefix_is_not_below_another() {
    let server = Server::start();
    let all = server.store("all");
    let (ann, bob) = (all.below("ann"), all.below("bob"));
    assert_eq!(ann.create("data/1", b"of ann").unwrap(), Created::Made);
    assert_eq!(bob.create("data/1", b"of bob").unwrap(), Created::Made);
    assert_eq!(ann.get("data/1").unwrap(), b"of ann");
    assert_eq!(bob.list("data").unwrap().len(), 1);
    ann.remove_all().unwrap();
    assert!(matches!(ann.get("data/1"), Err(Error::NotFound(_))));
    assert_eq!(bob.get("data/1").unwrap(), b"of bob");
}

#[test]
fn large_objects_go_in_parts_and_appear_whole_and_once() {
    let server = Server::start();
    let store = server.store("parts");
    let bytes = noise(1, 40_000_003);
    assert_eq!(store.create("data/large", &bytes).unwrap(), Created::Made);
    assert!(store.get("data/large").unwrap() == bytes);
    let middle = store.get_range("data/large", 8_388_600, 20).unwrap();
    assert_eq!(middle, bytes[8_388_600..8_388_620]);
    assert_eq!(
        store.create("data/large", &bytes[..30_000_000]).unwrap(),
        Created::Existed
    );
    assert!(store.get("data/large").unwrap() == bytes);
    store.tidy(i64::MAX, 0).unwrap();
    assert!(store.get("data/large").unwrap() == bytes);
}

#[test]
fn a_wrong_secret_is_refused_and_not_told() {
    let server = Server::start();
    let store = server.store_as("x", "hidden-secret");
    let refused = store.get("data/1").unwrap_err();
    assert!(matches!(refused, Error::Io { .. }), "{refused:?}");
    let words = format!("{refused:?} {store:?}");
    assert!(!words.contains("hidden-secret"), "{words}");
}

#[test]
fn a_capsule_in_a_bucket_is_saved_restored_swept_and_checked() {
    let server = Server::start();
    let work = tempfile::tempdir().unwrap();
    let home = work.path().join("home");
    fs::create_dir(&home).unwrap();
    let key = UserKey::new([7; 32]);
    let capsule = Capsule::init(Box::new(server.store("ann")), &key).unwrap();
    let write = |name: &str, seed: u64, bytes: usize| {
        fs::write(home.join(name), noise(seed, bytes)).unwrap();
    };
    let now_ns = || 1_800_000_000_000_000_000;
    let keep = |capsule: &Capsule| {
        let mut progress = |_: &Counts| {};
        let roots = vec![home.to_str().unwrap().as_bytes().to_vec()];
        let mut options = save::Options::new(roots, &now_ns, &mut progress);
        options.reads_back = true;
        options.is_full = true;
        save::save(capsule, options).unwrap().into_snapshot()
    };
    write("stays", 1, 3_000_000);
    write("goes", 2, 5_000_000);
    let first = keep(&capsule);
    fs::remove_file(home.join("goes")).unwrap();
    write("comes", 3, 200);
    let second = keep(&capsule);
    let (objects, bytes) = capsule.usage().unwrap();
    assert!(objects > 4 && bytes > 7_000_000, "{objects} {bytes}");
    // The first is forgotten; two sweeps give back what only it had.
    let options = sweep::Options {
        grace_ns: 0,
        kept: Some([second.id].into()),
        ..sweep::Options::default()
    };
    let object = cocoonbox_capsule::snapshot::object(first.id);
    capsule.store().delete(&object).unwrap();
    let planned = sweep::sweep(&capsule, &options).unwrap();
    assert!(planned.packs_given_up > 0, "{planned:?}");
    // The server's clock counts whole seconds.
    let swept = (0..100_000)
        .map(|_| sweep::sweep(&capsule, &options).unwrap())
        .find(|swept| swept.packs_deleted > 0)
        .unwrap();
    assert!(swept.bytes_deleted > 4_000_000, "{swept:?}");

    // Opened anew, by key and address.
    let capsule = Capsule::open(Box::new(server.store("ann")), &key).unwrap();
    let checked = check::check(
        &capsule,
        check::Options {
            reads_data: true,
            slice: None,
            cancelled: None,
            progress: &mut |_, _, _| {},
        },
    );
    assert!(checked.unwrap().is_good());
    let out = work.path().join("out");
    let reader = Reader::new(&capsule).unwrap();
    let restored = restore::restore(
        &reader,
        &capsule.snapshot(second.id).unwrap(),
        restore::Options {
            target: out.clone(),
            makes_target: true,
            below: Vec::new(),
            strip: home.to_str().unwrap().as_bytes().to_vec(),
            paths: Vec::new(),
            existing: Existing::Refuse,
            has_owners: false,
            owner: None,
            threads: 2,
            cancelled: None,
            progress: &mut |_| {},
        },
    );
    assert_eq!(restored.unwrap().problems.count, 0);
    let see = |folder: &std::path::Path| -> BTreeMap<_, _> {
        let files = fs::read_dir(folder).unwrap().map(Result::unwrap);
        files
            .map(|file| (file.file_name(), fs::read(file.path()).unwrap()))
            .collect()
    };
    assert!(see(&home) == see(&out));
}
