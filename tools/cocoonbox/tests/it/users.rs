//! Logging in and out.

use std::{fs, os::unix::fs::PermissionsExt};

use crate::{fake::Fake, program::Program};

#[tokio::test]
async fn a_token_comes_by_stdin_and_stays_private() {
    let fake = Fake::new();
    let api = fake.serve().await;
    let program = Program::new(&api).without_token().stdin("secret-token\n");
    let run = program.run(&["login"]).await;
    assert_eq!(
        (run.code, run.text()),
        (0, format!("logged in to {api} as ann\n"))
    );
    let file = program
        .home
        .path()
        .join(".config/cocoonbox/credentials.toml");
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(program.run(&["whoami"]).await.text(), "ann (admin)\tu1\n");

    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let run = program.run(&["whoami"]).await;
    assert_eq!(run.code, 4);
    assert!(
        run.stderr.contains("can be read by others (mode 644)"),
        "{}",
        run.stderr
    );
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();

    assert_eq!(program.run(&["logout"]).await.code, 0);
    let run = program.run(&["whoami"]).await;
    assert_eq!(run.code, 4);
    insta::assert_snapshot!(run.stderr, @"
    error: this token is not valid
      `cocoonbox login` stores a token; on the api's host `cocoonbox up` makes one
    ");
}

#[tokio::test]
async fn a_wrong_token_is_not_kept() {
    let fake = Fake::new();
    let program = Program::new(fake.serve().await)
        .without_token()
        .stdin("wrong");
    assert_eq!(program.run(&["login"]).await.code, 4);
    assert!(
        !program
            .home
            .path()
            .join(".config/cocoonbox/credentials.toml")
            .exists()
    );
    let program = Program::new(fake.serve().await).without_token();
    assert_eq!(program.run(&["login"]).await.code, 2);
}

#[tokio::test]
async fn a_sign_in_link_leads_to_where_the_browser_reaches_the_api() {
    let fake = Fake::new();
    let api = fake.serve().await;
    let program = Program::new(&api);
    let run = program.run(&["console"]).await;
    assert_eq!(run.text(), format!("{api}/#sign-in=cbx_link\n"));
    assert!(run.stderr.contains("once"), "{}", run.stderr);
    let run = program
        .run(&["console", "--at", "https://box.example/", "--json"])
        .await;
    let link: serde_json::Value = serde_json::from_str(&run.text()).unwrap();
    assert_eq!(link["link"], "https://box.example/#sign-in=cbx_link");
}

#[tokio::test]
async fn passkeys_are_listed_and_removed() {
    let fake = Fake::new();
    let program = Program::new(fake.serve().await);
    let listed = program.run(&["passkey", "list"]).await;
    insta::assert_snapshot!(listed.text(), @"
    ID  ADDED                     LAST USED                 AT         NAME
    p1  2023-11-14 22:13:20.000Z  never                     localhost  key p1
    p2  2023-11-14 22:13:20.000Z  2023-11-14 22:14:20.000Z  localhost  key p2
    ");
    let run = program.run(&["passkey", "remove", "p1"]).await;
    assert_eq!((run.code, run.text()), (0, "removed p1\n".to_owned()));
    assert_ne!(program.run(&["passkey", "remove", "p9"]).await.code, 0);
}
