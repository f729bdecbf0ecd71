//! The `container` driver: the suite, and what it does to the host.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cocoonbox_machines::container::Config;
use cocoonbox_machines::{Container, Error, MachineState, Machines as _, Spec};

use crate::bench::{Bench, ROOT, USER, chain, data_folder, spec};
use crate::suite;

macro_rules! conformance {
    ($make:path: $($property:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $property() {
                let bench = $make();
                suite::$property(&bench).await;
                let data = bench.data.clone();
                for machine in bench.machines.list().await.unwrap() {
                    bench.machines.delete(&machine.box_id).await.unwrap();
                }
                assert_eq!(leftovers(&data), Vec::<String>::new());
            }
        )*
    };
}

conformance!(Bench::container:
    a_box_has_loopback_and_no_way_out,
    a_box_that_was_ensured_runs_and_is_found,
    a_copy_has_the_files_and_a_life_of_its_own,
    a_fork_bomb_stays_in_its_box,
    a_full_memory_is_counted_and_hurts_no_other,
    a_run_that_will_not_stop_is_killed,
    a_start_that_fails_leaves_a_stopped_box,
    an_init_that_cannot_run_ends_the_run,
    an_old_wake_reaches_nothing,
    boxes_come_and_go_side_by_side,
    calls_off_the_list_do_not_exist,
    calls_side_by_side_for_one_box_end_in_one_run,
    delete_forgets_the_box,
    disks_survive_a_hibernation,
    disks_that_are_made_have_what_fills_them,
    ensure_of_another_wake_restarts,
    ensure_of_the_same_wake_changes_nothing,
    folders_belong_to_those_who_use_them,
    list_tells_of_all_boxes,
    memory_is_limited,
    nothing_of_the_host_is_shown,
    the_host_listens_in_the_box,
    usage_counts_what_a_box_has,
    wait_resolves_on_hibernate_and_delete,
    wait_resolves_when_init_ends_by_itself,
    what_was_never_made_is_none_and_may_be_stopped_and_deleted,
);

/// The same with disks of a size, as far as disks have to do with it.
mod volumes {
    use super::{Bench, leftovers, suite};

    conformance!(Bench::with_volumes:
        a_box_that_was_ensured_runs_and_is_found,
        a_copy_has_the_files_and_a_life_of_its_own,
        a_full_disk_stays_in_its_box,
        a_run_that_will_not_stop_is_killed,
        a_start_that_fails_leaves_a_stopped_box,
        boxes_come_and_go_side_by_side,
        calls_side_by_side_for_one_box_end_in_one_run,
        delete_forgets_the_box,
        disks_survive_a_hibernation,
        disks_that_are_made_have_what_fills_them,
        ensure_of_another_wake_restarts,
        folders_belong_to_those_who_use_them,
        usage_counts_what_a_box_has,
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hibernated_box_is_disks_only() {
    let bench = Bench::container();
    let spec = bench.up("a", "w1").await;
    assert!(
        !leftovers(&bench.data).is_empty(),
        "what is looked for is there while a box runs"
    );
    bench.machines.hibernate(&spec.box_id).await.unwrap();
    assert_eq!(leftovers(&bench.data), Vec::<String>::new());
    assert!(bench.data.join("boxes/a/workspace").is_dir());
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_are_shifted_in_processes_and_not_on_disks() {
    let bench = Bench::container();
    let a = bench.up("a", "w1").await;
    let b = bench.up("b", "w1").await;
    let mut bases = Vec::new();
    for spec in [&a, &b] {
        bench.run(spec, USER, "touch /workspace/file").await;
        bench.run(spec, ROOT, "touch /file").await;
        let disks = bench.data.join("boxes").join(spec.box_id.as_str());
        assert_eq!(
            std::fs::metadata(disks.join("workspace/file"))
                .unwrap()
                .uid(),
            1000
        );
        assert_eq!(
            std::fs::metadata(disks.join("upper/u/file")).unwrap().uid(),
            0
        );
        let base = std::fs::metadata(format!("/proc/{}", init(&bench, spec)))
            .unwrap()
            .uid();
        assert!(base >= 1 << 31 && base.is_multiple_of(65_536), "{base}");
        bases.push(base);
    }
    assert_ne!(bases[0], bases[1]);
    // Disks carry setuid files and ids of the host's own accounts.
    assert_eq!(
        std::fs::metadata(bench.data.join("boxes")).unwrap().mode() & 0o777,
        0o700
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ensure_of_the_same_wake_keeps_the_process() {
    let bench = Bench::container();
    let spec = bench.up("a", "w1").await;
    let before = init(&bench, &spec);
    bench.machines.ensure(&spec).await.unwrap();
    assert_eq!(init(&bench, &spec), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_driver_adopts_a_running_box() {
    let folder = data_folder();
    let data = folder.path().join("data");
    let first = Bench::over(&data);
    let spec = first.up("a", "w1").await;
    let before = init(&first, &spec);
    first.abandon();

    let second = Bench::over(&data);
    second.machines.ensure(&spec).await.unwrap();
    assert_eq!(init(&second, &spec), before);
    second.run(&spec, USER, "true").await;
    second
        .machines
        .listen(&spec.box_id, &spec.wake_id, 3128)
        .await
        .unwrap();
    second.machines.hibernate(&spec.box_id).await.unwrap();
    assert_eq!(leftovers(&data), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_unmounted_behind_its_back_is_made_again() {
    let bench = Bench::container();
    let spec = bench.up("a", "w1").await;
    // As after a reboot: no process, no mount, no cgroup, but everything in the data folder.
    let init = rustix::process::Pid::from_raw(init(&bench, &spec)).unwrap();
    rustix::process::kill_process(init, rustix::process::Signal::KILL).unwrap();
    bench
        .machines
        .wait(&spec.box_id, &spec.wake_id)
        .await
        .unwrap();
    for mount in mounts(&bench.data).iter().rev() {
        rustix::mount::unmount(mount, rustix::mount::UnmountFlags::DETACH).unwrap();
    }
    bench.machines.ensure(&spec).await.unwrap();
    bench.run(&spec, USER, "true").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_image_takes_over_an_upper() {
    let bench = Bench::container();
    let mut spec = bench.up("a", "w1").await;
    bench
        .run(
            &spec,
            ROOT,
            "echo kept > /etc/kept; echo changed >> /etc/gitconfig",
        )
        .await;
    bench.machines.hibernate(&spec.box_id).await.unwrap();
    let copy = bench.data.join("other.erofs");
    std::fs::copy(&spec.image, &copy).unwrap();
    spec.image = copy;
    spec.wake_id.0 = "w2".into();
    bench.machines.ensure(&spec).await.unwrap();
    assert_eq!(
        bench
            .run(&spec, USER, "cat /etc/kept; tail -n1 /etc/gitconfig")
            .await,
        "kept\nchanged\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_may_be_an_unpacked_folder() {
    let bench = Bench::container();
    let mut spec = spec("a", "w1");
    let packed = bench.data.join("packed");
    let unpacked = bench.data.join("unpacked");
    for folder in [&packed, &unpacked] {
        std::fs::create_dir_all(folder).unwrap();
    }
    rustix::mount::mount(
        &spec.image,
        &packed,
        "erofs",
        rustix::mount::MountFlags::RDONLY,
        None,
    )
    .unwrap();
    let copied = std::process::Command::new("cp")
        .arg("-aT")
        .arg(&packed)
        .arg(&unpacked)
        .status();
    rustix::mount::unmount(&packed, rustix::mount::UnmountFlags::DETACH).unwrap();
    assert!(copied.unwrap().success());
    spec.image = unpacked;
    bench.machines.ensure(&spec).await.unwrap();
    assert_eq!(
        bench.run(&spec, USER, "stat -c %u /etc/passwd").await,
        "0\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_driver_takes_over_and_the_first_is_refused() {
    let bench = Bench::container();
    let spec = spec("a", "w1");
    bench.machines.claim(&spec.box_id, 1).await.unwrap();
    bench.machines.ensure(&spec).await.unwrap();
    let data = bench.data.clone();
    let second = tokio::task::spawn_blocking(|| Container::new(Config::new(data)))
        .await
        .unwrap()
        .unwrap();
    second.claim(&spec.box_id, 2).await.unwrap();
    let found = second.get(&spec.box_id).await.unwrap().unwrap();
    assert_eq!(found.state, MachineState::Running);
    let replaced = |outcome: Result<(), Error>| matches!(outcome, Err(Error::Replaced(_)));
    assert!(replaced(bench.machines.ensure(&spec).await.map(drop)));
    assert!(replaced(bench.machines.hibernate(&spec.box_id).await));
    assert!(replaced(bench.machines.delete(&spec.box_id).await));
    assert!(replaced(bench.machines.claim(&spec.box_id, 1).await));
    second.hibernate(&spec.box_id).await.unwrap();
    let found = second.get(&spec.box_id).await.unwrap().unwrap();
    assert_eq!(found.state, MachineState::Stopped);
    second.delete(&spec.box_id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_disk_is_not_read_faster_than_allowed() {
    const RATE: u64 = 4 << 20;
    let bench = Bench::container();
    if rustix::fs::major(std::fs::metadata(&bench.data).unwrap().dev()) == 0 {
        eprintln!("passed over: the data folder's file system has no disk of its own");
        return;
    }
    let mut spec = bench.spec("a", "w1");
    spec.limits.io_bytes_per_second = Some(RATE);
    bench.machines.ensure(&spec).await.unwrap();
    bench
        .run(
            &spec,
            USER,
            "head -c 12M /dev/urandom > /workspace/file && sync /workspace/file",
        )
        .await;
    let begun = std::time::Instant::now();
    let read = "dd if=/workspace/file of=/dev/null bs=1M iflag=direct 2>&1";
    bench.run(&spec, USER, read).await;
    let took = begun.elapsed();
    // At least, however slow the machine is: the first second's worth may come at once.
    assert!(took >= std::time::Duration::from_millis(1_500), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_is_kept_and_bounded() {
    let bench = Bench::container();
    let spec = bench.up("a", "w1").await;
    let console = bench.data.join("boxes/a/run/console.log");
    assert_eq!(std::fs::read_to_string(&console).unwrap(), "init is up\n");
    bench.run(&spec, ROOT, "head -c 3M /dev/zero >&9").await;
    bench.machines.usage(&spec.box_id).await.unwrap();
    assert!(std::fs::metadata(&console).unwrap().len() < 1 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_says_what_the_runtime_said() {
    let bench = Bench::container();
    let mut spec = spec("a", "w1");
    spec.limits.memory_bytes = 4096;
    let error = bench.machines.ensure(&spec).await.unwrap_err();
    assert!(chain(&error).contains("memory limit"), "{}", chain(&error));
    assert_eq!(leftovers(&bench.data), Vec::<String>::new());
}

/// The pid of a box's init on the host.
fn init(bench: &Bench, spec: &Spec) -> i32 {
    let file = bench
        .data
        .join("boxes")
        .join(spec.box_id.as_str())
        .join("run/init.pid");
    std::fs::read_to_string(file)
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

/// Names what runs boxes of this data folder: mounts, cgroups, processes, container states.
pub(crate) fn leftovers(data: &Path) -> Vec<String> {
    let tag = tag(data);
    let mut found: Vec<_> = mounts(data)
        .iter()
        .map(|mount| format!("mount {}", mount.display()))
        .collect();
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    for line in table.lines().filter(|line| line.contains(" - cgroup")) {
        let parent = Path::new(line.split(' ').nth(4).unwrap()).join("cocoonbox");
        let Ok(entries) = std::fs::read_dir(&parent) else {
            continue;
        };
        for entry in entries {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.starts_with(&tag) {
                found.push(format!("cgroup {}/{name}", parent.display()));
            }
        }
    }
    for process in std::fs::read_dir("/proc").unwrap() {
        let process = process.unwrap().path();
        let Ok(groups) = std::fs::read_to_string(process.join("cgroup")) else {
            continue;
        };
        let is_zombie = std::fs::read_to_string(process.join("stat")).is_ok_and(|stat| {
            stat.rsplit(") ")
                .next()
                .is_some_and(|rest| rest.starts_with('Z'))
        });
        if groups.contains(&tag) && !is_zombie {
            found.push(format!("process {}", process.display()));
        }
    }
    for state in std::fs::read_dir(data.join("run/runc")).unwrap() {
        found.push(format!("state {}", state.unwrap().path().display()));
    }
    found
}

fn mounts(data: &Path) -> Vec<PathBuf> {
    let below = format!("/run/cocoonbox/{}", tag(data));
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let points = table.lines().map(|line| line.split(' ').nth(4).unwrap());
    points
        .filter(|point| point.starts_with(&below))
        .map(PathBuf::from)
        .collect()
}

/// The driver's name for a data folder, in paths that are not below it.
fn tag(data: &Path) -> String {
    let data = data.canonicalize().unwrap();
    blake3::hash(data.as_os_str().as_encoded_bytes()).to_hex()[..12].to_owned()
}
