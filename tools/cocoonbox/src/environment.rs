//! What the surroundings say: directories, names and the token override. Read once, in `main`.

use std::{ffi::OsString, path::PathBuf};

use crate::credentials::Secret;

/// The environment, as far as this program looks at it (options read their own variables).
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `COCOONBOX_TOKEN`.
    pub token: Option<Secret>,
    /// `COCOONBOX_STORE`: where logs are, if not in a data directory. May hold a password.
    pub store: Option<Secret>,
    /// `COCOONBOX_STORE_FILE`: a file with the same in it.
    pub store_file: Option<PathBuf>,
    pub config_home: PathBuf,
    pub data_home: PathBuf,
    pub cache_home: PathBuf,
    pub user: String,
}

impl Environment {
    pub fn read() -> Self {
        let home = path("HOME").unwrap_or_else(|| PathBuf::from("/"));
        Self {
            token: std::env::var("COCOONBOX_TOKEN")
                .ok()
                .filter(|t| !t.is_empty())
                .map(Secret::new),
            store: std::env::var("COCOONBOX_STORE")
                .ok()
                .filter(|t| !t.is_empty())
                .map(Secret::new),
            store_file: path("COCOONBOX_STORE_FILE"),
            config_home: path("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")),
            data_home: path("XDG_DATA_HOME").unwrap_or_else(|| home.join(".local/share")),
            cache_home: path("XDG_CACHE_HOME").unwrap_or_else(|| home.join(".cache")),
            user: ["USER", "LOGNAME"]
                .into_iter()
                .filter_map(|name| std::env::var(name).ok())
                .find(|name| !name.is_empty())
                .unwrap_or_else(|| "admin".to_owned()),
        }
    }

    pub fn credentials_file(&self) -> PathBuf {
        self.config_home.join("cocoonbox/credentials.toml")
    }

    /// Where saves remember what they saw.
    pub fn capsule_cache(&self) -> PathBuf {
        self.cache_home.join("cocoonbox/capsule")
    }
}

/// The base-directory rules say that a relative path is to be ignored.
fn path(name: &str) -> Option<PathBuf> {
    std::env::var_os(name)
        .filter(|value: &OsString| !value.is_empty())
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
}
