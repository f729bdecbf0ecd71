//! Which model is called, and what happens where none is to be had.

use cocoonbox_commands::agent::{ATTEMPTS_MAX, Command, Mood, Next};
use cocoonbox_proto::log::v1::{
    AgentCreated, ApprovalPolicy, Image, ModelRole, ModelRoles, StopReason,
    agent_model_failed::Reason, agent_tool_finished::Outcome,
};

use crate::agent_loop::{Loop, agent, model, story, text, tool_with};

fn with_fallbacks() -> Loop {
    Loop::with(AgentCreated {
        models: Some(ModelRoles {
            main: Some(model("m")),
            computer: Some(model("eyes")),
            fallbacks: vec![model("f"), model("g")],
            ..ModelRoles::default()
        }),
        ..agent()
    })
}

#[test]
fn the_next_model_is_tried_when_one_has_failed_for_good() {
    let mut it = with_fallbacks().going();
    it.fail(Reason::Rejected, false, 0);
    assert_eq!(
        it.state().retry_after_ms(),
        0,
        "another model need not wait"
    );
    it.settle();
    for _ in 0..ATTEMPTS_MAX {
        it.fail(Reason::Overloaded, true, 0);
        it.settle();
    }
    it.reply(vec![tool_with("r", "read", "{}")], StopReason::ToolUse);
    it.settle();
    it.finish("r", "");
    it.settle();
    let told = it.told();
    assert!(told.contains("model_called #2 f"), "{told}");
    assert!(told.contains("model_called #10 g"), "{told}");
    assert!(
        told.ends_with("model_called #1"),
        "each step begins with the first: {told}"
    );
    for _ in 0..3 {
        it.fail(Reason::Rejected, false, 0);
        it.settle();
    }
    story(
        &it.told(),
        &[
            "model_failed REJECTED",
            "model_called #2 f",
            "model_failed REJECTED",
            "model_called #3 g",
            "model_failed REJECTED",
            "turn_ended FAILED",
        ],
    );
}

#[test]
fn a_role_has_its_model() {
    let mut it = Loop::with(AgentCreated {
        models: with_fallbacks().state().models.clone().into(),
        role: ModelRole::Computer.into(),
        ..agent()
    })
    .going();
    assert!(it.told().ends_with("model_called #1 computer eyes"));
}

#[test]
fn without_a_budget_the_turn_waits_and_counts_no_attempt() {
    let mut it = Loop::new(ApprovalPolicy::ApproveAll, 1).going();
    for _ in 0..2 * ATTEMPTS_MAX {
        it.fail(Reason::Budget, true, 7_000);
        assert_eq!(
            it.state().next(),
            Next::WaitBudget {
                retry_after_ms: 7_000
            }
        );
        assert_eq!(it.state().mood(), Mood::WaitingForBudget);
        it.send(Command::Restarted).unwrap();
        it.advance();
    }
    it.fail(Reason::Budget, false, 0);
    it.prompt("is there money again?");
    assert_eq!(it.state().next(), Next::Advance, "a prompt looks at once");
    assert_eq!(it.state().retry_after_ms(), 0);
    it.settle();
    assert_eq!(it.state().turn.as_ref().unwrap().steps, 1);
    it.fail(Reason::Budget, true, 0);
    let models = ModelRoles {
        main: Some(model("cheap")),
        ..ModelRoles::default()
    };
    it.send(Command::SetModels { models }).unwrap();
    it.settle();
    assert!(it.told().ends_with("models_set\nmodel_called #1 cheap"));
    it.fail(Reason::Budget, true, 0);
    it.send(Command::Cancel {
        turn_id: String::new(),
    })
    .unwrap();
    it.settle();
    assert!(it.told().contains("cancel_requested\nturn_ended CANCELLED"));
}

#[test]
fn the_same_call_again_and_again_is_told_and_then_ended() {
    let mut it = Loop::new(ApprovalPolicy::ApproveAll, 0);
    it.prompt("go");
    for n in 0..6 {
        it.settle();
        it.use_tool(&format!("r{n}"), "same");
        let noted = it.results()[0].contains("this call has had this result");
        assert_eq!(noted, n >= 2, "{:?}", it.results());
    }
    assert_eq!(it.settle(), Next::Idle);
    assert!(it.told().ends_with("turn_ended LOOP"));
    // A person leads out of it.
    it.prompt("try something else");
    it.settle();
    it.use_tool("other", "same");
    assert_eq!(it.results(), ["same"]);
    it.settle();
    it.use_tool("another", "different");
    it.settle();
    it.reply(vec![text("ok")], StopReason::EndTurn);
    it.settle();
    assert!(it.told().ends_with("turn_ended DONE"));
}

#[test]
fn looking_at_what_changes_is_no_loop_but_has_an_end() {
    let mut it = Loop::new(ApprovalPolicy::ApproveAll, 0);
    it.prompt("go");
    for n in 0..50 {
        it.settle();
        it.use_tool(&format!("r{n}"), &format!("line {n}"));
        let noted = it.results()[0].contains("this call has been made");
        assert_eq!(noted, n >= 19, "{:?}", it.results());
    }
    assert_eq!(it.settle(), Next::Idle);
    assert!(it.told().ends_with("turn_ended LOOP"));
    // Another call in between begins anew.
    let mut it = Loop::new(ApprovalPolicy::ApproveAll, 0);
    it.prompt("go");
    for n in 0..60 {
        it.settle();
        if n == 30 {
            let args = r#"{"path": "other"}"#;
            it.reply(vec![tool_with("o", "read", args)], StopReason::ToolUse);
            it.settle();
            it.finish("o", "");
            it.settle();
        }
        it.use_tool(&format!("r{n}"), &format!("line {n}"));
    }
    it.settle();
    assert!(it.told().ends_with("model_called #1"), "{}", it.told());
}

#[test]
fn another_picture_is_another_result() {
    for (same, expected) in [(true, "turn_ended LOOP"), (false, "model_called #1")] {
        let mut it = Loop::new(ApprovalPolicy::ApproveAll, 0);
        it.prompt("go");
        for n in 0..6 {
            it.settle();
            it.reply(
                vec![tool_with(&format!("r{n}"), "read", "{}")],
                StopReason::ToolUse,
            );
            it.settle();
            let image = Image {
                blob: if same { "b".into() } else { format!("b{n}") },
                ..Image::default()
            };
            it.send(Command::ToolFinished {
                tool_call_id: format!("r{n}"),
                outcome: Outcome::Ok,
                content: "a screenshot".into(),
                exec_id: String::new(),
                images: vec![image],
                blob: String::new(),
            })
            .unwrap();
        }
        it.settle();
        assert!(it.told().ends_with(expected), "{}", it.told());
    }
}

#[test]
fn what_the_model_is_told_first_is_written_when_it_changes() {
    let mut it = Loop::new(ApprovalPolicy::ApproveAll, 0);
    let instruct = |system: &str| Command::Instruct {
        system: system.into(),
        tools: vec!["read".into()],
        tools_hash: vec![1],
    };
    assert!(it.send(instruct("a")).is_err(), "no turn is under way");
    it.prompt("go");
    it.settle();
    assert_eq!(it.send(instruct("a")).unwrap().len(), 1);
    assert_eq!(it.send(instruct("a")), Ok(vec![]));
    assert_eq!(it.send(instruct("b")).unwrap().len(), 1);
    assert!(it.state().is_instructed("b", &["read".into()], &[1]));
}
