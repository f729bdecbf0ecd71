//! Terminals: shells of a model that stay open, and people at them.

use std::time::Duration;

use cocoonbox_events::{AgentEvent, ExecEvent, Payload};
use cocoonbox_proto::{
    agent::v1::{
        ExecOutput, ExecRequest, ExecResponse, ExecStart, SignalExecRequest, WindowSize,
        exec_request, exec_response::Frame,
    },
    log::v1::{ExecExited, agent_tool_finished::Outcome, exec_exited::Reason},
};
use tokio::{sync::mpsc, time::Instant};
use tonic::{Code, Streaming};

use crate::{
    execs::{NO_MODEL, bash, open_request},
    turns::results,
    world::{DEADLINE, World, eventually, mark, payload, processes_with},
};

/// A conversation that calls `terminal` with each of these, and the world after it.
async fn play(calls: &[&str]) -> (World, Vec<String>) {
    let world = World::new("anthropic", &script(calls)).await;
    let said = go(&world).await;
    (world, said)
}

fn script(calls: &[&str]) -> String {
    let mut script = "[[conversation]]\n".to_owned();
    for args in calls {
        script.extend([format!(
            "[[conversation.step]]\ntools = [{{ name = \"terminal\", args = {args} }}]\n"
        )]);
    }
    script.push_str("[[conversation.step]]\ntext = \"done\"\n");
    script
}

async fn go(world: &World) -> Vec<String> {
    world.send("go").await;
    let events = world.until_kind("agent.turn_ended").await;
    results(&events)
        .into_iter()
        .map(|finished| finished.content)
        .collect()
}

#[tokio::test]
async fn a_session_keeps_its_folder_its_variables_and_its_jobs() {
    let (world, said) = play(&[
        r#"{ input = "mkdir sub; cd sub; export FACT=42; printf hidden > f" }"#,
        r#"{ input = "echo $FACT in $(basename $PWD); false" }"#,
        r#"{ input = "sleep 1000 &" }"#,
        r#"{ input = "jobs" }"#,
        r#"{ input = "echo one\necho two\nprintf three" }"#,
        r#"{ session = "other", input = "echo \"[$FACT]\"" }"#,
        r"{ list = true }",
        r"{ close = true }",
        r"{ close = true }",
    ])
    .await;
    let workspace = world.workspace();
    let sub = workspace.join("sub");
    assert_eq!(
        said[0],
        format!(
            "[session main: exit code 0, in {}]\n[nothing new]",
            sub.display()
        )
    );
    assert!(
        said[1].starts_with("[session main: exit code 1") && said[1].ends_with("]\n42 in sub"),
        "{}",
        said[1]
    );
    assert!(
        said[3].contains("Running") && said[3].contains("sleep 1000"),
        "{}",
        said[3]
    );
    assert!(said[4].ends_with("]\none\ntwo\nthree"), "{}", said[4]);
    assert!(said[5].ends_with("]\n[]"), "{}", said[5]);
    assert!(
        said[6].contains("main: open") && said[6].contains("other: open"),
        "{}",
        said[6]
    );
    assert!(said[7].contains("closed session `main`"), "{}", said[7]);
    assert!(said[8].contains("no session `main` is open"), "{}", said[8]);
    let path = sub.to_string_lossy().into_owned();
    eventually("the job is gone", || {
        !processes_with("sleep 1000").iter().any(|pid| {
            std::fs::read_link(format!("/proc/{pid}/cwd"))
                .is_ok_and(|cwd| cwd.to_string_lossy() == path)
        })
    })
    .await;
    let events = world.events().await;
    let started = events.iter().find_map(|event| match payload(event) {
        Payload::Exec(ExecEvent::Started(started)) => Some(started),
        _ => None,
    });
    let started = started.expect("a session is an exec");
    assert!(started.tty && started.background && started.exec_id.starts_with("term-"));
}

#[tokio::test]
async fn programs_are_answered_interrupted_and_looked_at_again() {
    let (_world, said) = play(&[
        r#"{ input = "read -p 'name? ' x; echo hello $x" }"#,
        r#"{ input = "bob" }"#,
        r#"{ input = "for i in 1 2 3 4 5 6 7 8 9; do echo tick $i; sleep 0.3; done", until = "tick 3" }"#,
        r#"{ until = "tick 9" }"#,
        r#"{ input = "sleep 1000", wait_ms = 300 }"#,
        r#"{ keys = ["ctrl-c"] }"#,
        r#"{ input = "cat" , wait_ms = 500}"#,
        r#"{ signal = "INT" }"#,
        r#"{ input = "echo 'open", wait_ms = 10000 }"#,
        r#"{ input = "end'" }"#,
        r#"{ input = "printf '\\033[31mred\\033[0m 1%%\\r 100%%\\n'; stty size", rows = 30, cols = 90 }"#,
        r#"{ input = "exit 7" }"#,
        r#"{ input = "echo x" }"#,
        r#"{ input = "echo afresh" }"#,
        r#"{ keys = ["no such key"] }"#,
        r#"{ until = "(" }"#,
    ])
    .await;
    assert!(
        said[0].contains("silent, still running") && said[0].ends_with("name?"),
        "{}",
        said[0]
    );
    assert!(
        said[1].contains("exit code 0") && said[1].ends_with("hello bob"),
        "{}",
        said[1]
    );
    assert!(
        said[2].contains("`until` matches") && said[2].contains("tick 3"),
        "{}",
        said[2]
    );
    assert!(
        said[3].contains("tick 9") && !said[3].contains("tick 1\n"),
        "{}",
        said[3]
    );
    assert!(
        said[4].contains("still running when `wait_ms`"),
        "{}",
        said[4]
    );
    assert!(said[5].contains("exit code 130"), "{}", said[5]);
    assert!(said[7].contains("exit code 130"), "{}", said[7]);
    assert!(said[8].contains("the shell waits for more"), "{}", said[8]);
    assert!(said[9].ends_with("open\nend"), "{}", said[9]);
    assert!(
        said[10].contains("red 1%") || said[10].contains(" 100%"),
        "{}",
        said[10]
    );
    assert!(
        !said[10].contains('\u{1b}') && said[10].contains("30 90"),
        "{}",
        said[10]
    );
    assert!(
        said[11].contains("the shell has ended with exit code 7"),
        "{}",
        said[11]
    );
    assert!(
        said[12].contains("nothing was typed") && said[12].contains("is over"),
        "{}",
        said[12]
    );
    assert!(said[13].ends_with("afresh"), "{}", said[13]);
    assert!(said[14].contains("there is no key"), "{}", said[14]);
    assert!(
        said[15].contains("not a regular expression"),
        "{}",
        said[15]
    );
}

#[tokio::test]
async fn a_session_that_a_restart_has_ended_says_so_once() {
    let first = script(&[r#"{ input = "cd /; echo remembered" }"#]);
    let second = script(&[r#"{ input = "pwd" }"#, r#"{ input = "pwd" }"#]);
    let later = "[[conversation]]\nwhen = \"again\"\n";
    let script = second.replacen("[[conversation]]\n", later, 1) + &first;
    let mut world = World::new("anthropic", &script).await;
    assert!(go(&world).await[0].ends_with("remembered"));
    world.kill_serve().await;
    assert!(world.start_serve(&[]).await);
    let request = cocoonbox_proto::agent::v1::SendRequest {
        prompt: "again".into(),
        client_nonce: "n2".into(),
        ..Default::default()
    };
    world.agents().send(request).await.expect("accepted");
    let mut ends = 0;
    let events = world
        .until(|event| {
            ends += usize::from(event.kind == "agent.turn_ended");
            ends == 2
        })
        .await;
    let said: Vec<_> = results(&events).into_iter().map(|it| it.content).collect();
    assert!(
        said[1].contains("was lost") && said[1].contains("nothing was typed"),
        "{}",
        said[1]
    );
    let workspace = world.workspace();
    assert!(
        said[2].ends_with(&format!("]\n{}", workspace.display())),
        "{}",
        said[2]
    );
}

#[tokio::test]
async fn the_time_of_a_session_ends_everything_in_it() {
    let mark = mark();
    let call = format!(
        "{{ input = \"setsid sleep {mark} & sleep {mark}\", timeout_ms = 1500, wait_ms = 30000 }}"
    );
    let (_world, said) = play(&[&call]).await;
    assert!(said[0].contains("`timeout_ms` was over"), "{}", said[0]);
    assert!(processes_with(&mark).is_empty());
}

#[tokio::test]
async fn a_cancelled_turn_interrupts_what_runs_in_the_foreground() {
    let mark = mark();
    let call = format!("{{ input = \"echo up; sleep {mark}\", until = \"never\" }}");
    let world = World::new("anthropic", &script(&[&call])).await;
    world.send("go").await;
    eventually("it runs", || {
        !processes_with(&format!("sleep {mark}")).is_empty()
    })
    .await;
    let begun = Instant::now();
    let agent = cocoonbox_proto::agent::v1::AgentRef::default();
    world.agents().cancel(agent).await.expect("accepted");
    let events = world.until_kind("agent.turn_ended").await;
    assert!(begun.elapsed() < Duration::from_secs(4));
    let finished = &results(&events)[0];
    assert_eq!(finished.outcome(), Outcome::Cancelled);
    assert!(finished.content.contains("up"), "{}", finished.content);
    eventually("it is gone", || processes_with(&mark).is_empty()).await;
    let Payload::Agent(AgentEvent::TurnEnded(_)) = payload(events.last().expect("an end")) else {
        panic!("another event")
    };
}

/// A person at a terminal.
struct Person {
    typed: mpsc::Sender<ExecRequest>,
    shown: Streaming<ExecResponse>,
    seen: String,
}

impl Person {
    async fn sit_down(world: &World, start: ExecStart) -> Result<Self, tonic::Status> {
        let first = ExecRequest {
            frame: Some(exec_request::Frame::Start(start)),
        };
        let (typed, request) = open_request(vec![first]);
        let shown = world.session().exec(request).await?.into_inner();
        Ok(Self {
            typed,
            shown,
            seen: String::new(),
        })
    }

    async fn send(&self, frame: exec_request::Frame) {
        let request = ExecRequest { frame: Some(frame) };
        self.typed.send(request).await.expect("taken");
    }

    async fn press(&self, text: &str) {
        self.send(exec_request::Frame::Stdin(text.into())).await;
    }

    /// Looks until the text is seen; the end if it comes before.
    async fn look_for(&mut self, text: &str) -> Option<ExecExited> {
        while !self.seen.contains(text) {
            let next = tokio::time::timeout(DEADLINE, self.shown.message());
            let next = next
                .await
                .unwrap_or_else(|_| panic!("never: {text}; seen: {}", self.seen));
            let response = next.expect("a frame").expect("not the end");
            match response.frame {
                Some(Frame::Output(ExecOutput { data, .. })) => {
                    self.seen.push_str(&String::from_utf8_lossy(&data));
                }
                Some(Frame::Exited(exited)) => return Some(exited),
                _ => {}
            }
        }
        None
    }
}

fn at_terminal(command: &str) -> ExecStart {
    ExecStart {
        tty: Some(WindowSize { rows: 25, cols: 70 }),
        exec_id: "mine".into(),
        ..bash(command)
    }
}

#[tokio::test]
async fn people_type_look_on_leave_and_come_back() {
    let world = World::new("anthropic", NO_MODEL).await;
    let start = at_terminal(
        "tty >/dev/null && stty size; trap 'stty size' WINCH; while read -r line; do echo \"<$line>\"; [ \"$line\" = bye ] && exit 5; done",
    );
    let mut first = Person::sit_down(&world, start.clone())
        .await
        .expect("started");
    assert_eq!(first.look_for("25 70").await, None);
    first.press("hello\r").await;
    assert_eq!(first.look_for("<hello>").await, None);
    let size = WindowSize { rows: 33, cols: 99 };
    first.send(exec_request::Frame::Resize(size)).await;
    first.press("\r").await;
    assert_eq!(first.look_for("33 99").await, None);
    let join = ExecStart {
        attach: true,
        exec_id: "mine".into(),
        ..ExecStart::default()
    };
    let mut second = Person::sit_down(&world, join.clone())
        .await
        .expect("joined");
    assert_eq!(
        second.look_for("<hello>").await,
        None,
        "what was shown comes first"
    );
    drop(first);
    second.press("still here\r").await;
    assert_eq!(second.look_for("<still here>").await, None);
    drop(second);
    let mut third = Person::sit_down(&world, start)
        .await
        .expect("the same call joins too");
    third.press("bye\r").await;
    let exited = third.look_for("never").await.expect("an end");
    assert_eq!((exited.reason(), exited.code), (Reason::Exited, 5));
    let gone = Person::sit_down(&world, join)
        .await
        .err()
        .expect("it has ended");
    assert_eq!(gone.code(), Code::NotFound);
    let events = world.events().await;
    let logged: String = events
        .iter()
        .filter_map(|event| match payload(event) {
            Payload::Exec(ExecEvent::OutputStreamed(output)) => {
                Some(String::from_utf8_lossy(&output.data).into_owned())
            }
            _ => None,
        })
        .collect();
    assert!(
        logged.contains("<hello>") && logged.contains("<bye>"),
        "{logged}"
    );
}

#[tokio::test]
async fn keys_and_signals_reach_the_foreground_even_if_nobody_reads() {
    let world = World::new("anthropic", NO_MODEL).await;
    let start = at_terminal("stty -icanon; echo up; sleep 600; echo slept $?; read -r");
    let mut person = Person::sit_down(&world, start).await.expect("started");
    person.look_for("up").await;
    for _ in 0..200 {
        person.press(&"x".repeat(4_000)).await;
    }
    let signal = SignalExecRequest {
        exec_id: "mine".into(),
        signal: 9,
    };
    world.session().signal_exec(signal).await.expect("sent");
    let exited = person.look_for("never").await.expect("an end");
    assert_eq!(exited.reason(), Reason::Signalled, "{exited:?}");
}

#[tokio::test]
async fn sixteen_terminals_and_no_more() {
    let world = World::new("anthropic", NO_MODEL).await;
    let numbered = |n: usize| ExecStart {
        exec_id: format!("t{n}"),
        ..at_terminal("read -r")
    };
    let mut open = Vec::new();
    for n in 0..16 {
        open.push(
            Person::sit_down(&world, numbered(n))
                .await
                .expect("started"),
        );
    }
    let more = Person::sit_down(&world, numbered(16))
        .await
        .err()
        .expect("too many");
    assert_eq!(more.code(), Code::ResourceExhausted);
    assert!(
        more.message().contains("close one first"),
        "{}",
        more.message()
    );
    let mut first = open.remove(0);
    first.press("\r").await;
    assert!(first.look_for("never").await.is_some());
    Person::sit_down(&world, numbered(17))
        .await
        .expect("room again");
}
