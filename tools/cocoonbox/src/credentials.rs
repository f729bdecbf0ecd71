//! The user's tokens: one per api address, in a file that only its owner can read.

use std::{
    collections::BTreeMap,
    fmt, fs,
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::{exit::Exit, failure::Failure};

/// A token. Never printed by accident, wiped when dropped.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The file's form.
#[derive(Default, Serialize, Deserialize)]
struct File {
    #[serde(default)]
    api: BTreeMap<String, Entry>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Entry {
    token: String,
    #[serde(default)]
    token_id: String,
    #[serde(default)]
    user: String,
}

/// A token and whose it is, as they are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    pub token: Secret,
    /// Empty for a token that came from elsewhere.
    pub token_id: String,
    pub user: String,
}

/// The credentials file.
#[derive(Clone, Debug)]
pub struct Credentials {
    path: PathBuf,
}

impl Credentials {
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what is kept for an api. Refuses a file that others can read or that is not ours.
    pub fn get(&self, api: &str) -> Result<Option<Login>, Failure> {
        Ok(self.load()?.api.remove(api).map(|entry| Login {
            token: Secret::new(entry.token),
            token_id: entry.token_id,
            user: entry.user,
        }))
    }

    /// Keeps a login for an api in place of the one before.
    pub fn put(&self, api: &str, login: &Login) -> Result<(), Failure> {
        let entry = Entry {
            token: login.token.expose().to_owned(),
            token_id: login.token_id.clone(),
            user: login.user.clone(),
        };
        self.change(|file| {
            file.api.insert(api.to_owned(), entry);
        })
    }

    /// Forgets the login for an api; answers whether there was one.
    pub fn remove(&self, api: &str) -> Result<bool, Failure> {
        if self.get(api)?.is_none() {
            return Ok(false);
        }
        self.change(|file| {
            file.api.remove(api);
        })?;
        Ok(true)
    }

    fn load(&self) -> Result<File, Failure> {
        let file = match fs::File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(File::default()),
            Err(error) => return Err(self.failure(&error)),
        };
        // Of the open file, so that what is checked is what is read.
        let meta = file.metadata().map_err(|error| self.failure(&error))?;
        let shown = self.path.display();
        if meta.mode() & 0o077 != 0 {
            let message = format!(
                "`{shown}` can be read by others (mode {:o})",
                meta.mode() & 0o777
            );
            let advice =
                format!("`chmod 600 {shown}`, then make another token if others had access");
            return Err(Failure::new(Exit::Refused, message).advise(advice));
        }
        if meta.uid() != rustix::process::geteuid().as_raw() {
            return Err(Failure::new(
                Exit::Refused,
                format!("`{shown}` belongs to someone else"),
            ));
        }
        let text = Zeroizing::new(io::read_to_string(file).map_err(|error| self.failure(&error))?);
        // The parser's message quotes the line, and with it the token.
        toml::from_str(&text).map_err(|_| {
            Failure::new(
                Exit::Failure,
                format!("`{shown}` is not a credentials file"),
            )
            .advise("remove it and run `cocoonbox login`")
        })
    }

    /// Reads, changes and replaces the file, alone among this user's processes.
    fn change(&self, change: impl FnOnce(&mut File)) -> Result<(), Failure> {
        let fail = |error: io::Error| self.failure(&error);
        let folder = self.path.parent().unwrap_or(Path::new("."));
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(fail)?;
        let lock = fs::File::create(folder.join("credentials.lock")).map_err(fail)?;
        lock.lock().map_err(fail)?;
        let mut file = self.load()?;
        change(&mut file);
        let text = Zeroizing::new(toml::to_string(&file).map_err(|error| {
            Failure::local(format!("writing `{}`", self.path.display()), &error)
        })?);
        let temporary = folder.join(format!(".credentials.{}", uuid::Uuid::new_v4().simple()));
        let written = write_private(&temporary, text.as_bytes())
            .and_then(|()| fs::rename(&temporary, &self.path))
            .and_then(|()| fs::File::open(folder)?.sync_all());
        if written.is_err() {
            // Best effort: the name is drawn, so nothing else uses it.
            fs::remove_file(&temporary).ok();
        }
        written.map_err(fail)
    }

    fn failure(&self, error: &io::Error) -> Failure {
        Failure::local(format!("credentials file `{}`", self.path.display()), error)
    }
}

fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn login(token: &str) -> Login {
        Login {
            token: Secret::new(token),
            token_id: "t1".into(),
            user: "ann".into(),
        }
    }

    #[test]
    fn tokens_are_kept_apart_by_address_and_replaced_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Credentials::at(folder.path().join("new/credentials.toml"));
        assert_eq!(kept.get("http://a").unwrap(), None);
        kept.put("http://a", &login("one")).unwrap();
        kept.put("http://b", &login("two")).unwrap();
        kept.put("http://a", &login("three")).unwrap();
        assert_eq!(kept.get("http://a").unwrap(), Some(login("three")));
        assert_eq!(kept.get("http://b").unwrap(), Some(login("two")));
        assert_eq!(
            fs::metadata(kept.path()).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert!(kept.remove("http://a").unwrap());
        assert!(!kept.remove("http://a").unwrap());
        assert_eq!(kept.get("http://a").unwrap(), None);
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Credentials::at(folder.path().join("credentials.toml"));
        kept.put("http://a", &login("one")).unwrap();
        fs::set_permissions(kept.path(), fs::Permissions::from_mode(0o640)).unwrap();
        let failure = kept.get("http://a").unwrap_err();
        assert_eq!(failure.exit, Exit::Refused);
        assert!(
            failure.message.contains("can be read by others (mode 640)"),
            "{failure}"
        );
    }

    #[test]
    fn a_damaged_file_is_not_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Credentials::at(folder.path().join("credentials.toml"));
        write_private(kept.path(), b"[api.\"x\"]\ntoken = \"secret\n").unwrap();
        let failure = kept.get("x").unwrap_err();
        assert!(!failure.to_string().contains("secret"), "{failure}");
        assert_eq!(format!("{:?}", Secret::new("secret")), "***");
    }
}
