//! `show`, `state`, `diff` and `why`.

use super::recorded::Recorded;

#[tokio::test]
async fn show_with_every_filter() {
    let recorded = Recorded::whole().await;
    let told = recorded
        .told(&[
            "show", "--log", "box:main", "--stream", "agent/", "--kind", "agent.", "--last", "3",
        ])
        .await;
    insta::assert_snapshot!(told, @r#"
    11 2026-01-02T03:04:21.004000Z agent/main#8 agent.model_called agent:main turn_id="t7" call_id="c15" model={"wire":"OPENAI_CHAT","model":"m1","output_tokens_max":100} attempt=1
    12 2026-01-02T03:04:22.004250Z agent/main#9 agent.model_replied agent:main call_id="c15" blocks=[{"text":{"text":"There are 12."}}] stop="END_TURN" usage={"input":3,"output":4}
    13 2026-01-02T03:04:23.004500Z agent/main#10 agent.turn_ended agent:main turn_id="t7" outcome="DONE"
    "#);
    let count = async |args: &[&str]| {
        let args = [&["show"], args].concat();
        recorded.told(&args).await.lines().count()
    };
    assert_eq!(
        count(&["--kind", "exec.", "--actor", "agent:main"]).await,
        3
    );
    assert_eq!(count(&["--actor", "system"]).await, 5);
    assert_eq!(count(&["--text", "SCHÄTZCHEN"]).await, 1);
    assert_eq!(count(&["--log", "account:ann", "--limit", "2"]).await, 2);
    assert_eq!(count(&["--log", "account:ann", "--after", "4"]).await, 2);
    let run = recorded
        .replay(&[
            "show",
            "--since",
            "2026-01-02 04:04:08",
            "--until",
            "2026-01-02T03:04:10Z",
        ])
        .await;
    insta::assert_snapshot!(run.text(), @r#"
    2 2026-01-02T03:04:08.000750Z box/b1#1 box.created system:lifecycle box_id="b1" flavor=1 name="main" box_log="03030303030303030303030303030303" user_id="u1"
    3 2026-01-02T03:04:08.000750Z box/b1#2 box.ensure_requested system:lifecycle operation_id="o1"
    4 2026-01-02T03:04:09.001000Z box/b1#3 box.starting system:lifecycle operation_id="o1" wake_id="w1" image="core-1"
    "#);
    insta::assert_snapshot!(run.stderr, @"
    since 2026-01-02T04:04:08+01:00 (Europe/Berlin); events are shown in UTC
    until 2026-01-02T04:04:10+01:00 (Europe/Berlin); events are shown in UTC
    account:ann (02020202020202020202020202020202)
    ");
    let json = recorded
        .told(&["show", "--log", "box:b1", "--last", "1", "--json"])
        .await;
    let event: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(event["kind"], "agent.turn_ended");
    for (args, said) in [
        (vec!["--since", "soon"], "`soon` is not a time"),
        (vec!["--after", "7"], "a position needs --log"),
        (vec!["--log", "box:x"], "no log is called `box:x`"),
    ] {
        let run = recorded.replay(&[vec!["show"], args].concat()).await;
        assert_ne!(run.code, 0);
        assert!(run.stderr.contains(said), "{}", run.stderr);
    }
}

#[tokio::test]
async fn state_of_aggregates_and_views_at_a_moment() {
    let recorded = Recorded::whole().await;
    let phase = async |at: &str| {
        let args = [
            "state",
            "--stream",
            "box/b1",
            "--log",
            "account:ann",
            "--at",
            at,
            "--json",
        ];
        let json: serde_json::Value = serde_json::from_str(&recorded.told(&args).await).unwrap();
        json["state"]["phase"].as_str().unwrap().to_owned()
    };
    assert_eq!(phase("4").await, "starting");
    assert_eq!(phase("5").await, "running");
    assert_eq!(phase("2026-01-02T03:04:09.5Z").await, "starting");
    assert_eq!(phase("now").await, "running");
    let at = |at: &'static str| {
        [
            "state",
            "--view",
            "boxes",
            "--log",
            "account:ann",
            "--at",
            at,
            "--quiet",
        ]
    };
    insta::assert_snapshot!(recorded.told(&at("4")).await, @"u1/b1  id=b1 user_id=u1 state=1 name=main flavor=1 image=core-1 operation_id=o1 failure= created_at_ms=1767323048000 offset_key=02020202020202020202020202020202.0000000000000004.e6417162 box_log=03030303030303030303030303030303 wake_id=w1 agent_version= notice= memory_kills=0 awake_until_ms=0 models={}");
    insta::assert_snapshot!(recorded.told(&at("2026-01-02T03:04:10.5Z")).await, @"u1/b1  id=b1 user_id=u1 state=2 name=main flavor=1 image=core-1 operation_id= failure= created_at_ms=1767323048000 offset_key=02020202020202020202020202020202.0000000000000005.139acb5d box_log=03030303030303030303030303030303 wake_id=w1 agent_version=0.1 notice= memory_kills=0 awake_until_ms=0 models={}");
    assert_eq!(recorded.told(&at("1")).await, "");
    let transcript = recorded
        .told(&["state", "--view", "transcript", "--json"])
        .await;
    assert!(transcript.contains("There are 12."), "{transcript}");
    let run = recorded.replay(&["state", "--view", "bxs"]).await;
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("there are: boxes, "), "{}", run.stderr);
}

#[tokio::test]
async fn diff_of_two_moments() {
    let recorded = Recorded::whole().await;
    let told = recorded
        .told(&["diff", "--log", "account:ann", "3", "5"])
        .await;
    insta::assert_snapshot!(told, @r#"
    account:ann: 2 events behind 3 up to 5
      box/b1: 1 box.running, 1 box.starting
        agent_version: "" -> "0.1"
        image: "" -> "core-1"
        operation: "o1" -> null
        phase: "starting" -> "running"
        wake: null -> "w1"
    view audit u1/1767323049001000/02020202020202020202020202020202/0000000000000004: added actor="system:lifecycle" at_ms=1767323049001 kind="box.starting" offset_key="02020202020202020202020202020202.0000000000000004.e6417162" stream="box/b1" summar…
    view audit u1/1767323050001250/02020202020202020202020202020202/0000000000000005: added actor="system:lifecycle" at_ms=1767323050001 kind="box.running" offset_key="02020202020202020202020202020202.0000000000000005.139acb5d" stream="box/b1" summary…
    view awake_since u1/b1: added box_id="b1" since_us=1767323050001250
    view boxes u1/b1: changed
        agent_version: "" -> "0.1"
        image: "" -> "core-1"
        offset_key: "02020202020202020202020202020202.0000000000000003.241d7bcc" -> "02020202020202020202020202020202.0000000000000005.139acb5d"
        operation_id: "o1" -> ""
        state: 1 -> 2
        wake_id: "" -> "w1"
    view operation_events u1/o1/0000000000000004: added at_ms=1767323049001 detail="starting" offset_key="02020202020202020202020202020202.0000000000000004.e6417162" operation_id="o1" phase=1 pos=4
    view operation_events u1/o1/0000000000000005: added at_ms=1767323050001 detail="" offset_key="02020202020202020202020202020202.0000000000000005.139acb5d" operation_id="o1" phase=4 pos=5
    view operations u1/o1: changed
        detail: "requested" -> ""
        ended: false -> true
        offset_key: "02020202020202020202020202020202.0000000000000003.241d7bcc" -> "02020202020202020202020202020202.0000000000000005.139acb5d"
        phase: 1 -> 4
    view operations_open u1/b1: removed ["o1"]
    "#);
    // All logs between two times.
    let run = recorded
        .replay(&["diff", "2026-01-02T03:04:10Z", "2026-01-02T03:04:13Z"])
        .await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    let text = run.text();
    assert!(
        text.contains("account:ann: 1 events behind 4 up to 5"),
        "{text}"
    );
    assert!(
        text.contains("box:main: 2 events behind 0 up to 2"),
        "{text}"
    );
    assert!(text.contains("view boxes u1/b1: changed"), "{text}");
    let nothing = recorded.told(&["diff", "2026-01-01", "2026-01-02"]).await;
    assert_eq!(nothing, "nothing happened in between\n");
    let json = recorded
        .told(&["diff", "--log", "box:main", "1", "2", "--json"])
        .await;
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["logs"][0]["streams"]["agent/main"]["last_seq"], 2);
    let run = recorded.replay(&["diff", "3", "5"]).await;
    assert_eq!(run.code, 2, "{}", run.stderr);
}

#[tokio::test]
async fn diff_of_two_logs_and_of_two_sources() {
    let mut recorded = Recorded::whole().await;
    let run = recorded.replay(&["diff", "box:main", "account:ann"]).await;
    assert_eq!(run.code, 1);
    assert!(run.text().starts_with("they part at 1\n"), "{}", run.text());
    assert_eq!(
        recorded.replay(&["diff", "box:main", "box:b1"]).await.code,
        0
    );
    let export = recorded.path("then.jsonl").display().to_string();
    recorded.told(&["export", &export]).await;
    let same = recorded.told(&["diff", "--other", &export]).await;
    insta::assert_snapshot!(same, @"
    system: the same: 1 events
    account:ann: the same: 6 events
    box:main: the same: 13 events
    ");
    recorded.rename_box("other").await;
    let run = recorded.replay(&["diff", "--other", &export]).await;
    assert_eq!(run.code, 1);
    assert!(run.text().contains("box.renamed"), "{}", run.text());
    let run = recorded
        .replay(&["diff", "--log", "box:main", "--other", &export])
        .await;
    assert_eq!(run.code, 0, "{}", run.stderr);
}

#[tokio::test]
async fn why_across_logs() {
    let recorded = Recorded::whole().await;
    let told = recorded.told(&["why", "--log", "box:main", "2"]).await;
    // What the payloads say is not what is drawn here.
    let drawn: Vec<String> = told
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let time = words.iter().position(|word| word.ends_with('Z')).unwrap();
            format!(
                "{} {}",
                words[..time].join(" "),
                words[time + 1..time + 3].join(" ")
            )
        })
        .collect();
    insta::assert_snapshot!(drawn.join("\n"), @"
    * box:main 2 agent/main#2 agent.prompt_received
      │ (prompt) box:main 3 agent/main#3 agent.turn_started
      ├─ (turn) box:main 4 agent/main#4 agent.model_called
      │  │ (call) box:main 5 agent/main#5 agent.model_replied
      │  │ (tool) box:main 6 agent/main#6 agent.tool_called
      │  ├─ (tool) box:main 7 exec/e1#1 exec.started
      │  │  ├─ (exec) box:main 8 exec/e1#2 exec.output_streamed
      │  │  └─ (exec) box:main 9 exec/e1#3 exec.exited
      │  └─ (tool) box:main 10 agent/main#7 agent.tool_finished
      ├─ (turn) box:main 11 agent/main#8 agent.model_called
      │  │ (call) box:main 12 agent/main#9 agent.model_replied
      └─ (turn) box:main 13 agent/main#10 agent.turn_ended
         │ (anchor) account:ann 6 box/b1#5 box.log_anchored
    ");
    let json = recorded
        .told(&["why", "--log", "box:main", "1", "--json"])
        .await;
    let tree: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(tree["causes"][0]["event"]["kind"], "box.created");
    let id = tree["causes"][0]["event"]["event_id"].as_str().unwrap();
    let key = tree["causes"][0]["event"]["offset_key"].as_str().unwrap();
    assert_eq!(
        recorded.told(&["why", id]).await,
        recorded.told(&["why", key]).await
    );
    let run = recorded.replay(&["why", "7"]).await;
    assert_eq!(run.code, 2);
    let run = recorded
        .replay(&["why", "00000000000000000000000000000fff"])
        .await;
    assert_eq!(run.code, 3, "{}", run.stderr);
}
