//! Erasing, and deleting people.

use cocoonbox_proto::control::v1::{PosRange, erase_request::What};

use crate::{fake::Fake, program::Program};

#[tokio::test]
async fn a_dry_run_shows_what_would_go_and_stays() {
    let fake = Fake::new();
    let program = Program::new(fake.serve().await);
    let args = [
        "--from",
        "1",
        "--to",
        "3",
        "--reason",
        "a slip",
        "--dry-run",
    ];
    let run = program
        .run(&[&["erase", "--log", "account"], &args[..]].concat())
        .await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    insta::assert_snapshot!(run.text(), @"
    2 would be erased, 1 kept
    OFFSET KEY  STREAM      KIND                   BYTES  KEPT BECAUSE
    log.1       agent/main  agent.prompt_received  10
    log.3       agent/main  agent.model_replied    30
    log.2       agent/main  agent.turn_started     20     it holds ids only
    ");
    let seen = fake.state().seen.erased.clone();
    assert_eq!(seen.len(), 1);
    assert!(seen[0].dry_run && seen[0].log_id.is_empty());
    assert_eq!(
        seen[0].what,
        Some(What::Range(PosRange { first: 1, last: 3 }))
    );
}

#[tokio::test]
async fn nothing_is_erased_without_a_yes() {
    let fake = Fake::new();
    let program = Program::new(fake.serve().await);
    let args = ["erase", "--item", "some.key", "--reason", "a slip"];
    assert_eq!(program.run(&args).await.code, 2);
    assert!(fake.state().seen.erased.iter().all(|asked| asked.dry_run));
    let run = program.run(&[&args[..], &["--yes"]].concat()).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("at its next wake"), "{}", run.stderr);
    let last = fake.state().seen.erased.last().cloned().unwrap();
    assert!(!last.dry_run && !last.command_id.is_empty());
    assert_eq!(last.what, Some(What::Item("some.key".into())));
}

#[tokio::test]
async fn what_to_erase_has_to_be_said() {
    let program = Program::new(Fake::new().serve().await);
    for args in [
        &["erase", "--reason", "x"][..],
        &["erase", "--from", "1", "--reason", "x"],
        &[
            "erase",
            "--item",
            "k",
            "--stream",
            "agent/main",
            "--reason",
            "x",
        ],
        &["erase", "--item", "k"],
    ] {
        assert_eq!(program.run(args).await.code, 2, "{args:?}");
    }
}

#[tokio::test]
async fn a_user_is_deleted_only_when_that_is_meant() {
    let program = Program::new(Fake::new().serve().await);
    assert_eq!(program.run(&["user", "delete", "ann"]).await.code, 2);
    let run = program.run(&["user", "delete", "ann", "--yes"]).await;
    assert_ne!(run.code, 0);
    assert!(run.stderr.contains("last admin"), "{}", run.stderr);
    let run = program
        .run(&["user", "delete", "ann", "--yes", "--force"])
        .await;
    assert_eq!(
        (run.code, run.text().as_str()),
        (0, "ann is deleted (u1)\n")
    );
}
