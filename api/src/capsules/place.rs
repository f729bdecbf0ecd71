//! Where capsules lie, and the keys to them.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use cocoonbox_capsule::{Capsule, Error, Folder, Store, UserKey};
use cocoonbox_capsule_s3::S3;
use cocoonbox_events::keys::{NoKey, purpose_key};
use cocoonbox_installation::Keys;

/// What a user's key is derived for. Another word is another key.
const PURPOSE: &str = "capsule";

/// Opens capsules. Nothing of a key is kept: one that was destroyed opens nothing from then on.
#[derive(Clone)]
pub struct Place {
    /// Absent where several processes would each have their own.
    shelf: Option<Shelf>,
    /// When files were last seen, sealed; may be deleted at any time.
    cache: PathBuf,
    keys: Arc<dyn Keys>,
}

/// What holds the capsules of all users.
#[derive(Clone, Debug)]
pub enum Shelf {
    /// A folder in it for each.
    Folder(PathBuf),
    /// A prefix below it for each.
    S3(S3),
}

#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    #[error(transparent)]
    Key(#[from] NoKey),
    #[error(
        "api processes that share a store need one place for saved files: `store` or `folder` in `[capsule]`"
    )]
    NoFolder,
    #[error("`{0}` is no name of a folder")]
    User(String),
    #[error(
        "what is saved of the user's boxes takes all of the {0} bytes that it may: forget snapshots, or keep fewer"
    )]
    Quota(u64),
    #[error(transparent)]
    Capsule(#[from] Error),
}

impl Place {
    pub fn new(shelf: Option<Shelf>, cache: PathBuf, keys: Arc<dyn Keys>) -> Self {
        Self { shelf, cache, keys }
    }

    /// Whether anything can be saved here.
    pub fn is_usable(&self) -> bool {
        self.shelf.is_some()
    }

    pub fn cache(&self) -> &Path {
        &self.cache
    }

    /// Opens a user's capsule. Blocks.
    pub fn open(&self, user: &str) -> Result<Capsule, PlaceError> {
        if !self.exists(user)? {
            return Err(Error::NoCapsule.into());
        }
        let key = self.key(user)?;
        Ok(Capsule::open(self.store(user)?, &key)?)
    }

    /// Opens a user's capsule, or makes it. Blocks.
    pub fn open_or_make(&self, user: &str) -> Result<Capsule, PlaceError> {
        let key = self.key(user)?;
        match Capsule::open(self.store(user)?, &key) {
            Err(Error::NoCapsule) => {}
            opened => return Ok(opened?),
        }
        match Capsule::init(self.store(user)?, &key) {
            // Another save was first.
            Err(Error::CapsuleExists) => Ok(Capsule::open(self.store(user)?, &key)?),
            made => Ok(made?),
        }
    }

    /// Removes all that a user has saved. Fine if there is nothing. Blocks.
    pub fn remove(&self, user: &str) -> io::Result<()> {
        match self.of(user) {
            Err(PlaceError::NoFolder) => Ok(()),
            Err(error) => Err(io::Error::other(error)),
            Ok(Shelf::S3(store)) => store.remove_all().map_err(io::Error::other),
            Ok(Shelf::Folder(folder)) => match std::fs::remove_dir_all(folder) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        }
    }

    /// Whether the user may have saved anything here. Asks no server.
    fn exists(&self, user: &str) -> Result<bool, PlaceError> {
        Ok(match self.of(user)? {
            Shelf::Folder(folder) => folder.is_dir(),
            Shelf::S3(_) => true,
        })
    }

    fn store(&self, user: &str) -> Result<Box<dyn Store>, PlaceError> {
        Ok(match self.of(user)? {
            Shelf::Folder(folder) => Box::new(Folder::open(folder).map_err(Error::from)?),
            Shelf::S3(store) => Box::new(store),
        })
    }

    pub(super) fn key(&self, user: &str) -> Result<UserKey, NoKey> {
        let key = purpose_key(&*self.keys, user, PURPOSE)?;
        Ok(UserKey::new(*key))
    }

    /// User ids are drawn here; this is for the day on which somebody changes how.
    fn of(&self, user: &str) -> Result<Shelf, PlaceError> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        if user.is_empty() || user.len() > 64 || !user.bytes().all(is_plain) {
            return Err(PlaceError::User(user.to_owned()));
        }
        Ok(match self.shelf.as_ref().ok_or(PlaceError::NoFolder)? {
            Shelf::Folder(folder) => Shelf::Folder(folder.join(user)),
            Shelf::S3(store) => Shelf::S3(store.below(user)),
        })
    }
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Place")
            .field("shelf", &self.shelf)
            .finish_non_exhaustive()
    }
}
