//! Links for others.

use crate::{fake::Fake, program::Program};

#[tokio::test]
async fn a_share_is_made_and_its_link_leads_to_where_browsers_reach_the_api() {
    let api = Fake::new().serve().await;
    let program = Program::new(&api);
    let run = program.run(&["share", "create", "--expires", "7d"]).await;
    assert_eq!(run.text(), format!("{api}/share#cbs_one\n"));
    assert!(run.stderr.contains("until you revoke it"), "{}", run.stderr);
    let made = ["share", "create", "--label", "demo", "--for", "bob"];
    let at = ["--at", "https://box.example/", "--json"];
    let run = program.run(&[&made[..], &at].concat()).await;
    let share: serde_json::Value = serde_json::from_str(&run.text()).unwrap();
    assert_eq!(share["link"], "https://box.example/share#cbs_one");
    assert_eq!(
        (&share["label"], &share["for_user"]),
        (&"demo".into(), &"bob".into())
    );
    let nothing = program.run(&["share", "create", "--box", "nothing"]).await;
    assert_eq!(nothing.code, 3);
}

#[tokio::test]
async fn shares_are_listed_given_another_link_and_ended() {
    let program = Program::new(Fake::new().serve().await);
    let at = ["--at", "https://box.example"];
    let listed = program
        .run(&[&["share", "list", "--ended"][..], &at].concat())
        .await;
    insta::assert_snapshot!(listed.text(), @"
    ID  STATE    BOX  OPENED  LAST                          ENDS                      FOR     LABEL         LINK
    s2  live     b1   2       2023-11-14 22:14:20.000Z bob  2023-11-14 23:13:20.000Z  bob     for the team  https://box.example/share#cbs_two
    s1  revoked  b1   0       never                         never                     anyone  for the team
    ");
    let run = program.run(&["share", "revoke", "s2"]).await;
    assert_eq!((run.code, run.text()), (0, "revoked s2\n".to_owned()));
    let run = program
        .run(&[&["share", "regenerate", "s2"][..], &at].concat())
        .await;
    assert_eq!(run.text(), "https://box.example/share#cbs_three\n");
    let run = program.run(&["share", "revoke", "s9"]).await;
    assert_eq!(run.code, 3);
    insta::assert_snapshot!(run.stderr, @"
    error: there is no share `s9` [NO_SUCH_SHARE]
      `cocoonbox share list` lists them
    ");
}
