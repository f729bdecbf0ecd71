//! Finding files and lines in them.

use cocoonbox_proto::toolhost::v1::{GlobRequest, GrepRequest, LsRequest, grep_request::Show};

use super::{Host, refused};

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
            ..Default::default()
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

#[tokio::test]
async fn glob_and_grep_show_what_is_asked_for() {
    let mut host = Host::new().await;
    std::fs::create_dir_all(host.world.workspace().join("src/deep")).expect("a folder");
    host.put(".gitignore", "ignored\n");
    host.put("ignored", "needle");
    host.put("src/a.rs", "1\n2\nneedle\n4\n5\nneedle\n");
    host.put("src/deep/b.rs", "needle\n");
    host.put("src/deep/c.ts", "hay\n");
    let older = std::fs::File::options()
        .write(true)
        .open(host.world.workspace().join("src/a.rs"))
        .expect("a file");
    older.set_modified(std::time::UNIX_EPOCH).expect("a time");
    let mut glob = async |pattern: &str, path: &str| {
        let request = GlobRequest {
            pattern: pattern.into(),
            path: path.into(),
        };
        host.client
            .glob(request)
            .await
            .expect("an answer")
            .into_inner()
    };
    assert_eq!(
        glob("*.rs", "").await.text,
        "src/deep/b.rs\nsrc/a.rs\n[2 files, changed last first]"
    );
    assert_eq!(
        glob("src/*.rs", "").await.text,
        "src/a.rs\n[1 files, changed last first]"
    );
    assert_eq!(
        glob("**/*.{ts,js}", "src").await.text,
        "src/deep/c.ts\n[1 files, changed last first]"
    );
    assert!(glob("ignored", "").await.text.contains("no file matches"));
    refused(&glob("", "").await, "it is empty");
    refused(&glob("*", "../..").await, "leads out");
    let mut grep = async |context: u32, show: Show, limit: u32| {
        let request = GrepRequest {
            pattern: "needle".into(),
            context,
            show: show.into(),
            limit,
            ..GrepRequest::default()
        };
        host.client
            .grep(request)
            .await
            .expect("an answer")
            .into_inner()
            .text
    };
    assert_eq!(
        grep(1, Show::Lines, 0).await,
        "src/a.rs-2- 2\nsrc/a.rs:3: needle\nsrc/a.rs-4- 4\nsrc/a.rs-5- 5\nsrc/a.rs:6: needle\n--\n\
         src/deep/b.rs:1: needle\n--\n[3 matches in 2 files]"
    );
    assert_eq!(
        grep(0, Show::Files, 0).await,
        "src/a.rs\nsrc/deep/b.rs\n[2 files]"
    );
    assert_eq!(
        grep(0, Show::Counts, 0).await,
        "src/a.rs: 2\nsrc/deep/b.rs: 1\n[3 matches in 2 files]"
    );
    assert!(
        grep(0, Show::Lines, 2)
            .await
            .contains("stopped after 2 matches")
    );
    assert!(
        grep(0, Show::Files, 1)
            .await
            .contains("stopped after 1 files")
    );
}
