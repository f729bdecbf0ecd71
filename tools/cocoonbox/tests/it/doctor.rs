//! Saying what is wrong where no api runs.

use std::{fs, os::unix::fs::PermissionsExt as _, sync::Arc};

use cocoonbox_events::{
    Append, CommandId, Expect, KeyStore, LogId, LogKind, NewEvent, NewLog, SqliteStore, Store,
    StreamName, SystemClock, SystemIds, UserEvent,
};
use cocoonbox_projections::Views;
use cocoonbox_proto::log::v1::{Actor, UserCreated, actor};
use serde_json::Value;
use uuid::Uuid;

use crate::program::Program;

fn codes(found: &Value) -> Vec<&str> {
    let all = found["findings"].as_array().unwrap().iter();
    all.map(|one| one["code"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn an_empty_place_is_no_installation() {
    let program = Program::new("http://127.0.0.1:8799").without_token();
    let run = program.run(&["doctor"]).await;
    assert_eq!(run.code, 1, "{}", run.stderr);
    let text = run.text();
    assert!(
        text.starts_with("wrong  there is no installation in `"),
        "{text}"
    );
    assert!(text.contains("do:  `cocoonbox up` makes one"), "{text}");
    assert!(text.ends_with("something is wrong\n"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_files_of_an_api_that_does_not_run_are_looked_at() {
    let program = Program::new("http://127.0.0.1:8799").without_token();
    let data = program.home.path().join(".local/share/cocoonbox");
    fs::create_dir_all(data.join("run")).unwrap();
    let keys = Arc::new(KeyStore::open(&data).unwrap());
    let store = SqliteStore::open(
        data.join("log.db"),
        keys,
        Arc::new(SystemClock),
        Arc::new(SystemIds),
    )
    .unwrap();
    let log = LogId(Uuid::now_v7());
    let new = NewLog {
        id: log,
        kind: LogKind::Account,
        owner: "u1".to_owned(),
        parent: None,
    };
    store.open(new).await.unwrap();
    let stream = StreamName::new("user/u1").unwrap();
    let append = Append {
        command: CommandId(Uuid::now_v7()),
        digest: [0; 32],
        expect: vec![(stream.clone(), Expect::Any)],
        events: vec![NewEvent {
            stream,
            payload: UserEvent::Created(UserCreated::default()).into(),
        }],
        actor: Actor {
            kind: actor::Kind::Host.into(),
            id: String::new(),
        },
        cause: None,
    };
    store.append(log, append).await.unwrap();
    store.close().await;
    drop(Views::open(&data.join("views.db")).unwrap());
    fs::set_permissions(data.join("views.db"), fs::Permissions::from_mode(0o644)).unwrap();

    let run = program.run(&["doctor", "--json"]).await;
    assert_eq!(run.code, 1, "{}", run.stderr);
    let found: Value = serde_json::from_str(&run.text()).unwrap();
    assert_eq!(
        (&found["healthy"], &found["api"]),
        (&false.into(), &false.into())
    );
    let codes = codes(&found);
    assert!(
        codes.contains(&"API") && codes.contains(&"PRIVATE"),
        "{codes:?}"
    );
    let views = found["views"].as_array().unwrap();
    let names: Vec<&Value> = views.iter().map(|view| &view["name"]).collect();
    assert!(
        names.contains(&&Value::from("boxes")) && names.contains(&&Value::from("audit")),
        "{names:?}"
    );
    assert_eq!(views[0]["lag_events"], 1);
    // Looking changes nothing: no rows were begun.
    let run = program.run(&["doctor", "--rebuild", "audit"]).await;
    assert_eq!(run.code, 5, "{}", run.stderr);
}
