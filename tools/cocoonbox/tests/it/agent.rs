//! One agent: shown, set up, answered.

use cocoonbox_proto::{
    agent::v1::{Agent, PendingApproval, PendingQuestion},
    log::v1::{AgentTodoSet, ModelChoice, Risk, Wire, agent_todo_set},
};

use crate::{fake::Fake, program::Program};

fn known() -> Fake {
    let fake = Fake::new();
    let item = agent_todo_set::Item {
        text: "paint".into(),
        state: agent_todo_set::item::State::InProgress.into(),
    };
    let AgentTodoSet { items: todo } = AgentTodoSet { items: vec![item] };
    fake.state().agents = vec![Agent {
        id: "a1".into(),
        name: "main".into(),
        state: "waiting".into(),
        model: Some(ModelChoice {
            wire: Wire::OpenaiChat.into(),
            model: "m-1".into(),
            ..ModelChoice::default()
        }),
        approvals: vec![PendingApproval {
            approval_id: "ok1".into(),
            tool_name: "shell".into(),
            args_json: r#"{"command":"rm -rf build"}"#.into(),
            risk: Risk::Destructive.into(),
            agent_id: "a1.c1".into(),
            ..PendingApproval::default()
        }],
        questions: vec![PendingQuestion {
            question_id: "q1".into(),
            question: "Which colour?".into(),
            choices: vec!["red".into()],
            agent_id: "a1".into(),
        }],
        todo,
        ..Agent::default()
    }];
    fake
}

#[tokio::test]
async fn it_is_shown_with_what_it_asks_and_plans() {
    let run = Program::new(known().serve().await)
        .run(&["agent", "show"])
        .await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    insta::assert_snapshot!(run.text(), @"
    main (a1): waiting
    main: openai:m-1
    approval ok1: shell rm -rf build (destructive)
    question q1: Which colour?
      - red
    [>] paint
    ");
}

#[tokio::test]
async fn models_and_rules_are_changed() {
    let fake = known();
    let words = [
        "agent",
        "configure",
        "--main",
        "anthropic:b-1,images",
        "--rule",
        "money=deny",
    ];
    let run = Program::new(fake.serve().await).run(&words).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    insta::assert_snapshot!(run.text(), @"
    main: anthropic:b-1,images
    rules: money=deny (an approval waits 1 h)
    ");
    let run = Program::new(fake.serve().await)
        .run(&["agent", "configure", "--rule", "money"])
        .await;
    assert_ne!(run.code, 0);
    assert!(run.stderr.contains("RISK=VERDICT"), "{}", run.stderr);
}

#[tokio::test]
async fn answers_go_to_whoever_asks() {
    let fake = known();
    let address = fake.serve().await;
    for words in [
        vec!["agent", "approve", "ok1", "--for-conversation"],
        vec!["agent", "deny", "ok1", "--comment", "no"],
        vec!["agent", "answer", "q1", "dark", "blue"],
    ] {
        let run = Program::new(address.clone()).run(&words).await;
        assert_eq!(run.code, 0, "{}", run.stderr);
    }
    let seen = fake.state().seen.responded.clone();
    assert_eq!((seen[0].agent_id.as_str(), seen[0].allow), ("a1.c1", true));
    assert!(seen[0].for_conversation);
    assert_eq!((seen[1].comment.as_str(), seen[1].allow), ("no", false));
    assert_eq!(seen[2].agent_id, "a1");
    assert_eq!(seen[2].answer, "dark blue");
}

#[tokio::test]
async fn an_agent_is_made_with_models_and_rules() {
    let fake = known();
    let program = Program::new(fake.serve().await);
    let words = ["agent", "create", "fast", "--main", "openai-responses:s-1"];
    let run = program.run(&words).await;
    assert_eq!(
        (run.code, run.text().as_str()),
        (0, "a9\n"),
        "{}",
        run.stderr
    );
    let run = program
        .run(&["agent", "create", "careful", "--always-ask"])
        .await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    let made = fake.state().seen.created.clone();
    let main = made[0].models.clone().and_then(|roles| roles.main);
    assert_eq!(main.map(|main| main.wire()), Some(Wire::OpenaiResponses));
    assert_eq!(
        (made[0].rules.is_some(), made[1].models.is_some()),
        (false, false)
    );
    assert_eq!(
        made[1].rules.clone().map(|rules| rules.rules.len()),
        Some(5)
    );
    let run = program
        .run(&["agent", "create", "odd", "--summarize", "openai:s-1"])
        .await;
    assert_ne!(run.code, 0);
    assert!(run.stderr.contains("--main"), "{}", run.stderr);
}
