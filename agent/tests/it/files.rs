//! The file tools over the toolhost's own socket.

use cocoonbox_proto::toolhost::v1::{
    EditRequest, FileResponse, GrepRequest, LsRequest, ReadRequest, WriteRequest,
    toolhost_client::ToolhostClient,
};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};

use crate::{execs::NO_MODEL, world::World};

struct Host {
    world: World,
    client: ToolhostClient<Channel>,
}

impl Host {
    async fn new() -> Self {
        let mut world = World::dark("anthropic", NO_MODEL).await;
        world.start_toolhost();
        let socket = world.path("toolhost.sock");
        let channel = Endpoint::from_static("http://t")
            .connect_with_connector(tower::service_fn(move |_| {
                let socket = socket.clone();
                async move { UnixStream::connect(socket).await.map(TokioIo::new) }
            }))
            .await
            .expect("a connection");
        let client = ToolhostClient::new(channel).max_encoding_message_size(32 << 20);
        Self { world, client }
    }

    fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.world.workspace().join(name), content).expect("a write");
    }

    fn get(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.world.workspace().join(name)).expect("a file")
    }

    async fn read(&mut self, path: &str, offset: u64, limit: u64) -> FileResponse {
        let request = ReadRequest {
            path: path.into(),
            offset,
            limit,
        };
        self.client
            .read(request)
            .await
            .expect("an answer")
            .into_inner()
    }

    async fn write(&mut self, path: &str, content: &str) -> FileResponse {
        let request = WriteRequest {
            path: path.into(),
            content: content.into(),
        };
        self.client
            .write(request)
            .await
            .expect("an answer")
            .into_inner()
    }

    async fn edit(&mut self, old: &str, new: &str, replace_all: bool) -> FileResponse {
        let (path, old, new) = ("f".into(), old.into(), new.into());
        let request = EditRequest {
            path,
            old,
            new,
            replace_all,
        };
        self.client
            .edit(request)
            .await
            .expect("an answer")
            .into_inner()
    }
}

fn refused(answer: &FileResponse, text: &str) {
    assert!(
        !answer.ok && answer.text.contains(text),
        "{answer:?} without `{text}`"
    );
}

#[tokio::test]
async fn no_path_leads_out() {
    use std::os::unix::fs::symlink;
    let mut host = Host::new().await;
    let workspace = host.world.workspace();
    std::fs::create_dir(workspace.join("in")).expect("a folder");
    host.put("in/file", "inside");
    symlink("/etc", workspace.join("etc")).expect("a link");
    symlink("/etc/passwd", workspace.join("passwd")).expect("a link");
    symlink("../../..", workspace.join("up")).expect("a link");
    symlink("in/file", workspace.join("near")).expect("a link");
    symlink("/proc/self/root/etc", workspace.join("magic")).expect("a link");
    symlink("loop", workspace.join("loop")).expect("a link");
    assert_eq!(host.read("near", 0, 0).await.text, "inside");
    for path in [
        "etc/passwd",
        "passwd",
        "up/etc/passwd",
        "../../etc/passwd",
        "magic/passwd",
        "loop",
        "in/../../x",
    ] {
        refused(&host.read(path, 0, 0).await, "leads out");
        refused(
            &host.write(path, "x").await,
            if path == "passwd" || path == "loop" {
                "symbolic link"
            } else {
                "leads out"
            },
        );
    }
    refused(&host.read("/etc/passwd", 0, 0).await, "outside of");
    refused(&host.read("a\0b", 0, 0).await, "NUL");
    refused(&host.read("", 0, 0).await, "empty");
    refused(&host.read("missing", 0, 0).await, "does not exist");
    refused(&host.read("in", 0, 0).await, "is a directory");
    refused(&host.read("in/file/x", 0, 0).await, "not a directory");
    refused(&host.write("near", "x").await, "symbolic link");
    refused(&host.write("in/", "x").await, "directory");
    refused(&host.write("..", "x").await, "directory");
    assert_eq!(host.get("in/file"), b"inside");
    let ls = host
        .client
        .ls(LsRequest { path: "etc".into() })
        .await
        .expect("an answer");
    refused(&ls.into_inner(), "leads out");
    let grep = GrepRequest {
        pattern: "root".into(),
        path: "etc".into(),
        ..Default::default()
    };
    refused(
        &host
            .client
            .grep(grep)
            .await
            .expect("an answer")
            .into_inner(),
        "leads out",
    );
    let grep = GrepRequest {
        pattern: "root".into(),
        ..Default::default()
    };
    let text = host
        .client
        .grep(grep)
        .await
        .expect("an answer")
        .into_inner()
        .text;
    assert!(text.contains("nothing matches"), "{text}");
}

#[tokio::test]
async fn special_files_are_not_waited_for() {
    let mut host = Host::new().await;
    let fifo = host.world.workspace().join("fifo");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .expect("mkfifo")
            .success()
    );
    refused(&host.read("fifo", 0, 0).await, "not a regular file");
    refused(&host.write("fifo", "x").await, "not a regular file");
    let grep = GrepRequest {
        pattern: "x".into(),
        ..Default::default()
    };
    assert!(
        host.client
            .grep(grep)
            .await
            .expect("an answer")
            .into_inner()
            .ok
    );
}

#[tokio::test]
async fn read_gives_ranges_and_says_what_is_left() {
    let mut host = Host::new().await;
    let lines: Vec<_> = (1..=5_000).map(|line| format!("line {line}\n")).collect();
    let lines = lines.concat();
    host.put("f", lines);
    let answer = host.read("f", 0, 0).await;
    assert!(answer.text.starts_with("line 1\n"));
    assert!(
        answer
            .text
            .ends_with("[lines 1-2000 of 5000; go on with offset 2001]"),
        "{}",
        &answer.text[answer.text.len() - 80..]
    );
    assert_eq!(
        host.read("f", 4_999, 10).await.text,
        "line 4999\nline 5000\n"
    );
    refused(&host.read("f", 5_001, 1).await, "5000 lines");
    host.put("f", "x".repeat(300_000));
    let answer = host.read("f", 0, 0).await;
    assert!(answer.text.len() < 60_000 && answer.text.contains("left out"));
    host.put("f", b"\x7fELF\0\0");
    refused(&host.read("f", 0, 0).await, "binary (6 bytes)");
    host.put("f", "");
    assert!(host.read("f", 0, 0).await.text.contains("is empty"));
    host.put("f", b"caf\xe9\n");
    assert_eq!(host.read("f", 0, 0).await.text, "caf\u{fffd}\n");
}

#[tokio::test]
async fn write_is_whole_keeps_the_mode_and_makes_folders() {
    use std::os::unix::fs::PermissionsExt;
    let mut host = Host::new().await;
    assert!(host.write("a/b/c.txt", "deep\n").await.ok);
    assert_eq!(host.get("a/b/c.txt"), b"deep\n");
    host.put("run.sh", "old");
    let path = host.world.workspace().join("run.sh");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    assert!(host.write("run.sh", "new").await.text.contains("replaced"));
    let mode = std::fs::metadata(&path)
        .expect("a file")
        .permissions()
        .mode()
        & 0o777;
    assert_eq!((mode, host.get("run.sh").as_slice()), (0o755, &b"new"[..]));
    assert!(host.write("~/notes", "home").await.ok);
    assert_eq!(
        crate::world::read(&host.world.path("home").join("notes")),
        "home"
    );
    refused(
        &host.write("big", &"x".repeat(9 * 1024 * 1024)).await,
        "over the",
    );
    let left: Vec<_> = std::fs::read_dir(host.world.workspace())
        .expect("a folder")
        .flatten()
        .map(|e| e.file_name())
        .collect();
    assert!(
        !left
            .iter()
            .any(|name| name.to_string_lossy().contains("cocoonbox")),
        "{left:?}"
    );
}

#[tokio::test]
async fn edit_is_exact_and_leaves_the_rest() {
    let mut host = Host::new().await;
    host.put("f", "\u{feff}one\r\ntwo\r\ntwo\r\n");
    refused(&host.edit("three", "x", false).await, "does not occur");
    refused(&host.edit("two", "x", false).await, "2 times");
    refused(&host.edit("two", "x", false).await, "lines 2, 3");
    refused(&host.edit("two", "two", false).await, "nothing to change");
    refused(&host.edit("", "x", false).await, "`old` is empty");
    assert!(host.edit("one\ntwo", "eins\nzwei", false).await.ok);
    assert_eq!(host.get("f"), "\u{feff}eins\r\nzwei\r\ntwo\r\n".as_bytes());
    host.put("f", b"caf\xe9 aaa\n");
    assert!(host.edit("a", "b", true).await.text.contains("4 places"));
    assert_eq!(host.get("f"), b"cbf\xe9 bbb\n");
}

#[tokio::test]
async fn ls_and_grep_are_bounded_and_readable() {
    let mut host = Host::new().await;
    std::fs::create_dir_all(host.world.workspace().join("src/.git")).expect("a folder");
    host.put("src/a.rs", "fn main() {}\n// butterfly 🦋\n");
    host.put("src/b.txt", "butterfly\n");
    host.put("src/.git/x", "butterfly\n");
    host.put("src/bin", b"butterfly\0\n");
    let ls = host
        .client
        .ls(LsRequest { path: "src".into() })
        .await
        .expect("an answer")
        .into_inner();
    assert_eq!(
        ls.text,
        ".git/\na.rs  31 bytes\nb.txt  10 bytes\nbin  11 bytes\n"
    );
    let mut grep = async |pattern: &str, glob: &str, path: &str| {
        let request = GrepRequest {
            pattern: pattern.into(),
            glob: glob.into(),
            path: path.into(),
            ignore_case: true,
        };
        host.client
            .grep(request)
            .await
            .expect("an answer")
            .into_inner()
    };
    assert_eq!(
        grep("BUTTER", "", "").await.text,
        "src/a.rs:2: // butterfly 🦋\nsrc/b.txt:1: butterfly\n[2 matches in 2 files]"
    );
    assert!(
        grep("butter", "*.rs", "src")
            .await
            .text
            .contains("[1 matches in 1 files]")
    );
    assert!(
        grep("butter", "", "src/b.txt")
            .await
            .text
            .starts_with("src/b.txt:1: butterfly")
    );
    refused(&grep("(", "", "").await, "not a regular expression");
    refused(&grep("x", "[", "").await, "not a glob");
    host.put("many", "match\n".repeat(5_000));
    let request = GrepRequest {
        pattern: "match".into(),
        ..Default::default()
    };
    let text = host
        .client
        .grep(request)
        .await
        .expect("an answer")
        .into_inner()
        .text;
    assert!(text.contains("stopped after 300 matches"), "{text}");
}
