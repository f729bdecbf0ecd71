//! A `log.db` on disk that somebody wrote to with other tools.

use std::{path::Path, sync::Arc, time::Duration};

use cocoonbox_events::{
    Append, CommandId, LogKind, NewLog, NoKeys, SqliteStore, Store, SystemClock, SystemIds,
    limits::PAGE_EVENTS_MAX,
};
use cocoonbox_proto::log::v1::Actor;
use cocoonbox_replay::{
    Against, AllReport, By, Diff, VerifyReport, diff, rerun, verify, verify_all, verify_all_against,
};
use tempfile::TempDir;

use crate::world::{World, account, box_log, stream, system};

/// Copies the whole world into a file and closes it.
async fn on_disk(world: &World) -> TempDir {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("log.db");
    let ids = Arc::new(SystemIds);
    let store = SqliteStore::open(path, Arc::new(NoKeys), Arc::new(SystemClock), ids).unwrap();
    let logs = [
        (system(), LogKind::System, ""),
        (account(), LogKind::Account, "u1"),
        (box_log(), LogKind::Box, "u1"),
    ];
    for (id, kind, owner) in logs {
        store
            .open(NewLog {
                id,
                kind,
                owner: owner.into(),
                parent: None,
            })
            .await
            .unwrap();
        let events = world
            .store
            .read(id, 0, PAGE_EVENTS_MAX)
            .await
            .unwrap()
            .events;
        store.replicate(id, events).await.unwrap();
    }
    store.close().await;
    folder
}

fn read_only(folder: &TempDir) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open_read_only(folder.path().join("log.db"), Arc::new(NoKeys)).unwrap())
}

#[tokio::test]
async fn a_command_without_events_is_where_the_log_was() {
    let folder = on_disk(&World::whole().await).await;
    let path = folder.path().join("log.db");
    let ids = Arc::new(SystemIds);
    let store = SqliteStore::open(path, Arc::new(NoKeys), Arc::new(SystemClock), ids).unwrap();
    let nothing = Append {
        command: CommandId::derive(b"test", "nothing"),
        digest: [0; 32],
        expect: Vec::new(),
        events: Vec::new(),
        actor: Actor::default(),
        cause: None,
    };
    store.append(account(), nothing).await.unwrap();
    store.close().await;
    let findings = |report: &VerifyReport| format!("{:?}", report.findings);
    let whole = verify(&read_only(&folder), account()).await.unwrap();
    assert!(!findings(&whole).contains("command"), "{whole:?}");

    let moved =
        "UPDATE command SET first_pos = 100001, last_pos = 100000 WHERE last_pos < first_pos";
    assert_eq!(meddle(folder.path(), moved), 1);
    let found = verify(&read_only(&folder), account()).await.unwrap();
    let found = findings(&found);
    assert!(found.contains("without effect at 100000"), "{found}");
}

#[tokio::test]
async fn a_damaged_index_is_damage_of_the_file() {
    let folder = on_disk(&World::whole().await).await;
    let path = folder.path().join("log.db");
    let file = rusqlite::Connection::open(&path).unwrap();
    let number = |sql: &str| {
        let number: i64 = file.query_row(sql, [], |row| row.get(0)).unwrap();
        usize::try_from(number).unwrap()
    };
    let root = number("SELECT rootpage FROM sqlite_schema WHERE name = 'event_stream'");
    let page = number("PRAGMA page_size");
    drop(file);
    // The last byte of the page belongs to the entry that was made first.
    let mut bytes = std::fs::read(&path).unwrap();
    let at = root * page - 1;
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();

    let store = read_only(&folder);
    let quick = verify_all(&store).await.unwrap();
    let is_told = |report: &AllReport| {
        let mut all = report.findings.iter();
        all.any(|finding| finding.what.contains("file is damaged"))
    };
    assert!(!is_told(&quick), "{quick:?}");
    let against = |seconds| Against {
        file: Some(Duration::from_secs(seconds)),
        ..Against::default()
    };
    let thorough = verify_all_against(&store, &against(60)).await.unwrap();
    assert!(is_told(&thorough) && !thorough.is_file_cut, "{thorough:?}");
}

/// Runs SQL with the guards taken off.
fn meddle(folder: &Path, sql: &str) -> usize {
    let file = rusqlite::Connection::open(folder.join("log.db")).unwrap();
    file.execute_batch("DROP TRIGGER event_is_final; DROP TRIGGER event_is_kept;")
        .unwrap();
    let of_box = "SELECT event_no FROM event JOIN stream USING (stream_id) JOIN log USING (log_no)
                  WHERE log_id = x'03030303030303030303030303030303' ORDER BY event_no";
    let changed = file.execute(&sql.replace("$BOX", of_box), []).unwrap();
    let guards = "CREATE TRIGGER event_is_kept BEFORE DELETE ON event BEGIN SELECT 1; END;
                  CREATE TRIGGER event_is_final BEFORE UPDATE ON event BEGIN SELECT 1; END;";
    file.execute_batch(guards).unwrap();
    changed
}

async fn after(sql: &str) -> VerifyReport {
    let world = World::whole().await;
    let folder = on_disk(&world).await;
    assert_eq!(meddle(folder.path(), sql), 1);
    verify(&read_only(&folder), box_log()).await.unwrap()
}

#[tokio::test]
async fn a_copied_file_answers_as_the_store_did() {
    let world = World::whole().await;
    let folder = on_disk(&world).await;
    let store = read_only(&folder);
    let report = verify_all(&store).await.unwrap();
    assert!(report.is_good(), "{report:?}");
    let events = world.store.tail(box_log()).unwrap().pos;
    let same = diff((&world.store, box_log()), (&store, box_log()), By::Bytes)
        .await
        .unwrap();
    assert_eq!(same, Diff::Same { events });
    assert!(
        rerun(&store, box_log(), &stream("agent/main"))
            .await
            .unwrap()
            .is_same()
    );
}

#[tokio::test]
async fn a_payload_that_was_changed_on_disk() {
    let report = after(
        "UPDATE event SET body = CAST(substr(body, 1, length(body) - 1) || x'58' AS BLOB)
         WHERE event_no = ($BOX LIMIT 1 OFFSET 2)",
    )
    .await;
    let found = report.first_break.unwrap();
    assert_eq!((found.pos, report.events), (3, 2), "{}", found.what);
}

#[tokio::test]
async fn a_time_that_was_changed_on_disk() {
    let report = after(
        "UPDATE event SET recorded_us = recorded_us + 1 WHERE event_no = ($BOX LIMIT 1 OFFSET 4)",
    )
    .await;
    assert_eq!(report.first_break.unwrap().pos, 5);
}

#[tokio::test]
async fn an_event_that_was_deleted_on_disk() {
    let report = after("DELETE FROM event WHERE event_no = ($BOX LIMIT 1 OFFSET 6)").await;
    assert_eq!(report.first_break.unwrap().pos, 7);
}

#[tokio::test]
async fn a_link_of_the_wrong_length_on_disk() {
    let report =
        after("UPDATE event SET chain = x'00' WHERE event_no = ($BOX LIMIT 1 OFFSET 3)").await;
    let found = report.first_break.unwrap();
    assert_eq!(found.pos, 4, "{}", found.what);
}
