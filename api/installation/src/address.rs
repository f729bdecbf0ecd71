//! Where an installation keeps what it knows, in one line: a folder, or a PostgreSQL database.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use url::Url;
use zeroize::Zeroizing;

/// Asks for polling only, where LISTEN and NOTIFY are not to be had.
const NOTIFY: &str = "notify";

/// Where logs, keys, tokens and leases lie.
#[derive(Clone, PartialEq, Eq)]
pub enum Address {
    /// SQLite files in a folder, for one process.
    Folder(PathBuf),
    Postgres(Postgres),
}

/// A PostgreSQL database, or one that speaks like it.
#[derive(Clone, PartialEq, Eq)]
pub struct Postgres {
    /// What the driver is given. May hold a password.
    url: Zeroizing<String>,
    /// The same database with the role that owns the tables and may bring them up to date.
    owner: Option<Zeroizing<String>>,
    /// Whether doorbells go by LISTEN and NOTIFY; else every process only polls.
    pub notifies: bool,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum AddressError {
    #[error("the store's address is empty")]
    Empty,
    #[error("`{scheme}:` is no store; there are `sqlite:FOLDER` and `postgres://HOST/DATABASE`")]
    Scheme { scheme: String },
    /// The text itself is not shown: it may hold a password.
    #[error("the store's address is not a valid URL: {what}")]
    Malformed { what: String },
    #[error("the store's address names no database: postgres://HOST/DATABASE")]
    NoDatabase,
    #[error("`notify={value}` in the store's address is neither `on` nor `off`")]
    Notify { value: String },
}

impl Address {
    /// Reads an address. `sqlite:` without a folder, and no address at all, mean `data`.
    pub fn parse(text: &str, data: &Path) -> Result<Self, AddressError> {
        let text = text.trim();
        if let Some(folder) = text.strip_prefix("sqlite:") {
            let folder = folder.strip_prefix("//").unwrap_or(folder);
            return Ok(Self::Folder(match folder {
                "" => data.to_owned(),
                folder => PathBuf::from(folder),
            }));
        }
        let scheme = text.split_once("://").map(|(scheme, _)| scheme);
        match scheme {
            Some("postgres" | "postgresql") => Postgres::parse(text).map(Self::Postgres),
            Some(scheme) => Err(AddressError::Scheme {
                scheme: scheme.to_owned(),
            }),
            None if text.is_empty() => Err(AddressError::Empty),
            None => Ok(Self::Folder(PathBuf::from(text))),
        }
    }

    /// Whether it holds a secret, which must not stand in a process's arguments.
    pub fn has_password(&self) -> bool {
        match self {
            Self::Folder(_) => false,
            Self::Postgres(postgres) => Url::parse(&postgres.url).is_ok_and(|url| {
                url.password().is_some() || url.query_pairs().any(|(key, _)| key == "password")
            }),
        }
    }
}

impl Postgres {
    fn parse(text: &str) -> Result<Self, AddressError> {
        let mut url = Url::parse(text).map_err(|error| AddressError::Malformed {
            what: error.to_string(),
        })?;
        if url.path().trim_matches('/').is_empty() {
            return Err(AddressError::NoDatabase);
        }
        let mut notifies = true;
        let pairs: Vec<(String, String)> = url
            .query_pairs()
            .map(|(key, value)| (key.into_owned(), value.into_owned()))
            .collect();
        url.set_query(None);
        for (key, value) in pairs {
            match (key.as_str(), value.as_str()) {
                (NOTIFY, "on") => notifies = true,
                (NOTIFY, "off") => notifies = false,
                (NOTIFY, _) => return Err(AddressError::Notify { value }),
                _ => drop(url.query_pairs_mut().append_pair(&key, &value)),
            }
        }
        Ok(Self {
            url: Zeroizing::new(url.into()),
            owner: None,
            notifies,
        })
    }

    /// Names the owner of the tables: another role's address of the same database.
    pub fn owned_by(mut self, owner: &Self) -> Self {
        self.owner = Some(owner.url.clone());
        self
    }

    pub(crate) fn owner(&self) -> Option<&Zeroizing<String>> {
        self.owner.as_ref()
    }

    /// The URL for the driver, with its password.
    pub fn expose(&self) -> &str {
        &self.url
    }
}

/// Without a password.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => write!(f, "sqlite:{}", folder.display()),
            Self::Postgres(postgres) => postgres.fmt(f),
        }
    }
}

impl fmt::Display for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(mut url) = Url::parse(&self.url) else {
            return f.write_str("postgres:***");
        };
        // Options may hold anything; host and database are what a reader wants to know.
        url.set_query(None);
        let hidden = url.password().is_none() || url.set_password(Some("***")).is_ok();
        f.write_str(if hidden { url.as_str() } else { "postgres:***" })
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Address, AddressError> {
        Address::parse(text, Path::new("/data"))
    }

    #[test]
    fn folders_and_databases() {
        let folder = |path: &str| Ok(Address::Folder(path.into()));
        assert_eq!(parse("sqlite:"), folder("/data"));
        assert_eq!(parse("sqlite:///srv/cocoonbox"), folder("/srv/cocoonbox"));
        assert_eq!(parse("/srv/cocoonbox"), folder("/srv/cocoonbox"));
        let Ok(Address::Postgres(found)) =
            parse("postgres://cb:secret@db:5432/cocoonbox?sslmode=require&notify=off")
        else {
            panic!("a database");
        };
        assert!(!found.notifies);
        assert_eq!(
            found.expose(),
            "postgres://cb:secret@db:5432/cocoonbox?sslmode=require"
        );
    }

    #[test]
    fn what_is_no_address_says_what_one_looks_like() {
        let error = |text| parse(text).unwrap_err().to_string();
        assert!(error("mysql://db/x").contains("postgres://HOST/DATABASE"));
        assert!(error("postgres://db").contains("names no database"));
        assert!(error("postgres://db/x?notify=maybe").contains("neither"));
        assert!(!error("postgres://cb:secret@[/x").contains("secret"));
        assert_eq!(parse(" "), Err(AddressError::Empty));
    }

    #[test]
    fn passwords_are_known_and_not_shown() {
        for text in [
            "postgres://cb:s3cret@db/x",
            "postgres://db/x?password=s3cret",
        ] {
            let address = parse(text).unwrap();
            assert!(address.has_password());
            assert!(!format!("{address} {address:?}").contains("s3cret"));
        }
        assert!(!parse("postgres://cb@db/x").unwrap().has_password());
    }
}
