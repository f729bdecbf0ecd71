//! Worlds as exports on disk, whole and changed by hand.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use cocoonbox_events::{ChainHash, PayloadHash, Recorded, Store, chain::Link};
use cocoonbox_replay::export::{ExportLine, ExportStore, Plan, VERIFIER, decode_line, encode_line};
use tempfile::TempDir;

use crate::world::World;

/// An export in one file, with its verifier beside it.
pub(crate) struct Exported {
    folder: TempDir,
}

pub(crate) struct Verdict {
    pub(crate) code: i32,
    pub(crate) text: String,
}

impl Exported {
    pub(crate) async fn of(store: &Arc<dyn Store>, redacted: bool) -> Self {
        let mut text = Vec::new();
        let plan = Plan::new(store.logs(), redacted);
        let written = plan.write(store, &mut text, &mut |_| {}).await.unwrap();
        assert_eq!(written.logs, store.logs().len() as u64);
        Self::from_text(&text)
    }

    pub(crate) async fn of_world(world: &World) -> Self {
        Self::of(&world.store, false).await
    }

    pub(crate) fn from_text(text: &[u8]) -> Self {
        let exported = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        std::fs::write(exported.path(), text).unwrap();
        std::fs::write(exported.folder.path().join("verify.py"), VERIFIER).unwrap();
        exported
    }

    pub(crate) fn from_lines(lines: &[ExportLine], redacted: bool) -> Self {
        let mut text = Vec::new();
        for line in lines {
            text.extend(encode_line(line, redacted).unwrap());
            text.push(b'\n');
        }
        Self::from_text(&text)
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("export.jsonl")
    }

    pub(crate) fn text(&self) -> String {
        std::fs::read_to_string(self.path()).unwrap()
    }

    pub(crate) fn lines(&self) -> Vec<ExportLine> {
        let text = self.text();
        let decode = |line: &str| decode_line(line.as_bytes()).unwrap();
        text.lines().map(decode).collect()
    }

    pub(crate) async fn store(&self) -> Arc<dyn Store> {
        Arc::new(ExportStore::open(&self.path()).await.unwrap())
    }

    /// What the verifier beside it says.
    pub(crate) fn verify(&self, arguments: &[&str]) -> Verdict {
        run_verifier(self.folder.path(), &self.path(), arguments)
    }
}

pub(crate) fn run_verifier(folder: &Path, export: &Path, arguments: &[&str]) -> Verdict {
    let output = Command::new("python3")
        .arg(folder.join("verify.py"))
        .arg(export)
        .args(arguments)
        .output()
        .unwrap();
    let text =
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    assert!(!text.contains("Traceback"), "{text}");
    Verdict {
        code: output.status.code().unwrap(),
        text,
    }
}

/// Gives an event another payload and links everything behind it anew, as a writer would have.
pub(crate) fn rewrite(
    lines: &mut [ExportLine],
    at: (cocoonbox_events::LogId, u64),
    payload: Vec<u8>,
) {
    let mut payload = Some(payload);
    let mut chain: Option<ChainHash> = None;
    let mut last = None;
    for line in lines.iter_mut() {
        let ExportLine::Event(event) = line else {
            continue;
        };
        if event.log != at.0 {
            continue;
        }
        if event.pos == at.1 {
            let body = event.body.as_mut().unwrap();
            body.payload = payload.take().unwrap().into();
            event.payload_hash = PayloadHash::of(&body.salt, &body.payload);
            chain = last;
        }
        last = Some(event.chain);
        if let Some(before) = chain {
            let event: &mut Recorded = event;
            event.chain = before.next(&Link::from(&*event));
            chain = Some(event.chain);
            last = chain;
        }
    }
    for line in lines {
        if let ExportLine::Log(info) = line
            && info.id == at.0
        {
            info.tail.chain = last.unwrap();
        }
    }
}
