//! A capsule from the shell: no api, no token, only a store and a key.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::program::{Program, Run};

struct Shelf {
    program: Program,
    home: PathBuf,
}

impl Shelf {
    fn new() -> Self {
        let program = Program::new("http://127.0.0.1:1").without_token();
        let home = program.home.path().join("work");
        fs::create_dir_all(home.join("docs")).unwrap();
        fs::write(home.join("docs/note"), "one\n").unwrap();
        fs::write(home.join("long"), "a line\n".repeat(9000)).unwrap();
        Self { program, home }
    }

    async fn run(&self, words: &[&str]) -> Run {
        let root = self.program.home.path();
        let store = format!("file://{}", root.join("store").display());
        let key = root.join("key");
        let mut all = vec!["capsule", words[0], "--store", &store];
        all.extend(["--key-file", key.to_str().unwrap()]);
        all.extend(&words[1..]);
        self.program.run(&all).await
    }

    async fn good(&self, words: &[&str]) -> Run {
        let run = self.run(words).await;
        assert_eq!(run.code, 0, "{words:?}: {} {}", run.text(), run.stderr);
        run
    }

    async fn json(&self, words: &[&str]) -> Value {
        let mut words = words.to_vec();
        words.push("--json");
        serde_json::from_slice(&self.good(&words).await.stdout).unwrap()
    }

    fn path(&self, name: &str) -> String {
        self.home.join(name).to_str().unwrap().to_owned()
    }
}

#[tokio::test]
async fn files_go_in_and_come_back() {
    let shelf = Shelf::new();
    let made = shelf.good(&["init"]).await;
    assert!(made.stderr.contains("keep a copy"), "{}", made.stderr);
    let key = fs::metadata(shelf.program.home.path().join("key")).unwrap();
    assert_eq!(key.permissions().mode() & 0o777, 0o600);

    let first = shelf.json(&["save", &shelf.path("")]).await;
    assert_eq!((&first["files"], &first["skipped"]), (&2.into(), &0.into()));
    fs::write(shelf.home.join("docs/note"), "two\n").unwrap();
    fs::write(shelf.home.join("docs/new"), "new\n").unwrap();
    shelf.good(&["save", &shelf.path("")]).await;

    let listed = shelf.good(&["ls", &shelf.path("docs")]).await.text();
    assert!(
        listed.contains(" new\n") && listed.contains(" note\n"),
        "{listed}"
    );
    let first = first["snapshot"].as_str().unwrap();
    assert_eq!(
        shelf.good(&["cat", &shelf.path("docs/note")]).await.stdout,
        b"two\n"
    );
    let before = shelf
        .good(&["cat", "-s", &first[..20], &shelf.path("docs/note")])
        .await;
    assert_eq!(before.stdout, b"one\n");
    let differences = shelf.good(&["diff", first]).await.text();
    let lines: Vec<_> = differences
        .lines()
        .filter(|line| !line.starts_with("m "))
        .collect();
    let expected = [
        format!("+ {}", shelf.path("docs/new")),
        format!("M {}", shelf.path("docs/note")),
    ];
    assert_eq!(lines, expected);

    let target = shelf.program.home.path().join("back");
    let target = target.to_str().unwrap();
    shelf.good(&["restore", "--target", target]).await;
    let back = Path::new(target).join(shelf.home.strip_prefix("/").unwrap());
    assert_eq!(
        fs::read(back.join("long")).unwrap(),
        fs::read(shelf.home.join("long")).unwrap()
    );
    // What is there stays, and the exit code says so.
    fs::write(back.join("docs/note"), "mine\n").unwrap();
    let again = shelf
        .run(&["restore", "--target", target, &shelf.path("docs/note")])
        .await;
    assert_eq!(again.code, 1);
    assert!(
        again.stderr.contains("something is there already"),
        "{}",
        again.stderr
    );
    assert_eq!(fs::read(back.join("docs/note")).unwrap(), b"mine\n");

    let pruned = shelf.json(&["prune", "--keep-last", "1", "--now"]).await;
    assert_eq!(pruned["snapshots_deleted"], 1);
    let checked = shelf.json(&["check", "--read-data"]).await;
    assert_eq!(
        (&checked["good"], &checked["snapshots"]),
        (&true.into(), &1.into())
    );
}

#[tokio::test]
async fn damage_is_an_exit_code_and_named() {
    let shelf = Shelf::new();
    shelf.good(&["init"]).await;
    shelf.good(&["save", &shelf.path("")]).await;
    let data = shelf.program.home.path().join("store/data");
    let pack = fs::read_dir(data).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&pack).unwrap();
    bytes[40] ^= 1;
    fs::write(&pack, bytes).unwrap();
    let checked = shelf.run(&["check", "--read-data"]).await;
    assert_eq!(checked.code, 1);
    let text = checked.text();
    assert!(
        text.contains("its seal is broken") && text.contains(&shelf.path("long")),
        "{text}"
    );
    // Repaired by what is still there.
    assert_eq!(
        shelf.run(&["check", "--read-data", "--repair"]).await.code,
        1
    );
    shelf.good(&["save", &shelf.path("")]).await;
    let read = shelf.good(&["cat", &shelf.path("long")]).await;
    assert_eq!(read.stdout, fs::read(shelf.home.join("long")).unwrap());
}

#[tokio::test]
async fn a_key_that_others_can_read_is_refused() {
    let shelf = Shelf::new();
    shelf.good(&["init"]).await;
    let key = shelf.program.home.path().join("key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let refused = shelf.run(&["snapshots"]).await;
    assert_eq!(refused.code, 4);
    assert!(
        refused.stderr.contains("others may read"),
        "{}",
        refused.stderr
    );
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&key, "0".repeat(64)).unwrap();
    let wrong = shelf.run(&["snapshots"]).await;
    assert_eq!(wrong.code, 4);
    assert!(wrong.stderr.contains("not the one"), "{}", wrong.stderr);
    let nowhere = shelf
        .program
        .run(&[
            "capsule",
            "snapshots",
            "--store",
            "s3://bucket",
            "--key-file",
            "/nowhere",
        ])
        .await;
    assert_ne!(nowhere.code, 0);
}
