//! Stores that are kept in a folder. What all must do is in `conformance.rs`.

use cocoonbox_capsule::{Folder, Store as _};

use crate::conformance::{conforms, of_many_at_once_one_makes_it};

#[test]
fn a_folder_conforms() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::open(dir.path()).unwrap();
    conforms(&folder);
    of_many_at_once_one_makes_it(&folder);
}

#[test]
fn what_a_folder_did_not_finish_is_no_object() {
    let dir = tempfile::tempdir().unwrap();
    let store = Folder::open(dir.path()).unwrap();
    std::fs::write(dir.path().join("UNFINISHED/1.7"), "half").unwrap();
    let now_ns = crate::scene::now_ns();
    assert_eq!(store.tidy(now_ns, 60_000_000_000).unwrap(), 0);
    assert_eq!(
        store.tidy(now_ns + 61_000_000_000, 60_000_000_000).unwrap(),
        1
    );
    assert!(
        std::fs::read_dir(dir.path().join("UNFINISHED"))
            .unwrap()
            .next()
            .is_none()
    );
}
