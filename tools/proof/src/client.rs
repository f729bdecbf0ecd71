//! The coding CLIs: how each is told where its model is, and what its shell tool is called.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use tokio::{
    process::Command,
    time::{Instant, timeout},
};

use crate::usage::{Usage, Watch};

const RUN_MAX: Duration = Duration::from_mins(4);

/// A CLI, one for each wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    Claude,
    Codex,
    Opencode,
}

impl Client {
    pub(crate) const ALL: [Self; 3] = [Self::Claude, Self::Codex, Self::Opencode];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Opencode => "opencode",
        }
    }

    pub(crate) fn wire(self) -> &'static str {
        match self {
            Self::Claude => "anthropic",
            Self::Codex => "openai-responses",
            Self::Opencode => "openai",
        }
    }

    /// The part of the gateway's paths that names the vendor.
    pub(crate) fn vendor(self) -> &'static str {
        match self {
            Self::Claude => "anthropic",
            Self::Codex | Self::Opencode => "openai",
        }
    }

    /// Its tool for commands, and that tool's argument.
    pub(crate) fn shell(self) -> (&'static str, &'static str) {
        match self {
            Self::Claude => ("Bash", "command"),
            Self::Codex => ("exec_command", "cmd"),
            Self::Opencode => ("bash", "command"),
        }
    }

    /// Plays the task once against the server at `url`, in `folder`.
    pub(crate) async fn run(
        self,
        bin: &Path,
        url: &str,
        folder: &Path,
    ) -> Result<(Duration, Usage)> {
        let (home, project) = (folder.join("home"), folder.join("project"));
        std::fs::create_dir_all(&home)?;
        std::fs::create_dir_all(&project)?;
        let mut command = self.command(bin, url, &home, &project)?;
        let log = std::fs::File::create(folder.join("log"))?;
        command
            .current_dir(&project)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true);
        let begun = Instant::now();
        let mut child = command
            .spawn()
            .with_context(|| format!("starting {}", self.name()))?;
        let watch = Watch::over(child.id().into_iter().collect());
        let status = timeout(RUN_MAX, child.wait())
            .await
            .context("it did not end")??;
        let (wall, usage) = (begun.elapsed(), watch.usage().await);
        if !status.success() {
            let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
            bail!("{} ended with {status}: {log}", self.name());
        }
        Ok((wall, usage))
    }

    fn command(self, bin: &Path, url: &str, home: &Path, project: &Path) -> Result<Command> {
        let program: PathBuf = bin.join(self.name());
        let mut command = Command::new(program);
        command.env_clear().env("HOME", home);
        // Of our own environment only where programs are: it may name other models and keys.
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        match self {
            Self::Claude => {
                command
                    .args(["-p", "go", "--output-format", "stream-json", "--verbose"])
                    .args(["--allowedTools", "Bash"])
                    .env("CLAUDE_CONFIG_DIR", home.join(".claude"))
                    .env("ANTHROPIC_BASE_URL", url)
                    .env("ANTHROPIC_API_KEY", "sk-proof")
                    .env("ANTHROPIC_MODEL", "scripted-1")
                    .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
                    .env("DISABLE_TELEMETRY", "1")
                    .env("DISABLE_AUTOUPDATER", "1");
            }
            Self::Codex => {
                let config = home.join(".codex");
                std::fs::create_dir_all(&config)?;
                let toml = format!(
                    "model = \"scripted-1\"\nmodel_provider = \"proof\"\napproval_policy = \"never\"\n\
                     sandbox_mode = \"danger-full-access\"\ncheck_for_update_on_startup = false\n\
                     [model_providers.proof]\nname = \"proof\"\nbase_url = \"{url}/v1\"\n\
                     env_key = \"PROOF_KEY\"\nwire_api = \"responses\"\n[analytics]\nenabled = false\n"
                );
                std::fs::write(config.join("config.toml"), toml)?;
                command
                    .args(["exec", "--json", "--skip-git-repo-check", "go"])
                    .env("CODEX_HOME", config)
                    .env("PROOF_KEY", "sk-proof");
            }
            Self::Opencode => {
                let config = serde_json::json!({
                    "model": "proof/scripted-1", "small_model": "proof/scripted-1",
                    "autoupdate": false, "share": "disabled", "permission": { "*": "allow" },
                    "agent": { "title": { "disable": true } },
                    "provider": { "proof": {
                        "npm": "@ai-sdk/openai-compatible", "name": "proof",
                        "options": { "baseURL": format!("{url}/v1"), "apiKey": "sk-proof" },
                        "models": { "scripted-1": {
                            "name": "scripted-1", "limit": { "context": 100_000, "output": 4_096 },
                        } },
                    } },
                });
                std::fs::write(project.join("opencode.json"), config.to_string())?;
                command
                    .args(["run", "--format", "json", "go"])
                    .env("OPENCODE_DISABLE_AUTOUPDATE", "1")
                    .env("OPENCODE_DISABLE_MODELS_FETCH", "1")
                    .env("OPENCODE_DISABLE_LSP_DOWNLOAD", "1");
            }
        }
        Ok(command)
    }
}
