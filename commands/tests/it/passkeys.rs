//! Passkeys of a user.

use cocoonbox_commands::user::{
    CHALLENGE_LIFE_US, Challenge, Command, NewPasskey, PASSKEYS_MAX, Rejection, Signed, State,
};
use cocoonbox_events::UserEvent;
use proptest::prelude::*;

use crate::machine::Machine;

fn created() -> Machine<State> {
    let mut user = Machine::new();
    let create = Command::Create {
        user_id: "u".into(),
        name: "ann".into(),
        admin: false,
    };
    user.send(&create).unwrap();
    user
}

fn challenge(n: u32) -> Challenge {
    Challenge {
        id: n.to_be_bytes().to_vec(),
        made_us: i64::from(n),
    }
}

fn add(id: &str, sign_count: u32, n: u32) -> Command {
    Command::AddPasskey {
        passkey: NewPasskey {
            passkey_id: id.into(),
            name: "phone".into(),
            credential_id: format!("credential {id}").into(),
            public_key: vec![1],
            host: "box.example".into(),
            sign_count,
            may_be_copied: true,
            is_copied: false,
        },
        challenge: challenge(n),
    }
}

fn sign_in(id: &str, sign_count: u32, n: u32) -> Command {
    Command::SignIn {
        signed: Signed {
            passkey_id: id.into(),
            sign_count,
            is_copied: true,
        },
        challenge: challenge(n),
        token_id: format!("t{n}"),
        label: "console".into(),
    }
}

fn remove(id: &str) -> Command {
    Command::RemovePasskey {
        passkey_id: id.into(),
    }
}

fn no_such(id: &str) -> Rejection {
    Rejection::NoSuchPasskey {
        passkey_id: id.into(),
    }
}

#[test]
fn a_passkey_signs_in_until_it_is_removed() {
    let mut user = created();
    assert_eq!(user.send(&sign_in("p", 1, 0)), Err(no_such("p")));
    user.send(&add("p", 0, 1)).unwrap();
    assert_eq!(user.send(&sign_in("p", 5, 2)).unwrap().len(), 2);
    assert!(user.state.opens("t2"));
    let (id, passkey) = user.state.passkey_of(b"credential p").unwrap();
    assert_eq!((id, passkey.sign_count, passkey.is_copied), ("p", 5, true));
    assert_eq!(user.send(&remove("p")).unwrap().len(), 1);
    assert_eq!(user.send(&remove("p")), Ok(vec![]));
    assert_eq!(user.send(&remove("none")), Err(no_such("none")));
    assert_eq!(user.send(&sign_in("p", 6, 3)), Err(no_such("p")));
    assert_eq!(user.state.passkey_of(b"credential p"), None);
    assert!(user.state.opens("t2"), "its session goes on");
    user.check_fold();
}

#[test]
fn a_challenge_is_answered_once() {
    let mut user = created();
    user.send(&add("p", 0, 1)).unwrap();
    assert_eq!(user.send(&add("q", 0, 1)), Err(Rejection::ChallengeSpent));
    assert_eq!(
        user.send(&sign_in("p", 0, 1)),
        Err(Rejection::ChallengeSpent)
    );
    user.send(&sign_in("p", 0, 2)).unwrap();
    assert_eq!(
        user.send(&sign_in("p", 0, 2)),
        Err(Rejection::ChallengeSpent)
    );
    // It is remembered for as long as it could be answered, and not for ever.
    let at = |made_us| {
        let Command::SignIn {
            signed,
            token_id,
            label,
            ..
        } = sign_in("p", 0, 3)
        else {
            unreachable!()
        };
        let challenge = Challenge {
            id: vec![9],
            made_us,
        };
        let token_id = format!("{token_id}-{made_us}");
        Command::SignIn {
            signed,
            challenge,
            token_id,
            label,
        }
    };
    let (first_us, late_us) = (1_000, 1_000 + CHALLENGE_LIFE_US);
    user.send(&at(first_us)).unwrap();
    let mut later = challenge(4);
    later.made_us = late_us;
    let Command::SignIn {
        signed,
        token_id,
        label,
        ..
    } = sign_in("p", 0, 4)
    else {
        unreachable!()
    };
    let later = Command::SignIn {
        signed,
        challenge: later,
        token_id,
        label,
    };
    user.send(&later).unwrap();
    assert_eq!(user.send(&at(first_us)), Err(Rejection::ChallengeSpent));
    user.check_fold();
}

#[test]
fn a_count_that_does_not_go_up_is_an_event_and_opens_nothing() {
    let mut user = created();
    user.send(&add("p", 7, 1)).unwrap();
    for (count, n) in [(7, 2), (6, 3), (0, 4)] {
        let events = user.send(&sign_in("p", count, n)).unwrap();
        let [UserEvent::PasskeyRefused(refused)] = &events[..] else {
            panic!("{events:?}")
        };
        assert_eq!(refused.sign_count, count);
        assert!(!user.state.opens(&format!("t{n}")));
        assert_eq!(
            user.send(&sign_in("p", count, n)),
            Err(Rejection::ChallengeSpent)
        );
    }
    assert_eq!(user.send(&sign_in("p", 8, 5)).unwrap().len(), 2);
    // Who does not count says 0 for ever.
    user.send(&add("q", 0, 6)).unwrap();
    assert_eq!(user.send(&sign_in("q", 0, 7)).unwrap().len(), 2);
    assert_eq!(user.send(&sign_in("q", 0, 8)).unwrap().len(), 2);
    user.check_fold();
}

#[test]
fn there_is_each_once_and_not_any_number() {
    let mut user = created();
    let max = u32::try_from(PASSKEYS_MAX).unwrap();
    for n in 0..max {
        user.send(&add(&format!("p{n}"), 0, n)).unwrap();
    }
    assert_eq!(user.send(&add("p0", 0, max)), Err(Rejection::PasskeyKnown));
    assert_eq!(
        user.send(&add("more", 0, max)),
        Err(Rejection::TooManyPasskeys)
    );
    user.send(&remove("p0")).unwrap();
    assert_eq!(user.send(&add("more", 0, max)).unwrap().len(), 1);
    assert_eq!(
        user.send(&add("p0", 0, max + 1)),
        Err(Rejection::PasskeyKnown)
    );
    let mut nameless = add("x", 0, max + 1);
    if let Command::AddPasskey { passkey, .. } = &mut nameless {
        passkey.name.clear();
    }
    assert!(matches!(user.send(&nameless), Err(Rejection::BadName(_))));
    user.check_fold();
}

#[test]
fn none_lives_after_delete() {
    let mut user = created();
    user.send(&add("p", 0, 1)).unwrap();
    user.send(&Command::Delete).unwrap();
    assert_eq!(user.state.passkey_of(b"credential p"), None);
    for command in [sign_in("p", 0, 2), add("q", 0, 3), remove("p")] {
        assert_eq!(user.send(&command), Err(Rejection::Deleted));
    }
}

proptest! {
    /// Whatever happened, a token is issued for a count that goes up and a challenge that was not answered.
    #[test]
    fn agrees_with_a_list(steps in prop::collection::vec((0..4_u8, 0..3_u8, 0..6_u32, 0..12_u32), 0..60)) {
        let mut user = created();
        let mut counts = std::collections::BTreeMap::<String, u32>::new();
        let mut answered = std::collections::BTreeSet::new();
        for (what, which, count, n) in steps {
            let id = format!("p{which}");
            let known = counts.get(&id).copied();
            match what {
                0 => {
                    let is_good = user.send(&add(&id, count, n)).is_ok();
                    // An id is used once: one that was removed stays in the history.
                    if is_good {
                        prop_assert!(known.is_none() && answered.insert(n));
                        counts.insert(id, count);
                    }
                }
                1 | 2 => {
                    let sent = user.send(&sign_in(&id, count, n));
                    let opens = user.state.opens(&format!("t{n}"));
                    match (sent, known) {
                        (Ok(events), Some(known)) => {
                            prop_assert!(answered.insert(n));
                            let is_up = count > known || (count, known) == (0, 0);
                            prop_assert_eq!((events.len(), opens), if is_up { (2, true) } else { (1, false) });
                            if is_up {
                                counts.insert(id, count);
                            }
                        }
                        (Err(_), known) => prop_assert!(known.is_none() || answered.contains(&n)),
                        (Ok(_), None) => prop_assert!(false, "an unknown one signs in"),
                    }
                }
                _ => if user.send(&remove(&id)).is_ok() {
                    counts.remove(&id);
                },
            }
        }
        user.check_fold();
    }
}
