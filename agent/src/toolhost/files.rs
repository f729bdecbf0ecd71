//! The file tools. Every path stays beneath one of the allowed roots, and every answer is bounded and
//! written for a model: what happened, and what to do instead.

mod edit;
mod find;
mod list;
mod load;
mod path;
mod save;

pub(crate) use edit::edit;
pub(crate) use find::grep;
pub(crate) use list::ls;
pub(crate) use load::read;
pub use path::Roots;
pub(crate) use save::write;

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
        "`old` does not occur in `{path}`; read the file and give the text exactly, with its spaces"
    )]
    OldAbsent { path: String },
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
