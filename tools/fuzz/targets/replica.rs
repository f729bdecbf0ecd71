//! A batch as a hostile box sends it, up to and into a store: taken in whole or refused with a type.

#![no_main]

use std::{
    pin::pin,
    sync::{Arc, LazyLock},
    task::{Context, Poll, Waker},
};

use cocoonbox_events::{
    LogId, LogKind, ManualClock, MemoryStore, NewLog, Recorded, Store, SystemIds, chain::Verifier,
};
use cocoonbox_proto::log::v1::RecordedBatch;
use libfuzzer_sys::fuzz_target;
use prost::Message;

/// The box of the recorded world that the seeds are of.
static LOG: LazyLock<LogId> = LazyLock::new(|| LogId::from_slice(&[3; 16]).unwrap());

/// The store in memory never waits.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the store in memory waits"),
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(batch) = RecordedBatch::decode(bytes) else {
        return;
    };
    let read = batch
        .events
        .into_iter()
        .map(|event| Recorded::from_wire(*LOG, event));
    let Some(events) = read.collect::<Option<Vec<_>>>() else {
        return;
    };
    for event in &events {
        let _ = (
            event.header(),
            event.payload(),
            event.event_id(),
            event.offset_key(),
        );
        let again = Recorded::from_wire(*LOG, event.to_wire()).unwrap();
        assert_eq!(&again, event);
    }
    let store = MemoryStore::new(Arc::new(ManualClock::at(0)), Arc::new(SystemIds));
    let new = NewLog {
        id: *LOG,
        kind: LogKind::Box,
        owner: "u1".into(),
        parent: None,
    };
    now(store.open(new)).unwrap();
    let before = store.tail(*LOG).unwrap();
    match now(store.replicate(*LOG, events.clone())) {
        // What was taken in is a chain.
        Ok(tail) => {
            let mut verifier = Verifier::after(before.pos, before.chain);
            events
                .iter()
                .for_each(|event| verifier.check(event).unwrap());
            assert_eq!((tail.pos, tail.chain), (verifier.pos(), verifier.chain()));
        }
        Err(_) => assert_eq!(store.tail(*LOG).unwrap(), before),
    }
});
