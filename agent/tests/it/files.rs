//! The file tools over the toolhost's own socket.

mod edits;
mod paths;
mod search;

use std::fmt::Write as _;

use cocoonbox_proto::toolhost::v1::{
    EditRequest, FileResponse, ReadRequest, WriteRequest, toolhost_client::ToolhostClient,
};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};

use crate::{execs::NO_MODEL, world::World};

pub(crate) struct Host {
    pub(crate) world: World,
    pub(crate) client: ToolhostClient<Channel>,
}

impl Host {
    pub(crate) async fn new() -> Self {
        let mut world = World::dark("anthropic", NO_MODEL).await;
        world.start_toolhost();
        Self::of(world).await
    }

    pub(crate) async fn of(world: World) -> Self {
        let socket = world.path("toolhost.sock");
        let channel = Endpoint::from_static("http://t")
            .connect_with_connector(tower::service_fn(move |_| {
                let socket = socket.clone();
                async move { UnixStream::connect(socket).await.map(TokioIo::new) }
            }))
            .await
            .expect("a connection");
        let client = ToolhostClient::new(channel)
            .max_encoding_message_size(32 << 20)
            .max_decoding_message_size(32 << 20);
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
            reader: "me".into(),
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
            reader: "me".into(),
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
            reader: "me".into(),
            edits: Vec::new(),
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
    assert_eq!(
        host.read("f", 0, 0).await.text,
        "caf\u{e9}\n[the file is encoded as windows-1252; `edit` keeps that]"
    );
    host.put("f", b"\xff\xfeh\0i\0\n\0");
    assert!(
        host.read("f", 0, 0)
            .await
            .text
            .starts_with("hi\n[the file is encoded as UTF-16LE")
    );
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
async fn pictures_are_shown_and_pdfs_are_read() {
    let mut host = Host::new().await;
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x07\0\0\0\x05\x08\x06\0\0\0".to_vec();
    png.extend([0; 40]);
    host.put("p.png", &png);
    let answer = host.read("p.png", 0, 0).await;
    assert!(
        answer.text.contains("PNG, 7 x 5 pixels, 69 bytes"),
        "{}",
        answer.text
    );
    assert_eq!(answer.picture, png);
    png.extend(vec![0; 5 << 20]);
    host.put("p.png", &png);
    refused(
        &host.read("p.png", 0, 0).await,
        "over the 4194304 that can be shown",
    );
    host.put("doc.pdf", pdf("Hello from page one"));
    let answer = host.read("doc.pdf", 0, 0).await;
    assert!(
        answer.ok && answer.text.starts_with("[page 1 of 1]"),
        "{answer:?}"
    );
    assert!(answer.text.contains("Hello from page one"), "{answer:?}");
    host.put("bad.pdf", "%PDF-1.4\nnothing of the kind");
    refused(&host.read("bad.pdf", 0, 0).await, "cannot be read");
    assert!(host.write("f", "the toolhost answers").await.ok);
}

/// A PDF of one page.
pub(crate) fn pdf(text: &str) -> Vec<u8> {
    let content = format!("BT /F1 24 Tf 72 720 Td ({text}) Tj ET");
    let objects = [
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R \
         /Resources << /Font << /F1 5 0 R >> >> >>"
            .to_owned(),
        format!(
            "<< /Length {} >>\nstream\n{content}\nendstream",
            content.len()
        ),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
            .to_owned(),
    ];
    let mut pdf = "%PDF-1.4\n".to_owned();
    let mut offsets = Vec::new();
    for (at, object) in objects.iter().enumerate() {
        offsets.push(pdf.len());
        writeln!(pdf, "{} 0 obj\n{object}\nendobj", at + 1).expect("a string takes all");
    }
    let table = pdf.len();
    pdf.push_str("xref\n0 6\n0000000000 65535 f \n");
    for offset in offsets {
        writeln!(pdf, "{offset:010} 00000 n ").expect("a string takes all");
    }
    writeln!(
        pdf,
        "trailer << /Size 6 /Root 1 0 R >>\nstartxref\n{table}\n%%EOF"
    )
    .expect("a string takes all");
    pdf.into_bytes()
}
