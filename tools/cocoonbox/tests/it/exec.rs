//! Commands: their bytes, their codes, and what a break may not do to them.

use cocoonbox_events::ExecEvent;
use cocoonbox_proto::log::v1::{ExecOutputStreamed, ExecStarted, exec_output_streamed::Source};
use tonic::Status;

use crate::{
    fake::{Cut, Fake, Script, exit, exited, key, printed, started},
    program::Program,
};

fn chunk(offset: u64, data: &[u8]) -> ExecEvent {
    ExecEvent::OutputStreamed(ExecOutputStreamed {
        source: Source::Stdout.into(),
        offset,
        data: data.to_vec(),
        skipped_bytes: 0,
    })
}

/// A log in which `e1` prints `one two three` and ends with 3.
fn logged(fake: &Fake) {
    fake.log(
        "exec/e1",
        ExecEvent::Started(ExecStarted {
            exec_id: "e1".into(),
            ..Default::default()
        }),
    );
    fake.log("exec/e1", chunk(0, b"one "));
    fake.log("exec/other", chunk(0, b"not ours"));
    fake.log("exec/e1", chunk(4, b"two "));
    fake.log("exec/e10", chunk(0, b"a longer name"));
    fake.log("exec/e1", chunk(8, b"three"));
    fake.log("exec/e1", ExecEvent::Exited(exit(3)));
}

#[tokio::test]
async fn bytes_and_code_pass_through() {
    let fake = Fake::new();
    fake.state().execs.push_back(Script::Frames(vec![
        started("e1", 1),
        printed(2, Source::Stdout, b"\x00\xff\r\n"),
        printed(3, Source::Stderr, b"oh"),
        printed(4, Source::Stdout, b"end"),
        exited(5, 3),
    ]));
    let run = Program::new(fake.serve().await)
        .run(&["exec", "--", "printf", "-x", "--json"])
        .await;
    assert_eq!(
        (run.code, run.stdout.as_slice()),
        (3, b"\x00\xff\r\nend".as_slice())
    );
    assert_eq!(run.stderr, "oh");
    let story = fake.state();
    assert_eq!(story.seen.starts[0].argv, ["printf", "-x", "--json"]);
    let call = (
        Some("Bearer secret-token".to_owned()),
        Some("b1".to_owned()),
    );
    assert_eq!(story.seen.metadata.last(), Some(&call));
}

#[tokio::test]
async fn a_broken_stream_goes_on_from_the_log_without_loss_or_repeat() {
    let fake = Fake::new();
    logged(&fake);
    fake.state().execs.push_back(Script::Frames(vec![
        started("e1", 1),
        printed(2, Source::Stdout, b"one "),
        Err(Status::unavailable("cut")),
    ]));
    fake.state().cuts.extend([Cut::Error(1), Cut::Clean(0)]);
    let run = Program::new(fake.serve().await)
        .run(&["exec", "--", "count"])
        .await;
    assert_eq!((run.code, run.text().as_str()), (3, "one two three"));
    assert!(
        run.stderr.contains("going on from the log"),
        "{}",
        run.stderr
    );
    assert_eq!(fake.state().seen.from_offsets, [key(2), key(4), key(4)]);
}

#[tokio::test]
async fn an_end_without_exited_is_no_success() {
    let fake = Fake::new();
    let cut = || Script::Frames(vec![started("e1", 1), printed(2, Source::Stdout, b"one ")]);
    fake.state().execs.extend([cut(), cut()]);
    fake.state().cuts.push_back(Cut::Always);
    let api = fake.serve().await;
    let run = Program::new(&api)
        .run(&["--retry-for", "500ms", "exec", "--", "count"])
        .await;
    assert_eq!((run.code, run.text().as_str()), (6, "one "));
    insta::assert_snapshot!(run.stderr, @"
    the connection broke (the stream ended before the command); going on from the log
    error: the stream broke off: gone
      resume with `--from log.0000000000000002.c0ffee00`
    ");
    let run = Program::new(&api)
        .run(&["exec", "--pipe", "--", "count"])
        .await;
    assert_eq!((run.code, run.text().as_str()), (6, "one "));
    insta::assert_snapshot!(run.stderr, @"
    error: the stream ended before the command: no exit code came
      with --pipe the command ends with its stream; run it again
    ");
}

#[tokio::test]
async fn a_start_that_was_cut_is_made_again_with_the_same_id() {
    let fake = Fake::new();
    logged(&fake);
    // The first call is lost on its way; the second arrived, but its answer was lost; the third is
    // told so.
    fake.state().execs.extend([
        Script::Frames(vec![Err(Status::unavailable("lost"))]),
        Script::Frames(vec![Err(Status::unavailable("lost"))]),
    ]);
    let api = fake.serve().await;
    let waiting = fake.clone();
    // The id is drawn by the program, so the log gets it once it is known.
    let logger = tokio::spawn(async move {
        loop {
            let id = waiting
                .state()
                .seen
                .starts
                .first()
                .map(|start| start.exec_id.clone());
            if let Some(id) = id {
                waiting.log(&format!("exec/{id}"), chunk(0, b"ran once"));
                waiting.log(&format!("exec/{id}"), ExecEvent::Exited(exit(0)));
                return;
            }
            tokio::task::yield_now().await;
        }
    });
    let run = Program::new(api).run(&["exec", "--", "count"]).await;
    logger.await.unwrap();
    assert_eq!(
        (run.code, run.text().as_str()),
        (0, "ran once"),
        "{}",
        run.stderr
    );
    let story = fake.state();
    assert_eq!(story.seen.starts.len(), 3);
    assert!(
        story
            .seen
            .starts
            .iter()
            .all(|start| start.exec_id == story.seen.starts[0].exec_id)
    );
}

#[tokio::test]
async fn a_pipe_carries_bytes_both_ways() {
    let fake = Fake::new();
    fake.state().execs.push_back(Script::Echo);
    let bytes: Vec<u8> = (0..200_000_u32).map(|i| (i % 251) as u8).collect();
    let program = Program::new(fake.serve().await).stdin(bytes.clone());
    let run = program.run(&["exec", "--pipe", "--", "cat"]).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout == bytes, "{} bytes came back", run.stdout.len());
    assert!(fake.state().seen.starts[0].pipe);
}

#[tokio::test]
async fn attach_shows_all_or_what_is_behind_a_key() {
    let fake = Fake::new();
    logged(&fake);
    let program = Program::new(fake.serve().await);
    let run = program.run(&["attach", "e1"]).await;
    assert_eq!((run.code, run.text().as_str()), (3, "one two three"));
    let run = program.run(&["attach", "e1", "--from", &key(2)]).await;
    assert_eq!((run.code, run.text().as_str()), (3, "two three"));
    assert_eq!(run.stderr, "");
    let run = program.run(&["attach", "nothing"]).await;
    assert_eq!(run.code, 3);
    insta::assert_snapshot!(run.stderr, @"
    error: no command `nothing` ran in this box
      `cocoonbox events --stream exec/` shows what ran
    ");
}

#[tokio::test]
async fn what_is_not_in_the_log_is_named() {
    let fake = Fake::new();
    fake.log("exec/e1", chunk(0, b"head "));
    fake.log("exec/e1", chunk(1005, b"tail"));
    fake.log("exec/e1", ExecEvent::Exited(exit(0)));
    let run = Program::new(fake.serve().await)
        .run(&["attach", "e1"])
        .await;
    assert_eq!((run.code, run.text().as_str()), (0, "head tail"));
    assert_eq!(
        run.stderr,
        "cocoonbox: 1000 bytes of stdout were skipped here\n"
    );
}

#[tokio::test]
async fn json_is_a_frame_a_line() {
    let fake = Fake::new();
    fake.state().execs.push_back(Script::Frames(vec![
        started("e1", 1),
        printed(2, Source::Stdout, b"hi"),
        exited(3, 4),
    ]));
    let run = Program::new(fake.serve().await)
        .run(&["--json", "exec", "--", "x"])
        .await;
    assert_eq!(run.code, 4);
    insta::assert_snapshot!(run.text(), @r#"
    {"offset_key":"log.0000000000000002.c0ffee00","output":{"source":"STDOUT","data":"aGk="}}
    {"offset_key":"log.0000000000000003.c0ffee00","exited":{"reason":"EXITED","code":4}}
    "#);
}

#[tokio::test]
async fn detach_says_where_to_attach() {
    let fake = Fake::new();
    fake.state()
        .execs
        .push_back(Script::Frames(vec![started("e1", 1)]));
    let run = Program::new(fake.serve().await)
        .run(&["exec", "--detach", "--", "x"])
        .await;
    assert_eq!((run.code, run.text()), (0, format!("e1\t{}\n", key(1))));
}
