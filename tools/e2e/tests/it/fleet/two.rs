//! Two apis on one database and one folder of machines.

use std::time::{Duration, Instant};

use cocoonbox_e2e::{
    Events, Installation, Ran, Replica, Setup, TheBox, User,
    events::{assert_in_order, payload_if},
    exec::start,
    history::History,
    is_broken, reason,
    replica::open,
    run,
    until::{soon, until},
};
use cocoonbox_postgres::shared;
use cocoonbox_proto::{
    agent::v1::HelloRequest,
    control::v1::{DeleteUserRequest, EnsureRequest, RevokeTokenRequest, State},
    log::v1::{Event, ExecOutputStreamed},
};

use super::{driver, in_database};

/// A turn of three steps, each with an effect that would show if it happened twice.
const EFFECTS: &str = r#"
chunk_delay_ms = 5
[[conversation]]
[[conversation.step]]
text = "One, with some words to stream."
tools = [{ name = "shell", args = { command = "echo 1 >> /workspace/effects; sleep 2" } }]
[[conversation.step]]
text = "Two, with some words to stream."
tools = [{ name = "shell", args = { command = "echo 2 >> /workspace/effects; sleep 1" } }]
[[conversation.step]]
text = "Three."
tools = [{ name = "shell", args = { command = "echo 3 >> /workspace/effects" } }]
[[conversation.step]]
text = "Done."
"#;

/// Two apis, and a user with a connection to each.
struct Pair {
    one: Installation,
    two: Replica,
    url: String,
    user: User,
    over_two: User,
}

async fn pair(setup: Setup, options: &str) -> Pair {
    let (one, url) = in_database(setup, options).await;
    let two = Replica::beside(&one).await;
    let user = one.user("ada").await;
    let over_two = user.over(two.channel());
    Pair {
        one,
        two,
        url,
        user,
        over_two,
    }
}

/// What a command wrote to its output, as its box logged it.
fn said(events: &[Event], exec_id: &str) -> String {
    let stream = format!("exec/{exec_id}");
    let ours = events.iter().filter(|event| event.stream == stream);
    let pieces =
        ours.filter_map(|event| payload_if::<ExecOutputStreamed>(event, "exec.output_streamed"));
    let bytes: Vec<u8> = pieces.flat_map(|piece| piece.data).collect();
    String::from_utf8(bytes).expect("text")
}

fn keys(events: &[Event]) -> Vec<String> {
    events
        .iter()
        .map(|event| event.offset_key.clone())
        .collect()
}

/// Everything that any client can do works over either api, whoever drives the box.
async fn anything_over_any(pair: &Pair) {
    let Pair {
        one,
        two,
        url,
        over_two,
        ..
    } = pair;
    // Known at once to the other api: the user, the token, the box.
    let the_box = TheBox::up(one, over_two, "main").await;
    let boxes = [the_box.over(one.channel()), the_box.over(two.channel())];
    let by = driver(shared(), url, &the_box).await;
    assert!(by == one.address() || by == two.address(), "{by}");
    for (number, the_box) in boxes.iter().enumerate() {
        let file = format!("/workspace/from{number}");
        the_box.sh(&format!("echo {number} > {file}")).await;
        let ran = the_box
            .pipe(start(&["cat", "-", &file]), b"in\n".to_vec())
            .await
            .expect("a pipe goes through");
        assert_eq!(ran.out(), format!("in\n{number}\n"));
        let turn = the_box.send(&format!("Hello {number}")).await;
        turn.assert_done();
    }
    // A stream is resumed from either by the other's key, event by event.
    let whole = boxes[0].events("", &[]).all().await.expect("readable");
    let touched = boxes[1].touch().await;
    let mut from = String::new();
    let mut seen = Vec::new();
    while seen.len() < whole.len() {
        let over = &boxes[seen.len() % 2];
        let mut events = over.events(&from, &[]);
        seen.push(events.next().await);
        from.clone_from(&events.from);
    }
    assert_eq!(keys(&seen), keys(&whole));
    for over in &boxes {
        over.events(&touched, &[])
            .all()
            .await
            .expect("the other api's key is known");
    }
    assert_eq!(
        keys(&boxes[1].events("", &[]).all().await.expect("readable")),
        keys(&boxes[0].events("", &[]).all().await.expect("readable")),
    );
    // Somebody else's box is nobody's, over both.
    let eve = one.user("eve").await;
    for channel in [one.channel(), two.channel()] {
        let mut theirs = eve.over(channel).session(&the_box.id);
        let refused = theirs.hello(HelloRequest {}).await.expect_err("not theirs");
        assert_eq!(reason(&refused), "NO_SUCH_BOX");
    }
    // Asleep to one is asleep to the other.
    boxes[0].hibernate().await;
    let asleep = boxes[1]
        .exec(start(&["true"]))
        .await
        .expect_err("it sleeps");
    assert_eq!(reason(&asleep), "BOX_NOT_RUNNING");
}

#[test]
fn any_api_serves_any_call() {
    run(async {
        let pair = pair(Setup::plain(), "").await;
        anything_over_any(&pair).await;
        one_box_of_a_name(&pair).await;
        a_revoked_token_ends_streams_everywhere(&pair).await;
        a_deleted_user_has_no_streams_anywhere(&pair).await;
        a_made_up_mark_is_worth_nothing(&pair).await;
    });
}

#[test]
fn any_api_serves_any_call_without_notify() {
    run(async {
        let pair = pair(Setup::plain(), "?notify=off").await;
        anything_over_any(&pair).await;
    });
}

/// Both apis are asked for the same new box at the same time.
async fn one_box_of_a_name(pair: &Pair) {
    let request = EnsureRequest {
        name: "twin".into(),
        ..Default::default()
    };
    let calls = [&pair.user, &pair.over_two].map(|user| user.ensure_as(request.clone()));
    let ids: Vec<String> = futures::future::join_all(calls)
        .await
        .into_iter()
        .map(|ensured| ensured.expect("ensured").0)
        .collect();
    assert_eq!(ids[0], ids[1], "two boxes of one name");
    pair.user.delete(&ids[0]).await;
}

async fn a_revoked_token_ends_streams_everywhere(pair: &Pair) {
    // Not one of the users whose boxes are deleted at the end: they have no token then.
    let bob = pair.one.admin().create("bob", pair.one.channel()).await;
    let mut stream = Events::of_account(&bob.over(pair.two.channel()), "", &[]);
    stream.item().await.expect("an event");
    let token_id = bob.token_id.clone();
    let revoked = bob
        .users()
        .revoke_token(RevokeTokenRequest { token_id })
        .await;
    revoked.expect("revoked");
    soon("the stream at the other api ends", async {
        while stream.item().await.is_ok() {}
    })
    .await;
    let refused = Events::of_account(&bob.over(pair.two.channel()), "", &[])
        .all()
        .await;
    assert_eq!(reason(&refused.expect_err("revoked")), "TOKEN_INVALID");
}

async fn a_deleted_user_has_no_streams_anywhere(pair: &Pair) {
    let carl = pair.one.admin().create("carl", pair.one.channel()).await;
    let mut stream = Events::of_account(&carl.over(pair.two.channel()), "", &[]);
    stream.item().await.expect("an event");
    let request = DeleteUserRequest {
        user_id: carl.id.clone(),
        confirm_name: carl.name.clone(),
        force: false,
    };
    let deleted = pair.one.admin().users().delete(request).await;
    deleted.expect("deleted");
    soon("the stream at the other api ends", async {
        while stream.item().await.is_ok() {}
    })
    .await;
    let after = Events::of_account(&carl.over(pair.two.channel()), "", &[]);
    let refused = after.all().await.expect_err("deleted");
    assert_eq!(reason(&refused), "TOKEN_INVALID");
}

/// Whoever could say that a call was passed on could send it past the check of who drives the box.
async fn a_made_up_mark_is_worth_nothing(pair: &Pair) {
    let the_box = TheBox::up(&pair.one, &pair.user, "main").await;
    for channel in [pair.one.channel(), pair.two.channel()] {
        let user = pair.user.over(channel);
        let mut request = tonic::Request::new(HelloRequest {});
        let forged = format!("1.{}", "0".repeat(64)).parse().expect("ASCII");
        request.metadata_mut().insert("x-cocoonbox-hop", forged);
        user.session(&the_box.id)
            .hello(request)
            .await
            .expect("served as any other call");
    }
}

/// Kills whoever drives the box, and returns the box over the one that is left.
async fn kill_driver(pair: &Pair, the_box: &TheBox) -> TheBox {
    let by = driver(shared(), &pair.url, the_box).await;
    if by == pair.one.address() {
        pair.one.kill9();
        the_box.over(pair.two.channel())
    } else {
        pair.two.kill9();
        the_box.over(pair.one.channel())
    }
}

#[test]
fn a_killed_api_is_replaced_and_the_turn_goes_on() {
    run(async {
        let pair = pair(Setup::scripted(EFFECTS), "").await;
        let the_box = TheBox::up(&pair.one, &pair.user, "main").await;
        let before = driver(shared(), &pair.url, &the_box).await;
        let init = the_box.init().pid;
        let at_driver = if before == pair.one.address() {
            the_box.over(pair.one.channel())
        } else {
            the_box.over(pair.two.channel())
        };
        // A command and a turn are under way; a stream has been read to somewhere.
        let line = "for i in $(seq 400); do echo $i; sleep 0.02; done";
        let mut stream = at_driver
            .exec_stream(start(&["bash", "-c", line]))
            .await
            .expect("it is run");
        let mut ran = Ran::default();
        while ran.out().lines().count() < 20 {
            let frame = soon("output", stream.message()).await.expect("readable");
            ran.take(frame.expect("a frame"));
        }
        let accepted = at_driver.accept("Go").await;
        let mut events = at_driver.events("", &[]);
        let mut seen = Vec::new();
        loop {
            let event = events.next().await;
            let is_enough = event.kind == "agent.tool_called";
            seen.push(event);
            if is_enough {
                break;
            }
        }
        let killed_at = Instant::now();
        let left = kill_driver(&pair, &the_box).await;
        // A call waits for the takeover, or says that it may be made again.
        let took = async {
            until("the box answers over the other api", || async {
                match left.exec(start(&["true"])).await {
                    Ok(_) => Some(killed_at.elapsed()),
                    Err(status) if is_broken(&status) => None,
                    Err(status) => panic!("{status:?}"),
                }
            })
            .await
        };
        let took = took.await;
        eprintln!("taken over after {took:?}");
        assert!(took < Duration::from_secs(20), "{took:?}");
        assert_ne!(driver(shared(), &pair.url, &left).await, before);
        let turn = left.turn_of(accepted).await;
        turn.assert_done();
        assert_eq!(left.init().pid, init, "the box was started again");
        assert_eq!(left.sh("cat /workspace/effects").await, "1\n2\n3\n");

        // The stream goes on at the other api by its key: nothing lost, nothing twice.
        let mut events = left.events(&events.from, &[]);
        let whole = until("the command has ended", || async {
            let all = left.events("", &[]).all().await.ok()?;
            let exec = format!("exec/{}", ran.exec_id);
            let is_end = |event: &Event| event.kind == "exec.exited" && event.stream == exec;
            all.iter().any(is_end).then_some(all)
        })
        .await;
        while seen.len() < whole.len() {
            seen.push(events.next().await);
        }
        assert_eq!(keys(&seen), keys(&whole));
        assert_in_order(&whole);
        let counted = said(&whole, &ran.exec_id);
        let expected: Vec<String> = (1..=400).map(|number| number.to_string()).collect();
        assert_eq!(counted.lines().collect::<Vec<_>>(), expected);

        left.hibernate().await;
        pair.one.restart().await;
        let opened = open(&pair.url, pair.one.data()).await;
        let history = History::of(&*opened.store).await;
        history.check_anchors(&pair.user.id);
        opened.close().await;
    });
}

#[test]
fn a_frozen_api_is_replaced_and_does_nothing_when_it_wakes() {
    run(async {
        let pair = pair(Setup::plain(), "").await;
        // The second has fewer boxes, so it gets one of two.
        let boxes = [
            TheBox::up(&pair.one, &pair.user, "main").await,
            TheBox::up(&pair.one, &pair.user, "more").await,
        ];
        let at_two = until("each api has a box", || async {
            for the_box in &boxes {
                if driver(shared(), &pair.url, the_box).await == pair.two.address() {
                    return Some(the_box.clone());
                }
            }
            None
        })
        .await;
        let init = at_two.init().pid;
        pair.two.freeze(true);
        let at_two = at_two.over(pair.one.channel());
        until("the box answers over the other api", || async {
            at_two.exec(start(&["true"])).await.ok()
        })
        .await;
        assert_eq!(
            driver(shared(), &pair.url, &at_two).await,
            pair.one.address()
        );
        // What the frozen one wanted is not wanted any more: it wakes up to a box that was stopped and started.
        at_two.hibernate().await;
        at_two.wake().await;
        assert_ne!(at_two.init().pid, init);
        let init = at_two.init().pid;
        pair.two.freeze(false);
        until("the frozen one has noticed", || async {
            pair.two.api_log().contains("lease lost").then_some(())
        })
        .await;
        assert_eq!(at_two.sh("echo here").await, "here\n");
        assert_eq!(at_two.init().pid, init);
        assert_eq!(pair.user.state(&at_two.id).await, Some(State::Running));
        // And it is given a share again.
        until("each api has a box again", || async {
            for the_box in &boxes {
                if driver(shared(), &pair.url, the_box).await == pair.two.address() {
                    return Some(());
                }
            }
            None
        })
        .await;
        pair.two.stop();
        for the_box in boxes {
            let the_box = the_box.over(pair.one.channel());
            assert_eq!(the_box.sh("echo left").await, "left\n");
        }
    });
}
