//! The file tools. Every path stays beneath one of the allowed roots, and every answer is bounded and
//! written for a model: what happened, and what to do instead.

mod edit;
mod find;
mod frontmatter;
mod glob;
mod guidance;
mod list;
mod load;
mod nearest;
mod path;
mod picture;
mod save;
mod seen;
mod text;
mod walk;

pub(crate) use edit::edit;
pub(crate) use find::grep;
pub(crate) use glob::glob;
pub(crate) use guidance::guidance;
pub(crate) use list::ls;
pub(crate) use load::read;
pub use path::Roots;
pub(crate) use picture::{PICTURE_BYTES_MAX, describe as describe_picture};
pub(crate) use save::write;

use super::convert::{self, Converter};

/// What the file tools work with.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) roots: Roots,
    seen: seen::Seen,
    convert: Converter,
}

/// What a tool says, and shows.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) text: String,
    /// The bytes of a picture's file; empty where there is none.
    pub(crate) picture: Vec<u8>,
}

impl Files {
    pub(crate) fn new(roots: Roots, convert: Converter) -> Self {
        Self {
            roots,
            seen: seen::Seen::default(),
            convert,
        }
    }
}

impl From<String> for Answer {
    fn from(text: String) -> Self {
        Self {
            text,
            picture: Vec::new(),
        }
    }
}

/// Why a file tool did nothing. The message is for the model.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the path is empty")]
    NoPath,
    #[error("the path holds a NUL byte")]
    Nul,
    #[error("`{path}` is outside of {roots}; file tools work beneath these only")]
    Outside { path: String, roots: String },
    #[error(
        "`{path}` leads out of `{root}` through `..` or a symbolic link; give the real path beneath it"
    )]
    LeadsOut { path: String, root: String },
    #[error("`{path}` does not exist")]
    Absent { path: String },
    #[error("`{path}` is a directory; use `ls` for those")]
    IsDirectory { path: String },
    #[error("`{path}` is not a directory")]
    NotDirectory { path: String },
    #[error("`{path}` is not a regular file")]
    NotRegular { path: String },
    #[error("`{path}` is a symbolic link; write to the file that it points to")]
    IsLink { path: String },
    #[error("`{path}` looks binary ({bytes} bytes); use `shell` with a fitting program")]
    Binary { path: String, bytes: u64 },
    #[error(
        "`{path}` is a picture of {bytes} bytes, over the {max} that can be shown; make a smaller one with \
         `shell` (in another file) and read that"
    )]
    PictureTooLarge { path: String, bytes: u64, max: u64 },
    #[error("`{path}` is a PDF that cannot be read: {why}")]
    Pdf { path: String, why: convert::Error },
    #[error(
        "`{path}` is not as you read it: a command, a person or another agent has changed it since. Read it \
         again, then make your change to what is there. Nothing was written"
    )]
    Changed { path: String },
    #[error(
        "`{path}` is encoded as {encoding}, which has no `{character}`; leave that character out, or convert \
         the file to UTF-8 with `iconv` first. Nothing was written"
    )]
    NotInEncoding {
        path: String,
        encoding: &'static str,
        character: char,
    },
    #[error("edit {number} of {total}: {refusal}. None of the edits was made")]
    OneOf {
        number: usize,
        total: usize,
        refusal: Box<Refusal>,
    },
    #[error("`{path}` has {bytes} bytes, over the {max} that this tool takes; use `shell`")]
    TooLarge { path: String, bytes: u64, max: u64 },
    #[error("line {offset} is behind the end of `{path}`, which has {lines} lines")]
    BehindEnd {
        path: String,
        offset: u64,
        lines: u64,
    },
    #[error("`old` is empty; give the text to replace, or use `write` for a new file")]
    OldEmpty,
    #[error("`old` and `new` are the same: nothing to change")]
    SameText,
    #[error(
        "`old` does not occur in `{path}`; read the file and give the text exactly, with its spaces{near}"
    )]
    OldAbsent { path: String, near: String },
    #[error(
        "`old` occurs {count} times in `{path}` (lines {lines}); give more of the text around it, or `replace_all`"
    )]
    Ambiguous {
        path: String,
        count: usize,
        lines: String,
    },
    #[error("`{pattern}` is not a regular expression: {why}")]
    BadPattern { pattern: String, why: String },
    #[error("`{glob}` is not a glob: {why}")]
    BadGlob { glob: String, why: String },
    #[error("`{path}`: {why}")]
    System { path: String, why: std::io::Error },
}
