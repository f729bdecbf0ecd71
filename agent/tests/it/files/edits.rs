//! Changes inside a file.

use cocoonbox_proto::toolhost::v1::{EditRequest, Replacement, WriteRequest};

use super::{Host, refused};

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
    host.read("f", 0, 0).await;
    assert!(host.edit("a", "b", true).await.text.contains("4 places"));
    assert_eq!(host.get("f"), b"cbf\xe9 bbb\n");
}

#[tokio::test]
async fn several_edits_are_made_or_none() {
    let mut host = Host::new().await;
    host.put("f", "one\ntwo\nthree\n");
    let one = |old: &str, new: &str| Replacement {
        old: old.into(),
        new: new.into(),
        replace_all: false,
    };
    let mut several = async |edits: Vec<Replacement>| {
        let request = EditRequest {
            path: "f".into(),
            edits,
            ..EditRequest::default()
        };
        host.client
            .edit(request)
            .await
            .expect("an answer")
            .into_inner()
    };
    let missed = several(vec![one("one", "eins"), one("twoo", "zwei")]).await;
    refused(&missed, "edit 2 of 2: `old` does not occur");
    refused(&missed, "most similar place is at line 2:\n2: two");
    refused(&missed, "None of the edits was made");
    let made = several(vec![
        one("one", "eins"),
        one("eins\n", "EINS\n"),
        one("three", "drei"),
    ])
    .await;
    assert_eq!(
        made.text,
        "made 3 edits in `f`, 3 places in all, at lines 1, 1, 3"
    );
    assert_eq!(host.get("f"), b"EINS\ntwo\ndrei\n");
}

#[tokio::test]
async fn nobody_writes_over_what_they_do_not_know_of() {
    let mut host = Host::new().await;
    host.put("f", "one\n");
    assert!(
        host.edit("one", "two", false).await.ok,
        "never read: the text itself is the proof"
    );
    host.put("f", "two\nand more\n");
    refused(
        &host.edit("two", "three", false).await,
        "not as you read it",
    );
    refused(&host.write("f", "mine").await, "not as you read it");
    assert_eq!(host.get("f"), b"two\nand more\n");
    host.read("f", 1, 1).await;
    assert!(host.edit("two", "three", false).await.ok);
    assert!(
        host.write("f", "mine").await.ok,
        "one's own changes are known"
    );
    assert!(host.edit("mine", "yours", false).await.ok);
    host.put("f", "theirs");
    let other = WriteRequest {
        path: "f".into(),
        content: "other".into(),
        reader: "another".into(),
    };
    let other = host
        .client
        .write(other)
        .await
        .expect("an answer")
        .into_inner();
    assert!(other.ok, "{other:?}");
}

#[tokio::test]
async fn a_replaced_file_keeps_its_attributes_and_encoding() {
    let mut host = Host::new().await;
    let utf16 = |text: &str| -> Vec<u8> {
        let units = std::iter::once(0xfeff).chain(text.encode_utf16());
        units.flat_map(u16::to_le_bytes).collect()
    };
    host.put("f", utf16("gr\u{fc}n\r\nrot\r\n"));
    let path = host.world.workspace().join("f");
    let named = rustix_setxattr(&path);
    assert!(host.edit("rot\n", "blau \u{1f98b}\ngelb\n", false).await.ok);
    assert_eq!(
        host.get("f"),
        utf16("gr\u{fc}n\r\nblau \u{1f98b}\r\ngelb\r\n")
    );
    if named {
        let value = std::process::Command::new("getfattr")
            .args(["-n", "user.note", "--only-values"])
            .arg(&path)
            .output()
            .expect("getfattr");
        assert_eq!(value.stdout, b"kept");
    }
    host.put("latin", b"caf\xe9\n");
    let request = EditRequest {
        path: "latin".into(),
        old: "caf\u{e9}".into(),
        new: "\u{2713}".into(),
        ..EditRequest::default()
    };
    let answer = host
        .client
        .edit(request)
        .await
        .expect("an answer")
        .into_inner();
    refused(&answer, "which has no `\u{2713}`");
    assert_eq!(host.get("latin"), b"caf\xe9\n");
}

/// Whether an attribute could be set: not every file system and machine can.
fn rustix_setxattr(path: &std::path::Path) -> bool {
    std::process::Command::new("setfattr")
        .args(["-n", "user.note", "-v", "kept"])
        .arg(path)
        .status()
        .is_ok_and(|status| status.success())
}
