//! A database that is killed, held up, gone, or not what it was.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use cocoonbox_events::{AppendError, Appended, Expect, LogId, Store};
use cocoonbox_events_postgres::{Database, OpenError, PgStore};
use cocoonbox_postgres::Cluster;
use sqlx::{Connection, PgConnection};
use tokio::task::spawn_blocking;

use crate::support::{
    append, committed, expecting, fresh, opened, options, replica, text_of, verified, within,
};

/// More with this environment variable.
const KILLS: &str = "COCOONBOX_TEST_POSTGRES_KILLS";

struct Load {
    is_over: AtomicBool,
    acked: AtomicU64,
    unknown: AtomicU64,
    refused: AtomicU64,
}

/// Appends until the load is over; repeats what is not known with the same command.
async fn produce(
    store: Arc<PgStore>,
    log: LogId,
    producer: usize,
    load: Arc<Load>,
) -> BTreeMap<u64, String> {
    let mut acked = BTreeMap::new();
    let name = format!("agent/{producer}");
    for n in 0.. {
        if load.is_over.load(Ordering::SeqCst) {
            break;
        }
        let text = format!("{producer}.{n}");
        let twice = append(&[(&name, &text), ("agent/all", &text)]);
        let range = loop {
            match store.append(log, twice.clone()).await {
                Ok(appended) => break appended.range(),
                Err(AppendError::Unknown) => load.unknown.fetch_add(1, Ordering::SeqCst),
                Err(error) if error.is_retryable() => load.refused.fetch_add(1, Ordering::SeqCst),
                Err(other) => panic!("{other:?}"),
            };
            // As a caller does; the database is starting.
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        assert_eq!(range.last, range.first + 1);
        load.acked.fetch_add(1, Ordering::SeqCst);
        acked.insert(range.first, text);
    }
    acked
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acked_is_lost_when_the_database_is_killed() {
    let kills = std::env::var(KILLS).map_or(4, |kills| kills.parse().unwrap());
    let cluster = Arc::new(spawn_blocking(Cluster::start).await.unwrap().unwrap());
    let url = cluster.database().unwrap();
    let stores = [replica(&url).await, replica(&url).await];
    let log = opened(&*stores[0]).await;
    let load = Arc::new(Load {
        is_over: AtomicBool::new(false),
        acked: AtomicU64::new(0),
        unknown: AtomicU64::new(0),
        refused: AtomicU64::new(0),
    });
    let producers: Vec<_> = (0..8)
        .map(|n| tokio::spawn(produce(stores[n % 2].clone(), log, n, load.clone())))
        .collect();
    for kill in 0..kills {
        let enough = load.acked.load(Ordering::SeqCst) + 40 + 13 * kill;
        within(async {
            while load.acked.load(Ordering::SeqCst) < enough {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        let cluster = cluster.clone();
        let killing = move || {
            if kill % 2 == 0 {
                cluster.kill().unwrap();
            } else {
                cluster.stop_immediately().unwrap();
            }
            cluster.start_again().unwrap();
        };
        spawn_blocking(killing).await.unwrap();
    }
    // It goes on after the last one too, by itself.
    let enough = load.acked.load(Ordering::SeqCst) + 40;
    within(async {
        while load.acked.load(Ordering::SeqCst) < enough {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    load.is_over.store(true, Ordering::SeqCst);
    let mut acked = BTreeMap::new();
    for producer in producers {
        for (pos, text) in within(producer).await.unwrap() {
            let before = acked.insert(pos, text);
            assert_eq!(before, None, "position {pos} was given out twice");
        }
    }
    let failed = load.unknown.load(Ordering::SeqCst) + load.refused.load(Ordering::SeqCst);
    assert!(failed > 0, "nobody noticed that the database was killed");
    // One that is not under load, and has seen none of it.
    let store = replica(&url).await;
    let events = verified(&*store, log).await;
    assert_eq!(
        events.len(),
        acked.len() * 2,
        "something is there twice, or is not"
    );
    for (pos, text) in &acked {
        let index = usize::try_from(*pos).unwrap() - 1;
        for event in &events[index..index + 2] {
            assert_eq!(text_of(event).as_ref(), Some(text), "at {pos}");
        }
    }
    for store in &stores {
        // The listener may find out a moment after the last producer did.
        let noticed = async {
            while store.health().failed_polls == 0 && store.health().listener_losses == 0 {
                tokio::task::yield_now().await;
            }
        };
        within(noticed).await;
    }
}

/// Holds the head of a log, as a replica that hangs does.
async fn held(url: &str, log: LogId) -> PgConnection {
    let mut conn = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql("BEGIN").execute(&mut conn).await.unwrap();
    sqlx::query("SELECT 1 FROM cocoonbox.log WHERE log_id = $1 FOR UPDATE")
        .bind(log.0)
        .execute(&mut conn)
        .await
        .unwrap();
    conn
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_for_a_lock_has_an_end() {
    let url = fresh();
    let store = replica(&url).await;
    let (log, other) = (opened(&*store).await, opened(&*store).await);
    let holder = held(&url, log).await;
    let started = Instant::now();
    let once = append(&[("agent/a", "1")]);
    let waiting = {
        let (store, once) = (store.clone(), once.clone());
        tokio::spawn(async move { store.append(log, once).await })
    };
    // Other logs go on meanwhile.
    committed(store.append(other, append(&[("agent/a", "1")])).await);
    let refused = within(waiting).await.unwrap();
    assert!(
        matches!(refused, Err(AppendError::Overloaded)),
        "{refused:?}"
    );
    assert!(started.elapsed() < Duration::from_secs(15));
    drop(holder);
    assert_eq!(committed(store.append(log, once).await).first, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_refuses_at_once() {
    let url = fresh();
    let store = replica(&url).await;
    let log = opened(&*store).await;
    let mut holder = Some(held(&url, log).await);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..5_000 {
        let store = store.clone();
        tasks.spawn(async move { store.append(log, append(&[("agent/a", "x")])).await });
    }
    let (mut acked, mut overloaded) = (0, 0);
    while let Some(task) = tasks.join_next().await {
        match task.unwrap() {
            Ok(_) => acked += 1,
            Err(AppendError::Overloaded) => overloaded += 1,
            Err(other) => panic!("{other:?}"),
        }
        // Only a full queue answers while the head is held.
        if let Some(holder) = holder.take() {
            assert_eq!((acked, overloaded), (0, 1));
            holder.close().await.unwrap();
        }
    }
    assert!(acked >= 4_096, "{acked}");
    assert!(overloaded > 0);
    assert_eq!(verified(&*store, log).await.len(), acked);
}

#[tokio::test]
async fn rejections_in_a_batch_leave_the_rest() {
    let url = fresh();
    let store = replica(&url).await;
    let log = opened(&*store).await;
    let holder = held(&url, log).await;
    let first = expecting(append(&[("agent/a", "1")]), &[("agent/a", Expect::Absent)]);
    let after = |text, seq| {
        let expect = [("agent/a", Expect::Exactly(seq))];
        expecting(append(&[("agent/a", text)]), &expect)
    };
    let mut reused = append(&[("agent/a", "no")]);
    (reused.command, reused.digest) = (first.command, [7; 32]);
    // The first one waits for the head alone; the others are one batch behind it.
    let work = [
        append(&[("agent/z", "0")]),
        first.clone(),
        after("2", 1),
        after("no", 1),
        first,
        reused,
        append(&[("agent/b", "3")]),
    ];
    let tasks: Vec<_> = work
        .into_iter()
        .map(|work| {
            let store = store.clone();
            tokio::spawn(async move { store.append(log, work).await })
        })
        .collect();
    tokio::task::yield_now().await;
    holder.close().await.unwrap();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(within(task).await.unwrap());
    }
    let positions: Vec<_> = answers
        .iter()
        .map(|answer| answer.as_ref().ok().map(|answer| answer.range().first))
        .collect();
    let expected = [Some(1), Some(2), Some(3), None, Some(2), None, Some(4)];
    assert_eq!(positions, expected);
    assert!(matches!(
        answers[3],
        Err(AppendError::Conflict { actual: 2, .. })
    ));
    assert!(matches!(answers[4], Ok(Appended::Replayed(_))));
    assert!(matches!(answers[5], Err(AppendError::CommandReused)));
    assert_eq!(verified(&*store, log).await.len(), 4);
}

#[tokio::test]
async fn positions_that_were_acked_are_not_given_out_again() {
    let url = fresh();
    let store = replica(&url).await;
    let log = opened(&*store).await;
    let range = committed(store.append(log, append(&[("agent/a", "1")])).await);
    committed(store.append(log, append(&[("agent/a", "2")])).await);
    // As after a backup was put back, or a standby that lagged behind was promoted.
    let sql = format!(
        "ALTER TABLE cocoonbox.event DISABLE TRIGGER ALL; ALTER TABLE cocoonbox.log DISABLE TRIGGER ALL;
         DELETE FROM cocoonbox.event WHERE pos = 2; DELETE FROM cocoonbox.command WHERE first_pos = 2;
         UPDATE cocoonbox.stream SET head_seq = 1;
         UPDATE cocoonbox.log SET tail = 1, chain = '\\x{}'",
        range.chain
    );
    cocoonbox_postgres::shared().run_sql(&url, &sql).unwrap();
    let refused = store.append(log, append(&[("agent/a", "3")])).await;
    assert!(matches!(refused, Err(AppendError::Stopped)), "{refused:?}");
    // Other logs are not concerned.
    let other = opened(&*store).await;
    committed(store.append(other, append(&[("agent/a", "1")])).await);
}

#[tokio::test]
async fn a_database_that_is_not_there_says_so() {
    let url = cocoonbox_postgres::shared().url_as("x/no_such_database", "postgres");
    let refused = Database::connect(&options(&url)).await;
    assert!(matches!(refused, Err(OpenError::Connect(_))), "{refused:?}");
    let refused = Database::connect(&options("nonsense")).await;
    assert!(matches!(refused, Err(OpenError::Url(_))), "{refused:?}");
}

#[tokio::test]
async fn closing_writes_what_is_queued() {
    let url = fresh();
    let store = replica(&url).await;
    let log = opened(&*store).await;
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.append(log, append(&[("agent/a", "x")])).await })
        })
        .collect();
    tokio::task::yield_now().await;
    within(store.close()).await;
    for task in tasks {
        committed(task.await.unwrap());
    }
    let refused = store.append(log, append(&[("agent/a", "x")])).await;
    assert!(matches!(refused, Err(AppendError::Stopped)));
    assert_eq!(verified(&*store, log).await.len(), 50);
}
