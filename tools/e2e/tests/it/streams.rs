//! Streams that are dropped, cut, killed and not read: resumed without gap or repeat, or an error.

use std::collections::HashMap;

use cocoonbox_e2e::{
    Events, Installation, Ran, Setup, Shared, TheBox,
    events::{assert_in_order, payload, payload_if},
    exec::start,
    is_broken,
    outcome::assert_refused,
    process::MemoryWatch,
    reason, run,
    turn::assemble,
    until::{soon, until},
};
use cocoonbox_events::OffsetKey;
use cocoonbox_proto::log::v1::{
    AgentModelReplied, AgentOutputStreamed, Event, ExecExited, ExecOutputStreamed, block,
    event_or_heartbeat::Item, exec_output_streamed::Source,
};
use tonic::{Code, Status};

/// Every word is told apart from every other, so that a gap or a repeat shows.
fn sentence() -> String {
    (1..=120)
        .map(|word| format!("word{word}"))
        .collect::<Vec<_>>()
        .join(" ")
}

fn talkative() -> Setup {
    let text = sentence();
    Setup::scripted(&format!(
        "[[conversation]]\n[[conversation.step]]\ntext = \"{text}\"\nchunk_delay_ms = 25\n"
    ))
}

static SHARED: Shared = Shared::new(talkative);

async fn boxed(installation: &Installation, name: &str) -> TheBox {
    let user = installation.user(name).await;
    TheBox::up(installation, &user, "main").await
}

/// Runs the count to 300, drops the stream in the middle, and resumes from its key once `meanwhile` is over
/// and the command has long ended.
async fn count_and_drop(the_box: &TheBox, meanwhile: impl Future<Output = ()>) {
    let line = "for i in $(seq 300); do echo $i; sleep 0.01; done";
    let mut stream = the_box
        .exec_stream(start(&["bash", "-c", line]))
        .await
        .expect("it is run");
    let mut ran = Ran::default();
    while ran.out().lines().count() < 60 {
        let frame = soon("output", stream.message())
            .await
            .expect("readable")
            .expect("a frame");
        assert!(!ran.take(frame), "it has ended too early");
    }
    drop(stream);
    meanwhile.await;
    let exec = format!("exec/{}", ran.exec_id);
    the_box.events("", &[&exec]).next_of("exec.exited").await;

    let mut rest = the_box.events(ran.keys.last().expect("keys"), &[&exec]);
    let exited: ExecExited = loop {
        let event = rest.next().await;
        if let Some(piece) = payload_if::<ExecOutputStreamed>(&event, "exec.output_streamed") {
            assert_eq!((piece.source(), piece.skipped_bytes), (Source::Stdout, 0));
            assert_eq!(piece.offset, ran.stdout.len() as u64, "a gap or a repeat");
            ran.stdout.extend(piece.data);
        } else {
            break payload(&event, "exec.exited");
        }
    };
    assert_eq!(exited.code, 0);
    let expected: Vec<String> = (1..=300).map(|number| number.to_string()).collect();
    assert_eq!(ran.out().lines().collect::<Vec<_>>(), expected);
    assert_eq!(
        exited.stdout.expect("the output").total_bytes,
        ran.stdout.len() as u64
    );
}

#[test]
fn a_dropped_exec_is_resumed_from_its_key() {
    run(async {
        let installation = SHARED.get().await;
        let the_box = boxed(&installation, "drops").await;
        count_and_drop(&the_box, async {}).await;
    });
}

#[test]
fn a_dropped_exec_is_resumed_over_an_api_that_was_killed() {
    run(async {
        let installation = Installation::start().await;
        let the_box = boxed(&installation, "drops").await;
        count_and_drop(&the_box, async {
            installation.kill9();
            installation.restart().await;
        })
        .await;
    });
}

#[test]
fn a_dropped_sentence_goes_on_in_the_middle() {
    run(async {
        let installation = SHARED.get().await;
        let the_box = boxed(&installation, "sentence").await;
        let accepted = the_box.accept("Talk").await;
        let mut first = the_box.events(&accepted.offset_key, &["agent/"]);
        let mut pieces: Vec<AgentOutputStreamed> = Vec::new();
        while pieces.len() < 3 {
            let event = first.next_of("agent.output_streamed").await;
            pieces.push(payload(&event, "agent.output_streamed"));
        }
        let key = first.from.clone();
        let call = pieces[0].call_id.clone();
        assert!(
            assemble(&pieces, &call).len() < sentence().len(),
            "the sentence has ended already"
        );
        drop(first);
        let turn = the_box.turn_of(accepted).await;
        turn.assert_done();

        let rest = the_box
            .events(&key, &["agent/"])
            .all()
            .await
            .expect("resumable");
        for event in &rest {
            pieces.extend(payload_if::<AgentOutputStreamed>(
                event,
                "agent.output_streamed",
            ));
        }
        assert_eq!(assemble(&pieces, &call), sentence());
        assert_eq!(replies(&rest), [(call, sentence())]);
        // From the start it reads the same.
        let from_start = turn.of::<AgentOutputStreamed>("agent.output_streamed");
        assert_eq!(from_start, pieces);
    });
}

#[test]
fn a_sentence_that_the_api_cuts_is_said_again_and_whole() {
    run(async {
        let installation = talkative().start().await;
        let the_box = boxed(&installation, "cut").await;
        let accepted = the_box.accept("Talk").await;
        let mut events = the_box.events(&accepted.offset_key, &["agent/"]);
        events.next_of("agent.output_streamed").await;
        installation.kill9();
        installation.restart().await;
        let turn = the_box.turn_of(accepted).await;
        turn.assert_done();
        assert_in_order(&turn.events);
        let pieces = turn.of::<AgentOutputStreamed>("agent.output_streamed");
        let said = replies(&turn.events);
        assert_eq!(said.len(), 1, "{}", turn.story());
        assert_eq!(said[0].1, sentence());
        assert_eq!(assemble(&pieces, &said[0].0), sentence());
        assert!(
            turn.events.iter().any(|e| e.kind == "agent.model_failed"),
            "{}",
            turn.story()
        );
    });
}

/// Call id and text of every reply.
fn replies(events: &[Event]) -> Vec<(String, String)> {
    let replies = events
        .iter()
        .filter_map(|event| payload_if::<AgentModelReplied>(event, "agent.model_replied"));
    let text = |reply: &AgentModelReplied| -> String {
        let texts = reply.blocks.iter().filter_map(|block| match &block.block {
            Some(block::Block::Text(text)) => Some(text.text.as_str()),
            _ => None,
        });
        texts.collect()
    };
    replies
        .map(|reply| (reply.call_id.clone(), text(&reply)))
        .collect()
}

const SUBSCRIBERS: usize = 200;
const CONNECTIONS: usize = 10;
const COMMANDS: usize = 3;
/// All together several times what the window of the one that does not read holds.
const COMMAND_BYTES: usize = 80_000;
const NARROW_BYTES: u32 = 64 * 1024;
const GROWTH_BYTES_MAX: u64 = 64 << 20;

#[test]
fn one_of_two_hundred_subscribers_never_reads_and_nobody_notices() {
    run(async {
        let installation = SHARED.get().await;
        let the_box = boxed(&installation, "crowd").await;
        let from = the_box.touch().await;
        the_box.events_with(&from, &[]).await;
        let watch = MemoryWatch::start(installation.pid());

        let mut silent = the_box
            .over(installation.narrow_channel(NARROW_BYTES))
            .events(&from, &["exec/"]);
        let mut readers = Vec::new();
        for _ in 0..CONNECTIONS {
            let there = the_box.over(installation.channel());
            for _ in 0..SUBSCRIBERS / CONNECTIONS {
                readers.push(tokio::spawn(read_to_the_end(
                    there.events(&from, &["exec/"]),
                )));
            }
        }
        // Ends one, so that there are two hundred with the silent one.
        readers.pop().expect("many").abort();
        let line = format!(
            "for i in $(seq 8); do head -c {} /dev/zero | tr '\\0' x; sleep 0.1; done",
            COMMAND_BYTES / 8
        );
        let one = || the_box.exec(start(&["bash", "-c", &line]));
        // It has asked, and reads its first event, so that its stream is open; then nothing.
        let (ran, _first) = futures::future::join(
            futures::future::join_all((0..COMMANDS).map(|_| one())),
            silent.next(),
        )
        .await;
        for ran in ran {
            assert_eq!(ran.expect("a command is run").code(), 0);
        }
        let mut all: Vec<Vec<String>> = Vec::new();
        for reader in readers {
            all.push(
                soon("every reader has everything", reader)
                    .await
                    .expect("a reader"),
            );
        }
        let mut expected = the_box
            .events(&from, &["exec/"])
            .all()
            .await
            .expect("readable");
        expected.truncate(all[0].len());
        let expected: Vec<String> = expected.into_iter().map(|event| event.offset_key).collect();
        assert!(expected.len() > COMMANDS * 4, "{} events", expected.len());
        for keys in &all {
            assert_eq!(keys, &expected);
        }
        let growth = watch.growth_bytes();
        eprintln!(
            "the api grew by {} KiB for {SUBSCRIBERS} subscribers",
            growth >> 10
        );
        assert!(growth < GROWTH_BYTES_MAX, "the api grew by {growth} bytes");
        // The silent one is not lost either.
        read_to_the_end(silent).await;
    });
}

/// Reads until all commands have ended and returns the keys.
async fn read_to_the_end(mut events: Events) -> Vec<String> {
    let mut keys = Vec::new();
    let mut ended = 0;
    while ended < COMMANDS {
        let event = events.next().await;
        ended += usize::from(event.kind == "exec.exited");
        keys.push(event.offset_key);
    }
    assert_eq!(events.breaks, 0, "a reader was cut off");
    keys
}

#[test]
fn a_quiet_filtered_stream_says_where_it_is() {
    run(async {
        let installation = SHARED.get().await;
        let the_box = boxed(&installation, "quiet").await;
        let tail = the_box.touch().await;
        the_box.events_with(&tail, &[]).await;
        let mut events = the_box.events("", &["nothing/"]);
        let item = soon("a heartbeat", events.item()).await.expect("readable");
        assert!(matches!(item.item, Some(Item::Heartbeat(_))), "{item:?}");
        assert_eq!(events.from, tail);
        // It is a key like any other.
        let after = the_box
            .events(&events.from, &[])
            .all()
            .await
            .expect("resumable");
        assert!(after.is_empty());
    });
}

#[test]
fn streams_of_an_api_that_dies_are_errors() {
    run(async {
        let installation = Installation::start().await;
        let the_box = boxed(&installation, "dies").await;
        the_box.sh("true").await;
        for hard in [true, false] {
            let mut of_box = the_box.events("", &[]);
            let mut of_account = Events::of_account(&the_box.user, "", &[]);
            let mut watch = the_box
                .user
                .boxes()
                .watch(cocoonbox_proto::control::v1::WatchBoxesRequest::default())
                .await
                .expect("readable")
                .into_inner();
            of_box.item().await.expect("readable");
            of_account.item().await.expect("readable");
            watch.message().await.expect("readable").expect("a list");
            if hard {
                installation.kill9();
            } else {
                installation.stop();
            }
            for status in [until_broken(of_box).await, until_broken(of_account).await] {
                assert!(is_broken(&status), "{status:?}");
                // One that was asked to stop says so.
                assert!(hard || reason(&status) == "STOPPING", "{status:?}");
            }
            let last = soon("the watch breaks", async {
                loop {
                    match watch.message().await {
                        Ok(Some(_)) => {}
                        last => return last,
                    }
                }
            });
            assert!(last.await.is_err(), "a watch that was cut ended cleanly");
            installation.restart().await;
        }
    });
}

async fn until_broken(mut events: Events) -> Status {
    soon("the stream breaks", async {
        loop {
            if let Err(status) = events.item().await {
                return status;
            }
        }
    })
    .await
}

#[test]
fn keys_that_cannot_be_resumed_from_are_refused_with_a_reason() {
    run(async {
        let installation = SHARED.get().await;
        let the_box = boxed(&installation, "keys").await;
        let key: OffsetKey = the_box.touch().await.parse().expect("a key");
        the_box.events_with(&key.to_string(), &[]).await;
        let account = Events::of_account(&the_box.user, "", &[])
            .all()
            .await
            .expect("readable");
        let other = account.last().expect("events").offset_key.clone();
        let ahead = OffsetKey {
            pos: key.pos + 1_000,
            ..key
        }
        .to_string();
        let branch = OffsetKey {
            chain: [key.chain[0] ^ 1, 1, 2, 3],
            ..key
        }
        .to_string();
        let cases: HashMap<&str, (String, Code, &str)> = HashMap::from([
            ("another log", (other, Code::InvalidArgument, "BAD_REQUEST")),
            (
                "garbage",
                ("no key".into(), Code::InvalidArgument, "BAD_REQUEST"),
            ),
            (
                "unicode",
                ("ключ\n\u{0}..".into(), Code::InvalidArgument, "BAD_REQUEST"),
            ),
            (
                "long",
                ("0".repeat(100_000), Code::InvalidArgument, "BAD_REQUEST"),
            ),
            ("ahead", (ahead, Code::OutOfRange, "AHEAD_OF_TAIL")),
            ("another branch", (branch, Code::DataLoss, "DIVERGED")),
        ]);
        for (what, (key, code, why)) in cases {
            for follow in [true, false] {
                let mut events = the_box.events(&key, &[]);
                let status = if follow {
                    soon(what, events.item()).await.map(drop)
                } else {
                    events.all().await.map(drop)
                };
                let status = status.expect_err(what);
                assert_refused(what, &status, &[code]);
                assert_eq!(reason(&status), why, "{what}: {status:?}");
            }
        }
        assert_eq!(the_box.sh("echo alive").await, "alive\n");
    });
}

#[test]
fn a_stream_is_live() {
    run(async {
        let installation = SHARED.get().await;
        let the_box = boxed(&installation, "live").await;
        the_box.sh("true").await;
        let mut events = the_box.events("", &["exec/"]);
        events.next_of("exec.exited").await;
        // The first half arrives while the command waits for what comes only after it has arrived.
        let argv = [
            "bash",
            "-c",
            "echo half; until [ -e /workspace/go ]; do sleep 0.05; done",
        ];
        let stream = the_box.exec_stream(start(&argv)).await.expect("it is run");
        let piece = events.next_of("exec.output_streamed").await;
        let piece: ExecOutputStreamed = payload(&piece, "exec.output_streamed");
        assert_eq!(piece.data, b"half\n");
        the_box.sh("touch /workspace/go").await;
        let mut stream = stream;
        let ran = cocoonbox_e2e::exec::collect(&mut stream)
            .await
            .expect("readable");
        assert_eq!(ran.out(), "half\n");
        until("both have ended", || async {
            let events = the_box
                .events("", &["exec/"])
                .all()
                .await
                .expect("readable");
            (events
                .iter()
                .filter(|event| event.kind == "exec.exited")
                .count()
                == 3)
                .then_some(())
        })
        .await;
    });
}
