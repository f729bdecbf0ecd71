//! `export`, `import`, copies, `rebuild`, `rerun` and `follow`.

use std::{path::Path, process::Stdio, sync::Arc};

use cocoonbox_events::{Store, SystemClock, SystemIds};
use cocoonbox_events_postgres::{Database, Options, PgKeys, PgStore};
use cocoonbox_replay::{Source, import::import};
use tokio::io::{AsyncBufReadExt, BufReader};

use super::recorded::{Recorded, signer};

fn verify(export: &Path, arguments: &[&str]) -> (i32, String) {
    let folder = if export.is_dir() {
        export
    } else {
        export.parent().unwrap()
    };
    let run = std::process::Command::new("python3")
        .arg(folder.join("verify.py"))
        .arg(export)
        .args(arguments)
        .output()
        .unwrap();
    let text = String::from_utf8(run.stdout).unwrap() + &String::from_utf8(run.stderr).unwrap();
    (run.status.code().unwrap(), text)
}

#[tokio::test]
async fn an_export_is_checked_by_the_verifier_beside_it() {
    let recorded = Recorded::whole().await;
    recorded.sign().await;
    let to = recorded.path("all.jsonl");
    let run = recorded.replay(&["export", to.to_str().unwrap()]).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    insta::assert_snapshot!(recorded.without_home(&run.text()), @"
    ~/all.jsonl: 20 events of 3 logs, 3 checkpoints
    check it with: python3 ~/verify.py ~/all.jsonl
    ");
    insta::assert_snapshot!(run.stderr, @"it is not sealed: whoever reads it reads what was said");
    let mode = std::os::unix::fs::PermissionsExt::mode(&to.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let key = signer().verifier().to_string();
    let (code, text) = verify(&to, &["--key", &key]);
    assert_eq!(code, 0, "{text}");
    insta::assert_snapshot!(text, @"
    01010101010101010101010101010101 (system): 1 events, whole, 1 checkpoints
    02020202020202020202020202020202 (account of u1): 6 events, whole, 1 checkpoints
    03030303030303030303030303030303 (box of u1): 13 events, whole, 1 checkpoints
    good: 3 logs, 20 events, 3 checkpoints, 1 anchors
    ");
    // Never over another one.
    let run = recorded.replay(&["export", to.to_str().unwrap()]).await;
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("never written over"), "{}", run.stderr);
    // One letter of what was said.
    let text = std::fs::read_to_string(&to).unwrap();
    let said = hex::encode("count the words");
    std::fs::write(&to, text.replace(&said, &said.replacen('6', "7", 1))).unwrap();
    let (code, text) = verify(&to, &[]);
    assert_eq!(code, 1);
    assert!(
        text.contains("BROKEN at 2: the payload is not what its hash says"),
        "{text}"
    );
    let run = recorded
        .replay(&["verify", "--from", to.to_str().unwrap()])
        .await;
    assert_eq!(run.code, 1);
    assert!(
        run.text().contains("box:main: BROKEN at 2"),
        "{}",
        run.text()
    );
}

#[tokio::test]
async fn a_folder_of_chosen_logs_redacted() {
    let recorded = Recorded::whole().await;
    let to = recorded.path("audit");
    recorded
        .told(&[
            "export",
            "--redacted",
            "--owner",
            "ann",
            to.to_str().unwrap(),
        ])
        .await;
    let mut names: Vec<_> = std::fs::read_dir(&to)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "02020202020202020202020202020202.jsonl",
            "03030303030303030303030303030303.jsonl",
            "verify.py"
        ]
    );
    for name in &names[..2] {
        let text = std::fs::read_to_string(to.join(name)).unwrap();
        assert!(
            !text.contains("There are") && !text.contains(&hex::encode("There are")),
            "{text}"
        );
    }
    let (code, text) = verify(&to, &[]);
    assert_eq!(code, 0, "{text}");
    let run = recorded
        .replay(&["show", "--from", to.to_str().unwrap(), "--last", "1"])
        .await;
    assert!(run.text().contains("(erased)"), "{}", run.text());
    assert!(
        run.stderr
            .contains("is redacted: every payload reads as erased"),
        "{}",
        run.stderr
    );
    let run = recorded
        .replay(&["verify", "--from", to.to_str().unwrap()])
        .await;
    assert_eq!(run.code, 0, "{}{}", run.text(), run.stderr);
    let run = recorded
        .replay(&["rerun", "--from", to.to_str().unwrap()])
        .await;
    assert_eq!(run.code, 1);
    let none = recorded
        .replay(&["export", "--owner", "bob", "x.jsonl"])
        .await;
    assert_eq!(none.code, 3, "{}", none.stderr);
}

#[tokio::test]
async fn an_export_to_standard_output() {
    let recorded = Recorded::whole().await;
    let run = recorded.replay(&["export", "-", "--log", "box:main"]).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    let text = run.text();
    assert_eq!(text.lines().count(), 2 + 13, "{text}");
    insta::assert_snapshot!(text.lines().nth(3).unwrap(), @r#"{"event":{"log":"03030303030303030303030303030303","pos":2,"stream":"agent/main","seq":2,"kind":103,"version":1,"recorded_us":1767323052001750,"header":"0a100000000000000000000000000000000f1210000000000000000700000000000000001a08080312046d61696e","salt":"00000000000000000000000000000010","payload":"0a027031121c636f756e742074686520776f7264732c20536368c3a4747a6368656e","payload_hash":"e31959f529138d10ab21a034e4cf445006d03ec276f1f6c2dfdaa816f3feb9f8","chain":"a423f0e91731f57bd2485b1167f8465143edc1187162a3b76d18e47ac7972523","name":"agent.prompt_received","at":"2026-01-02T03:04:12.001750Z","actor":"agent:main","says":{"prompt_id":"p1","text":"count the words, Schätzchen"}}}"#);
}

#[tokio::test]
async fn an_import_is_the_log_it_was() {
    let recorded = Recorded::whole().await;
    recorded.sign().await;
    let export = recorded.path("all.jsonl").display().to_string();
    let to = recorded.path("again").display().to_string();
    recorded.told(&["export", &export]).await;
    let told = recorded.told(&["import", &export, "--to", &to]).await;
    insta::assert_snapshot!(told, @"
    ~/again: 20 events of 3 logs, 3 checkpoints
    read it with: cocoonbox replay show --from ~/again
    ");
    recorded
        .told(&["diff", "--from", &to, "--other", &export])
        .await;
    recorded
        .told(&[
            "diff",
            "--from",
            &to,
            "--other",
            recorded.data().to_str().unwrap(),
        ])
        .await;
    recorded.told(&["verify", "--from", &to]).await;
    let shown = recorded
        .told(&["show", "--log", "box:main", "--from", &to])
        .await;
    assert_eq!(shown, recorded.told(&["show", "--log", "box:main"]).await);
    // What lies there is sealed.
    let file = std::fs::read(Path::new(&to).join("log.db")).unwrap();
    let holds = |text: &str| {
        file.windows(text.len())
            .any(|bytes| bytes == text.as_bytes())
    };
    assert!(!holds("There are 12"));
    assert!(!Path::new(&to).join("log.db.part").exists());
    let run = recorded.replay(&["import", &export, "--to", &to]).await;
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("is there already"), "{}", run.stderr);
}

#[tokio::test]
async fn what_is_not_to_be_imported() {
    let recorded = Recorded::whole().await;
    let redacted = recorded.path("redacted.jsonl").display().to_string();
    let to = recorded.path("to").display().to_string();
    recorded.told(&["export", "--redacted", &redacted]).await;
    let run = recorded.replay(&["import", &redacted, "--to", &to]).await;
    assert_eq!(run.code, 2);
    insta::assert_snapshot!(recorded.without_home(&run.stderr), @"
    error: `~/redacted.jsonl` is redacted
      --allow-redacted takes it: payloads will read as erased, for good
    ");
    assert!(!Path::new(&to).exists());
    recorded
        .told(&["import", &redacted, "--to", &to, "--allow-redacted"])
        .await;
    let text = std::fs::read_to_string(&redacted).unwrap();
    let broken = recorded.path("broken.jsonl").display().to_string();
    std::fs::write(&broken, text.replacen("\"seq\":4", "\"seq\":5", 1)).unwrap();
    let other = recorded.path("other").display().to_string();
    let run = recorded
        .replay(&["import", &broken, "--to", &other, "--allow-redacted"])
        .await;
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("nothing was written"), "{}", run.stderr);
    assert!(!Path::new(&other).exists());
    let data = recorded.data().display().to_string();
    let run = recorded.replay(&["import", &data, "--to", &other]).await;
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("is not an export"), "{}", run.stderr);
}

#[tokio::test]
async fn a_copied_database_with_and_without_its_keys() {
    let recorded = Recorded::whole().await;
    recorded.store.close().await;
    let folder = recorded.path("copy");
    std::fs::create_dir(&folder).unwrap();
    let copy = folder.join("copied");
    std::fs::copy(recorded.data().join("log.db"), &copy).unwrap();
    let (copy, data) = (
        copy.display().to_string(),
        recorded.data().display().to_string(),
    );
    let sealed = recorded
        .told(&["show", "--from", &copy, "--last", "1"])
        .await;
    assert!(sealed.contains("(erased)"), "{sealed}");
    let open = recorded
        .told(&[
            "show",
            "--from",
            &copy,
            "--key-dir",
            &data,
            "--log",
            "box:main",
        ])
        .await;
    assert!(open.contains("There are 12."), "{open}");
    recorded.told(&["verify", "--from", &copy]).await;
    let other = recorded.path("other.txt");
    std::fs::write(&other, "hello").unwrap();
    let run = recorded
        .replay(&["verify", "--from", other.to_str().unwrap()])
        .await;
    assert_eq!(run.code, 1);
    insta::assert_snapshot!(recorded.without_home(&run.stderr), @"
    error: opening the logs: `~/other.txt` is neither a log database nor an export
      it has to be a data directory, a log.db, what `replay export` wrote, or a file with a postgres:// address
    ");
}

#[tokio::test]
async fn rebuild_and_rerun_on_every_source() {
    let recorded = Recorded::whole().await;
    let export = recorded.path("all.jsonl").display().to_string();
    recorded.told(&["export", &export]).await;
    for place in [export.as_str(), recorded.data().to_str().unwrap()] {
        let told = recorded.told(&["rerun", "--from", place]).await;
        assert_eq!(told, "box:main agent/main: same: 10 events\n");
        let told = recorded.told(&["rebuild", "--from", place]).await;
        assert!(told.contains("transcript: "), "{told}");
        let run = recorded
            .replay(&["rebuild", "--from", place, "--compare"])
            .await;
        assert_eq!(run.code, 3);
        assert!(
            run.stderr.contains("has no views to compare with"),
            "{}",
            run.stderr
        );
    }
    let run = recorded.replay(&["rerun", "--stream", "agent/x"]).await;
    assert_eq!(run.code, 3, "{}", run.stderr);
}

#[tokio::test]
async fn follow_goes_on_after_a_restart_and_ends_by_ctrl_c() {
    let mut recorded = Recorded::whole().await;
    let mut child = recorded
        .command(&["follow", "--kind", "box.renamed", "--json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut notes = BufReader::new(child.stderr.take().unwrap()).lines();
    let ready = notes.next_line().await.unwrap().unwrap();
    assert_eq!(ready, "following; Ctrl-C ends it");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = async || -> String {
        let line = lines.next_line().await.unwrap().unwrap();
        let event: serde_json::Value = serde_json::from_str(&line).unwrap();
        event["payload"]["name"].as_str().unwrap().to_owned()
    };
    recorded.rename_box("one").await;
    assert_eq!(next().await, "one");
    recorded.restart().await;
    recorded.rename_box("two").await;
    assert_eq!(next().await, "two");
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().await.unwrap().code(), Some(130));

    // From a position on, and not from an export.
    let after = recorded.store.tail(super::recorded::log(2)).unwrap().pos - 1;
    let mut child = recorded
        .command(&[
            "follow",
            "--log",
            "account:ann",
            "--after",
            &after.to_string(),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().unwrap();
    assert!(line.contains("name=\"two\""), "{line}");
    child.kill().await.unwrap();
    let export = recorded.path("all.jsonl").display().to_string();
    recorded.told(&["export", &export]).await;
    let run = recorded.replay(&["follow", "--from", &export]).await;
    assert_eq!(run.code, 2);
    insta::assert_snapshot!(recorded.without_home(&run.stderr), @"
    error: `~/all.jsonl` is an export and does not grow
      `cocoonbox replay show --from` shows it
    ");
}

#[tokio::test]
async fn the_environment_names_a_store() {
    let recorded = Recorded::whole().await;
    let run = async |name: &str, value: &str| {
        let nowhere = recorded.path("nowhere").display().to_string();
        let mut command = recorded.command(&["verify"]);
        command.env("COCOONBOX_DATA_DIR", &nowhere);
        let output = command.env(name, value).output().await.unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), stderr)
    };
    let address = format!("sqlite:{}", recorded.data().display());
    assert_eq!(run("COCOONBOX_STORE", &address).await.0, 0);
    let file = recorded.path("address");
    std::fs::write(&file, &address).unwrap();
    assert_eq!(
        run("COCOONBOX_STORE_FILE", file.to_str().unwrap()).await.0,
        0
    );
    // A database that does not answer is said without its password.
    let (code, stderr) = run("COCOONBOX_STORE", "postgres://cb:s3cret@127.0.0.1:9/logs").await;
    assert_eq!(code, 1);
    assert!(!stderr.contains("s3cret"), "{stderr}");
    assert!(stderr.contains("127.0.0.1"), "{stderr}");
    let (code, _) = run("COCOONBOX_STORE", "mysql://x/y").await;
    assert_eq!(code, 2);
}

#[tokio::test]
async fn a_data_directory_that_is_said_counts_for_more_than_the_environment() {
    let recorded = Recorded::whole().await;
    let data = recorded.data().display().to_string();
    let nowhere = format!("sqlite:{}", recorded.path("nowhere").display());
    let mut command = recorded.command(&["verify", "--data-dir", &data]);
    let output = command.env("COCOONBOX_STORE", &nowhere).output().await;
    let output = output.unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
}

#[tokio::test]
async fn reading_a_database_does_not_bring_its_tables_up_to_date() {
    let recorded = Recorded::whole().await;
    let cluster = cocoonbox_postgres::shared();
    let url = cluster.database().unwrap();
    let mut command = recorded.command(&["verify"]);
    let output = command.env("COCOONBOX_STORE", &url).output().await.unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("start an api of this version"), "{stderr}");
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname = 'cocoonbox'";
    assert_eq!(cluster.run_sql(&url, schemas).unwrap().trim(), "0");
}

#[tokio::test]
async fn a_postgresql_database_answers_like_the_file() {
    let recorded = Recorded::whole().await;
    let url = cocoonbox_postgres::shared().database().unwrap();
    let ids = Arc::new(SystemIds);
    let database = Database::connect(&Options::new(url.as_str()))
        .await
        .unwrap();
    let keys = Arc::new(PgKeys::open(&database, recorded.data()).await.unwrap());
    let target = PgStore::open(&database, keys, Arc::new(SystemClock), ids)
        .await
        .unwrap();
    let source = Source::open(&recorded.data(), None).await.unwrap();
    import(&source.store, &target, &mut |_| {}).await.unwrap();
    let run = async |args: &[&str]| {
        let output = recorded
            .command(args)
            .env("COCOONBOX_STORE", &url)
            .output()
            .await
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        String::from_utf8(output.stdout).unwrap()
    };
    for args in [
        &["show", "--log", "box:main"][..],
        &["why", "--log", "box:main", "2"],
        &["rerun"],
        &["state", "--view", "boxes", "--at", "now"],
    ] {
        assert_eq!(run(args).await, recorded.told(args).await, "{args:?}");
    }
    let file = recorded.path("address");
    std::fs::write(&file, format!("{url}\n")).unwrap();
    let (address, data) = (
        file.display().to_string(),
        recorded.data().display().to_string(),
    );
    let told = recorded
        .told(&["diff", "--from", &address, "--other", &data])
        .await;
    assert!(told.contains("box:main: the same: 13 events"), "{told}");
    // Without the master key it is a log without payloads.
    let empty = recorded.path("empty");
    std::fs::create_dir(&empty).unwrap();
    let told = run(&["show", "--last", "1", "--key-dir", empty.to_str().unwrap()]).await;
    assert!(told.contains("(erased)"), "{told}");
    target.close().await;
    database.close().await;
}
