//! Errors: told to people and to scripts.

use std::{collections::HashMap, time::Duration};

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::{fake::Fake, program::Program};

#[tokio::test]
async fn details_become_words_and_exit_codes() {
    let fake = Fake::new();
    let mut details = ErrorDetails::with_error_info(
        "BOX_NOT_RUNNING",
        "cocoonbox",
        HashMap::<String, String>::new(),
    );
    details.set_retry_info(Some(Duration::from_millis(10)));
    let status = Status::with_error_details(Code::Unavailable, "box `b1` does not run", details);
    fake.state().list_error = Some(status);
    let program = Program::new(fake.serve().await);
    let run = program.run(&["exec", "--", "true"]).await;
    assert_eq!((run.code, run.text().as_str()), (5, ""));
    insta::assert_snapshot!(run.stderr, @"
    error: box `b1` does not run [BOX_NOT_RUNNING]
      try again in 0.0 s
      `cocoonbox ensure` wakes the box
    ");
    // A read is repeated while the api says that it may be.
    assert_eq!(fake.state().seen.metadata.len(), 4);
    let run = program.run(&["--json", "boxes"]).await;
    insta::assert_snapshot!(run.stderr, @r#"{"error":{"message":"box `b1` does not run","reason":"BOX_NOT_RUNNING","advice":"`cocoonbox ensure` wakes the box","retry_after_ms":10,"exit_code":5}}"#);
}

#[tokio::test]
async fn an_api_that_does_not_answer_is_said_with_the_cure() {
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let run = Program::new(format!("http://{free}")).run(&["boxes"]).await;
    assert_eq!(run.code, 5);
    let stderr = run.stderr.replace(&free.to_string(), "HOST:PORT");
    insta::assert_snapshot!(stderr, @"
    error: no api answers at http://HOST:PORT (tcp connect error: Connection refused (os error 111))
      `cocoonbox up` starts one on this host; `--api` or COCOONBOX_API names another
    ");
}

#[tokio::test]
async fn what_is_not_there_is_code_3() {
    let fake = Fake::new();
    let program = Program::new(fake.serve().await);
    let run = program.run(&["exec", "--box", "nope", "--", "true"]).await;
    assert_eq!(run.code, 3);
    insta::assert_snapshot!(run.stderr, @"
    error: there is no box `nope` [NO_SUCH_BOX]
      `cocoonbox ensure nope` makes it, `cocoonbox boxes` lists those there are
    ");
    assert_eq!(program.run(&["send", "--agent", "nope", "x"]).await.code, 3);
}

#[tokio::test]
async fn a_wrong_call_is_code_2() {
    let program = Program::new("http://127.0.0.1:9");
    assert_eq!(program.run(&["exec"]).await.code, 2);
    assert_eq!(program.run(&["nonsense"]).await.code, 2);
    assert_eq!(program.run(&["--api", "https://x", "boxes"]).await.code, 2);
    assert_eq!(program.run(&["send", " "]).await.code, 2);
    let long = "x".repeat(201 * 1024);
    let run = Program::new("http://127.0.0.1:9")
        .stdin(long)
        .run(&["send", "-"])
        .await;
    assert_eq!(run.code, 2);
}
