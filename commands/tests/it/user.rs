use std::collections::BTreeMap;

use cocoonbox_commands::user::{Command, Rejection, State, TOKENS_LIVE_MAX};
use proptest::prelude::*;

use crate::machine::Machine;

fn created() -> Machine<State> {
    let mut user = Machine::new();
    let create = Command::Create {
        user_id: "u".into(),
        name: "ann".into(),
        admin: true,
    };
    user.send(&create).unwrap();
    assert_eq!(user.send(&create), Ok(vec![]));
    user
}

fn issue(id: &str) -> Command {
    Command::IssueToken {
        token_id: id.into(),
        label: "laptop".into(),
        sign_in: false,
    }
}

fn exchange(link: &str, token: &str) -> Command {
    Command::Exchange {
        link_id: link.into(),
        token_id: token.into(),
        label: "console".into(),
    }
}

#[test]
fn a_sign_in_link_opens_nothing_but_is_a_token_once() {
    let mut user = created();
    let link = Command::IssueToken {
        token_id: "l".into(),
        label: "sign-in".into(),
        sign_in: true,
    };
    user.send(&link).unwrap();
    assert!(user.state.is_live("l") && !user.state.opens("l"));
    assert_eq!(user.send(&exchange("l", "t")).unwrap().len(), 2);
    assert!(!user.state.is_live("l") && user.state.opens("t"));
    for (link, token) in [("l", "t2"), ("t", "t2"), ("none", "t2")] {
        let again = user.send(&exchange(link, token));
        assert_eq!(again, Err(Rejection::NoSuchLink), "{link}");
    }
    user.check_fold();
}

#[test]
fn a_token_lives_once() {
    let mut user = created();
    user.send(&issue("t")).unwrap();
    assert!(user.state.is_live("t"));
    assert_eq!(user.send(&issue("t")), Ok(vec![]));
    let revoke = Command::RevokeToken {
        token_id: "t".into(),
    };
    user.send(&revoke).unwrap();
    assert!(!user.state.is_live("t"));
    assert_eq!(user.send(&revoke), Ok(vec![]));
    assert_eq!(
        user.send(&issue("t")),
        Err(Rejection::TokenRevoked {
            token_id: "t".into()
        })
    );
}

#[test]
fn the_hundred_and_first_token_is_refused_until_one_is_revoked() {
    let mut user = created();
    for n in 0..TOKENS_LIVE_MAX {
        user.send(&issue(&format!("t{n}"))).unwrap();
    }
    assert_eq!(user.send(&issue("more")), Err(Rejection::TooManyTokens));
    user.send(&Command::RevokeToken {
        token_id: "t7".into(),
    })
    .unwrap();
    assert_eq!(user.send(&issue("more")).unwrap().len(), 1);
}

#[test]
fn nothing_lives_after_delete() {
    let mut user = created();
    user.send(&issue("t")).unwrap();
    user.send(&Command::Delete).unwrap();
    assert!(!user.state.is_live("t"));
    assert_eq!(user.state.live_tokens(), 0);
    assert_eq!(user.send(&issue("t2")), Err(Rejection::Deleted));
    assert_eq!(user.send(&Command::Delete), Ok(vec![]));
    assert_eq!(
        Machine::<State>::new().send(&Command::Delete),
        Err(Rejection::NotFound)
    );
}

proptest! {
    #[test]
    fn agrees_with_a_map(steps in prop::collection::vec((0..5_u8, 0..6_u8), 0..60)) {
        let mut user = created();
        let mut tokens: BTreeMap<String, bool> = BTreeMap::new();
        let mut deleted = false;
        for (what, n) in steps {
            let id = format!("t{n}");
            let revoke = Command::RevokeToken { token_id: id.clone() };
            match what {
                0 | 1 if user.send(&issue(&id)).is_ok() => drop(tokens.entry(id).or_insert(true)),
                2 if user.send(&revoke).is_ok() => drop(tokens.insert(id, false)),
                3 => drop(user.send(&Command::Rename { name: format!("n{n}") })),
                4 if n == 0 => {
                    user.send(&Command::Delete).unwrap();
                    deleted = true;
                }
                _ => {}
            }
            for (id, live) in &tokens {
                prop_assert_eq!(user.state.is_live(id), *live && !deleted);
            }
        }
        user.check_fold();
    }
}
