//! What is kept beside the events, shown to whoever checks it.

use cocoonbox_events::{
    Store as _,
    tables::{CommandRow, Readable, StreamRow},
};

use crate::support::{append, committed, fresh, opened, replica};

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_shown_as_they_lie() {
    let url = fresh();
    let store = replica(&url).await;
    let log = opened(&*store).await;
    let (first, second) = (
        append(&[("b/1", "a"), ("a/1", "b")]),
        append(&[("b/1", "c")]),
    );
    let ids = [first.command, second.command];
    committed(store.append(log, first).await);
    committed(store.append(log, second).await);
    let tables = store.tables().unwrap();
    let row = |stream: &str, seq| StreamRow {
        stream: stream.into(),
        seq,
        pos: None,
    };
    let streams = tables.streams(log, "", 10).await.unwrap();
    assert_eq!(streams, [row("a/1", 1), row("b/1", 2)]);
    assert_eq!(tables.streams(log, "a/1", 10).await.unwrap(), streams[1..]);
    let command = |at: usize, first, last| CommandRow {
        command: ids[at],
        first,
        last,
    };
    let commands = tables.commands(log, None, 10).await.unwrap();
    assert_eq!(commands, [command(0, 1, 2), command(1, 3, 3)]);
    let behind = tables.commands(log, Some(ids[0]), 10).await.unwrap();
    assert_eq!(behind, commands[1..]);
    assert_eq!(tables.readable(log).await.unwrap(), Readable::Yes);
    assert!(tables.strays(10).await.unwrap().is_empty());

    let meddle = "UPDATE cocoonbox.stream SET head_seq = 9 WHERE name = 'a/1';
                  INSERT INTO cocoonbox.stream VALUES (gen_random_uuid(), 1, 'c/1', 1);
                  INSERT INTO cocoonbox.event SELECT log_id, 99, stream_id, 99, kind, version, recorded_us,
                    header, body, payload_hash, chain FROM cocoonbox.event WHERE pos = 1;
                  INSERT INTO cocoonbox.command VALUES
                    (gen_random_uuid(), gen_random_uuid(), NULL, 1, 1);";
    cocoonbox_postgres::shared().run_sql(&url, meddle).unwrap();
    assert_eq!(tables.streams(log, "", 1).await.unwrap(), [row("a/1", 9)]);
    let strays = tables.strays(10).await.unwrap();
    let strays: Vec<_> = strays.iter().map(|stray| stray.table).collect();
    assert_eq!(strays, ["event", "stream", "command"]);
    assert_eq!(tables.strays(2).await.unwrap().len(), 2);
}
