use cocoonbox_commands::exec::{CHUNK_BYTES_MAX, Command, KEPT_BYTES_MAX, Rejection, State};
use cocoonbox_events::{Aggregate, ExecEvent};
use cocoonbox_proto::log::v1::{
    ExecExited, ExecStarted, OutputSummary, exec_exited::Reason, exec_output_streamed::Source,
};
use proptest::prelude::*;

use crate::machine::Machine;

fn start() -> Command {
    Command::Start(ExecStarted {
        exec_id: "e".into(),
        argv: vec!["printf".into(), "x".into()],
        cwd: "/workspace".into(),
        ..ExecStarted::default()
    })
}

fn exit(code: i32) -> Command {
    Command::Exit(ExecExited {
        reason: Reason::Exited.into(),
        code,
        ..ExecExited::default()
    })
}

fn output(source: Source, offset: u64, data: &[u8], skipped: u64) -> Command {
    Command::Output {
        source,
        offset,
        data: data.to_vec(),
        skipped,
    }
}

#[test]
fn nothing_comes_before_the_start_or_after_the_exit() {
    let mut exec = Machine::<State>::new();
    assert_eq!(exec.send(&exit(0)), Err(Rejection::NotStarted));
    assert_eq!(exec.send(&Command::Interrupt), Err(Rejection::NotStarted));
    exec.send(&start()).unwrap();
    assert_eq!(exec.send(&start()), Ok(vec![]));
    exec.send(&output(Source::Stdout, 0, b"x", 0)).unwrap();
    exec.send(&exit(3)).unwrap();
    assert_eq!(exec.send(&exit(3)), Ok(vec![]));
    assert_eq!(exec.send(&exit(0)), Err(Rejection::Ended));
    assert_eq!(
        exec.send(&output(Source::Stdout, 1, b"y", 0)),
        Err(Rejection::Ended)
    );
    assert_eq!(exec.send(&Command::Interrupt), Ok(vec![]));
}

#[test]
fn an_interrupted_exec_says_that_its_code_is_not_known() {
    let mut exec = Machine::<State>::new();
    exec.send(&start()).unwrap();
    exec.send(&Command::Interrupt).unwrap();
    assert_eq!(
        exec.state.exited.as_ref().unwrap().reason(),
        Reason::Interrupted
    );
}

#[test]
fn offsets_count_what_was_skipped() {
    let mut exec = Machine::<State>::new();
    exec.send(&start()).unwrap();
    exec.send(&output(Source::Stdout, 0, b"abc", 0)).unwrap();
    exec.send(&output(Source::Stderr, 0, b"!", 0)).unwrap();
    exec.send(&output(Source::Stdout, 103, b"d", 100)).unwrap();
    assert_eq!(
        exec.send(&output(Source::Stdout, 103, b"d", 0)),
        Err(Rejection::Offset {
            expected: 104,
            found: 103
        })
    );
    assert_eq!((exec.state.stdout_bytes, exec.state.stderr_bytes), (104, 1));
    let long = vec![0; CHUNK_BYTES_MAX + 1];
    assert!(matches!(
        exec.send(&output(Source::Stdout, 104, &long, 0)),
        Err(Rejection::TooLarge { field: "data", .. })
    ));
}

#[test]
fn what_comes_together_is_taken_whole_or_not_at_all() {
    let mut exec = Machine::<State>::new();
    exec.send(&start()).unwrap();
    let gap = Command::Together(vec![
        output(Source::Stdout, 0, b"abc", 0),
        output(Source::Stdout, 4, b"d", 0),
        exit(0),
    ]);
    let refused = Rejection::Offset {
        expected: 3,
        found: 4,
    };
    assert_eq!(exec.send(&gap), Err(refused));
    assert_eq!(
        (exec.state.stdout_bytes, exec.state.is_running()),
        (0, true)
    );
    let whole = Command::Together(vec![
        output(Source::Stdout, 0, b"abc", 0),
        output(Source::Stderr, 0, b"!", 0),
        output(Source::Stdout, 3, b"d", 0),
        exit(0),
    ]);
    assert_eq!(exec.send(&whole).map(|events| events.len()), Ok(4));
    assert_eq!((exec.state.stdout_bytes, exec.state.stderr_bytes), (4, 1));
    let late = Command::Together(vec![output(Source::Stdout, 4, b"e", 0)]);
    assert_eq!(exec.send(&late), Err(Rejection::Ended));
}

#[test]
fn an_exit_is_never_refused_for_its_size() {
    let mut exec = Machine::<State>::new();
    exec.send(&start()).unwrap();
    let stdout = OutputSummary {
        total_bytes: 1_000_000,
        head: vec![1; 300_000],
        tail: vec![2; 300_000],
        omitted_bytes: 400_000,
    };
    let exited = Command::Exit(ExecExited {
        reason: Reason::Exited.into(),
        stdout: Some(stdout),
        detail: "x".repeat(300_000),
        ..ExecExited::default()
    });
    exec.send(&exited).unwrap();
    assert_eq!(exec.send(&exited), Ok(vec![]), "the same exit");
    let kept = exec.state.exited.as_ref().unwrap().stdout.as_ref().unwrap();
    let known = kept.head.len() as u64 + kept.tail.len() as u64 + kept.omitted_bytes;
    assert_eq!(
        (kept.head.len(), kept.tail.len()),
        (KEPT_BYTES_MAX, KEPT_BYTES_MAX)
    );
    assert_eq!(known, kept.total_bytes);
}

#[test]
fn an_erased_chunk_leaves_a_gap_that_can_be_folded() {
    let mut exec = Machine::<State>::new();
    exec.send(&start()).unwrap();
    exec.send(&output(Source::Stdout, 0, b"abc", 0)).unwrap();
    exec.send(&output(Source::Stdout, 3, b"def", 0)).unwrap();
    exec.history.remove(1);
    exec.check_fold();
    // Going back is not a gap.
    let again = exec.history[1].clone();
    assert!(exec.state.clone().evolve(&again).is_err());
}

proptest! {
    #[test]
    fn counts_bytes(
        steps in prop::collection::vec((0..8_u8, 0..40_u64, 0..20_usize, any::<bool>()), 0..60)
    ) {
        let mut exec = Machine::<State>::new();
        let mut bytes = [0_u64; 2];
        for (what, number, len, flag) in steps {
            let running = exec.state.is_running();
            let (source, at) = if flag { (Source::Stdout, 0) } else { (Source::Stderr, 1) };
            match what {
                0 => drop(exec.send(&start())),
                1 if number == 0 => drop(exec.send(&exit(1))),
                2 if number == 0 => drop(exec.send(&Command::Interrupt)),
                // Anywhere.
                3 => {
                    let fits = running && number == bytes[at];
                    let answer = exec.send(&output(source, number, &vec![7; len], 0));
                    prop_assert_eq!(answer.is_ok(), fits);
                    bytes[at] += if fits { len as u64 } else { 0 };
                }
                // Where it belongs.
                _ => {
                    let skipped = number % 3;
                    let command = output(source, bytes[at] + skipped, &vec![7; len], skipped);
                    let answer = exec.send(&command);
                    prop_assert_eq!(answer.is_ok(), running);
                    bytes[at] += if running { skipped + len as u64 } else { 0 };
                }
            }
            prop_assert_eq!([exec.state.stdout_bytes, exec.state.stderr_bytes], bytes);
        }
        let exits = exec.history.iter().filter(|event| matches!(event, ExecEvent::Exited(_)));
        prop_assert!(exits.count() <= 1);
        exec.check_fold();
    }
}
