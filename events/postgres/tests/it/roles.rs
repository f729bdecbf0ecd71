//! Who may do what.

use cocoonbox_events::{AppendError, NoKeys, Store, SystemClock, SystemIds};
use cocoonbox_events_postgres::{Database, OpenError, Options, PgStore, Roles, migrate};
use std::sync::{Arc, Once};
use zeroize::Zeroizing;

use crate::support::{append, committed, fresh, new_log, opened, options, text_of, verified};

const OWNER: &str = "log_owner";
const WRITER: &str = "log \"writer\"";
const READER: &str = "log_reader";

/// Roles as the README has an operator make them.
fn roles() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let cluster = cocoonbox_postgres::shared();
        let url = cluster.database().unwrap();
        let sql = "CREATE ROLE log_owner LOGIN; CREATE ROLE \"log \"\"writer\"\"\" LOGIN;
                   CREATE ROLE log_reader LOGIN;";
        cluster.run_sql(&url, sql).unwrap();
    });
}

fn url_as(url: &str, role: &str) -> String {
    let role = role.replace(' ', "%20").replace('"', "%22");
    cocoonbox_postgres::shared().url_as(url, &role)
}

/// An empty database that belongs to the owner.
fn owned() -> String {
    roles();
    let cluster = cocoonbox_postgres::shared();
    let url = cluster.database().unwrap();
    let name = url.rsplit('/').next().unwrap();
    let sql = format!("ALTER DATABASE {name} OWNER TO {OWNER}");
    cluster.run_sql(&url, &sql).unwrap();
    url
}

async fn open(options: &Options) -> PgStore {
    let database = Database::connect(options).await.unwrap();
    let clock = Arc::new(SystemClock);
    PgStore::open(&database, Arc::new(NoKeys), clock, Arc::new(SystemIds))
        .await
        .unwrap()
}

/// Runs SQL as a role and returns what it says.
fn as_role(url: &str, role: &str, sql: &str) -> Result<String, String> {
    let quoted = role.replace('"', "\"\"");
    let sql = format!("SET ROLE \"{quoted}\"; {sql}");
    let ran = cocoonbox_postgres::shared().run_sql(url, &sql);
    ran.map_err(|error| error.to_string())
}

const CHANGES: &[&str] = &[
    "DELETE FROM cocoonbox.event",
    "TRUNCATE cocoonbox.event",
    "UPDATE cocoonbox.event SET body = '\\x00'",
    "UPDATE cocoonbox.event SET body = NULL, kind = kind + 1",
    "UPDATE cocoonbox.event SET body = NULL, version = 2",
    "UPDATE cocoonbox.event SET body = NULL, header = ''",
    "UPDATE cocoonbox.event SET body = NULL, chain = '\\x00'",
    "UPDATE cocoonbox.event SET body = NULL, seq = seq + 10",
    "UPDATE cocoonbox.event SET body = NULL, pos = pos + 10",
    "UPDATE cocoonbox.event SET body = NULL, recorded_us = 0",
    "UPDATE cocoonbox.event SET body = NULL, payload_hash = '\\x00'",
    "UPDATE cocoonbox.event SET body = NULL, stream_id = 9",
    "UPDATE cocoonbox.event SET body = NULL, log_id = gen_random_uuid()",
    "DELETE FROM cocoonbox.log",
    "UPDATE cocoonbox.log SET tail = tail - 1",
    "UPDATE cocoonbox.log SET chain = '\\x00'",
    "UPDATE cocoonbox.log SET owner = 'eve'",
    "UPDATE cocoonbox.command SET digest = '\\x00'",
    "UPDATE cocoonbox.command SET last_pos = last_pos - 1",
    "UPDATE cocoonbox.command SET digest = NULL, command_id = gen_random_uuid()",
];

#[tokio::test]
async fn no_role_changes_or_deletes_an_event() {
    let url = owned();
    let writer = Options {
        owner_url: Some(Zeroizing::new(url_as(&url, OWNER))),
        ..options(&url_as(&url, WRITER))
    };
    let store = open(&writer).await;
    let log = opened(&store).await;
    let told = append(&[("agent/a", "1"), ("agent/a", "2")]);
    let command = told.command;
    committed(store.append(log, told).await);
    let before = verified(&store, log).await;
    for sql in CHANGES {
        for role in [WRITER, OWNER] {
            let refused = as_role(&url, role, sql);
            assert!(refused.is_err(), "{role}: {sql}");
        }
    }
    // The writer does not even have the right: it is not only the trigger, which an owner can drop.
    for sql in &CHANGES[..2] {
        let refused = as_role(&url, WRITER, sql).unwrap_err();
        assert!(refused.contains("permission denied"), "{refused}");
    }
    for sql in [
        "UPDATE cocoonbox.event SET header = ''",
        "DROP TRIGGER event_is_final ON cocoonbox.event",
        "ALTER TABLE cocoonbox.event DISABLE TRIGGER ALL",
        "SET session_replication_role = replica",
        "DELETE FROM cocoonbox.command",
        "DELETE FROM cocoonbox.checkpoint",
        "CREATE TABLE cocoonbox.mine (a int)",
    ] {
        let refused = as_role(&url, WRITER, sql).unwrap_err();
        let is_denied = refused.contains("denied") || refused.contains("must be owner");
        assert!(is_denied, "{sql}: {refused}");
    }
    assert_eq!(verified(&store, log).await, before);
    store.erase(log, &[1]).await.unwrap();
    let texts: Vec<_> = verified(&store, log).await.iter().map(text_of).collect();
    assert_eq!(texts, [None, Some("2".into())]);
    let happened = store.happened(log, command).await.unwrap().unwrap();
    assert_eq!(happened.digest, None);
}

/// A writer of before the step that lets it erase digests has the right after it, without being named again.
#[tokio::test]
async fn a_writer_of_an_older_build_may_erase_digests() {
    let url = owned();
    let cluster = cocoonbox_postgres::shared();
    let roles = Roles {
        writer: Some(WRITER.into()),
        reader: None,
    };
    migrate(&url_as(&url, OWNER), &roles).await.unwrap();
    let back = "DROP TRIGGER command_is_final ON cocoonbox.command;
                REVOKE UPDATE (digest) ON cocoonbox.command FROM \"log \"\"writer\"\"\";
                ALTER TABLE cocoonbox.token DROP COLUMN sealed;
                DELETE FROM cocoonbox.migration WHERE version >= 2";
    cluster.run_sql(&url, back).unwrap();
    let erase = "UPDATE cocoonbox.command SET digest = NULL";
    let refused = as_role(&url, WRITER, erase).unwrap_err();
    assert!(refused.contains("permission denied"), "{refused}");
    migrate(&url_as(&url, OWNER), &Roles::default())
        .await
        .unwrap();
    as_role(&url, WRITER, erase).unwrap();
}

#[tokio::test]
async fn a_reader_reads_and_nothing_else() {
    let url = owned();
    let roles = Roles {
        writer: Some(WRITER.into()),
        reader: Some(READER.into()),
    };
    // Twice: nothing changes.
    for _ in 0..2 {
        migrate(&url_as(&url, OWNER), &roles).await.unwrap();
    }
    let writer = open(&options(&url_as(&url, WRITER))).await;
    let log = opened(&writer).await;
    committed(writer.append(log, append(&[("agent/a", "1")])).await);
    let reader = open(&options(&url_as(&url, READER))).await;
    assert_eq!(verified(&reader, log).await, verified(&writer, log).await);
    let refused = reader.append(log, append(&[("agent/a", "2")])).await;
    assert!(matches!(refused, Err(AppendError::Stopped)), "{refused:?}");
    let refused = reader.open(new_log()).await;
    assert!(matches!(refused, Err(AppendError::Stopped)), "{refused:?}");
    let refused = reader.erase(log, &[1]).await;
    assert!(refused.is_err());
    let refused = as_role(&url, READER, "SELECT * FROM cocoonbox.token").unwrap_err();
    assert!(refused.contains("permission denied"), "{refused}");
    assert_eq!(verified(&writer, log).await.len(), 1);
}

#[tokio::test]
async fn one_role_is_enough_for_a_small_installation() {
    let url = owned();
    let store = open(&options(&url_as(&url, OWNER))).await;
    let log = opened(&store).await;
    committed(store.append(log, append(&[("agent/a", "1")])).await);
    // A second start finds the tables.
    let store = open(&options(&url_as(&url, OWNER))).await;
    assert_eq!(verified(&store, log).await.len(), 1);
}

#[tokio::test]
async fn who_only_reads_neither_migrates_nor_writes() {
    let url = owned();
    let reading = Options {
        read_only: true,
        ..options(&url_as(&url, OWNER))
    };
    let refused = Database::connect(&reading).await;
    let is_it = matches!(refused, Err(OpenError::NotMigrated { found: 0, .. }));
    assert!(is_it, "{refused:?}");
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname = 'cocoonbox'";
    let found = cocoonbox_postgres::shared().run_sql(&url, schemas).unwrap();
    assert_eq!(found.trim(), "0");

    let store = open(&options(&url_as(&url, OWNER))).await;
    let log = opened(&store).await;
    committed(store.append(log, append(&[("agent/a", "1")])).await);
    let reader = open(&reading).await;
    assert_eq!(verified(&reader, log).await.len(), 1);
    let refused = reader.append(log, append(&[("agent/a", "2")])).await;
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(verified(&store, log).await.len(), 1);
}

#[tokio::test]
async fn several_replicas_migrate_at_once() {
    let url = owned();
    let starts = (0..6).map(|_| {
        let options = options(&url_as(&url, OWNER));
        tokio::spawn(async move { Database::connect(&options).await.map(drop) })
    });
    for start in starts.collect::<Vec<_>>() {
        start.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn tables_of_another_version_are_refused() {
    let url = owned();
    let refused = Database::connect(&options(&url_as(&url, WRITER))).await;
    let is_it = matches!(refused, Err(OpenError::NotMigrated { found: 0, .. }));
    assert!(is_it, "{refused:?}");
    let url = fresh();
    let newer = "INSERT INTO cocoonbox.migration VALUES (99, 'later', now())";
    cocoonbox_postgres::shared().run_sql(&url, newer).unwrap();
    let refused = Database::connect(&options(&url)).await;
    let is_it = matches!(refused, Err(OpenError::NewerTables { found: 99, .. }));
    assert!(is_it, "{refused:?}");
}

#[tokio::test]
async fn commits_wait_for_the_disk_whatever_the_role_says() {
    let url = owned();
    let name = url.rsplit('/').next().unwrap();
    let sql = format!("ALTER DATABASE {name} SET synchronous_commit = off");
    cocoonbox_postgres::shared().run_sql(&url, &sql).unwrap();
    // Opening checks what its sessions have, so it would fail.
    let store = open(&options(&url_as(&url, OWNER))).await;
    let log = opened(&store).await;
    committed(store.append(log, append(&[("agent/a", "1")])).await);
    let sql =
        "SELECT count(*) FROM pg_settings WHERE name = 'synchronous_commit' AND setting = 'off'";
    let off = cocoonbox_postgres::shared().run_sql(&url, sql).unwrap();
    assert_eq!(
        off.trim(),
        "1",
        "the database's own setting stays what it was"
    );
}
