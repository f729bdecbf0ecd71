//! The main job, from the first Ensure to a verified history.

use std::{collections::HashSet, fs, path::Path};

use cocoonbox_e2e::{
    Installation, MODEL_KEY, Setup, TheBox, Turn, User,
    events::{assert_in_order, payload_if},
    history::{History, check_views},
    run, until,
};
use cocoonbox_proto::{
    agent::v1::{ListAgentsRequest, transcript_item::Kind},
    control::v1::{State, UsageRequest},
    log::v1::{
        Event, ExecExited, ExecOutputStreamed, ExecStarted, agent_tool_finished,
        exec_exited::Reason,
    },
};

pub(crate) const SCRIPT: &str = include_str!("story/script.toml");

#[test]
fn a_box_an_agent_and_one_log_that_tells_the_story() {
    run(async {
        let installation = Setup::scripted(SCRIPT).start().await;
        let user = live(&installation).await;
        installation.stop();
        let history = History::verified(installation.data()).await;
        assert!(
            history.check_anchors(&user.id) >= 2,
            "each hibernate ties the box log in"
        );
        check_views(installation.data()).await;
        no_key_on_disk(installation.data());
        no_key_in_the_logs(&history);
        installation.restart().await;
    });
}

/// The whole story up to where the box sleeps for the second time; returns whose box it was.
pub(crate) async fn live(installation: &Installation) -> User {
    let user = installation.user("ada").await;
    let the_box = TheBox::up(installation, &user, "main").await;

    let turn = the_box.send("Make a small project").await;
    turn.assert_done();
    assert!(turn.text().contains("All done."), "{}", turn.text());
    check_tools(&turn);
    check_project(&the_box).await;
    check_model(installation);

    let job = background_job(&the_box).await;
    let tick = |count: usize| {
        let (the_box, job) = (the_box.clone(), job.clone());
        async move { (ticks(&the_box, &job).await.len() >= count).then_some(()) }
    };
    until("the background job ticks", || tick(3)).await;
    no_key_in_the_box(&the_box).await;

    the_box.hibernate().await;
    assert_eq!(user.state(&the_box.id).await, Some(State::Hibernated));
    assert!(
        installation.remains().of_boxes().is_empty(),
        "asleep, but something runs"
    );
    let asleep = readable_asleep(&the_box).await;

    the_box.wake().await;
    check_project(&the_box).await;
    let exited = until("the job's end is in the log", || async {
        let events = the_box.events("", &[&job]).all().await.expect("readable");
        events
            .iter()
            .find_map(|event| payload_if::<ExecExited>(event, "exec.exited"))
    });
    let exited = exited.await;
    assert_eq!(exited.reason(), Reason::Interrupted);
    let after: Vec<Event> = the_box.events("", &[]).all().await.expect("readable");
    assert_in_order(&after);
    assert_eq!(
        keys(&after[..asleep.len()]),
        keys(&asleep),
        "the history has changed"
    );
    let said = ticks(&the_box, &job).await;
    assert!(said.len() >= 3, "the job's output is gone: {said:?}");
    assert!(
        the_box.processes_with("seq 1 100000").is_empty(),
        "the job runs, but has ended"
    );

    let turn = the_box.send("And now?").await;
    turn.assert_done();
    assert_eq!(turn.text(), "Awake again.");
    let transcript = the_box.transcript().await;
    let prompts = transcript.iter().filter(|item| item.kind() == Kind::Prompt);
    let prompts: Vec<&str> = prompts.map(|item| item.text.as_str()).collect();
    assert_eq!(prompts, ["Make a small project", "And now?"]);

    let usage = user
        .users()
        .usage(UsageRequest::default())
        .await
        .expect("readable")
        .into_inner();
    let calls: u64 = usage.rows.iter().map(|row| row.calls).sum();
    assert_eq!(
        calls,
        installation.model().requests().len() as u64,
        "{usage:?}"
    );

    the_box.hibernate().await;
    user
}

fn check_tools(turn: &Turn) {
    let (called, finished) = (turn.tools_called(), turn.tools_finished());
    let names: Vec<&str> = called.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(
        names,
        ["write", "write", "shell", "edit", "shell", "shell", "shell"]
    );
    let ended: HashSet<&str> = finished
        .iter()
        .map(|tool| tool.tool_call_id.as_str())
        .collect();
    assert_eq!(ended.len(), finished.len(), "a tool call has two results");
    for tool in &called {
        assert!(
            ended.contains(tool.tool_call_id.as_str()),
            "{} has no result",
            tool.name
        );
    }
    let interrupted = agent_tool_finished::Outcome::Interrupted;
    assert!(finished.iter().all(|tool| tool.outcome() != interrupted));
}

async fn check_project(the_box: &TheBox) {
    let module = the_box.sh("cat /workspace/sum/sum.py").await;
    assert_eq!(module, "def total(numbers):\n    return sum(numbers)\n");
    assert_eq!(
        the_box.sh("git -C /workspace/sum log --format=%s").await,
        "Add sum\n"
    );
    assert_eq!(
        the_box
            .sh("git -C /workspace/sum status --porcelain -uno")
            .await,
        ""
    );
}

/// The model is called with the planted key, and with nothing of the box's own.
fn check_model(installation: &Installation) {
    let requests = installation.model().requests();
    assert_eq!(requests.len(), 7);
    assert!(
        requests
            .iter()
            .all(|request| request.status == 200 && request.attempt == 0)
    );
}

/// Finds the stream of the job that was started in the background.
async fn background_job(the_box: &TheBox) -> String {
    let events = the_box
        .events("", &["exec/"])
        .all()
        .await
        .expect("readable");
    let started = events.iter().find_map(|event| {
        let started = payload_if::<ExecStarted>(event, "exec.started")?;
        started.background.then(|| event.stream.clone())
    });
    started.expect("the background job is in the log")
}

async fn ticks(the_box: &TheBox, job: &str) -> Vec<String> {
    let events = the_box.events("", &[job]).all().await.expect("readable");
    let pieces = events
        .iter()
        .filter_map(|event| payload_if::<ExecOutputStreamed>(event, "exec.output_streamed"));
    let bytes: Vec<u8> = pieces.flat_map(|piece| piece.data).collect();
    String::from_utf8_lossy(&bytes)
        .lines()
        .map(str::to_owned)
        .collect()
}

/// Events, transcript and agents of a box that sleeps, and resuming from any key.
async fn readable_asleep(the_box: &TheBox) -> Vec<Event> {
    let all = the_box
        .events("", &[])
        .all()
        .await
        .expect("readable asleep");
    assert_in_order(&all);
    let middle = &all[all.len() / 2];
    let rest = the_box
        .events(&middle.offset_key, &[])
        .all()
        .await
        .expect("resumable asleep");
    assert_eq!(keys(&rest), keys(&all[all.len() / 2 + 1..]));
    let transcript = the_box.transcript().await;
    for kind in [
        Kind::Prompt,
        Kind::Thinking,
        Kind::Reply,
        Kind::ToolCall,
        Kind::ToolResult,
    ] {
        assert!(
            transcript.iter().any(|item| item.kind() == kind),
            "no {kind:?}: {transcript:?}"
        );
    }
    assert!(transcript.iter().all(|item| !item.partial));
    let agents = the_box
        .user
        .agents(&the_box.id)
        .list(ListAgentsRequest {})
        .await;
    let agents = agents.expect("readable asleep").into_inner().agents;
    assert_eq!(agents.len(), 1);
    assert_eq!(
        (agents[0].name.as_str(), agents[0].state.as_str()),
        ("main", "idle")
    );
    all
}

fn keys(events: &[Event]) -> Vec<&str> {
    events
        .iter()
        .map(|event| event.offset_key.as_str())
        .collect()
}

async fn no_key_in_the_box(the_box: &TheBox) {
    let processes = the_box.processes();
    assert!(processes.len() >= 3, "{processes:?}");
    for process in processes {
        let environment = process.environment();
        assert!(
            !holds(&environment, MODEL_KEY),
            "in the environment of {process:?}"
        );
        assert!(
            !process.command.contains(MODEL_KEY),
            "in the arguments of {process:?}"
        );
    }
    assert!(!the_box.sh("env").await.contains(MODEL_KEY));
    // The search finds what is there.
    the_box
        .sh("printf 'control-%s' needle > /tmp/control")
        .await;
    assert_eq!(
        the_box.sh(&search("control-needle")).await,
        "/tmp/control\n"
    );
    assert_eq!(the_box.sh(&search(MODEL_KEY)).await, "");
}

/// Looks through all that a box can write. The needle is put together in the box, so that the search does
/// not find itself.
fn search(needle: &str) -> String {
    let (head, tail) = needle.split_at(8);
    format!(
        "a='{head}'; grep -rIl --devices=skip \"${{a}}{tail}\" /etc /home /opt /root /run /srv /tmp \
         /usr/local /var /workspace /dev/shm 2>/dev/null || true"
    )
}

/// Looks at every file that the installation has written, but for the image.
fn no_key_on_disk(folder: &Path) {
    let mut looked_at = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("readable") {
            let entry = entry.expect("readable");
            let kind = entry.file_type().expect("readable");
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                let bytes = fs::read(entry.path()).expect("readable");
                assert!(
                    !holds(&bytes, MODEL_KEY),
                    "the key is in {}",
                    entry.path().display()
                );
                looked_at += 1;
            }
        }
    }
    assert!(looked_at > 10, "only {looked_at} files");
}

/// Neither sealed: whoever has the key of a log would read it.
pub(crate) fn no_key_in_the_logs(history: &History) {
    let events = history.logs.values().flat_map(|log| &log.events);
    let bodies: Vec<_> = events.filter_map(|event| event.body.as_ref()).collect();
    assert!(
        bodies.iter().any(|body| holds(&body.payload, "Add sum")),
        "nothing to look at"
    );
    assert!(!bodies.iter().any(|body| holds(&body.payload, MODEL_KEY)));
}

fn holds(bytes: &[u8], needle: &str) -> bool {
    bytes
        .windows(needle.len())
        .any(|window| window == needle.as_bytes())
}
