//! Pulling the plug: of the api at any point of an operation, of the agent in a turn, of a box.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use cocoonbox_e2e::{
    Chance, Ended, Events, Installation, Ran, Setup, TheBox, Turn, User,
    events::payload,
    exec::start,
    history::{History, Log, box_event, check_views},
    is_broken, run,
    until::{soon, until},
};
use cocoonbox_events::BoxEvent;
use cocoonbox_proto::{
    control::v1::{EnsureRequest, State},
    log::v1::{ExecExited, agent_tool_finished::Outcome, agent_turn_ended},
};
use uuid::Uuid;

/// `COCOONBOX_E2E_KILLS` makes it fewer while one is looking for something else.
const KILLS: u64 = 200;
/// Boxes that go through their lives while the api is killed.
const LIVES: usize = 2;
/// Longest time from the api's answer to its next death. About what an operation takes, so that deaths
/// spread over all of it.
const ALIVE_MS_MAX: u64 = 900;
/// Each kind of operation has to be hit so often that a hole in any of them is found.
const HITS_MIN: usize = 5;

/// The operation that a box is in, and since when.
type Doing = Arc<Mutex<Option<(&'static str, Instant)>>>;

#[test]
fn the_api_killed_at_two_hundred_points_loses_and_doubles_nothing() {
    run(async {
        let mut chance = Chance::seeded("kills");
        let kills = std::env::var("COCOONBOX_E2E_KILLS").ok();
        let kills = kills.map_or(KILLS, |count| count.parse().expect("a number"));
        let installation = Arc::new(Setup::plain().start().await);
        let over = Arc::new(AtomicBool::new(false));
        let mut lives = Vec::new();
        for number in 0..LIVES {
            let user = installation.user(&format!("life{number}")).await;
            let doing = Doing::default();
            let task = tokio::spawn(live(user.clone(), doing.clone(), over.clone()));
            lives.push((user, doing, task));
        }
        let mut hits: BTreeMap<&str, Vec<u128>> = BTreeMap::new();
        let started = Instant::now();
        for _ in 0..kills {
            tokio::time::sleep(Duration::from_millis(chance.below(ALIVE_MS_MAX))).await;
            installation.kill9();
            for (_, doing, _) in &lives {
                if let Some((kind, since)) = *doing.lock().expect("not poisoned") {
                    hits.entry(kind)
                        .or_default()
                        .push(since.elapsed().as_millis());
                }
            }
            installation.restart().await;
            assert!(
                lives.iter().all(|(_, _, task)| !task.is_finished()),
                "a client has given up"
            );
        }
        eprintln!("{kills} kills in {:?}", started.elapsed());
        for (kind, at) in &mut hits {
            at.sort_unstable();
            let (count, middle) = (at.len(), at[at.len() / 2]);
            eprintln!(
                "{kind}: hit {count} times, {} to {} ms, half by {middle} ms",
                at[0],
                at[count - 1]
            );
        }
        over.store(true, Ordering::Relaxed);
        let mut users = Vec::new();
        for (user, _, task) in lives {
            let operations = soon("the last lives end", task)
                .await
                .expect("no client gave up");
            assert!(user.box_ids().await.is_empty());
            users.push((user, operations));
        }
        installation.stop();
        assert_eq!(installation.remains().of_boxes(), Vec::<String>::new());
        assert_eq!(installation.remains().disks(), Vec::<String>::new());
        let history = History::verified(installation.data()).await;
        for (user, operations) in users {
            check_operations(history.account(&user.id), &operations);
            history.check_anchors(&user.id);
        }
        check_views(installation.data()).await;
        installation.restart().await;
        if kills >= KILLS {
            for kind in ["ensure", "hibernate", "wake", "delete"] {
                let count = hits.get(kind).map_or(0, Vec::len);
                assert!(count >= HITS_MIN, "{kind} was hit only {count} times");
            }
        }
    });
}

/// Lives one box after the other until it is over, and returns the ids of all operations.
async fn live(user: User, doing: Doing, over: Arc<AtomicBool>) -> Vec<String> {
    let mut operations = Vec::new();
    let mut round = 0;
    while !over.load(Ordering::Relaxed) {
        round += 1;
        let id = Uuid::new_v4().to_string();
        let request = EnsureRequest {
            name: format!("box{round}"),
            command_id: id,
            ..Default::default()
        };
        let (box_id, ended) = during(&doing, "ensure", user.ensure_as(request))
            .await
            .expect("ensured");
        operations.push(done(ended));
        for _ in 0..2 {
            let command = Uuid::new_v4().to_string();
            let ended = during(&doing, "hibernate", user.hibernate_as(&box_id, &command)).await;
            operations.push(done(ended.expect("hibernated")));
            let command_id = Uuid::new_v4().to_string();
            let request = EnsureRequest {
                box_id: box_id.clone(),
                command_id,
                ..Default::default()
            };
            let (_, ended) = during(&doing, "wake", user.ensure_as(request))
                .await
                .expect("woken");
            operations.push(done(ended));
        }
        let command = Uuid::new_v4().to_string();
        let ended = during(&doing, "delete", user.delete_as(&box_id, &command)).await;
        operations.push(done(ended.expect("deleted")));
    }
    operations.into_iter().flatten().collect()
}

async fn during<T>(doing: &Doing, kind: &'static str, work: impl Future<Output = T>) -> T {
    *doing.lock().expect("not poisoned") = Some((kind, Instant::now()));
    let done = work.await;
    *doing.lock().expect("not poisoned") = None;
    done
}

/// `None` when a repeated command was answered after its operation had ended.
fn done(ended: Option<Ended>) -> Option<String> {
    assert!(ended.as_ref().is_none_or(Ended::is_done), "{ended:?}");
    ended.map(|ended| ended.operation_id)
}

/// Checks that each operation was asked for once and has ended once, in this order, and that none that a
/// client was told of is missing.
fn check_operations(account: &Log, told: &[String]) {
    let mut seen: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for event in &account.events {
        let (id, what) = match box_event(event) {
            Some(BoxEvent::EnsureRequested(event)) => (event.operation_id, "asked"),
            Some(BoxEvent::WakeRequested(event)) => (event.operation_id, "asked"),
            Some(BoxEvent::HibernateRequested(event)) => (event.operation_id, "asked"),
            Some(BoxEvent::DeleteRequested(event)) => (event.operation_id, "asked"),
            Some(BoxEvent::Running(event)) => (event.operation_id, "ended"),
            Some(BoxEvent::Hibernated(event)) => (event.operation_id, "ended"),
            Some(BoxEvent::Deleted(event)) => (event.operation_id, "ended"),
            Some(BoxEvent::Failed(event)) => (event.operation_id, "failed"),
            _ => continue,
        };
        seen.entry(id).or_default().push(what);
    }
    for (id, story) in &seen {
        assert_eq!(story, &["asked", "ended"], "operation {id}");
    }
    for id in told {
        assert!(seen.contains_key(id), "operation {id} is not in the log");
    }
    assert!(seen.len() >= 6, "only {} operations", seen.len());
}

/// A child of a killed api that is on its way into a program holds the api's locks until it is there.
#[test]
fn an_api_waits_for_what_the_one_before_has_locked() {
    run(async {
        let installation = Installation::start().await;
        installation.kill9();
        let path = installation.data().join("log.db.lock");
        let file = std::fs::File::open(path).expect("the log has a lock");
        file.try_lock()
            .expect("nobody holds the lock of a killed api");
        let hold = async {
            // So long that an api which does not wait has ended by then, and failed the test.
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(file);
        };
        futures::future::join(installation.restart(), hold).await;
    });
}

/// Five steps, each with an effect that would show if it happened twice.
const EFFECTS: &str = r#"
chunk_delay_ms = 5
[[conversation]]
[[conversation.step]]
text = "One, with some words to stream."
tools = [{ name = "shell", args = { command = "echo 1 >> /workspace/effects; sleep 0.3" } }]
[[conversation.step]]
text = "Two, with some words to stream."
tools = [{ name = "shell", args = { command = "echo 2 >> /workspace/effects; sleep 0.3" } }, { name = "ls", args = { path = "/workspace" } }]
[[conversation.step]]
text = "Three, with some words to stream."
tools = [{ name = "shell", args = { command = "echo 3 >> /workspace/effects; sleep 0.3" } }]
[[conversation.step]]
text = "Done."
"#;
const EFFECTS_COUNT: usize = 3;
/// Turns in which the agent is killed, in each of so many boxes: a box starts an agent that dies again and
/// again later and later.
const AGENT_KILLS: usize = 4;
const AGENT_BOXES: usize = 4;

#[test]
fn an_agent_killed_in_a_turn_goes_on_and_does_nothing_twice() {
    run(async {
        let mut chance = Chance::seeded("agent kills");
        let installation = Setup::scripted(EFFECTS).start().await;
        let user = installation.user("ada").await;
        let mut boxes = Vec::new();
        for number in 0..AGENT_BOXES {
            let the_box = TheBox::up(&installation, &user, &format!("box{number}")).await;
            // One turn without a kill, to know how long it is.
            let started = Instant::now();
            the_box.send("Calm").await.assert_done();
            let length = started.elapsed();
            let at: Vec<u64> = (0..AGENT_KILLS)
                .map(|_| chance.below(u64::try_from(length.as_millis()).expect("short")))
                .collect();
            boxes.push(kill_in_turns(the_box, at));
        }
        let interrupted: usize = futures::future::join_all(boxes).await.into_iter().sum();
        eprintln!("{interrupted} tool calls were interrupted");

        // And once for certain in the middle of an effect.
        let the_box = TheBox::up(&installation, &user, "certain").await;
        let accepted = the_box.accept("Certain").await;
        let mut events = the_box.events(&accepted.offset_key, &["exec/"]);
        events.next_of("exec.started").await;
        until("the effect has happened", || async {
            let effects = the_box.exec(start(&["cat", "/workspace/effects"])).await;
            effects
                .is_ok_and(|ran| ran.out().contains('1'))
                .then_some(())
        })
        .await;
        the_box.agent().expect("the agent runs").kill();
        let turn = the_box.turn_of(accepted).await;
        turn.assert_done();
        assert!(check_effects(&the_box, &turn).await <= 1);
        History::verified(installation.data()).await;
    });
}

/// Kills the agent once in each of some turns, so many milliseconds after the prompt was accepted.
async fn kill_in_turns(the_box: TheBox, at_ms: Vec<u64>) -> usize {
    let mut interrupted = 0;
    for (number, at) in at_ms.into_iter().enumerate() {
        until("the agent answers", || async {
            let removed = the_box
                .exec(start(&["rm", "-f", "/workspace/effects"]))
                .await;
            removed.is_ok_and(|ran| ran.code() == 0).then_some(())
        })
        .await;
        let accepted = the_box.accept(&format!("Turn {number}")).await;
        tokio::time::sleep(Duration::from_millis(at)).await;
        if let Some(agent) = the_box.agent() {
            agent.kill();
        }
        let turn = the_box.turn_of(accepted).await;
        turn.assert_done();
        interrupted += check_effects(&the_box, &turn).await;
    }
    interrupted
}

/// Returns how many calls were interrupted.
async fn check_effects(the_box: &TheBox, turn: &Turn) -> usize {
    let effects = until("the agent answers", || async {
        let argv = start(&["bash", "-c", "cat /workspace/effects 2>&1; true"]);
        the_box.exec(argv).await.ok()
    })
    .await
    .out();
    let (called, finished) = (turn.tools_called(), turn.tools_finished());
    let mut interrupted = 0;
    let mut effect = 0;
    for tool in &called {
        let results = finished
            .iter()
            .filter(|result| result.tool_call_id == tool.tool_call_id);
        let results: Vec<_> = results.collect();
        assert_eq!(results.len(), 1, "results of {tool:?}: {results:?}");
        let outcome = results[0].outcome();
        interrupted += usize::from(outcome == Outcome::Interrupted);
        if tool.name != "shell" {
            assert_eq!(
                outcome,
                Outcome::Ok,
                "a tool without effects is repeated: {:?}",
                results[0]
            );
            continue;
        }
        effect += 1;
        let times = effects
            .lines()
            .filter(|line| *line == effect.to_string())
            .count();
        match outcome {
            Outcome::Ok => assert_eq!(times, 1, "effect {effect}: {effects}"),
            Outcome::Interrupted => assert!(times <= 1, "effect {effect}: {effects}"),
            // Killed between the call's event and the command's: it is known that nothing was run.
            Outcome::Error if results[0].content.starts_with("nothing was run") => {
                assert_eq!(times, 0, "effect {effect}: {effects}");
            }
            other => panic!("effect {effect} ended as {other:?}: {:?}", results[0]),
        }
    }
    assert_eq!(effect, EFFECTS_COUNT, "{}", turn.story());
    assert_eq!(turn.outcome, agent_turn_ended::Outcome::Done);
    interrupted
}

#[test]
fn a_box_that_dies_is_asleep_and_wakes() {
    run(async {
        let installation = Installation::start().await;
        let user = installation.user("ada").await;
        let the_box = TheBox::up(&installation, &user, "main").await;
        the_box.sh("echo kept > /workspace/file").await;
        let mut account = Events::of_account(&user, "", &[&format!("box/{}", the_box.id)]);
        the_box.init().kill();
        account.next_of("box.machine_lost").await;
        until("the box is asleep", || async {
            (user.state(&the_box.id).await == Some(State::Hibernated)).then_some(())
        })
        .await;
        assert_eq!(installation.remains().of_boxes(), Vec::<String>::new());
        the_box.wake().await;
        assert_eq!(the_box.sh("cat /workspace/file").await, "kept\n");

        // Also while the api is down.
        let init = the_box.init();
        installation.kill9();
        init.kill();
        installation.restart().await;
        account.next_of("box.machine_lost").await;
        the_box.wake().await;
        assert_eq!(the_box.sh("cat /workspace/file").await, "kept\n");
    });
}

#[test]
fn a_box_goes_on_while_the_api_is_down() {
    run(async {
        let installation = Installation::start().await;
        let user = installation.user("ada").await;
        let the_box = TheBox::up(&installation, &user, "main").await;
        let line = "for i in $(seq 40); do echo $i; sleep 0.05; done";
        let mut stream = the_box
            .exec_stream(start(&["bash", "-c", line]))
            .await
            .expect("it is run");
        let mut ran = Ran::default();
        while ran.stdout.is_empty() {
            ran.take(stream.message().await.expect("readable").expect("a frame"));
        }
        let pids: Vec<i32> = the_box
            .processes()
            .iter()
            .map(|process| process.pid)
            .collect();
        installation.kill9();
        let broken = loop {
            match stream.message().await {
                Ok(Some(frame)) => assert!(!ran.take(frame), "it cannot have ended"),
                Ok(None) => panic!("a broken stream ended cleanly"),
                Err(status) => break status,
            }
        };
        assert!(is_broken(&broken), "{broken:?}");
        installation.restart().await;
        let init = the_box.init();
        assert!(pids.contains(&init.pid), "the box was started again");
        let mut events = the_box.events("", &[&format!("exec/{}", ran.exec_id)]);
        let exited = events.next_of("exec.exited").await;
        let exited: ExecExited = payload(&exited, "exec.exited");
        assert_eq!(exited.code, 0);
        let kept = exited.stdout.expect("the output").head;
        assert_eq!(String::from_utf8_lossy(&kept).lines().count(), 40);
        assert_eq!(user.state(&the_box.id).await, Some(State::Running));
    });
}
