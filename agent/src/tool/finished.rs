//! How a tool call ended.

use cocoonbox_commands::agent::Command;
use cocoonbox_proto::log::v1::{Image, agent_tool_finished::Outcome};

use crate::blobs::{Blobs, shorten};

/// How a tool call ended, as the tool says it: of any length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finished {
    pub(crate) outcome: Outcome,
    pub(crate) content: String,
    /// Empty where it was not an exec.
    pub(crate) exec_id: String,
    pub(crate) images: Vec<Picture>,
}

/// What a tool shows, as the bytes of an image file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Picture {
    pub(crate) data: Vec<u8>,
}

/// How a tool call ended, as the log takes it: bounded.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Told {
    pub(crate) outcome: Outcome,
    pub(crate) content: String,
    pub(crate) exec_id: String,
    pub(crate) images: Vec<Image>,
    /// The whole of a content that was too long.
    pub(crate) blob: String,
}

impl Finished {
    pub(crate) fn ok(content: impl Into<String>) -> Self {
        Self::new(Outcome::Ok, content)
    }

    /// It went wrong, said for a model to act on.
    pub(crate) fn error(content: impl Into<String>) -> Self {
        Self::new(Outcome::Error, content)
    }

    pub(crate) fn cancelled() -> Self {
        Self::new(Outcome::Cancelled, "stopped: the turn was cancelled")
    }

    pub(crate) fn new(outcome: Outcome, content: impl Into<String>) -> Self {
        Self {
            outcome,
            content: content.into(),
            exec_id: String::new(),
            images: Vec::new(),
        }
    }

    /// With something that is told first.
    pub(super) fn behind(mut self, note: &str) -> Self {
        self.content.insert_str(0, note);
        self
    }

    /// Keeps what is too large for the result itself as blobs of the log.
    pub(super) async fn told(self, blobs: &Blobs) -> Told {
        let mut told = Told {
            outcome: self.outcome,
            content: String::new(),
            exec_id: self.exec_id,
            images: Vec::new(),
            blob: String::new(),
        };
        let mut content = self.content;
        for picture in &self.images {
            match blobs.store_picture(&picture.data).await {
                Ok(image) => told.images.push(image),
                Err(error) => {
                    tracing::warn!(%error, "picture of a tool not kept");
                    content.push_str("\n[a picture could not be kept, so it is not shown]");
                }
            }
        }
        told.content = match shorten(&content) {
            None => content,
            Some(long) => {
                let whole = long.whole.as_bytes().into();
                match blobs.store("text/plain; charset=utf-8", whole).await {
                    Ok(blob) => told.blob = blob,
                    Err(error) => tracing::warn!(%error, "output of a tool not kept"),
                }
                long.told(Some(told.blob.as_str()).filter(|blob| !blob.is_empty()))
            }
        };
        told
    }
}

impl Told {
    /// Stands for a result that the log did not take.
    pub(crate) fn unusable() -> Self {
        Self {
            outcome: Outcome::Error,
            content: "the tool ran, but its result could not be recorded".to_owned(),
            exec_id: String::new(),
            images: Vec::new(),
            blob: String::new(),
        }
    }

    /// As the loop reports it.
    pub(crate) fn report(self, tool_call_id: String) -> Command {
        Command::ToolFinished {
            tool_call_id,
            outcome: self.outcome,
            content: self.content,
            exec_id: self.exec_id,
            images: self.images,
            blob: self.blob,
        }
    }
}
