//! What a box needs of a save and a restore: files that lie elsewhere than they are shown, nothing kept for nothing,
//! an end on request, and a target that belongs to somebody who may mislead.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, symlink},
    path::Path,
    sync::atomic::AtomicBool,
};

use cocoonbox_capsule::{
    Error, Reader, Snapshot,
    restore::{self, Existing, Restored},
    save::{self, Saved},
    snapshot::Counts,
};

use crate::scene::{Scene, now_ns};

const SHOWN: &[u8] = b"/home/user";

fn saved(
    scene: &Scene,
    only_if_changed: bool,
    cancelled: Option<&AtomicBool>,
) -> Result<Saved, Error> {
    let mut progress = |_: &Counts| {};
    // As if all files had been still for a while.
    let later = || now_ns() + 10_000_000_000;
    let mut options = save::Options::new(vec![SHOWN.to_vec()], &later, &mut progress);
    options.places.insert(SHOWN.to_vec(), scene.home());
    options.cache = Some(scene.out("cache"));
    options.only_if_changed = only_if_changed;
    options.reads_back = true;
    options.cancelled = cancelled;
    save::save(&scene.capsule, options)
}

fn restored(
    scene: &Scene,
    snapshot: &Snapshot,
    target: &Path,
    below: &[u8],
    strip: &[u8],
) -> Result<Restored, Error> {
    let reader = Reader::new(&scene.capsule)?;
    let options = restore::Options {
        target: target.to_owned(),
        makes_target: true,
        below: below.to_vec(),
        strip: strip.to_vec(),
        paths: vec![[SHOWN, b"/docs/a"].concat()],
        existing: Existing::Keep,
        has_owners: false,
        owner: rustix::process::geteuid().is_root().then_some((1234, 2345)),
        threads: 2,
        cancelled: None,
        progress: &mut |_| {},
    };
    restore::restore(&reader, snapshot, options)
}

fn scene() -> Scene {
    let scene = Scene::new();
    fs::create_dir(scene.home().join("docs")).unwrap();
    fs::write(scene.home().join("docs/a"), "words").unwrap();
    scene
}

#[test]
fn files_are_read_elsewhere_than_they_are_shown() {
    let scene = scene();
    let snapshot = saved(&scene, false, None).unwrap().into_snapshot();
    let reader = Reader::new(&scene.capsule).unwrap();
    assert!(reader.lookup(&snapshot, b"/home/user/docs/a").is_ok());
    let own = scene.home().join("docs/a");
    let own = std::os::unix::ffi::OsStrExt::as_bytes(own.as_os_str());
    assert!(matches!(
        reader.lookup(&snapshot, own),
        Err(Error::PathNotFound { .. })
    ));
}

#[test]
fn nothing_is_kept_where_nothing_changed() {
    let scene = scene();
    let first = saved(&scene, true, None).unwrap();
    assert!(matches!(first, Saved::Kept(_)));
    let first = first.into_snapshot();
    let Saved::Unchanged(same) = saved(&scene, true, None).unwrap() else {
        panic!("kept again");
    };
    assert_eq!(same.id, first.id);
    assert_eq!(scene.capsule.snapshot_ids().unwrap(), [first.id]);
    fs::write(scene.home().join("docs/a"), "other words").unwrap();
    assert!(matches!(saved(&scene, true, None).unwrap(), Saved::Kept(_)));
    assert!(matches!(
        saved(&scene, false, None).unwrap(),
        Saved::Kept(_)
    ));
}

#[test]
fn a_save_that_nobody_wants_ends_and_leaves_no_record() {
    let scene = scene();
    let ended = saved(&scene, false, Some(&AtomicBool::new(true)));
    assert!(matches!(ended, Err(Error::Cancelled)), "{ended:?}");
    assert!(scene.capsule.snapshot_ids().unwrap().is_empty());
}

#[test]
fn a_restore_goes_below_and_strips() {
    let scene = scene();
    let snapshot = saved(&scene, false, None).unwrap().into_snapshot();
    let target = scene.out("target");
    let done = restored(&scene, &snapshot, &target, b"Restored/then", b"").unwrap();
    assert_eq!((done.tally.files, done.problems.count), (1, 0), "{done:?}");
    let file = target.join("Restored/then/home/user/docs/a");
    assert_eq!(fs::read(file).unwrap(), b"words");
    if rustix::process::geteuid().is_root() {
        let meta = fs::metadata(target.join("Restored/then/home")).unwrap();
        assert_eq!((meta.uid(), meta.gid()), (1234, 2345));
    }
    restored(&scene, &snapshot, &target, b"", SHOWN).unwrap();
    assert_eq!(fs::read(target.join("docs/a")).unwrap(), b"words");
}

#[test]
fn a_restore_follows_no_link_on_its_way() {
    let scene = scene();
    let snapshot = saved(&scene, false, None).unwrap().into_snapshot();
    let (target, elsewhere) = (scene.out("target"), scene.out("elsewhere"));
    fs::create_dir_all(elsewhere.join("docs")).unwrap();
    fs::create_dir(&target).unwrap();
    symlink(&elsewhere, target.join("Restored")).unwrap();
    symlink(elsewhere.join("docs"), target.join("docs")).unwrap();
    for (below, strip) in [(&b"Restored/then"[..], &b""[..]), (b"", SHOWN)] {
        let done = restored(&scene, &snapshot, &target, below, strip).unwrap();
        assert_eq!((done.tally.files, done.problems.count), (0, 1), "{done:?}");
    }
    assert_eq!(fs::read_dir(elsewhere.join("docs")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 1);
}
