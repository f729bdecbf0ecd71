//! `skill`: loads one of the box's skills, which the system prompt only names.

use async_trait::async_trait;
use cocoonbox_proto::toolhost::v1::{FileResponse, LsRequest, ReadRequest, Skill};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    Context, Finished, Tool,
    args::typed,
    files::unanswered,
    schema::{object, text},
};
use crate::{exec::Toolhost, wire::ToolSpec};

const SILENT: &str = "files cannot be read";

/// `skill`.
pub(crate) struct SkillTool {
    host: Toolhost,
    spec: ToolSpec,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    name: String,
}

impl SkillTool {
    pub(crate) fn new(host: Toolhost) -> Self {
        let spec = ToolSpec {
            name: "skill".into(),
            description: "Loads a skill: instructions and files for a kind of task. The skills of \
                this box are listed in what you were told at the beginning. Load the one that fits \
                before you start on such a task."
                .into(),
            parameters: object(json!({ "name": text("Name of the skill.") }), &["name"]),
        };
        Self { host, spec }
    }

    async fn load(&self, name: &str) -> Finished {
        let skills = match self.host.guidance().await {
            Ok(guidance) => guidance.skills,
            Err(status) => return unanswered(SILENT, &status),
        };
        let Some(skill) = skills.iter().find(|skill| skill.name == name) else {
            let names: Vec<_> = skills.iter().map(|skill| skill.name.as_str()).collect();
            return Finished::error(match names.as_slice() {
                [] => "there are no skills in this box".to_owned(),
                names => format!("there is no such skill; there are {}", names.join(", ")),
            });
        };
        let read = ReadRequest {
            path: skill.path.clone(),
            ..ReadRequest::default()
        };
        let read = self.host.file(|mut client| {
            let call = read.clone();
            async move { client.read(call).await }
        });
        match read.await {
            Ok(FileResponse { ok: true, text, .. }) => {
                Finished::ok(self.with_folder(skill, &text).await)
            }
            Ok(FileResponse { text, .. }) => Finished::error(text),
            Err(status) => unanswered(SILENT, &status),
        }
    }

    /// The instructions, and what lies beside them.
    async fn with_folder(&self, skill: &Skill, text: &str) -> String {
        let folder = skill.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let ls = LsRequest {
            path: folder.to_owned(),
        };
        let ls = self.host.file(|mut client| {
            let call = ls.clone();
            async move { client.ls(call).await }
        });
        // The instructions are what matters; a folder that went away is found out by using it.
        let listed = ls.await.map(|answer| answer.text).unwrap_or_default();
        format!("Skill `{}`, in {folder}:\n{listed}\n\n{text}", skill.name)
    }
}

#[async_trait]
impl Tool for SkillTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, _: &Context<'_>, args: Value, _: &CancellationToken) -> Option<Finished> {
        Some(match typed::<Named>(args) {
            Ok(named) => self.load(&named.name).await,
            Err(finished) => finished,
        })
    }
}
