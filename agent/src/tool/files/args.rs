//! Arguments of the file tools, and the toolhost's calls that they become.

use cocoonbox_proto::toolhost::v1::{
    EditRequest, GlobRequest, GrepRequest, LsRequest, ReadRequest, Replacement, WriteRequest,
    grep_request::Show,
};
use serde::Deserialize;
use serde_json::Value;

use crate::tool::{Finished, args::typed};

#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Read,
    Write,
    Edit,
    MultiEdit,
    Ls,
    Glob,
    Grep,
}

/// A call of the toolhost's.
#[derive(Clone, Debug)]
pub(super) enum Call {
    Read(ReadRequest),
    Write(WriteRequest),
    Edit(EditRequest),
    Ls(LsRequest),
    Glob(GlobRequest),
    Grep(GrepRequest),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    path: String,
    #[serde(default)]
    offset: u64,
    #[serde(default)]
    limit: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Write {
    path: String,
    content: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Edit {
    path: String,
    old: String,
    new: String,
    #[serde(default)]
    replace_all: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MultiEdit {
    path: String,
    edits: Vec<OneEdit>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OneEdit {
    old: String,
    new: String,
    #[serde(default)]
    replace_all: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ls {
    #[serde(default)]
    path: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Glob {
    pattern: String,
    #[serde(default)]
    path: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Grep {
    pattern: String,
    #[serde(default)]
    path: String,
    #[serde(default)]
    glob: String,
    #[serde(default)]
    ignore_case: bool,
    #[serde(default)]
    context: u32,
    #[serde(default)]
    show: Shown,
    #[serde(default)]
    limit: u32,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Shown {
    #[default]
    Lines,
    Files,
    Counts,
}

impl Kind {
    /// Reads the arguments; what the call ends with if they do not fit.
    pub(super) fn call(self, args: Value, agent_id: &str) -> Result<Call, Finished> {
        let reader = agent_id.to_owned();
        Ok(match self {
            Self::Read => {
                let Read {
                    path,
                    offset,
                    limit,
                } = typed(args)?;
                Call::Read(ReadRequest {
                    path,
                    offset,
                    limit,
                    reader,
                })
            }
            Self::Write => {
                let Write { path, content } = typed(args)?;
                Call::Write(WriteRequest {
                    path,
                    content,
                    reader,
                })
            }
            Self::Edit => {
                let edit: Edit = typed(args)?;
                Call::Edit(EditRequest {
                    path: edit.path,
                    old: edit.old,
                    new: edit.new,
                    replace_all: edit.replace_all,
                    reader,
                    edits: Vec::new(),
                })
            }
            Self::MultiEdit => Call::Edit(several(typed(args)?, reader)?),
            Self::Ls => {
                let Ls { path } = typed(args)?;
                Call::Ls(LsRequest { path })
            }
            Self::Glob => {
                let Glob { pattern, path } = typed(args)?;
                Call::Glob(GlobRequest { pattern, path })
            }
            Self::Grep => {
                let grep: Grep = typed(args)?;
                let show = match grep.show {
                    Shown::Lines => Show::Lines,
                    Shown::Files => Show::Files,
                    Shown::Counts => Show::Counts,
                };
                Call::Grep(GrepRequest {
                    pattern: grep.pattern,
                    path: grep.path,
                    glob: grep.glob,
                    ignore_case: grep.ignore_case,
                    context: grep.context,
                    show: show.into(),
                    limit: grep.limit,
                })
            }
        })
    }
}

fn several(asked: MultiEdit, reader: String) -> Result<EditRequest, Finished> {
    if asked.edits.is_empty() {
        return Err(Finished::error(
            "nothing was run: `edits` is empty; give at least one",
        ));
    }
    let edits = asked.edits.into_iter().map(|edit| Replacement {
        old: edit.old,
        new: edit.new,
        replace_all: edit.replace_all,
    });
    Ok(EditRequest {
        path: asked.path,
        reader,
        edits: edits.collect(),
        ..EditRequest::default()
    })
}
