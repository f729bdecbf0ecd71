//! A restore in place is taken back, and what was changed since is not lost.

use std::{fs, os::unix::fs::symlink, path::Path};

use crate::scene::{Scene, see};

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

/// What was saved first, and what was there before it was given back.
fn scene() -> Scene {
    let scene = Scene::new();
    let docs = scene.home().join("docs");
    write(&docs.join("changed"), "old");
    write(&docs.join("same"), "same");
    write(&docs.join("removed/deep/a"), "removed");
    write(&docs.join("turned"), "a file");
    fs::create_dir(docs.join("folder")).unwrap();
    write(&docs.join("folder/in"), "in a folder");
    symlink("old", docs.join("link")).unwrap();
    scene
}

fn change(scene: &Scene) {
    let docs = scene.home().join("docs");
    write(&docs.join("changed"), "new and longer");
    fs::remove_dir_all(docs.join("removed")).unwrap();
    fs::remove_file(docs.join("turned")).unwrap();
    write(&docs.join("turned/now/a"), "folder");
    fs::remove_dir_all(docs.join("folder")).unwrap();
    write(&docs.join("folder"), "a file");
    fs::remove_file(docs.join("link")).unwrap();
    symlink("new", docs.join("link")).unwrap();
    write(&docs.join("later"), "not in the snapshot");
}

#[test]
fn all_is_as_before_and_again_too() {
    let scene = scene();
    let first = scene.save();
    change(&scene);
    let second = scene.save();
    let seen = see(&scene.home().join("docs"));
    let docs = scene.home().join("docs");
    scene.restore_in_place(&first, &[&docs]);
    assert_eq!(read(&docs.join("turned")), "a file");
    assert_eq!(read(&docs.join("removed/deep/a")), "removed");
    let undone = scene.undo(&first, &second, &[&docs]);
    assert_eq!(undone.removed, 1, "{undone:?}");
    assert_eq!(undone.restored.kept, None, "{undone:?}");
    assert_eq!(undone.stayed.list, []);
    assert_eq!(see(&docs), seen);
    // As one that was cut off and is gone on with.
    let again = scene.undo(&first, &second, &[&docs]);
    assert_eq!(again.removed, 0);
    assert_eq!(see(&docs), seen);
}

#[test]
fn what_was_changed_since_is_kept_and_told() {
    let scene = scene();
    let first = scene.save();
    change(&scene);
    let second = scene.save();
    let docs = scene.home().join("docs");
    scene.restore_in_place(&first, &[&docs]);
    write(&docs.join("changed"), "edited since");
    write(&docs.join("removed/deep/a"), "edited since");
    write(&docs.join("folder/more"), "new since");
    // Same length and time, other bytes.
    let same = docs.join("turned");
    let time = fs::metadata(&same).unwrap().modified().unwrap();
    fs::write(&same, "A FILE").unwrap();
    fs::File::options()
        .write(true)
        .open(&same)
        .unwrap()
        .set_modified(time)
        .unwrap();
    let undone = scene.undo(&first, &second, &[&docs]);
    assert_eq!(undone.restored.problems.list, []);
    let kept = scene
        .home()
        .join(undone.restored.kept.expect("something was in the way"));
    let lost = |name: &str| read(&kept.join("docs").join(name));
    assert_eq!(lost("changed"), "edited since");
    assert_eq!(lost("turned"), "A FILE");
    assert_eq!(lost("folder/more"), "new since");
    assert_eq!(
        undone.restored.replaced.count, 3,
        "{:?}",
        undone.restored.replaced
    );
    assert_eq!(read(&docs.join("changed")), "new and longer");
    assert_eq!(read(&docs.join("turned/now/a")), "folder");
    assert_eq!(read(&docs.join("folder")), "a file");
    // What had been added stays where it is, with the folders that it is in.
    assert_eq!(read(&docs.join("removed/deep/a")), "edited since");
    let stayed: Vec<_> = undone
        .stayed
        .list
        .iter()
        .map(|line| line.path.clone())
        .collect();
    assert_eq!(stayed, [b"/docs/removed/deep/a".to_vec()]);
}

#[test]
fn a_path_that_was_not_there_goes_with_its_folders() {
    let scene = scene();
    let first = scene.save();
    change(&scene);
    let second = scene.save();
    let docs = scene.home().join("docs");
    let seen = see(&docs);
    let (deep, later) = (docs.join("removed/deep/a"), docs.join("changed"));
    let time = fs::metadata(&docs).unwrap().modified().unwrap();
    scene.restore_in_place(&first, &[&deep, &later]);
    assert_eq!(read(&deep), "removed");
    let undone = scene.undo(&first, &second, &[&deep, &later]);
    assert_eq!(undone.removed, 1);
    // Of folders on the way the times are nobody's to set.
    fs::File::open(&docs).unwrap().set_modified(time).unwrap();
    assert_eq!(see(&docs), seen);
}
