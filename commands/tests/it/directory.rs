use std::collections::BTreeMap;

use cocoonbox_commands::directory::{Command, Rejection, State};
use cocoonbox_events::LogId;
use proptest::prelude::*;

use crate::machine::Machine;

fn log(n: u8) -> LogId {
    LogId::from_slice(&[n; 16]).unwrap()
}

fn add(id: &str, name: &str) -> Command {
    Command::AddUser {
        user_id: id.into(),
        name: name.into(),
        account_log: log(1),
        admin: false,
    }
}

#[test]
fn a_name_is_free_again_once_its_user_is_gone() {
    let mut directory = Machine::<State>::new();
    directory.send(&add("u1", "ann")).unwrap();
    assert_eq!(
        directory.send(&add("u2", "ann")),
        Err(Rejection::NameTaken { name: "ann".into() })
    );
    assert_eq!(
        directory.send(&add("u1", "other")),
        Ok(vec![]),
        "the same id is the same user"
    );
    assert_eq!(directory.state.by_name("ann").unwrap().user_id, "u1");
    directory
        .send(&Command::RemoveUser {
            user_id: "u1".into(),
        })
        .unwrap();
    assert_eq!(directory.send(&add("u2", "ann")).unwrap().len(), 1);
    assert!(matches!(
        directory.send(&add("u3", "Ann")),
        Err(Rejection::BadName(_))
    ));
}

proptest! {
    #[test]
    fn agrees_with_a_map(steps in prop::collection::vec((any::<bool>(), 0..4_u8, 0..4_u8), 0..40)) {
        let mut directory = Machine::<State>::new();
        let mut model: BTreeMap<String, String> = BTreeMap::new();
        for (adding, id, name) in steps {
            let (id, name) = (format!("u{id}"), format!("n{name}"));
            if adding {
                let answer = directory.send(&add(&id, &name));
                let taken = model.values().any(|known| *known == name);
                let known = model.contains_key(&id);
                if known {
                    prop_assert_eq!(answer, Ok(vec![]));
                } else if taken {
                    prop_assert_eq!(answer, Err(Rejection::NameTaken { name }));
                } else {
                    prop_assert_eq!(answer.unwrap().len(), 1);
                    model.insert(id, name);
                }
            } else {
                let answer = directory.send(&Command::RemoveUser { user_id: id.clone() }).unwrap();
                prop_assert_eq!(answer.len(), usize::from(model.remove(&id).is_some()));
            }
            let users: Vec<_> = directory.state.users().map(|user| (&user.user_id, &user.name)).collect();
            prop_assert_eq!(users, model.iter().collect::<Vec<_>>());
            for (id, name) in &model {
                prop_assert_eq!(&directory.state.by_name(name).unwrap().user_id, id);
            }
        }
        directory.check_fold();
    }
}
