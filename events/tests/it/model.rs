//! Random appends against a list: conflicts, duplicates, erasures, reopening.

use std::{collections::HashMap, sync::Arc};

use cocoonbox_events::{
    Append, AppendError, Appended, CommandId, Expect, LogId, ManualClock, MemoryStore, NoKeys,
    SqliteStore, Store, SystemIds,
};
use proptest::prelude::*;
use tempfile::TempDir;
use uuid::Uuid;

use crate::support::{append, new_log, stream, text_of, verified};

#[derive(Clone, Debug)]
enum Step {
    /// Streams of the events, the command's number, its digest, what is expected of the first stream.
    Append {
        streams: Vec<u8>,
        command: u8,
        digest: u8,
        expect: Option<u64>,
    },
    /// Sent at the same time, so that they share a batch.
    Together(Vec<Step>),
    Erase(u64),
    Reopen,
}

fn appends() -> impl Strategy<Value = Step> {
    let streams = prop::collection::vec(0..4_u8, 1..6);
    let expect = prop::option::of(0..6_u64);
    (streams, any::<u8>(), 0..8_u8, expect).prop_map(|(streams, command, digest, expect)| {
        // Most digests agree, as they do in life.
        Step::Append {
            streams,
            command: command % 24,
            digest: digest / 7,
            expect,
        }
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => appends(),
        3 => prop::collection::vec(appends(), 2..8).prop_map(Step::Together),
        1 => (1..40_u64).prop_map(Step::Erase),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..30)
}

/// What the store should hold.
#[derive(Default)]
struct Model {
    /// `(stream, text)`, the text gone once erased.
    events: Vec<(u8, Option<String>)>,
    commands: HashMap<u8, (Option<u8>, u64, u64)>,
}

#[derive(Debug, PartialEq)]
enum Answer {
    Committed(u64, u64),
    Replayed(u64, u64),
    Reused,
    Conflict(u64),
}

impl Model {
    fn head(&self, stream: u8) -> u64 {
        self.events
            .iter()
            .filter(|(name, _)| *name == stream)
            .count() as u64
    }

    fn append(&mut self, step: &Step) -> Answer {
        let Step::Append {
            streams,
            command,
            digest,
            expect,
        } = step
        else {
            unreachable!()
        };
        if let Some((then, first, last)) = self.commands.get(command) {
            return if then.is_none_or(|then| then == *digest) {
                Answer::Replayed(*first, *last)
            } else {
                Answer::Reused
            };
        }
        let actual = self.head(streams[0]);
        if expect.is_some_and(|expected| expected != actual) {
            return Answer::Conflict(actual);
        }
        let first = self.events.len() as u64 + 1;
        self.events
            .extend(streams.iter().map(|s| (*s, Some(format!("{command}")))));
        let last = self.events.len() as u64;
        self.commands.insert(*command, (Some(*digest), first, last));
        Answer::Committed(first, last)
    }
}

fn asked(step: &Step) -> Append {
    let Step::Append {
        streams,
        command,
        digest,
        expect,
    } = step
    else {
        unreachable!()
    };
    let (names, text): (Vec<_>, _) = (
        streams.iter().map(|s| format!("agent/{s}")).collect(),
        command.to_string(),
    );
    let events: Vec<_> = names
        .iter()
        .map(|name| (name.as_str(), text.as_str()))
        .collect();
    Append {
        command: CommandId(Uuid::from_u128(u128::from(*command))),
        digest: [*digest; 32],
        expect: expect
            .map(|seq| (stream(&names[0]), Expect::Exactly(seq)))
            .into_iter()
            .collect(),
        ..append(&events)
    }
}

fn answer(answered: Result<Appended, AppendError>) -> Answer {
    match answered {
        Ok(Appended::Committed(range, _)) => Answer::Committed(range.first, range.last),
        Ok(Appended::Replayed(range)) => Answer::Replayed(range.first, range.last),
        Err(AppendError::CommandReused) => Answer::Reused,
        Err(AppendError::Conflict { actual, .. }) => Answer::Conflict(actual),
        Err(other) => panic!("{other:?}"),
    }
}

async fn check(store: &dyn Store, log: LogId, model: &Model) {
    let events = verified(store, log).await;
    let held: Vec<_> = events
        .iter()
        .map(|e| (e.stream.to_string(), text_of(e)))
        .collect();
    let expected: Vec<_> = model
        .events
        .iter()
        .map(|(s, text)| (format!("agent/{s}"), text.clone()))
        .collect();
    assert_eq!(held, expected);
}

async fn play(steps: &[Step], mut open: impl FnMut(Option<Arc<dyn Store>>) -> Arc<dyn Store>) {
    let mut store = open(None);
    let log = store.open(new_log()).await.unwrap().log;
    let mut model = Model::default();
    for step in steps {
        match step {
            Step::Append { .. } => {
                let answered = answer(store.append(log, asked(step)).await);
                assert_eq!(answered, model.append(step));
            }
            Step::Together(together) => {
                // Spawned on one thread they are queued in this order.
                let tasks = together.iter().map(|step| {
                    let (store, asked) = (store.clone(), asked(step));
                    tokio::spawn(async move { store.append(log, asked).await })
                });
                for (task, step) in tasks.collect::<Vec<_>>().into_iter().zip(together) {
                    assert_eq!(answer(task.await.unwrap()), model.append(step));
                }
            }
            Step::Erase(pos) => {
                store.erase(log, &[*pos]).await.unwrap();
                let index = usize::try_from(*pos).unwrap() - 1;
                if let Some((_, text)) = model.events.get_mut(index) {
                    *text = None;
                    // What it asked for is forgotten with what it wrote.
                    for (digest, first, last) in model.commands.values_mut() {
                        if (*first..=*last).contains(pos) {
                            *digest = None;
                        }
                    }
                }
            }
            Step::Reopen => store = open(Some(store)),
        }
    }
    check(&*store, log, &model).await;
}

fn block_on(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn memory_is_as_the_list(steps in steps()) {
        block_on(play(&steps, |store| store.unwrap_or_else(|| {
            Arc::new(MemoryStore::new(Arc::new(ManualClock::at(1)), Arc::new(SystemIds)))
        })));
    }

    #[test]
    fn sqlite_is_as_the_list(steps in steps()) {
        let dir = TempDir::new().unwrap();
        block_on(play(&steps, |store| {
            drop(store);
            let path = dir.path().join("log.db");
            let clock = Arc::new(ManualClock::at(1));
            Arc::new(SqliteStore::open(path, Arc::new(NoKeys), clock, Arc::new(SystemIds)).unwrap())
        }));
    }
}
