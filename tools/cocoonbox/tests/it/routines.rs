//! Prompts by the clock, as they are made and shown.

use crate::{fake::Fake, program::Program};

#[tokio::test]
async fn a_routine_is_made_shown_changed_and_deleted() {
    let fake = Fake::new();
    let program = Program::new(fake.serve().await);
    let cron = ["--cron", "0 9 * * 1-5", "--zone", "Europe/Berlin"];
    let prompt = ["sum", "up", "what", "is", "new"];
    let mut create = vec!["routine", "create", "morning"];
    create.extend(cron);
    create.extend(prompt);
    let made = program.run(&create).await;
    assert_eq!(
        made.text(),
        "created morning; it is due at 2023-11-14 22:13:20.000Z\n"
    );
    let listed = program.run(&["routine", "list"]).await;
    insta::assert_snapshot!(listed.text(), @"
    NAME     STATE      DUE                       WHEN                         LAST RUN  BOX
    morning  scheduled  2023-11-14 22:13:20.000Z  0 9 * * 1-5 (Europe/Berlin)  never     b1
    ");
    let shown = program.run(&["routine", "show", "morning"]).await;
    insta::assert_snapshot!(shown.text(), @"
    name    morning
    id      r1
    box     b1
    agent   a7
    state   it is due at 2023-11-14 22:13:20.000Z
    when    0 9 * * 1-5 (Europe/Berlin)
    limit   600 s
    prompt  sum up what is new

    DUE                       STARTED                   TOOK  OUTCOME
    asked for                 2023-11-14 22:13:20.100Z  -     runs
    2023-11-14 22:13:20.000Z  2023-11-14 22:13:20.100Z  42 s  the box was not reached: NO_IMAGE
    2023-11-14 22:13:20.000Z  -                         -     missed: too late
    ");
    let shown = program.run(&["routine", "show", "r1", "--json"]).await;
    let shown: serde_json::Value = serde_json::from_str(&shown.text()).unwrap();
    assert_eq!(shown["runs"][1]["reason"], "NO_IMAGE");
    assert_eq!(shown["plan"]["run_ms_max"], 600_000);

    let change = [
        "routine",
        "change",
        "morning",
        "--limit",
        "1h",
        "--cron",
        "0 8 * * *",
    ];
    assert_eq!(program.run(&change).await.code, 0);
    let plan = fake.state().routines[0].plan.clone().unwrap();
    assert_eq!(
        (plan.cron.as_str(), plan.zone.as_str()),
        ("0 8 * * *", "Europe/Berlin")
    );
    assert_eq!(
        (plan.prompt.as_str(), plan.run_ms_max),
        ("sum up what is new", 3_600_000)
    );
    let paused = program.run(&["routine", "pause", "morning"]).await;
    let why = "paused morning; it is paused: five runs in a row came to nothing\n";
    assert_eq!(paused.text(), why);
    let deleted = program.run(&["routine", "delete", "morning"]).await;
    assert_eq!(deleted.text(), "deleted morning\n");
    let none = program.run(&["routine", "run", "morning"]).await;
    assert_ne!(none.code, 0);
    assert!(none.stderr.contains("routine list"), "{}", none.stderr);
}

#[tokio::test]
async fn a_routine_runs_at_a_time_or_by_cron() {
    let fake = Fake::new();
    let program = Program::new(fake.serve().await);
    let once = ["routine", "create", "once", "--at", "in 2h", "look"];
    assert_eq!(program.run(&once).await.code, 0);
    let plan = fake.state().routines[0].plan.clone().unwrap();
    assert!(plan.cron.is_empty() && plan.zone.is_empty() && plan.at_ms > 1_700_000_000_000);
    for bad in [
        &["routine", "create", "none", "look"][..],
        &[
            "routine",
            "create",
            "both",
            "--at",
            "9:00",
            "--cron",
            "0 9 * * *",
            "look",
        ],
        &["routine", "create", "past", "--at", "yesterday", "look"],
        &[
            "routine", "create", "zone", "--at", "9:00", "--zone", "UTC", "look",
        ],
    ] {
        assert_eq!(program.run(bad).await.code, 2, "{bad:?}");
    }
    assert_eq!(fake.state().routines.len(), 1);
}
