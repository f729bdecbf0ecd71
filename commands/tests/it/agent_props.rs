//! Random commands in any order, and what holds whatever they are.

mod observer;
mod step;

use cocoonbox_commands::agent::{Command, Next, State};
use cocoonbox_events::{
    Aggregate, Payload,
    erasure::{self, Erasable},
};
use cocoonbox_proto::log::v1::{
    ApprovalPolicy, StopReason, agent_approval_decided::Scope, agent_tool_finished::Outcome,
};
use proptest::prelude::*;

use crate::agent_loop::{Loop, finished, replied, text};
use observer::{Observer, check_conversation};
use step::{Step, any_step, run};

/// A loop that does what it is told, with a model that is done at once. Returns whether it came to rest.
fn drive(it: &mut Loop, observer: &mut Observer) {
    for _ in 0..2_000 {
        let events = match it.state().next() {
            Next::Idle => return,
            Next::Advance => {
                let events = it.advance();
                assert!(!events.is_empty(), "due, but nothing was written");
                events
            }
            Next::CallModel { call_id, .. } => it
                .send(replied(&call_id, vec![text("done")], StopReason::EndTurn))
                .unwrap(),
            Next::RunTools(calls) => it
                .send(finished(&calls[0].tool_call_id, Outcome::Ok, "ran"))
                .unwrap(),
            Next::WaitBudget { retry_after_ms } => {
                assert!(retry_after_ms > 0);
                let events = it.advance();
                assert!(
                    !events.is_empty(),
                    "there is room again, but nothing was written"
                );
                events
            }
            Next::Wait(waiting) if waiting.approvals.is_empty() => {
                assert!(!waiting.is_empty(), "waits for nobody");
                let question_id = waiting.questions[0].question_id.clone();
                it.send(Command::Answer {
                    question_id,
                    answer: "that".into(),
                })
                .unwrap()
            }
            Next::Wait(waiting) => {
                let approval_id = waiting.approvals[0].approval_id.clone();
                it.send(Command::Approve {
                    approval_id,
                    allowed: true,
                    comment: String::new(),
                    scope: Scope::Once,
                    now_us: 0,
                })
                .unwrap()
            }
        };
        observer.see_all(&events);
        check_conversation(&it.state().conversation());
    }
    panic!("the turn does not end");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_commands(
        steps in prop::collection::vec(any_step(), 0..120),
        ask in any::<bool>(),
        steps_max in 1..6_u32,
        restart in any::<bool>(),
    ) {
        let approval =
            if ask { ApprovalPolicy::AskBeforeEffects } else { ApprovalPolicy::ApproveAll };
        let mut it = Loop::new(approval, steps_max);
        it.now_us = 1_000_000;
        let mut observer = Observer::of(&it);
        for step in &steps {
            let before = it.state().clone();
            let due = matches!(it.state().next(), Next::Advance | Next::WaitBudget { .. });
            match run(&mut it, step) {
                Ok(events) => {
                    if matches!(step, Step::Advance) {
                        prop_assert_eq!(due, !events.is_empty());
                    }
                    observer.see_all(&events);
                }
                Err(_) => prop_assert_eq!(&before, it.state()),
            }
            check_conversation(&it.state().conversation());
        }
        it.machine.check_fold();
        if restart {
            let events = it.send(Command::Restarted).unwrap();
            observer.see_all(&events);
        }
        drive(&mut it, &mut observer);
        prop_assert!(it.state().turn.is_none() && !observer.in_turn);
        prop_assert!(it.state().queued.is_empty());
        it.machine.check_fold();
    }

    /// Whatever of a conversation at rest is erased, what deciders stand on is as it was.
    #[test]
    fn an_erasure_changes_no_decision(
        steps in prop::collection::vec(any_step(), 0..80),
        ask in any::<bool>(),
        chosen in prop::collection::vec(any::<bool>(), 1..40),
    ) {
        let approval =
            if ask { ApprovalPolicy::AskBeforeEffects } else { ApprovalPolicy::ApproveAll };
        let mut it = Loop::new(approval, 4);
        it.now_us = 1_000_000;
        for step in &steps {
            drop(run(&mut it, step));
        }
        let mut observer = Observer::of(&it);
        observer.see_all(&it.machine.history);
        drive(&mut it, &mut observer);
        let mut erased = State::default();
        for (event, chosen) in it.machine.history.iter().zip(chosen.iter().cycle()) {
            let payload: Payload = event.clone().into();
            let left = match event.kind().erasable() {
                Erasable::Husk if *chosen => erasure::husk(&payload),
                Erasable::Loose if *chosen => None,
                Erasable::Husk | Erasable::Loose | Erasable::Structure { .. } => Some(payload),
            };
            if let Some(event) = left.and_then(State::pick) {
                erased = erased.evolve(&event).unwrap();
            }
        }
        check_conversation(&erased.conversation());
        let (before, after) = (it.state().clone().without_content(), erased.clone().without_content());
        prop_assert_eq!(before, after);
        for command in [
            Command::Prompt { prompt_id: "another".into(), text: "go on".into(),steer: false,
images: Vec::new(),},
            Command::Prompt { prompt_id: "p1".into(), text: "again".into(),steer: false,
images: Vec::new(),},
            Command::Advance {
                turn_id: "t-another".into(),
                call_id: "c-another".into(),
                approval_id: "a-another".into(),now_us: 0,},
            Command::Close,
            Command::Cancel { turn_id: String::new() },
            Command::Restarted,
        ] {
            prop_assert_eq!(it.state().decide(&command), erased.decide(&command));
        }
    }

    /// A replica may end anywhere, also inside an append: from every prefix the turn still ends.
    #[test]
    fn every_prefix_goes_on(steps in prop::collection::vec(any_step(), 0..60), ask in any::<bool>()) {
        let approval =
            if ask { ApprovalPolicy::AskBeforeEffects } else { ApprovalPolicy::ApproveAll };
        let mut it = Loop::new(approval, 4);
        it.now_us = 1_000_000;
        for step in &steps {
            drop(run(&mut it, step));
        }
        let history = it.machine.history.clone();
        for end in 1..=history.len() {
            // The first event is `created`, which a new loop writes itself.
            let mut cut = Loop::new(approval, 4);
            let mut observer = Observer::of(&it);
            for event in &history[1..end] {
                cut.machine.take(event);
                observer.see(event);
            }
            for _ in 0..1_000 {
                cut.draw();
            }
            let events = cut.send(Command::Restarted).unwrap();
            observer.see_all(&events);
            drive(&mut cut, &mut observer);
            prop_assert!(cut.state().turn.is_none());
        }
    }
}
