//! A data directory, read while another store has it open.

mod looking;
mod moving;
mod recorded;

use std::{path::Path, sync::Arc};

use cocoonbox_events::{
    AgentEvent, Append, BoxEvent, CommandId, DirectoryEvent, Expect, Ids, KeyStore, LogId, LogKind,
    NewEvent, NewLog, Payload, SqliteStore, Store, StreamName, SystemClock, SystemIds,
};
use cocoonbox_proto::log::v1::{Actor, AgentPromptReceived, BoxCreated, DirectoryUserAdded, actor};

use crate::program::Program;

struct Writer(SqliteStore);

impl Writer {
    fn open(data: &Path) -> Self {
        std::fs::create_dir_all(data).unwrap();
        let keys = Arc::new(KeyStore::open(data).unwrap());
        let (clock, ids) = (Arc::new(SystemClock), Arc::new(SystemIds));
        Self(SqliteStore::open(data.join("log.db"), keys, clock, ids).unwrap())
    }

    async fn log(&self, kind: LogKind, owner: &str) -> LogId {
        let id = LogId(SystemIds.draw());
        self.0
            .open(NewLog {
                id,
                kind,
                owner: owner.to_owned(),
                parent: None,
            })
            .await
            .unwrap();
        id
    }

    async fn put(&self, log: LogId, stream: &str, payload: impl Into<Payload>) {
        let stream = StreamName::new(stream).unwrap();
        let append = Append {
            command: CommandId(SystemIds.draw()),
            digest: [0; 32],
            expect: vec![(stream.clone(), Expect::Any)],
            events: vec![NewEvent {
                stream,
                payload: payload.into(),
            }],
            actor: Actor {
                kind: actor::Kind::User.into(),
                id: "u1".into(),
            },
            cause: None,
        };
        self.0.append(log, append).await.unwrap();
    }
}

/// A user with a box in which something was said.
async fn story(writer: &Writer) -> LogId {
    let system = writer.log(LogKind::System, "").await;
    let account = writer.log(LogKind::Account, "u1").await;
    let box_log = writer.log(LogKind::Box, "u1").await;
    let user = DirectoryUserAdded {
        user_id: "u1".into(),
        name: "ann".into(),
        account_log: account.as_bytes().to_vec(),
        admin: true,
    };
    writer
        .put(system, "directory", DirectoryEvent::UserAdded(user))
        .await;
    let created = BoxCreated {
        box_id: "b1".into(),
        name: "main".into(),
        box_log: box_log.as_bytes().to_vec(),
        user_id: "u1".into(),
        flavor: 1,
        ..BoxCreated::default()
    };
    writer
        .put(account, "box/b1", BoxEvent::Created(created))
        .await;
    for n in 1..=3 {
        let prompt = AgentPromptReceived {
            prompt_id: format!("p{n}"),
            text: format!("task {n}"),
            ..AgentPromptReceived::default()
        };
        writer
            .put(box_log, "note/x", AgentEvent::PromptReceived(prompt))
            .await;
    }
    box_log
}

#[tokio::test]
async fn logs_have_names_and_answer_without_an_api() {
    let program = Program::new("http://127.0.0.1:9");
    let data = program.home.path().join(".local/share/cocoonbox");
    let writer = Writer::open(&data);
    let box_log = story(&writer).await;

    let run = program.run(&["-q", "replay", "verify"]).await;
    assert_eq!(run.code, 0, "{}{}", run.text(), run.stderr);
    let text = run.text();
    assert!(
        text.contains("account:ann: 1 events in 1 streams, whole"),
        "{text}"
    );
    assert!(
        text.contains("box:main: 3 events in 1 streams, whole"),
        "{text}"
    );
    assert!(
        text.contains("good: 3 logs, 2 streams folded, 0 anchors"),
        "{text}"
    );

    for name in ["box:main", "box:b1", &box_log.to_string()] {
        let args = [
            "replay", "show", "--log", name, "--text", "TASK 2", "--json",
        ];
        let event: serde_json::Value =
            serde_json::from_str(&program.run(&args).await.text()).unwrap();
        assert_eq!(
            (&event["pos"], &event["payload"]["prompt_id"]),
            (&2.into(), &"p2".into())
        );
    }
    let run = program
        .run(&[
            "replay", "show", "--log", "box:main", "--after", "1", "--limit", "1",
        ])
        .await;
    assert!(run.text().contains("\"p2\""), "{}", run.text());

    let run = program
        .run(&["replay", "state", "--stream", "box/b1", "--json"])
        .await;
    let state: serde_json::Value = serde_json::from_str(&run.text()).unwrap();
    assert_eq!(state["stream"], "box/b1");
    assert_eq!(
        program
            .run(&["replay", "state", "--stream", "box/b2"])
            .await
            .code,
        3
    );

    let run = program
        .run(&["replay", "diff", "box:main", "account:ann"])
        .await;
    assert_eq!(run.code, 1);
    assert!(run.text().starts_with("they part at 1\n"), "{}", run.text());
    assert_eq!(
        program
            .run(&["replay", "diff", "box:main", "box:b1"])
            .await
            .code,
        0
    );

    let run = program.run(&["replay", "show", "--log", "box:nope"]).await;
    assert_eq!(run.code, 3);
    insta::assert_snapshot!(run.stderr, @"
    error: no log is called `box:nope`
      there are: account:ann, box:main, system
    ");
}

#[tokio::test]
async fn a_folder_without_a_log_is_said() {
    let program = Program::new("http://127.0.0.1:9");
    let nowhere = program.home.path().join("nowhere").display().to_string();
    let run = program
        .run(&["replay", "verify", "--data-dir", &nowhere])
        .await;
    assert_eq!(run.code, 3);
    insta::assert_snapshot!(run.stderr.replace(&nowhere, "~"), @"
    error: there is no log in `~`
      --data-dir or COCOONBOX_DATA_DIR names the data directory of an api, --from anything else
    ");
}
