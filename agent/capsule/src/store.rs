//! Where objects are kept. The store is trusted with nothing but keeping bytes.

mod folder;

use std::io;

pub use folder::Folder;

/// What the store knows of an object without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub name: String,
    pub bytes: u64,
    /// When it was written, by the store's clock: nanoseconds since 1970.
    pub written_ns: i64,
}

/// Whether an object was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Created {
    /// It is there, durably, and this call made it.
    Made,
    /// One of that name was there; nothing changed.
    Existed,
}

/// Why a store did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no object `{0}`")]
    NotFound(String),
    #[error("object `{name}` has no bytes {offset} to {end}")]
    OutOfRange { name: String, offset: u64, end: u64 },
    #[error("`{0}` is no name of an object")]
    Name(String),
    #[error("object `{name}` could not be {doing}")]
    Io {
        name: String,
        doing: &'static str,
        #[source]
        source: io::Error,
    },
}

impl Error {
    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Io { .. })
    }
}

/// Keeps objects: made once, never changed, read in parts, deleted.
///
/// All calls block and may come from several threads. Names are `[a-z0-9]` words joined by `/`, so that they
/// mean the same on every store. An implementation answers [`Created::Made`] only once the object would
/// survive a loss of power, shows it whole or not at all, and shows it to every call that begins after.
/// Retrying what may be retried is the implementation's own work.
pub trait Store: Send + Sync {
    /// Makes an object unless there is one of that name. Of two callers at once one is told `Made`.
    fn create(&self, name: &str, bytes: &[u8]) -> Result<Created, Error>;

    /// Reads a whole object.
    fn get(&self, name: &str) -> Result<Vec<u8>, Error>;

    /// Reads exactly `length` bytes from `offset` on, or fails.
    fn get_range(&self, name: &str, offset: u64, length: usize) -> Result<Vec<u8>, Error>;

    /// Says how large an object is and when it was written.
    fn stat(&self, name: &str) -> Result<Stored, Error>;

    /// Lists the objects whose names begin with `prefix` and `/`, by name.
    fn list(&self, prefix: &str) -> Result<Vec<Stored>, Error>;

    /// Deletes an object; one that is not there is fine.
    fn delete(&self, name: &str) -> Result<(), Error>;

    /// Removes what unfinished calls left for `age_ns` at `now_ns`, by the store's clock. Answers how many.
    fn tidy(&self, now_ns: i64, age_ns: i64) -> Result<usize, Error>;
}

impl<S: Store + ?Sized> Store for &S {
    fn create(&self, name: &str, bytes: &[u8]) -> Result<Created, Error> {
        (**self).create(name, bytes)
    }
    fn get(&self, name: &str) -> Result<Vec<u8>, Error> {
        (**self).get(name)
    }
    fn get_range(&self, name: &str, offset: u64, length: usize) -> Result<Vec<u8>, Error> {
        (**self).get_range(name, offset, length)
    }
    fn stat(&self, name: &str) -> Result<Stored, Error> {
        (**self).stat(name)
    }
    fn list(&self, prefix: &str) -> Result<Vec<Stored>, Error> {
        (**self).list(prefix)
    }
    fn delete(&self, name: &str) -> Result<(), Error> {
        (**self).delete(name)
    }
    fn tidy(&self, now_ns: i64, age_ns: i64) -> Result<usize, Error> {
        (**self).tidy(now_ns, age_ns)
    }
}

/// Whether a name is one that every store can have.
pub fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 200
        && name.split('/').all(|word| {
            !word.is_empty()
                && word
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        })
}
