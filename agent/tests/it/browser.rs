//! The holder of the browser with a real Chromium of this machine, on pages that a server of ours shows.
//!
//! In a box, on a display and through a conversation, it is run by the tests of `tools/e2e`.

mod frames;
mod hostile;
mod pages;
mod things;

use std::{
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use cocoonbox_proto::toolhost::v1::{
    BrowserActRequest, FileResponse, browser_client::BrowserClient,
};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};

use crate::world::eventually;

const CHROMIUM: &str = "/usr/bin/chromium";
/// Chromium keeps its sandbox, which it cannot as root.
const UID: u32 = 61_300;

pub(crate) struct Browser {
    folder: TempDir,
    holder: tokio::process::Child,
    client: BrowserClient<Channel>,
    agent_id: String,
}

impl Browser {
    /// `None` where this machine has no Chromium, as on Ubuntu.
    pub(crate) async fn start() -> Option<Self> {
        Self::start_with(&[]).await
    }

    async fn start_with(options: &[&str]) -> Option<Self> {
        if !Path::new(CHROMIUM).exists() {
            println!("not tested: there is no {CHROMIUM}");
            return None;
        }
        let folder = TempDir::with_prefix("browser").expect("a folder");
        let home = folder.path().join("home");
        std::fs::create_dir(&home).expect("a folder");
        let program = folder.path().join("chromium");
        let script = format!(
            "#!/bin/sh\nexec {CHROMIUM} --headless=new --user-data-dir={}/profile --disable-gpu \
             --password-store=basic --no-first-run --disable-background-networking \
             --window-size=1000,700 \"$@\"\n",
            home.display()
        );
        std::fs::write(&program, script).expect("a write");
        let agent = folder.path().join("cocoonbox-agent");
        if std::fs::hard_link(env!("CARGO_BIN_EXE_cocoonbox-agent"), &agent).is_err() {
            std::fs::copy(env!("CARGO_BIN_EXE_cocoonbox-agent"), &agent).expect("a copy");
        }
        for path in [folder.path(), &program] {
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(path, mode).expect("a mode");
        }
        let is_root = rustix_uid() == 0;
        let uid = if is_root { UID } else { rustix_uid() };
        let mut command = if is_root {
            for path in [folder.path(), &home] {
                std::os::unix::fs::chown(path, Some(uid), Some(uid)).expect("an owner");
            }
            let mut command = Command::new("setpriv");
            let ids = [format!("--reuid={uid}"), format!("--regid={uid}")];
            command.args(ids).arg("--clear-groups").arg(&agent);
            command
        } else {
            Command::new(&agent)
        };
        let socket = folder.path().join("browser.sock");
        command
            .arg("browser")
            .arg("--socket")
            .arg(&socket)
            .arg("--program")
            .arg(&program)
            .arg("--home")
            .arg(&home)
            .args(["--agent-uid", &rustix_uid().to_string()])
            .args(options)
            .env("HOME", &home)
            .env_remove("http_proxy")
            .env_remove("https_proxy")
            .env_remove("HTTP_PROXY")
            .env_remove("HTTPS_PROXY")
            .stdin(Stdio::null());
        let holder = tokio::process::Command::from(command)
            .kill_on_drop(true)
            .spawn();
        let holder = holder.expect("a holder");
        let listening = socket.clone();
        eventually("the holder listens", || {
            std::os::unix::net::UnixStream::connect(&listening).is_ok()
        })
        .await;
        let channel = Endpoint::from_static("http://browser").connect_with_connector_lazy(
            tower::service_fn(move |_: Uri| {
                let socket = socket.clone();
                async move { UnixStream::connect(socket).await.map(TokioIo::new) }
            }),
        );
        Some(Self {
            folder,
            holder,
            client: BrowserClient::new(channel).max_decoding_message_size(16 << 20),
            agent_id: "main".to_owned(),
        })
    }

    /// The same browser, as another agent uses it.
    pub(crate) async fn asked(&self, agent_id: &str, look: bool, args: &Value) -> FileResponse {
        let request = BrowserActRequest {
            agent_id: agent_id.to_owned(),
            args_json: args.to_string(),
            look,
        };
        let answer = self.client.clone().act(request).await;
        answer.expect("an answer").into_inner()
    }

    pub(crate) async fn act(&self, args: Value) -> String {
        let answer = self.asked(&self.agent_id, false, &args).await;
        assert!(answer.ok, "{args}: {}", answer.text);
        answer.text
    }

    pub(crate) async fn refused(&self, args: Value) -> String {
        let answer = self.asked(&self.agent_id, false, &args).await;
        assert!(!answer.ok, "{args}: {}", answer.text);
        answer.text
    }

    pub(crate) async fn look(&self, args: Value) -> String {
        let answer = self.asked(&self.agent_id, true, &args).await;
        assert!(answer.ok, "{args}: {}", answer.text);
        answer.text
    }

    pub(crate) async fn open(&self, url: &str) -> String {
        self.act(json!({ "action": "navigate", "url": url })).await
    }

    pub(crate) async fn snapshot(&self) -> String {
        self.look(json!({ "action": "snapshot" })).await
    }

    /// The ref of the first line with these words.
    pub(crate) async fn reference(&self, words: &str) -> String {
        let shown = self.snapshot().await;
        reference(&shown, words)
    }

    pub(crate) async fn click(&self, words: &str) -> String {
        let reference = self.reference(words).await;
        self.act(json!({ "action": "click", "ref": reference }))
            .await
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }
}

/// The ref of the first line with these words.
pub(crate) fn reference(shown: &str, words: &str) -> String {
    let line = shown.lines().find(|line| line.contains(words));
    let line = line.unwrap_or_else(|| panic!("no `{words}` in\n{shown}"));
    let (_, rest) = line
        .rsplit_once("[ref=")
        .unwrap_or_else(|| panic!("no ref: {line}"));
    rest.split(']').next().expect("a ref").to_owned()
}

fn rustix_uid() -> u32 {
    std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").expect("proc"))
}
