//! Whatever the server does: never a wrong byte, never an object taken for somebody else's.

use cocoonbox_capsule::{
    Store as _,
    store::{Created, Error},
};

use crate::{
    conformance::of_many_at_once_one_makes_it,
    misbehaving::{Fault, Misbehaving},
};

/// Here, since the real server of the tests looks first and writes then, as none may that capsules are kept in.
#[test]
fn of_many_one_makes_an_object_where_the_server_keeps_to_it() {
    of_many_at_once_one_makes_it(&Misbehaving::start().store(""));
}

#[test]
fn a_server_that_ignores_conditions_is_refused() {
    let server = Misbehaving::start();
    server.state.lock().unwrap().ignores_conditions = true;
    let store = server.store("");
    let refused = store.create("data/1", b"x").unwrap_err();
    assert!(
        format!("{refused:?}").contains("If-None-Match"),
        "{refused:?}"
    );
    assert!(
        server.state.lock().unwrap().objects.is_empty(),
        "nothing is left"
    );
    // It stays refused, below other prefixes too.
    store.below("ann").create("data/1", b"x").unwrap_err();
}

#[test]
fn trouble_that_passes_is_waited_out() {
    let server = Misbehaving::start();
    let store = server.store("");
    store.probe().unwrap();
    for status in [500, 503, 429, 409] {
        server.will("PUT", Fault::Answers(status));
    }
    assert_eq!(store.create("data/1", b"hello").unwrap(), Created::Made);
    for _ in 0..2 {
        server.will("GET", Fault::Answers(503));
    }
    assert_eq!(store.get("data/1").unwrap(), b"hello");
    server.will("HEAD", Fault::Answers(500));
    assert_eq!(store.stat("data/1").unwrap().bytes, 5);
    server.will("DELETE", Fault::Answers(503));
    store.delete("data/1").unwrap();
}

#[test]
fn trouble_that_stays_is_an_error() {
    let server = Misbehaving::start();
    let store = server.store("");
    store.probe().unwrap();
    for status in [403, 507] {
        server.will("PUT", Fault::Answers(status));
    }
    let refused = store.create("data/1", b"x").unwrap_err();
    assert!(
        matches!(&refused, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied),
        "{refused:?}"
    );
    assert!(
        !server
            .state
            .lock()
            .unwrap()
            .objects
            .contains_key("p/data/1")
    );
}

#[test]
fn an_object_whose_answer_got_lost_is_ours_and_another_is_not() {
    let server = Misbehaving::start();
    let store = server.store("");
    store.probe().unwrap();
    server.will("PUT", Fault::LosesAnswer);
    assert_eq!(store.create("data/1", b"mine").unwrap(), Created::Made);
    // The attempt fails, somebody else is first, ours is refused: it is theirs.
    server.will("PUT", Fault::Answers(500));
    let key = "p/data/2".to_owned();
    server
        .state
        .lock()
        .unwrap()
        .objects
        .insert(key, b"theirs".to_vec());
    assert_eq!(store.create("data/2", b"mine").unwrap(), Created::Existed);
    assert_eq!(store.get("data/2").unwrap(), b"theirs");
}

#[test]
fn what_is_short_or_forgotten_is_an_error_and_no_bytes() {
    let server = Misbehaving::start();
    let store = server.store("");
    let bytes = vec![7; 100_000];
    assert_eq!(store.create("data/1", &bytes).unwrap(), Created::Made);
    server.will("GET", Fault::Short);
    let short = store.get("data/1");
    assert!(short.is_err() || short.unwrap() == bytes);
    server.will("GET", Fault::Short);
    let short = store.get_range("data/1", 10, 50_000);
    assert!(short.is_err() || short.unwrap() == bytes[10..50_010]);
    server.will("GET", Fault::Forgets);
    assert!(matches!(store.get("data/1"), Err(Error::NotFound(_))));
    assert_eq!(store.create("data/2", &bytes).unwrap(), Created::Made);
    server.state.lock().unwrap().ignores_ranges = true;
    store.get_range("data/2", 10, 20).unwrap_err();
}

#[test]
fn encryption_by_the_server_is_asked_for() {
    let server = Misbehaving::start();
    let store = server.store("&sse=aws:kms&sse_key=key-1");
    assert_eq!(store.create("data/1", b"x").unwrap(), Created::Made);
    let state = server.state.lock().unwrap();
    let put = state
        .heads
        .iter()
        .rfind(|head| head.starts_with("PUT "))
        .unwrap();
    let put = put.to_ascii_lowercase();
    assert!(
        put.contains("x-amz-server-side-encryption: aws:kms"),
        "{put}"
    );
    assert!(
        put.contains("x-amz-server-side-encryption-aws-kms-key-id: key-1"),
        "{put}"
    );
    assert!(put.contains("x-amz-checksum-"), "{put}");
}
