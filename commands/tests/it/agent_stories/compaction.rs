//! Conversations that are too long for their model.

use cocoonbox_commands::agent::{Command, Entry, Next};
use cocoonbox_proto::log::v1::{
    AgentCreated, ModelChoice, ModelRole, ModelRoles, StopReason, agent_model_failed::Reason,
};

use crate::agent_loop::{Loop, agent, model, story, text};

/// Room for 8,000 tokens; 6,392 are full.
fn small() -> Loop {
    let main = ModelChoice {
        context_tokens_max: 8_000,
        ..model("m")
    };
    Loop::with(AgentCreated {
        models: Some(ModelRoles {
            main: Some(main),
            summarize: Some(model("s")),
            ..ModelRoles::default()
        }),
        ..agent()
    })
}

/// A turn of many tools, each with a result of about 600 tokens.
fn filled(it: &mut Loop, tools: usize) {
    it.prompt("go");
    it.settle();
    for n in 0..tools {
        it.use_tool(&format!("r{n}"), &format!("{n}{}", "x".repeat(2_400)));
        it.settle();
    }
}

#[test]
fn a_long_conversation_is_summed_up_and_goes_on() {
    let mut it = small();
    filled(&mut it, 11);
    let Next::CallModel { role, model, .. } = it.state().next() else {
        panic!()
    };
    assert_eq!((role, model.model.as_str()), (ModelRole::Summarize, "s"));
    let told = it.state().told();
    let [Entry::User { text: asked, .. }] = [&*told[0]] else {
        panic!("{told:?}")
    };
    assert!(asked.contains("## user\ngo\n") && asked.contains("[calls read {}]"));
    it.reply(vec![text("we read much")], StopReason::EndTurn);
    it.settle();
    let conversation = it.conversation();
    assert!(
        conversation[0].ends_with("we read much"),
        "{conversation:?}"
    );
    assert!(conversation[1].starts_with("agent +r"), "whole pairs stay");
    assert!(conversation.last().unwrap().starts_with("results 10"));
    it.say("done", 900);
    it.settle();
    let told = it.told();
    let end: Vec<&str> = told.lines().rev().take(6).collect();
    let end: Vec<&str> = end.into_iter().rev().collect();
    story(
        &end.join("\n"),
        &[
            "model_called #1 summarize s",
            "model_replied END_TURN",
            &format!("compacted {} entries", 23 - (conversation.len() - 1)),
            "model_called #1",
            "model_replied END_TURN",
            "turn_ended DONE",
        ],
    );
}

#[test]
fn a_fallback_with_less_room_is_told_less() {
    let fallback = ModelChoice {
        context_tokens_max: 8_000,
        ..model("f")
    };
    let mut it = Loop::with(AgentCreated {
        models: Some(ModelRoles {
            main: Some(model("m")),
            fallbacks: vec![fallback],
            ..ModelRoles::default()
        }),
        ..agent()
    });
    filled(&mut it, 11);
    assert!(it.told().ends_with("model_called #1"), "{}", it.told());
    it.fail(Reason::Rejected, false, 0);
    assert_eq!(it.state().retry_after_ms(), 0);
    it.settle();
    // The summary is not asked of the model that has just failed either.
    assert!(
        it.told().ends_with("model_called #1 summarize f"),
        "{}",
        it.told()
    );
    it.reply(vec![text("we read much")], StopReason::EndTurn);
    it.settle();
    let conversation = it.conversation();
    assert!(
        conversation[0].ends_with("we read much"),
        "{conversation:?}"
    );
    let bytes: usize = conversation.iter().map(String::len).sum();
    assert!(
        bytes / 4 < 6_392,
        "{bytes} bytes are more than it has room for"
    );
    // And it is the fallback that goes on.
    assert!(it.told().ends_with("model_called #1 f"), "{}", it.told());
    it.say("done", 900);
    it.settle();
    assert!(it.told().ends_with("turn_ended DONE"));
    // The next step begins with the first again, which has room for all of it.
    it.prompt("more");
    it.settle();
    assert!(it.told().ends_with("model_called #1"), "{}", it.told());
}

#[test]
fn where_no_summary_comes_the_long_parts_are_left_out() {
    let mut it = small();
    filled(&mut it, 11);
    it.fail(Reason::Rejected, false, 0);
    it.settle();
    let told = it.told();
    assert!(
        told.ends_with("model_failed REJECTED\ncompacted 23 entries\nmodel_called #1"),
        "{told}"
    );
    let conversation = it.conversation();
    assert_eq!(conversation.len(), 1);
    assert!(conversation[0].contains("No summary could be written"));
    assert!(conversation[0].len() < 6_000, "{}", conversation[0].len());
    // If even that does not fit, there is nothing left to try.
    it.fail(Reason::TooLong, false, 0);
    assert_eq!(it.settle(), Next::Idle);
    story(&it.told(), &["model_failed TOO_LONG", "turn_ended FAILED"]);
}

#[test]
fn an_empty_summary_is_none() {
    let mut it = small();
    filled(&mut it, 11);
    it.reply(vec![text(" ")], StopReason::EndTurn);
    it.settle();
    assert!(
        it.told()
            .ends_with("model_replied END_TURN\ncompacted 23 entries\nmodel_called #1")
    );
}

#[test]
fn a_call_that_was_too_long_is_made_shorter_once() {
    let mut it = small();
    filled(&mut it, 7);
    it.fail(Reason::TooLong, false, 0);
    it.settle();
    assert!(
        it.told()
            .ends_with("model_failed TOO_LONG\nmodel_called #1 summarize s")
    );
    it.reply(vec![text("short")], StopReason::EndTurn);
    it.settle();
    it.fail(Reason::TooLong, false, 0);
    it.settle();
    it.fail(Reason::TooLong, false, 0);
    it.settle();
    let told = it.told();
    let compacted = told
        .lines()
        .filter(|line| line.starts_with("compacted"))
        .count();
    assert_eq!(compacted, 2, "{told}");
    assert!(
        told.ends_with("model_failed TOO_LONG\nturn_ended FAILED"),
        "{told}"
    );
}

#[test]
fn a_cancel_breaks_a_summary_off() {
    let mut it = small();
    filled(&mut it, 11);
    it.send(Command::Cancel {
        turn_id: String::new(),
    })
    .unwrap();
    it.fail(Reason::Cut, false, 0);
    assert_eq!(it.settle(), Next::Idle);
    assert!(
        it.told()
            .ends_with("model_failed CUT\nturn_ended CANCELLED")
    );
}
