use proptest::prelude::*;
use rusqlite::Connection;

use super::*;
use crate::database::EditionId;

const VIEWS: [View; 2] = [View::Boxes, View::Usage];

#[derive(Clone, Debug)]
enum Step {
    Put(View, String, Vec<u8>),
    Delete(View, String),
    DeletePrefix(View, String),
    Scan(View, String, Option<String>, usize),
    ScanBack(View, String, Option<String>, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let view = || prop::sample::select(&VIEWS[..]);
    let key = || "[ab0]{1,2}/[ab0/.~é]{0,3}";
    let prefix = || "[ab0]{1,2}".prop_map(|text| format!("{text}/"));
    prop_oneof![
        4 => (view(), key(), prop::collection::vec(any::<u8>(), 0..4))
            .prop_map(|(v, k, b)| Step::Put(v, k, b)),
        1 => (view(), key()).prop_map(|(v, k)| Step::Delete(v, k)),
        1 => (view(), prefix()).prop_map(|(v, k)| Step::DeletePrefix(v, k)),
        2 => (view(), prefix(), prop::option::of(key()), 0_usize..4)
            .prop_map(|(v, p, a, l)| Step::Scan(v, p, a, l)),
        2 => (view(), prefix(), prop::option::of(key()), 0_usize..4)
            .prop_map(|(v, p, b, l)| Step::ScanBack(v, p, b, l)),
    ]
}

proptest! {
    #[test]
    fn both_kinds_of_rows_answer_alike(steps in prop::collection::vec(step(), 0..60)) {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(crate::database::SCHEMA).unwrap();
        let mut sqlite = SqliteRows::of(&connection, EditionId(1));
        let mut memory = MemoryRows::default();
        for step in steps {
            match step {
                Step::Put(view, key, value) => {
                    sqlite.put(view, &key, &value).unwrap();
                    memory.put(view, &key, &value).unwrap();
                    prop_assert_eq!(sqlite.get(view, &key).unwrap(), Some(value));
                }
                Step::Delete(view, key) => {
                    sqlite.delete(view, &key).unwrap();
                    memory.delete(view, &key).unwrap();
                    prop_assert_eq!(sqlite.get(view, &key).unwrap(), None);
                }
                Step::DeletePrefix(view, prefix) => {
                    sqlite.delete_prefix(view, &prefix).unwrap();
                    memory.delete_prefix(view, &prefix).unwrap();
                }
                Step::Scan(view, prefix, after, limit) => {
                    let found = sqlite.scan(view, &prefix, after.as_deref(), limit).unwrap();
                    prop_assert!(found.iter().all(|(key, _)| key.starts_with(&prefix)));
                    prop_assert_eq!(
                        found,
                        memory.scan(view, &prefix, after.as_deref(), limit).unwrap()
                    );
                }
                Step::ScanBack(view, prefix, before, limit) => {
                    let before = before.as_deref();
                    let found = sqlite.scan_back(view, &prefix, before, limit).unwrap();
                    prop_assert!(found.iter().all(|(key, _)| key.starts_with(&prefix)));
                    let same = memory.scan_back(view, &prefix, before, limit).unwrap();
                    prop_assert_eq!(&found, &same);
                    // The same rows as forwards, the other way round.
                    let all = sqlite.scan(view, &prefix, None, SCAN_ROWS_MAX).unwrap();
                    let all = all.into_iter().rev();
                    let all = all.filter(|(key, _)| before.is_none_or(|before| key.as_str() < before));
                    prop_assert_eq!(found, all.take(limit).collect::<Vec<_>>());
                }
            }
            for view in VIEWS {
                for prefix in ["a/", "0/", "ab/"] {
                    prop_assert_eq!(
                        sqlite.scan(view, prefix, None, SCAN_ROWS_MAX).unwrap(),
                        memory.scan(view, prefix, None, SCAN_ROWS_MAX).unwrap()
                    );
                }
            }
        }
    }
}
