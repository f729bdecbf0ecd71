//! Saves and prunings of real processes that are killed, or stand still while others go on.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Longer than any of this takes on a busy machine.
const GENEROUS: Duration = Duration::from_mins(2);

struct Shelf {
    root: tempfile::TempDir,
}

impl Shelf {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("work")).unwrap();
        let shelf = Self { root };
        shelf.json("init", &[]);
        shelf
    }

    fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    fn store(&self) -> PathBuf {
        self.root.path().join("store")
    }

    fn command(&self, what: &str, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cocoonbox"));
        command.env_clear().env("HOME", self.root.path());
        command.args(["capsule", what, "--json", "--store"]);
        command.arg(self.store());
        command
            .arg("--key-file")
            .arg(self.root.path().join("key"))
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn begin(&self, what: &str, words: &[&str]) -> Child {
        self.command(what, words).spawn().unwrap()
    }

    fn run(&self, what: &str, words: &[&str]) -> Output {
        self.command(what, words).output().unwrap()
    }

    fn json(&self, what: &str, words: &[&str]) -> Value {
        let done = self.run(what, words);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{what} {words:?}: {said}");
        serde_json::from_slice(&done.stdout).unwrap_or_default()
    }

    fn save(&self) -> String {
        let work = self.work();
        let saved = self.json("save", &[work.to_str().unwrap()]);
        saved["snapshot"].as_str().unwrap().to_owned()
    }

    /// Every byte of every snapshot is there.
    fn is_good(&self) {
        let checked = self.json("check", &["--read-data"]);
        assert_eq!(checked["good"], true, "{checked}");
    }

    /// The files of a snapshot, restored somewhere.
    fn files(&self, snapshot: &str) -> BTreeMap<String, Vec<u8>> {
        let target = tempfile::tempdir().unwrap();
        let to = target.path().to_str().unwrap();
        self.json("restore", &["-s", snapshot, "--target", to]);
        let back = target.path().join(self.work().strip_prefix("/").unwrap());
        contents(&back)
    }

    fn objects(&self, folder: &str) -> usize {
        fs::read_dir(self.store().join(folder)).map_or(0, Iterator::count)
    }
}

fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(folder).unwrap().map(|entry| {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        (name, fs::read(entry.path()).unwrap())
    });
    files.collect()
}

fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut out = Vec::with_capacity(bytes + 8);
    while out.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(bytes);
    out
}

fn signal(child: &mut Child, signal: Signal) {
    if child.try_wait().unwrap().is_some() {
        return;
    }
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    // One that has ended is not waited for yet, so the number is nobody else's.
    kill_process(pid, signal).unwrap();
}

/// Waits until something holds, or the child has ended by itself.
fn until(child: &mut Child, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() && !holds() {
        assert!(begun.elapsed() < GENEROUS, "waited in vain");
        std::thread::yield_now();
    }
}

/// A save finds chunks that no snapshot needs any more, and leans on them. It stands still; two prunings run; it goes
/// on: then it is whole, or it fails and is repeated. Never does a snapshot have a hole.
#[test]
fn a_save_that_stands_still_while_others_prune_is_whole_or_fails() {
    let shelf = Shelf::new();
    let work = shelf.work();
    for round in 0..6_usize {
        let shared = noise(7, 3_000_000);
        fs::write(work.join("shared"), &shared).unwrap();
        let first = shelf.save();
        fs::remove_file(work.join("shared")).unwrap();
        shelf.save();
        shelf.json("prune", &["--forget", &first]);
        fs::write(work.join("shared"), &shared).unwrap();
        // Something to be at for a while.
        fs::write(work.join("large"), noise(100 + round as u64, 40_000_000)).unwrap();

        let (marks, packs) = (shelf.objects("saves"), shelf.objects("data"));
        let mut save = shelf.begin("save", &[work.to_str().unwrap()]);
        until(&mut save, || {
            // In the first rounds just behind its mark, then behind one pack more each time.
            shelf.objects("saves") > marks
                && shelf.objects("data") >= packs + round.saturating_sub(1)
        });
        signal(&mut save, Signal::STOP);
        for _ in 0..2 {
            shelf.json("prune", &["--now"]);
        }
        signal(&mut save, Signal::CONT);
        let done = save.wait_with_output().unwrap();
        if !done.status.success() {
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            assert!(
                said.contains("overtaken") || said.contains("again"),
                "{said}"
            );
        }
        shelf.is_good();
        let saved = shelf.save();
        shelf.json("prune", &["--now"]);
        shelf.is_good();
        assert!(
            shelf.files(&saved) == contents(&work),
            "other files in round {round}"
        );
    }
}

/// Whatever is killed wherever: everything that was kept stays, and the next one goes on.
#[test]
fn what_is_killed_leaves_everything_that_was_kept() {
    let shelf = Shelf::new();
    let work = shelf.work();
    let mut kept: Vec<(String, BTreeMap<String, Vec<u8>>)> = Vec::new();
    for round in 0..30_u64 {
        // Two thirds of what a round writes stays for a while: packs get holes.
        let name = format!("f{}", round % 5);
        let bytes = 200_000 + usize::try_from(round * 61_417 % 1_500_000).unwrap();
        fs::write(work.join(name), noise(round, bytes)).unwrap();
        let before = contents(&work);
        kept.push((shelf.save(), before));
        if kept.len() > 4 {
            let (gone, _) = kept.remove(0);
            shelf.json("prune", &["--forget", &gone]);
        }
        fs::write(work.join("more"), noise(1_000 + round, 6_000_000)).unwrap();
        let (what, words) = match round % 3 {
            0 => ("save", vec![work.to_str().unwrap()]),
            _ => ("prune", vec!["--now"]),
        };
        let changes = || {
            [
                "saves",
                "data",
                "trees",
                "index",
                "generation",
                "snapshots",
                "probe",
                "UNFINISHED",
            ]
            .map(|folder| shelf.objects(folder))
        };
        let mut seen = changes();
        let (mut left, mut child) = (round / 3, shelf.begin(what, &words));
        // Killed at one of the first changes that it makes to the store.
        until(&mut child, || {
            let now = changes();
            if now != seen {
                seen = now;
                left = left.saturating_sub(1);
            }
            left == 0
        });
        child.kill().unwrap();
        child.wait().unwrap();
        shelf.is_good();
        if round % 5 == 4 {
            for (snapshot, before) in &kept {
                assert!(
                    shelf.files(snapshot) == *before,
                    "round {round}: {snapshot} differs"
                );
            }
        }
    }
    // What the killed ones left goes with time; what is kept is what it was.
    shelf.json("prune", &["--now"]);
    shelf.is_good();
    for (snapshot, before) in &kept {
        assert!(shelf.files(snapshot) == *before, "{snapshot} differs");
    }
}
