//! What every store must do, one function per property. Shared with the crates of other stores.

use std::{sync::Barrier, thread};

use cocoonbox_capsule::{
    Store,
    store::{Created, Error},
};

fn what_is_made_is_read(store: &dyn Store) {
    assert_eq!(store.create("a/b1", b"hello world").unwrap(), Created::Made);
    assert_eq!(store.get("a/b1").unwrap(), b"hello world");
    assert_eq!(store.get_range("a/b1", 6, 5).unwrap(), b"world");
    assert_eq!(store.get_range("a/b1", 0, 0).unwrap(), b"");
    assert_eq!(store.stat("a/b1").unwrap().bytes, 11);
    assert_eq!(store.create("empty", b"").unwrap(), Created::Made);
    assert_eq!(store.get("empty").unwrap(), b"");
}

fn nothing_is_made_twice(store: &dyn Store) {
    assert_eq!(store.create("once", b"first").unwrap(), Created::Made);
    assert_eq!(store.create("once", b"second").unwrap(), Created::Existed);
    assert_eq!(store.get("once").unwrap(), b"first");
}

/// By itself: not every server that tests run against does this.
pub(crate) fn of_many_at_once_one_makes_it(store: &dyn Store) {
    let barrier = Barrier::new(8);
    let made: Vec<u8> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8u8)
            .map(|number| {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    store.create("race/object", &[number; 4096]).unwrap() == Created::Made
                })
            })
            .collect();
        let made = threads.into_iter().map(|thread| thread.join().unwrap());
        (0..8u8)
            .zip(made)
            .filter(|(_, made)| *made)
            .map(|(n, _)| n)
            .collect()
    });
    assert_eq!(made.len(), 1);
    assert_eq!(store.get("race/object").unwrap(), [made[0]; 4096]);
}

fn what_is_not_there_is_not_found(store: &dyn Store) {
    assert!(matches!(store.get("no/such"), Err(Error::NotFound(_))));
    assert!(matches!(
        store.get_range("no/such", 0, 1),
        Err(Error::NotFound(_))
    ));
    assert!(matches!(store.stat("no/such"), Err(Error::NotFound(_))));
    store.delete("no/such").unwrap();
    assert_eq!(store.list("nowhere").unwrap(), []);
}

fn a_range_is_whole_or_an_error(store: &dyn Store) {
    assert_eq!(store.create("short", b"12345").unwrap(), Created::Made);
    assert!(matches!(
        store.get_range("short", 3, 3),
        Err(Error::OutOfRange { .. })
    ));
    assert!(matches!(
        store.get_range("short", u64::MAX - 1, 2),
        Err(Error::OutOfRange { .. } | Error::Io { .. })
    ));
}

fn lists_are_whole_and_in_order(store: &dyn Store) {
    let mut names: Vec<_> = (0..1203u32)
        .map(|n| format!("many/{:08x}", n.wrapping_mul(40503)))
        .collect();
    for name in &names {
        assert_eq!(store.create(name, name.as_bytes()).unwrap(), Created::Made);
    }
    assert_eq!(store.create("manyother/x", b"").unwrap(), Created::Made);
    names.sort();
    let listed = store.list("many").unwrap();
    let found: Vec<_> = listed.iter().map(|stored| stored.name.clone()).collect();
    assert_eq!(found, names);
    assert!(
        listed
            .iter()
            .all(|stored| stored.bytes == 13 && stored.written_ns > 0)
    );
}

fn what_is_deleted_is_gone(store: &dyn Store) {
    assert_eq!(store.create("gone/one", b"x").unwrap(), Created::Made);
    store.delete("gone/one").unwrap();
    assert!(matches!(store.get("gone/one"), Err(Error::NotFound(_))));
    assert_eq!(store.list("gone").unwrap(), []);
    assert_eq!(store.create("gone/one", b"y").unwrap(), Created::Made);
}

fn times_go_forward(store: &dyn Store) {
    assert_eq!(store.create("time/1", b"").unwrap(), Created::Made);
    assert_eq!(store.create("time/2", b"").unwrap(), Created::Made);
    let written = |name| store.stat(name).unwrap().written_ns;
    assert!(written("time/1") <= written("time/2"));
}

fn no_name_leads_elsewhere(store: &dyn Store) {
    for name in [
        "",
        "/",
        "../x",
        "a/../../x",
        "a//b",
        "A",
        "a.b",
        "/etc/passwd",
        "a/",
        "ä",
    ] {
        assert!(
            matches!(store.create(name, b"x"), Err(Error::Name(_))),
            "{name}"
        );
        assert!(matches!(store.get(name), Err(Error::Name(_))), "{name}");
        assert!(matches!(store.delete(name), Err(Error::Name(_))), "{name}");
    }
}

/// What one caller sees, on a store that is empty.
pub(crate) fn conforms(store: &dyn Store) {
    what_is_made_is_read(store);
    nothing_is_made_twice(store);
    what_is_not_there_is_not_found(store);
    a_range_is_whole_or_an_error(store);
    lists_are_whole_and_in_order(store);
    what_is_deleted_is_gone(store);
    times_go_forward(store);
    no_name_leads_elsewhere(store);
}
