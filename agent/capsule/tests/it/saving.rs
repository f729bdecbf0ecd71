//! What a save reads, what it adds, and what it says.

use std::{fs, os::unix::net::UnixListener};

use crate::scene::{Scene, age, see};

fn small_home(scene: &Scene) {
    let home = scene.home();
    fs::create_dir_all(home.join("a/b")).unwrap();
    for n in 0..40 {
        let path = home.join(format!("a/b/file-{n:02}"));
        fs::write(&path, format!("file {n}\n").repeat(300 + n)).unwrap();
        age(&path);
    }
}

#[test]
fn nothing_changed_adds_nothing_and_reads_nothing() {
    let scene = Scene::new();
    small_home(&scene);
    let first = scene.save_later();
    assert_eq!(first.counts.files_read, 40);
    let second = scene.save_later();
    assert_eq!(second.parent, Some(first.id));
    assert_eq!(second.counts.files_read, 0);
    assert_eq!(second.counts.bytes_added, 0);
    assert_eq!(second.roots, first.roots);
}

#[test]
fn without_a_cache_old_files_are_trusted_and_young_ones_read() {
    let mut scene = Scene::new();
    small_home(&scene);
    scene.has_cache = false;
    scene.save();
    fs::write(scene.home().join("young"), "y".repeat(1000)).unwrap();
    let second = scene.save();
    assert_eq!(second.counts.files_read, 1);
    // Saved within the two seconds in which a clock may stand still, so it is read once more.
    let third = scene.save();
    assert_eq!(
        (third.counts.files_read, third.counts.files_changed),
        (1, 0)
    );
}

#[test]
fn with_a_cache_a_change_that_keeps_size_and_time_is_seen() {
    let scene = Scene::new();
    small_home(&scene);
    scene.save_later();
    let path = scene.home().join("a/b/file-07");
    let before = fs::metadata(&path).unwrap().modified().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[0] ^= 1;
    fs::write(&path, bytes).unwrap();
    fs::File::open(&path).unwrap().set_modified(before).unwrap();
    let second = scene.save_later();
    assert_eq!(
        (second.counts.files_read, second.counts.files_changed),
        (1, 1)
    );
}

#[test]
fn a_copy_of_everything_adds_trees_and_no_data() {
    let scene = Scene::new();
    small_home(&scene);
    let first = scene.save();
    fs::rename(scene.home().join("a"), scene.home().join("renamed")).unwrap();
    let second = scene.save();
    assert_eq!(second.counts.files_read, 40);
    // The root's tree alone: the folders below it are as they were.
    assert_eq!(second.counts.chunks_added, 1);
    assert!(second.counts.bytes_added < first.counts.bytes_added / 2);
}

#[test]
fn one_file_among_many_changes_little() {
    let scene = Scene::new();
    let many = scene.home().join("many");
    fs::create_dir(&many).unwrap();
    for n in 0..20_000 {
        fs::write(
            many.join(format!("item-{n:06}.json")),
            format!("{{\"id\": {n}}}"),
        )
        .unwrap();
    }
    let first = scene.save();
    fs::write(many.join("item-010000.json"), "changed").unwrap();
    let second = scene.save();
    assert!(first.counts.chunks_added > 20, "{:?}", first.counts);
    // A leaf, the branch above it, the root.
    assert!(second.counts.chunks_added <= 4, "{:?}", second.counts);
    let out = scene.out("out");
    assert_eq!(scene.restore(&second, &out).problems.list, []);
    assert_eq!(see(&scene.home()), see(&scene.restored(&out)));
}

#[test]
fn a_database_adds_the_pages_that_changed() {
    let scene = Scene::new();
    let path = scene.home().join("app.db");
    let mut bytes = b"SQLite format 3\0".to_vec();
    let mut state = 1u64;
    while bytes.len() < 4 << 20 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    fs::write(&path, &bytes).unwrap();
    scene.save();
    bytes[2 << 20] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let second = scene.save();
    assert!(second.counts.bytes_added < 64 << 10, "{:?}", second.counts);
}

#[test]
fn what_is_left_out_is_said() {
    let scene = Scene::new();
    let home = scene.home();
    for dir in [
        "proj/target",
        "proj/src",
        "x/node_modules",
        "x2/node_modules",
        "tagged",
        "logs/keep",
    ] {
        fs::create_dir_all(home.join(dir)).unwrap();
        fs::write(home.join(dir).join("file"), "content").unwrap();
    }
    fs::write(home.join("proj/Cargo.toml"), "").unwrap();
    fs::write(home.join("x/package.json"), "").unwrap();
    fs::write(
        home.join("tagged/CACHEDIR.TAG"),
        "Signature: 8a477f597d28d172789f06886806bc55\n",
    )
    .unwrap();
    fs::write(
        home.join("logs/.cocoonboxignore"),
        "*.log\n!important.log\n/keep/file\n",
    )
    .unwrap();
    fs::write(home.join("logs/a.log"), "").unwrap();
    fs::write(home.join("logs/important.log"), "").unwrap();
    let _socket = UnixListener::bind(home.join("socket")).unwrap();

    let snapshot = scene.save();
    let short = |lines: &cocoonbox_capsule::snapshot::Lines| -> Vec<(String, String)> {
        let prefix = home.to_str().unwrap().len() + 1;
        let mut list: Vec<_> = lines
            .list
            .iter()
            .map(|line| {
                (
                    String::from_utf8_lossy(&line.path[prefix..]).into(),
                    line.why.clone(),
                )
            })
            .collect();
        list.sort();
        list
    };
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(
        short(&snapshot.excluded),
        [
            pair("logs/a.log", ".cocoonboxignore: *.log"),
            pair("logs/keep/file", ".cocoonboxignore: /keep/file"),
            pair("proj/target", "built by cargo"),
            pair("tagged", "tagged by CACHEDIR.TAG"),
            pair("x/node_modules", "installed by npm"),
        ]
    );
    assert_eq!(short(&snapshot.skipped), [pair("socket", "a socket")]);

    let out = scene.out("out");
    scene.restore(&snapshot, &out);
    let restored = scene.restored(&out);
    assert!(restored.join("tagged/CACHEDIR.TAG").exists());
    assert!(!restored.join("tagged/file").exists());
    assert!(restored.join("logs/important.log").exists());
    assert!(restored.join("x2/node_modules/file").exists());
}

#[test]
fn segments_are_merged_and_nothing_is_lost() {
    let scene = Scene::new();
    for n in 0..30 {
        fs::write(
            scene.home().join(format!("f{n}")),
            format!("{n}").repeat(1000),
        )
        .unwrap();
        scene.save();
    }
    let segments = scene.capsule.store().list("index").unwrap();
    assert!(segments.len() < 15, "{}", segments.len());
    let out = scene.out("out");
    let last = scene.capsule.find_snapshot("latest").unwrap();
    assert_eq!(scene.restore(&last, &out).problems.list, []);
    assert_eq!(see(&scene.home()), see(&scene.restored(&out)));
}
