//! What is saved comes back as it was.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
};

use crate::scene::{Scene, see};

#[test]
fn a_small_home_comes_back() {
    let scene = Scene::new();
    let home = scene.home();
    fs::create_dir_all(home.join("docs/empty")).unwrap();
    fs::write(home.join("docs/note"), "short").unwrap();
    fs::write(home.join("docs/longer"), "line\n".repeat(5000)).unwrap();
    fs::write(home.join("nothing"), "").unwrap();
    fs::hard_link(home.join("docs/longer"), home.join("docs/twin")).unwrap();
    symlink("docs/note", home.join("way")).unwrap();
    fs::set_permissions(home.join("docs/note"), fs::Permissions::from_mode(0o4711)).unwrap();
    let large: Vec<u8> = (0..3_000_000u32)
        .flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes())
        .collect();
    fs::write(home.join("large"), &large).unwrap();

    let snapshot = scene.save();
    assert_eq!(snapshot.counts.files, 5);
    let out = scene.out("out");
    let restored = scene.restore(&snapshot, &out);
    assert_eq!(restored.problems.list, []);
    assert_eq!(see(&home), see(&scene.restored(&out)));
}
