//! Where capsules lie, and the keys to them.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use cocoonbox_capsule::{Capsule, Error, Folder, UserKey};
use cocoonbox_events::keys::{NoKey, purpose_key};
use cocoonbox_installation::Keys;

/// What a user's key is derived for. Another word is another key.
const PURPOSE: &str = "capsule";

/// Opens capsules. Nothing of a key is kept: one that was destroyed opens nothing from then on.
#[derive(Clone)]
pub struct Place {
    /// A folder for each user; absent where several processes would each have their own.
    folder: Option<PathBuf>,
    /// When files were last seen, sealed; may be deleted at any time.
    cache: PathBuf,
    keys: Arc<dyn Keys>,
}

#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    #[error(transparent)]
    Key(#[from] NoKey),
    #[error(
        "api processes that share a store need one place for saved files: `folder` in `[capsule]`"
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
    pub fn new(folder: Option<PathBuf>, cache: PathBuf, keys: Arc<dyn Keys>) -> Self {
        Self {
            folder,
            cache,
            keys,
        }
    }

    /// Whether anything can be saved here.
    pub fn is_usable(&self) -> bool {
        self.folder.is_some()
    }

    pub fn cache(&self) -> &Path {
        &self.cache
    }

    /// Opens a user's capsule. Blocks.
    pub fn open(&self, user: &str) -> Result<Capsule, PlaceError> {
        let folder = self.of(user)?;
        if !folder.is_dir() {
            return Err(Error::NoCapsule.into());
        }
        let key = self.key(user)?;
        let store = Folder::open(folder).map_err(Error::from)?;
        Ok(Capsule::open(Box::new(store), &key)?)
    }

    /// Opens a user's capsule, or makes it. Blocks.
    pub fn open_or_make(&self, user: &str) -> Result<Capsule, PlaceError> {
        let key = self.key(user)?;
        let folder = self.of(user)?;
        let store = || Ok::<_, PlaceError>(Box::new(Folder::open(&folder).map_err(Error::from)?));
        match Capsule::open(store()?, &key) {
            Err(Error::NoCapsule) => {}
            opened => return Ok(opened?),
        }
        match Capsule::init(store()?, &key) {
            // Another save was first.
            Err(Error::CapsuleExists) => Ok(Capsule::open(store()?, &key)?),
            made => Ok(made?),
        }
    }

    /// Whether the user has saved anything here.
    pub fn exists(&self, user: &str) -> bool {
        self.of(user).is_ok_and(|folder| folder.is_dir())
    }

    /// Removes all that a user has saved. Fine if there is nothing. Blocks.
    pub fn remove(&self, user: &str) -> io::Result<()> {
        if self.folder.is_none() {
            return Ok(());
        }
        let folder = self.of(user).map_err(io::Error::other)?;
        match std::fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    pub(super) fn key(&self, user: &str) -> Result<UserKey, NoKey> {
        let key = purpose_key(&*self.keys, user, PURPOSE)?;
        Ok(UserKey::new(*key))
    }

    /// User ids are drawn here; this is for the day on which somebody changes how.
    fn of(&self, user: &str) -> Result<PathBuf, PlaceError> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        if user.is_empty() || user.len() > 64 || !user.bytes().all(is_plain) {
            return Err(PlaceError::User(user.to_owned()));
        }
        let folder = self.folder.as_ref().ok_or(PlaceError::NoFolder)?;
        Ok(folder.join(user))
    }
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Place")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}
