//! The process that holds the driver is killed in the middle of things; the next one must cope.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cocoonbox_machines::container::Config;
use cocoonbox_machines::{Container, MachineState, Machines};

use crate::bench::{Bench, USER, data_folder, spec, until};
use crate::container::leftovers;

const DATA: &str = "COCOONBOX_CRASH_DATA";

/// Set to keep the first box up, and to say so by a file.
const HOLD: &str = "COCOONBOX_CRASH_HOLD";

/// Overrides the seed of the moments at which the process is killed.
const SEED: &str = "COCOONBOX_CRASH_SEED";

const ROUNDS: u64 = 16;

/// A few turns of the child's loop.
const WINDOW_US: u64 = 1_500_000;

/// Not a test: the body of the process that is killed. It starts, stops and removes a box for ever.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by the other test"]
async fn child() {
    let Some(data) = std::env::var_os(DATA) else {
        return;
    };
    // An init that is told to stop before it can hear it is waited for: that is not what is of interest here.
    let grace = Duration::from_millis(50);
    let machines = Container::new(Config {
        grace,
        ..Config::new(data)
    })
    .unwrap();
    if let Some(up) = std::env::var_os(HOLD) {
        machines.ensure(&spec("a", "w")).await.unwrap();
        std::fs::write(up, "").unwrap();
        std::future::pending::<()>().await;
    }
    for turn in 0_u64.. {
        let first = spec("a", &format!("w{turn}"));
        let second = spec("a", &format!("x{turn}"));
        machines.ensure(&first).await.unwrap();
        machines.ensure(&second).await.unwrap();
        machines.hibernate(&first.box_id).await.unwrap();
        machines.ensure(&first).await.unwrap();
        machines.delete(&first.box_id).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_killed_at_any_moment_leaves_what_the_next_one_repairs() {
    let seed = std::env::var(SEED).map_or(0x5eed, |seed| seed.parse().unwrap());
    eprintln!("{SEED}={seed}");
    let folder = data_folder();
    let data = folder.path().join("data");
    let mut random = seed;
    for round in 0..ROUNDS {
        let mut child = spawn(&data);
        random = next(random);
        // Not a wait for something: the moment is drawn.
        tokio::time::sleep(Duration::from_micros(random % WINDOW_US)).await;
        assert!(
            child.try_wait().unwrap().is_none(),
            "the child ended by itself"
        );
        child.kill().unwrap();
        child.wait().unwrap();

        let bench = Bench::over(&data);
        let told = bench.machines.list().await.unwrap();
        eprintln!("round {round}: {told:?}");
        let next = match round % 3 {
            // What was being started is asked for again; or something else is.
            0 => told
                .first()
                .and_then(|one| one.wake_id.clone())
                .map_or("y".into(), |wake| wake.0),
            _ => format!("y{round}"),
        };
        if round % 3 == 1 {
            bench
                .machines
                .hibernate(&spec("a", "").box_id)
                .await
                .unwrap();
            assert_eq!(
                leftovers(&data),
                Vec::<String>::new(),
                "round {round}, hibernated"
            );
        }
        let again = bench.up("a", &next).await;
        bench
            .run(&again, USER, "echo works > /workspace/file")
            .await;
        bench.machines.delete(&again.box_id).await.unwrap();
        assert_eq!(
            leftovers(&data),
            Vec::<String>::new(),
            "round {round}, deleted"
        );
        assert_eq!(
            std::fs::read_dir(data.join("boxes/.deleted"))
                .unwrap()
                .count(),
            0
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_box_outlives_a_killed_driver() {
    let folder = data_folder();
    let data = folder.path().join("data");
    let up = folder.path().join("up");
    let mut child = command(&data)
        .env(HOLD, &up)
        .process_group(0)
        .spawn()
        .unwrap();
    until("the box is up", async || up.exists()).await;
    let before = std::fs::read_to_string(data.join("boxes/a/run/init.pid")).unwrap();
    // The whole group, as a terminal or a supervisor does.
    let group = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
    child.wait().unwrap();

    let bench = Bench::over(&data);
    let spec = spec("a", "w");
    let found = bench.machines.get(&spec.box_id).await.unwrap().unwrap();
    assert_eq!(
        (found.state, found.wake_id),
        (MachineState::Running, Some(spec.wake_id.clone()))
    );
    bench.machines.ensure(&spec).await.unwrap();
    let after = std::fs::read_to_string(data.join("boxes/a/run/init.pid")).unwrap();
    assert_eq!(after, before);
    bench.run(&spec, USER, "true").await;
    let listener = bench
        .machines
        .listen(&spec.box_id, &spec.wake_id, 3128)
        .await
        .unwrap();
    drop(listener);
    let waiting = bench.machines.wait(&spec.box_id, &spec.wake_id);
    let stopping = async {
        bench.run(&spec, USER, "true").await;
        bench.machines.hibernate(&spec.box_id).await.unwrap();
    };
    tokio::join!(async { waiting.await.unwrap() }, stopping);
    bench.machines.delete(&spec.box_id).await.unwrap();
    assert_eq!(leftovers(&data), Vec::<String>::new());
}

#[test]
fn a_host_without_the_runtime_is_told_what_to_install() {
    let folder = data_folder();
    let ran = command(&folder.path().join("data"))
        .env("PATH", "/nowhere")
        .output()
        .unwrap();
    let error = String::from_utf8(ran.stderr).unwrap();
    assert!(
        error.contains("MissingProgram") && error.contains("apt-get install"),
        "{error}"
    );
}

fn spawn(data: &Path) -> Child {
    command(data).spawn().unwrap()
}

fn command(data: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["crash::child", "--exact", "--ignored", "--nocapture"])
        .env(DATA, data)
        .stdout(Stdio::null());
    command
}

/// SplitMix64.
fn next(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
