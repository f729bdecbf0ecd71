//! Running the program.

use std::{
    path::Path,
    process::{Output, Stdio},
    time::Duration,
};

use tempfile::TempDir;
use tokio::{io::AsyncWriteExt, process::Command};

/// Nothing here waits for more than a retry; a run that takes this long hangs.
const DEADLINE: Duration = Duration::from_secs(30);

pub(crate) struct Program {
    pub(crate) home: TempDir,
    api: String,
    stdin: Vec<u8>,
    token: Option<String>,
}

pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Run {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.stdout.clone()).unwrap()
    }
}

impl Program {
    pub(crate) fn new(api: impl Into<String>) -> Self {
        Self {
            home: tempfile::tempdir().unwrap(),
            api: api.into(),
            stdin: Vec::new(),
            token: Some("secret-token".into()),
        }
    }

    pub(crate) fn without_token(mut self) -> Self {
        self.token = None;
        self
    }

    pub(crate) fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    pub(crate) async fn run(&self, args: &[&str]) -> Run {
        self.run_at(Path::new(env!("CARGO_BIN_EXE_cocoonbox")), args)
            .await
    }

    pub(crate) async fn run_at(&self, program: &Path, args: &[&str]) -> Run {
        let mut command = self.command(program);
        command
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        // A program that does not read its input closes it.
        input.write_all(&self.stdin).await.ok();
        drop(input);
        let output = tokio::time::timeout(DEADLINE, child.wait_with_output()).await;
        let Output {
            status,
            stdout,
            stderr,
        } = output.expect("the program ends").unwrap();
        let stderr = String::from_utf8(stderr).unwrap();
        assert!(!stderr.contains("panicked"), "{stderr}");
        Run {
            code: status.code().unwrap_or(-1),
            stdout,
            stderr,
        }
    }

    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("COCOONBOX_API", &self.api);
        command
            .env("HOME", self.home.path())
            .env("USER", "ann")
            .kill_on_drop(true);
        if let Some(token) = &self.token {
            command.env("COCOONBOX_TOKEN", token);
        }
        command
    }
}
