//! Checkpoints: the ones that were kept elsewhere, and the keys that speak for them.

mod keys;
mod outside;

pub(crate) use self::keys::Keys;
pub use self::{
    keys::{NamedKey, named_keys},
    outside::{Kept, Outside, Unreadable},
};

/// Where a checkpoint was found, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// In the store itself: whoever can write the log can write it too, but not sign it.
    Store,
    /// In a file.
    File(std::path::PathBuf),
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Store => f.write_str("in the store"),
            Self::File(path) => write!(f, "in `{}`", path.display()),
        }
    }
}
