//! What every driver must do: one function per property.

use std::time::Duration;

use cocoonbox_machines::{BoxId, Error, MachineState, Spec, UserFolder, WakeId};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::bench::{AGENT, Bench, DEADLINE, DISK_BYTES, ROOT, USER, until};

pub(crate) async fn a_box_that_was_ensured_runs_and_is_found(bench: &Bench) {
    let spec = bench.up("a", "w1").await;
    let found = bench.machines.get(&spec.box_id).await.unwrap().unwrap();
    assert_eq!(found.state, MachineState::Running);
    assert_eq!(found.wake_id, Some(spec.wake_id.clone()));

    bench.machines.hibernate(&spec.box_id).await.unwrap();
    let found = bench.machines.get(&spec.box_id).await.unwrap().unwrap();
    assert_eq!(found.state, MachineState::Stopped);
    assert_eq!(found.wake_id, Some(spec.wake_id));
}

pub(crate) async fn what_was_never_made_is_none_and_may_be_stopped_and_deleted(bench: &Bench) {
    let id = BoxId::new("nobody").unwrap();
    let wake = WakeId("w".into());
    assert!(bench.machines.get(&id).await.unwrap().is_none());
    bench.machines.hibernate(&id).await.unwrap();
    bench.machines.delete(&id).await.unwrap();
    bench.machines.wait(&id, &wake).await.unwrap();
    assert!(matches!(
        bench.machines.dial(&id, &wake, 1).await,
        Err(Error::NotFound(_))
    ));
    assert!(matches!(
        bench.machines.usage(&id).await,
        Err(Error::NotFound(_))
    ));
    assert!(bench.machines.list().await.unwrap().is_empty());
}

pub(crate) async fn ensure_of_the_same_wake_changes_nothing(bench: &Bench) {
    let spec = bench.up("a", "w1").await;
    bench.run(&spec, USER, "echo same > /tmp/run").await;
    bench.machines.ensure(&spec).await.unwrap();
    assert_eq!(bench.run(&spec, USER, "cat /tmp/run").await, "same\n");
}

pub(crate) async fn ensure_of_another_wake_restarts(bench: &Bench) {
    let first = bench.up("a", "w1").await;
    bench.run(&first, USER, "echo first > /tmp/run").await;
    let second = bench.up("a", "w2").await;
    let (status, _) = bench.try_run(&second, USER, "cat /tmp/run").await;
    assert_ne!(status, 0, "the first run goes on");
    assert_eq!(
        bench
            .run(&second, USER, "cat /run/cocoonbox-identity/identity")
            .await,
        r#"{"box":"a","wake":"w2"}"#
    );
}

pub(crate) async fn calls_side_by_side_for_one_box_end_in_one_run(bench: &Bench) {
    let spec = bench.spec("a", "w1");
    let all = futures_of(6, || {
        let (machines, spec) = (bench.machines.clone(), spec.clone());
        async move { machines.ensure(&spec).await.map(drop) }
    });
    for one in all {
        one.await.unwrap().unwrap();
    }
    bench.run(&spec, USER, "true").await;
}

pub(crate) async fn boxes_come_and_go_side_by_side(bench: &Bench) {
    let all: Vec<_> = (0..6)
        .map(|number| {
            let (machines, spec) = (
                bench.machines.clone(),
                bench.spec(&format!("box-{number}"), "w1"),
            );
            tokio::spawn(async move {
                for _ in 0..3 {
                    machines.ensure(&spec).await?;
                    machines.delete(&spec.box_id).await?;
                }
                Ok::<_, Error>(())
            })
        })
        .collect();
    for one in all {
        one.await.unwrap().unwrap();
    }
    assert!(bench.machines.list().await.unwrap().is_empty());
}

pub(crate) async fn disks_survive_a_hibernation(bench: &Bench) {
    let first = bench.up("a", "w1").await;
    for (uid, file) in [
        (USER, "/workspace/file"),
        (USER, "/home/user/file"),
        (AGENT, "/var/lib/cocoonbox/file"),
        (ROOT, "/etc/made-by-root"),
    ] {
        bench.run(&first, uid, &format!("echo kept > {file}")).await;
    }
    // A change to a file of the image, not only a new one.
    bench
        .run(
            &first,
            ROOT,
            "echo changed >> /etc/gitconfig && rm /etc/debian_version",
        )
        .await;
    bench.machines.hibernate(&first.box_id).await.unwrap();

    let second = bench.up("a", "w2").await;
    for (uid, file, owner) in [
        (USER, "/workspace/file", USER),
        (USER, "/home/user/file", USER),
        (AGENT, "/var/lib/cocoonbox/file", AGENT),
        (USER, "/etc/made-by-root", ROOT),
    ] {
        let seen = bench
            .run(&second, uid, &format!("cat {file}; stat -c %u {file}"))
            .await;
        assert_eq!(seen, format!("kept\n{owner}\n"), "{file}");
    }
    bench
        .run(&second, USER, "tail -n1 /etc/gitconfig | grep -qx changed")
        .await;
    bench
        .run(&second, USER, "test ! -e /etc/debian_version")
        .await;
}

pub(crate) async fn folders_belong_to_those_who_use_them(bench: &Bench) {
    let spec = bench.up("a", "w1").await;
    let seen = bench.run(
        &spec,
        ROOT,
        "stat -c '%n %u:%g %a' /workspace /home/user /var/lib/cocoonbox / /run/cocoonbox-identity/identity",
    );
    assert_eq!(
        seen.await,
        "/workspace 1000:1000 755\n/home/user 1000:1000 750\n/var/lib/cocoonbox 990:990 700\n\
         / 0:0 755\n/run/cocoonbox-identity/identity 0:0 644\n"
    );
    bench
        .run(
            &spec,
            USER,
            "cd /workspace && git init -q && git commit -q --allow-empty -m one",
        )
        .await;
    for (uid, refused) in [
        (USER, "ls /var/lib/cocoonbox"),
        (USER, "touch /etc/file"),
        (ROOT, "touch /run/cocoonbox-identity/file"),
        (ROOT, "touch /run/cocoonbox/bin/file"),
        (ROOT, "mount -t tmpfs tmpfs /mnt"),
        (ROOT, "mount -o remount,rw /run/cocoonbox/bin"),
        (
            ROOT,
            "unshare --user --map-root-user --mount true && mount --bind /tmp /mnt",
        ),
        (ROOT, "mknod /dev/made b 7 0"),
        (ROOT, "echo 1 > /proc/sys/kernel/sysrq"),
        (ROOT, "dmesg"),
    ] {
        let (status, output) = bench.try_run(&spec, uid, refused).await;
        assert_ne!(status, 0, "`{refused}` as {uid}: {output}");
    }
    // A box may make namespaces of its own: browsers build their sandbox of them.
    bench
        .run(&spec, USER, "unshare --user --map-root-user true")
        .await;
}

pub(crate) async fn a_box_has_loopback_and_no_way_out(bench: &Bench) {
    let outside = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = outside.local_addr().unwrap().port();
    let spec = bench.up("a", "w1").await;
    let seen = bench
        .run(
            &spec,
            USER,
            "ip -o link | cut -d: -f2; ip -4 -o addr show up | grep -c 127.0.0.1",
        )
        .await;
    assert_eq!(seen, " lo\n1\n");
    assert_eq!(bench.run(&spec, USER, "ip route show table main").await, "");
    for unreachable in [
        format!("exec 3<>/dev/tcp/127.0.0.1/{port}"),
        format!("exec 3<>/dev/tcp/192.0.2.1/{port}"),
    ] {
        let (status, output) = bench.try_run(&spec, USER, &unreachable).await;
        assert_ne!(status, 0, "{unreachable}: {output}");
    }
    // Families of sockets that reach around the namespace, or much of the kernel.
    for family in ["AF_PACKET", "AF_ALG", "AF_VSOCK"] {
        let make =
            format!("python3 -c 'import socket; socket.socket(socket.{family}, socket.SOCK_RAW)'");
        assert_ne!(bench.try_run(&spec, ROOT, &make).await.0, 0, "{family}");
    }
}

pub(crate) async fn the_host_listens_in_the_box(bench: &Bench) {
    let spec = bench.up("a", "w1").await;
    let listener = bench
        .machines
        .listen(&spec.box_id, &spec.wake_id, 3128)
        .await
        .unwrap();
    let answering = tokio::spawn(async move {
        let (mut stream, from) = listener.accept().await.unwrap();
        let mut asked = [0; 5];
        stream.read_exact(&mut asked).await.unwrap();
        stream.write_all(b"from outside\n").await.unwrap();
        (asked, from)
    });
    let answer = bench
        .run(
            &spec,
            USER,
            "exec 3<>/dev/tcp/127.0.0.1/3128; printf asked >&3; cat <&3",
        )
        .await;
    assert_eq!(answer, "from outside\n");
    let (asked, from) = answering.await.unwrap();
    assert_eq!((&asked[..], from.ip().is_loopback()), (&b"asked"[..], true));

    // The same port at once again, as an api does that was restarted.
    drop(
        bench
            .machines
            .listen(&spec.box_id, &spec.wake_id, 3128)
            .await
            .unwrap(),
    );
    // And in another box at the same time.
    let other = bench.up("b", "w1").await;
    let _here = bench
        .machines
        .listen(&spec.box_id, &spec.wake_id, 3128)
        .await
        .unwrap();
    let _there = bench
        .machines
        .listen(&other.box_id, &other.wake_id, 3128)
        .await
        .unwrap();
}

pub(crate) async fn an_old_wake_reaches_nothing(bench: &Bench) {
    let old = bench.up("a", "w1").await;
    let new = bench.up("a", "w2").await;
    let machines = &bench.machines;
    let is_refused = |error: Error| matches!(error, Error::OtherWake { expected, actual, .. } if expected == "w1" && actual == "w2");
    assert!(is_refused(
        machines
            .dial(&old.box_id, &old.wake_id, 7443)
            .await
            .unwrap_err()
    ));
    assert!(is_refused(
        machines
            .listen(&old.box_id, &old.wake_id, 3128)
            .await
            .unwrap_err()
    ));
    machines.wait(&old.box_id, &old.wake_id).await.unwrap();

    machines.hibernate(&new.box_id).await.unwrap();
    let stopped = machines
        .dial(&new.box_id, &new.wake_id, 7443)
        .await
        .unwrap_err();
    assert!(matches!(stopped, Error::NotRunning(_)), "{stopped}");
}

pub(crate) async fn wait_resolves_when_init_ends_by_itself(bench: &Bench) {
    let spec = bench.up("a", "w1").await;
    let (machines, id, wake) = (
        bench.machines.clone(),
        spec.box_id.clone(),
        spec.wake_id.clone(),
    );
    let mut waiting = tokio::spawn(async move { machines.wait(&id, &wake).await });
    let early = tokio::time::timeout(Duration::from_millis(100), &mut waiting).await;
    assert!(early.is_err(), "the run goes on: {early:?}");

    let _unanswered = bench.ask(&spec, ROOT, "kill -USR1 1").await;
    tokio::time::timeout(DEADLINE, waiting)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    let found = bench.machines.get(&spec.box_id).await.unwrap().unwrap();
    assert_eq!(found.state, MachineState::Stopped);
    // The same wake again is a request to run, and nothing runs.
    bench.machines.ensure(&spec).await.unwrap();
    bench.run(&spec, USER, "true").await;
}

pub(crate) async fn wait_resolves_on_hibernate_and_delete(bench: &Bench) {
    for delete in [false, true] {
        let spec = bench.up("a", "w1").await;
        let (machines, id, wake) = (
            bench.machines.clone(),
            spec.box_id.clone(),
            spec.wake_id.clone(),
        );
        let waiting = tokio::spawn(async move { machines.wait(&id, &wake).await });
        if delete {
            bench.machines.delete(&spec.box_id).await.unwrap();
        } else {
            bench.machines.hibernate(&spec.box_id).await.unwrap();
        }
        tokio::time::timeout(DEADLINE, waiting)
            .await
            .unwrap()
            .unwrap()
            .unwrap();
    }
}

pub(crate) async fn a_run_that_will_not_stop_is_killed(bench: &Bench) {
    let spec = bench.up("a", "w1").await;
    bench.run(&spec, ROOT, "kill -USR2 1").await;
    bench.machines.hibernate(&spec.box_id).await.unwrap();
    let found = bench.machines.get(&spec.box_id).await.unwrap().unwrap();
    assert_eq!(found.state, MachineState::Stopped);
}

pub(crate) async fn an_init_that_cannot_run_ends_the_run(bench: &Bench) {
    let mut broken = bench.spec("a", "w1");
    let script = bench.data.join("broken-agent");
    std::fs::write(&script, "#!/nowhere/interpreter\n").unwrap();
    broken.agent = script;
    // Whether a start or a wait tells of it depends on who is faster.
    if bench.machines.ensure(&broken).await.is_ok() {
        let waiting = bench.machines.wait(&broken.box_id, &broken.wake_id);
        tokio::time::timeout(DEADLINE, waiting)
            .await
            .unwrap()
            .unwrap();
    }
    let found = bench.machines.get(&broken.box_id).await.unwrap().unwrap();
    assert_eq!(found.state, MachineState::Stopped);
}

pub(crate) async fn delete_forgets_the_box(bench: &Bench) {
    let spec = bench.up("a", "w1").await;
    // Deeper than a process may have files open.
    let deep = "import os; [(os.mkdir(\"d\"), os.chdir(\"d\")) for _ in range(3000)]";
    bench
        .run(
            &spec,
            USER,
            &format!("cd /workspace && python3 -c '{deep}'"),
        )
        .await;
    bench.machines.usage(&spec.box_id).await.unwrap();
    bench.machines.delete(&spec.box_id).await.unwrap();
    assert!(bench.machines.get(&spec.box_id).await.unwrap().is_none());
    assert!(bench.machines.list().await.unwrap().is_empty());

    let again = bench.up("a", "w2").await;
    assert_eq!(bench.run(&again, USER, "ls -A /workspace").await, "");
}

pub(crate) async fn a_fork_bomb_stays_in_its_box(bench: &Bench) {
    let spec = bench.up("a", "w1").await;
    let other = bench.up("b", "w1").await;
    // Nothing of it holds the answer's pipe open.
    let bomb = "bomb() { bomb | bomb & }; bomb >/dev/null 2>&1 & disown; true";
    bench.run(&spec, USER, bomb).await;
    until("the box is at its limit", async || {
        bench.machines.usage(&spec.box_id).await.unwrap().pids >= spec.limits.pids * 9 / 10
    })
    .await;
    assert!(bench.machines.usage(&spec.box_id).await.unwrap().pids <= spec.limits.pids);
    bench.run(&other, USER, "true").await;
    bench.machines.hibernate(&spec.box_id).await.unwrap();
    assert_eq!(bench.machines.usage(&spec.box_id).await.unwrap().pids, 0);
}

pub(crate) async fn memory_is_limited(bench: &Bench) {
    let spec = bench.up("a", "w1").await;
    let (status, _) = bench
        .try_run(&spec, USER, "exec python3 -c 'bytearray(1 << 30)'")
        .await;
    assert_ne!(status, 0);
    bench.run(&spec, USER, "true").await;
}

pub(crate) async fn a_full_memory_is_counted_and_hurts_no_other(bench: &Bench) {
    let spec = bench.up("a", "w1").await;
    let other = bench.up("b", "w1").await;
    let kills = async |of: &Spec| bench.machines.memory_kills(&of.box_id).await.unwrap();
    assert_eq!(kills(&spec).await, 0);
    let greedy = "exec python3 -c 'bytearray(1 << 30)'";
    assert_eq!(bench.try_run(&spec, USER, greedy).await.0, -9);
    until("it is counted", async || kills(&spec).await == 1).await;
    assert_eq!(kills(&other).await, 0);
    bench.run(&other, USER, "true").await;
    bench.machines.hibernate(&spec.box_id).await.unwrap();
    assert_eq!(kills(&spec).await, 0, "nothing runs");
}

pub(crate) async fn nothing_of_the_host_is_shown(bench: &Bench) {
    let spec = bench.up("a", "w1").await;
    for hidden in [
        "/proc/kcore",
        "/proc/kallsyms",
        "/proc/keys",
        "/proc/interrupts",
        "/proc/modules",
        "/proc/partitions",
        "/proc/diskstats",
        "/proc/timer_list",
    ] {
        let look = format!("test ! -e {hidden} || test -z \"$(head -c 1 {hidden} | tr -d '\\0')\"");
        bench.run(&spec, ROOT, &look).await;
    }
    for empty in ["/sys/firmware", "/sys/block", "/sys/module", "/sys/power"] {
        let look = format!("test ! -e {empty} || test -z \"$(ls -A {empty})\"");
        bench.run(&spec, ROOT, &look).await;
    }
    for fixed in [
        "/proc/sys/kernel/core_pattern",
        "/proc/sysrq-trigger",
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "/proc/irq/default_smp_affinity",
    ] {
        let write = format!("test -e {fixed} && echo 0 > {fixed}");
        let (status, output) = bench.try_run(&spec, ROOT, &write).await;
        assert_ne!(status, 0, "`{fixed}` can be written: {output}");
    }
    // Devices by list: what every program expects, and no disk, no memory, no terminal of the host's.
    let devices = bench.run(&spec, ROOT, "ls /dev").await;
    // A link to the kernel's memory, which is masked; not every runtime makes it.
    let devices: Vec<_> = devices.lines().filter(|name| *name != "core").collect();
    assert_eq!(
        devices,
        [
            "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin",
            "stdout", "tty", "urandom", "zero",
        ]
    );
}

pub(crate) async fn calls_off_the_list_do_not_exist(bench: &Bench) {
    let spec = bench.up("a", "w1").await;
    let (unknown, refused) = (38, 1);
    for (call, arg, errno) in [
        // No kernel has it.
        (4_000, 0, unknown),
        (libc::SYS_bpf, 0, refused),
        (libc::SYS_keyctl, 0, refused),
        (libc::SYS_io_uring_setup, 1, refused),
        (libc::SYS_perf_event_open, 0, refused),
        (libc::SYS_userfaultfd, 0, refused),
        (libc::SYS_setns, 0, refused),
        (libc::SYS_mount, 0, refused),
        // ADDR_NO_RANDOMIZE is a debugger's; READ_IMPLIES_EXEC takes a protection away.
        (libc::SYS_personality, 0x0040_0000, unknown),
        (libc::SYS_personality, 0x0004_0000, 0),
    ] {
        let make = format!(
            "python3 -c 'import ctypes; c = ctypes.CDLL(None, use_errno=True); \
             r = c.syscall({call}, {arg}, 0, 0, 0, 0); print(ctypes.get_errno() if r < 0 else 0)'"
        );
        let seen = bench.run(&spec, ROOT, &make).await;
        assert_eq!(seen.trim(), errno.to_string(), "call {call} with {arg:#x}");
    }
    // What a browser makes its sandbox of.
    let sandbox = "unshare --user --map-root-user --pid --net --fork chroot / true";
    bench.run(&spec, USER, sandbox).await;
}

pub(crate) async fn a_full_disk_stays_in_its_box(bench: &Bench) {
    let spec = bench.up("a", "w1").await;
    let other = bench.up("b", "w1").await;
    let fill = "head -c 1G /dev/zero > /workspace/fill";
    let (status, output) = bench.try_run(&spec, USER, fill).await;
    assert!(status != 0 && output.contains("No space left"), "{output}");
    // All of its disks are full: they share the room.
    for (uid, file) in [(USER, "/home/user/more"), (ROOT, "/etc/more")] {
        let more = format!("head -c 8M /dev/zero > {file}");
        assert_ne!(bench.try_run(&spec, uid, &more).await.0, 0, "{file}");
    }
    // Its agent can go on saying so, and the others see nothing of it.
    let say = "head -c 4M /dev/zero > /var/lib/cocoonbox/log && sync /var/lib/cocoonbox/log";
    bench.run(&spec, AGENT, say).await;
    bench
        .run(&other, USER, "head -c 8M /dev/zero > /workspace/file")
        .await;
    let used = bench.machines.usage(&spec.box_id).await.unwrap().disk_bytes;
    assert!(used <= DISK_BYTES + (8 << 20), "{used}");

    // It goes on from there, and what is deleted is free again, for the host as well.
    bench.machines.hibernate(&spec.box_id).await.unwrap();
    let again = bench.up("a", "w2").await;
    bench
        .run(
            &again,
            USER,
            "test -s /workspace/fill && rm /workspace/fill && sync",
        )
        .await;
    bench
        .run(&again, USER, "head -c 8M /dev/zero > /home/user/more")
        .await;
    until("the host has it back", async || {
        bench
            .machines
            .usage(&again.box_id)
            .await
            .unwrap()
            .disk_bytes
            < DISK_BYTES / 2
    })
    .await;
}

pub(crate) async fn a_copy_has_the_files_and_a_life_of_its_own(bench: &Bench) {
    let spec = bench.up("a", "w1").await;
    bench.run(&spec, USER, "echo one > /workspace/file").await;
    bench.run(&spec, ROOT, "echo one > /etc/made").await;
    let copy = BoxId::new("copy").unwrap();
    let refused = bench.machines.copy(&spec.box_id, &copy).await.unwrap_err();
    assert!(matches!(refused, Error::Runs(_)), "{refused}");
    bench.machines.hibernate(&spec.box_id).await.unwrap();
    bench.machines.copy(&spec.box_id, &copy).await.unwrap();
    let copied = bench.up("copy", "w1").await;
    let seen = "cat /workspace/file /etc/made && echo two > /workspace/file";
    assert_eq!(bench.run(&copied, USER, seen).await, "one\none\n");
    let first = bench.up("a", "w2").await;
    assert_eq!(
        bench.run(&first, USER, "cat /workspace/file").await,
        "one\n"
    );
}

pub(crate) async fn disks_that_are_made_have_what_fills_them(bench: &Bench) {
    let id = BoxId::new("made").unwrap();
    let failed = bench.machines.make(
        &id,
        bench.limits.disk_bytes,
        Box::new(|_| Err(std::io::ErrorKind::StorageFull.into())),
    );
    failed.await.unwrap_err();
    assert!(bench.machines.get(&id).await.unwrap().is_none());
    let fill = |folders: &[UserFolder]| {
        for folder in folders {
            let file = folder.place.join("file");
            std::fs::write(&file, folder.path)?;
            let (user, group) = folder.owner;
            std::os::unix::fs::chown(&file, Some(user), Some(group))?;
        }
        Ok(())
    };
    let made = bench
        .machines
        .make(&id, bench.limits.disk_bytes, Box::new(fill));
    made.await.unwrap();
    // It has disks: nothing is done to them.
    let again = bench.machines.make(
        &id,
        bench.limits.disk_bytes,
        Box::new(|_| panic!("it has disks")),
    );
    again.await.unwrap();
    let spec = bench.up("made", "w1").await;
    let seen = "cat /workspace/file /home/user/file && echo more >> /workspace/file && stat -c %U:%a /home/user";
    let seen = bench.run(&spec, USER, seen).await;
    assert_eq!(seen, "/workspace/home/useruser:750\n");
}

pub(crate) async fn usage_counts_what_a_box_has(bench: &Bench) {
    let spec = bench.up("a", "w1").await;
    let before = bench.machines.usage(&spec.box_id).await.unwrap();
    assert!(
        before.pids >= 1 && before.memory_bytes > 0 && before.cpu_us > 0,
        "{before:?}"
    );
    bench
        .run(
            &spec,
            USER,
            "head -c 4M /dev/urandom > /workspace/file && sync /workspace/file",
        )
        .await;
    let after = bench.machines.usage(&spec.box_id).await.unwrap();
    assert!(
        after.disk_bytes >= before.disk_bytes + (4 << 20),
        "{before:?} {after:?}"
    );
}

pub(crate) async fn list_tells_of_all_boxes(bench: &Bench) {
    let running = bench.up("a", "w1").await;
    let stopped = bench.up("b", "w2").await;
    bench.machines.hibernate(&stopped.box_id).await.unwrap();
    let list = bench.machines.list().await.unwrap();
    let told: Vec<_> = list
        .iter()
        .map(|one| (one.box_id.as_str(), one.state))
        .collect();
    assert_eq!(
        told,
        [("a", MachineState::Running), ("b", MachineState::Stopped)]
    );
    bench.run(&running, USER, "true").await;
}

pub(crate) async fn a_start_that_fails_leaves_a_stopped_box(bench: &Bench) {
    let mut broken = bench.spec("a", "w1");
    broken.image = "/nowhere/image.erofs".into();
    let error = bench.machines.ensure(&broken).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    let found = bench.machines.get(&broken.box_id).await.unwrap().unwrap();
    assert_eq!(found.state, MachineState::Stopped);
    bench.up("a", "w1").await;
}

fn futures_of<F>(count: usize, make: impl Fn() -> F) -> Vec<tokio::task::JoinHandle<F::Output>>
where
    F: Future<Output: Send> + Send + 'static,
{
    (0..count).map(|_| tokio::spawn(make())).collect()
}
