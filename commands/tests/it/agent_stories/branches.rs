//! Conversations that go on from an earlier message.

use cocoonbox_commands::agent::{Command, Rejection};
use cocoonbox_proto::log::v1::ApprovalPolicy;
use proptest::prelude::*;

use crate::agent_loop::Loop;

fn branch(branch_id: &str, before: &str, text: &str) -> Command {
    Command::Branch {
        branch_id: branch_id.into(),
        before_prompt_id: before.into(),
        prompt_id: format!("p-{branch_id}"),
        text: text.into(),
    }
}

fn select(branch_id: &str) -> Command {
    Command::SelectBranch {
        branch_id: branch_id.into(),
    }
}

/// Asks and answers; returns the prompt's id.
fn turn(it: &mut Loop, words: &str) -> String {
    let prompt_id = it.steer(words);
    it.settle();
    it.say(&format!("re {words}"), 0);
    it.settle();
    prompt_id
}

#[test]
fn a_branch_keeps_what_it_left() {
    let mut it = Loop::new(ApprovalPolicy::ApproveAll, 0);
    turn(&mut it, "one");
    let second = turn(&mut it, "two");
    let left = it.conversation();
    assert_eq!(it.send(branch("b", &second, "zwei")).unwrap().len(), 2);
    assert_eq!(it.send(branch("b", &second, "zwei")), Ok(vec![]));
    assert!(
        matches!(it.send(select("")), Err(Rejection::Busy)),
        "its prompt waits"
    );
    it.settle();
    it.say("so be it", 0);
    it.settle();
    assert_eq!(
        it.conversation(),
        ["user one", "agent re one", "user zwei", "agent so be it"]
    );
    assert!(matches!(
        it.send(branch("c", &second, "x")),
        Err(Rejection::PromptNotTakenUp { .. })
    ));
    it.send(select("")).unwrap();
    assert_eq!((it.conversation(), it.state().branch_id()), (left, ""));
    assert_eq!(it.state().branch_ids(), ["", "b"]);
    assert_eq!(it.send(select("")), Ok(vec![]));
    assert!(matches!(
        it.send(select("none")),
        Err(Rejection::UnknownBranch { .. })
    ));
}

proptest! {
    /// Whatever was branched off, and whatever was summed up on the way: each branch is as it was left.
    #[test]
    fn a_branch_is_as_it_was_left(
        steps in prop::collection::vec((any::<u8>(), any::<u8>(), any::<bool>()), 1..30),
    ) {
        let mut it = Loop::new(ApprovalPolicy::ApproveAll, 0);
        let mut left = std::collections::BTreeMap::new();
        let mut prompts = vec![turn(&mut it, "first")];
        for (n, (what, which, long)) in steps.into_iter().enumerate() {
            match what % 4 {
                0 => {
                    let before = &prompts[usize::from(which) % prompts.len()];
                    let (from, told) = (it.state().branch_id().to_owned(), it.conversation());
                    if it.send(branch(&format!("b{n}"), before, "again")).is_ok() {
                        left.insert(from, told);
                        prompts.push(format!("p-b{n}"));
                        it.settle();
                        it.say("answer", 0);
                        it.settle();
                    }
                }
                1 => {
                    let ids = it.state().branch_ids();
                    let to = ids[usize::from(which) % ids.len()].clone();
                    let (from, told) = (it.state().branch_id().to_owned(), it.conversation());
                    if !it.send(select(&to)).unwrap().is_empty() {
                        left.insert(from, told);
                        prop_assert_eq!(Some(&it.conversation()), left.get(&to));
                    }
                }
                _ => {
                    let words = if long { "w".repeat(150_000) } else { format!("t{n}") };
                    let prompt_id = it.steer(&words);
                    // A long one is summed up first.
                    for _ in 0..4 {
                        if let cocoonbox_commands::agent::Next::CallModel { .. } = it.settle() {
                            it.say("s", if long { 190_000 } else { 0 });
                        }
                    }
                    it.settle();
                    prompts.push(prompt_id);
                }
            }
        }
        it.machine.check_fold();
    }
}
