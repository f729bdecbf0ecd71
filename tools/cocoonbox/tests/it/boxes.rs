//! Boxes and their operations.

use cocoonbox_proto::{
    control::v1::{Box as OneBox, OperationEvent, Phase, State},
    log::v1::{ModelChoice, ModelRoles, Wire},
};

use crate::{fake::Fake, program::Program};

fn step(phase: Phase, detail: &str) -> OperationEvent {
    OperationEvent {
        phase: phase.into(),
        detail: detail.into(),
        ..OperationEvent::default()
    }
}

#[tokio::test]
async fn ensure_follows_the_operation_to_its_end() {
    let fake = Fake::new();
    fake.state().boxes[0].state = State::Absent.into();
    fake.state().steps = vec![
        step(Phase::Creating, ""),
        step(Phase::Creating, "waiting for its agent"),
        step(Phase::Done, ""),
    ];
    let program = Program::new(fake.serve().await);
    let run = program.run(&["ensure"]).await;
    assert_eq!((run.code, run.text().as_str()), (0, "main runs (b1)\n"));
    assert_eq!(
        run.stderr,
        "starting main\nstarting\nwaiting for its agent\n"
    );
    let run = program.run(&["ensure", "--no-wait"]).await;
    assert_eq!(run.text(), "b1\top1\n");
}

#[tokio::test]
async fn an_operation_that_fails_is_a_failure() {
    let fake = Fake::new();
    fake.state().steps = vec![step(Phase::FailedPhase, "MACHINE_FAILED: the disk is full")];
    let run = Program::new(fake.serve().await)
        .run(&["-q", "hibernate", "b1"])
        .await;
    assert_eq!((run.code, run.text().as_str()), (1, ""));
    insta::assert_snapshot!(run.stderr, @"
    error: the disk is full [MACHINE_FAILED]
      `cocoonbox ensure` tries again; the api's `run/api.log` has more
    ");
}

#[tokio::test]
async fn nothing_is_deleted_without_a_yes() {
    let fake = Fake::new();
    fake.state().steps = vec![step(Phase::Done, "")];
    let program = Program::new(fake.serve().await);
    assert_eq!(program.run(&["delete", "main"]).await.code, 2);
    let run = program.run(&["delete", "main", "--yes"]).await;
    assert_eq!(
        (run.code, run.text().as_str()),
        (0, "main is deleted (b1)\n")
    );
}

#[tokio::test]
async fn boxes_are_a_table_or_json() {
    let fake = Fake::new();
    fake.state().boxes.push(OneBox {
        id: "b2".into(),
        name: "experiments".into(),
        state: State::Failed.into(),
        failure: "no memory".into(),
        created_at_ms: 1_700_000_000_123,
        ..OneBox::default()
    });
    fake.state().boxes[0].notice = "its disk was put back; it goes on from event 12".into();
    let program = Program::new(fake.serve().await);
    insta::assert_snapshot!(program.run(&["boxes"]).await.text(), @"
    NAME         STATE    ID  ISOLATION  CREATED
    main         RUNNING  b1             -                         its disk was put back; it goes on from event 12
    experiments  FAILED   b2             2023-11-14 22:13:20.123Z  no memory
    ");
    fake.state().boxes[0].notice.clear();
    insta::assert_snapshot!(program.run(&["--json", "boxes"]).await.text(), @r#"{"boxes":[{"id":"b1","state":"RUNNING","name":"main"},{"id":"b2","state":"FAILED","name":"experiments","failure":"no memory","created_at_ms":1700000000123}]}"#);
    insta::assert_snapshot!(program.run(&["status"]).await.stderr, @"");
}

#[tokio::test]
async fn a_box_has_models_of_its_own_or_the_installations() {
    let fake = Fake::new();
    let program = Program::new(fake.serve().await);
    let run = program.run(&["box", "models"]).await;
    assert_eq!(
        run.text(),
        "no models: neither the box nor the installation has any\n"
    );
    let words = [
        "box",
        "models",
        "--main",
        "openai:small-1,images,context=9000",
    ];
    let run = program.run(&words).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(
        run.text(),
        "main: openai:small-1,images,context=9000 (the box's)\n"
    );
    // What is not named stays as it is.
    let run = program
        .run(&["box", "models", "--fallback", "anthropic:b"])
        .await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    if let Some(models) = &mut fake.state().boxes[0].models_in_use {
        models.summarize = Some(ModelChoice {
            wire: Wire::OpenaiResponses.into(),
            model: "s".into(),
            ..ModelChoice::default()
        });
    }
    insta::assert_snapshot!(program.run(&["box", "show"]).await.text(), @"
    main (b1): RUNNING
    main: openai:small-1,images,context=9000 (the box's)
    summarize: openai-responses:s (the installation's)
    fallback: anthropic:b (the box's)
    ");
    program.run(&["box", "models", "--main", "-"]).await;
    let set = fake.state().boxes[0].models.clone();
    assert_eq!(set, Some(ModelRoles::default()));
    let run = program.run(&["box", "models", "--main", "small-1"]).await;
    assert_eq!(run.code, 2, "{}", run.stderr);
}
