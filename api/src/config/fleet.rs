//! What an api needs to know to be one of several: its store, its address, its machines.

use std::{
    net::SocketAddr,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use cocoonbox_installation::Address;

use super::{ConfigError, File};

/// Where the api finds what it shares, and where it is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fleet {
    pub store: Address,
    /// `host:port` at which other api processes reach this one; the one it listens at if not given.
    pub advertise: Option<String>,
    /// Folder of the machines' disks. Processes that share it take each other's boxes over.
    pub machines: PathBuf,
}

/// What flags say. They win over the environment, and that over the file.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    pub store: Option<String>,
    pub no_notify: bool,
    pub advertise: Option<String>,
    pub machines_dir: Option<PathBuf>,
}

impl Fleet {
    /// Everything in one folder, for one process.
    pub fn embedded(data: &Path) -> Self {
        Self {
            store: Address::Folder(data.to_owned()),
            advertise: None,
            machines: data.to_owned(),
        }
    }

    /// Puts flags, environment and file together. `path` is where the file lies.
    pub fn resolve(
        flags: &Flags,
        env: &dyn Fn(&str) -> Option<String>,
        file: &File,
        path: &Path,
        data: &Path,
    ) -> Result<Self, ConfigError> {
        let set = |key: &str| env(key).filter(|value| !value.is_empty());
        let parse = |text: &str| Ok::<_, ConfigError>(Address::parse(text, data)?);
        let secret_in = |file: &Path| {
            let text = std::fs::read_to_string(file).map_err(|source| ConfigError::Read {
                path: file.into(),
                source,
            })?;
            private(parse(&text)?, file)
        };
        let mut store = if let Some(text) = &flags.store {
            let address = parse(text)?;
            // Arguments can be read by everybody on the host.
            if address.has_password() {
                return Err(ConfigError::PasswordInArgument);
            }
            address
        } else if let Some(text) = set("COCOONBOX_STORE") {
            parse(&text)?
        } else if let Some(from) = set("COCOONBOX_STORE_FILE") {
            secret_in(Path::new(&from))?
        } else if let Some(text) = &file.store {
            private(parse(text)?, path)?
        } else if let Some(from) = &file.store_file {
            secret_in(from)?
        } else {
            Address::Folder(data.to_owned())
        };
        let owner = if let Some(text) = set("COCOONBOX_STORE_OWNER") {
            Some(parse(&text)?)
        } else if let Some(from) = &file.store_owner_file {
            Some(secret_in(from)?)
        } else {
            None
        };
        if let Address::Postgres(postgres) = &mut store {
            postgres.notifies &= !flags.no_notify;
            if let Some(Address::Postgres(owner)) = &owner {
                *postgres = postgres.clone().owned_by(owner);
            }
        }
        let advertise = flags.advertise.clone();
        let advertise = advertise.or_else(|| set("COCOONBOX_ADVERTISE"));
        let machines = flags.machines_dir.clone();
        let machines = machines.or_else(|| set("COCOONBOX_MACHINES_DIR").map(PathBuf::from));
        Ok(Self {
            store,
            advertise: advertise.or_else(|| file.advertise.clone()),
            machines: machines
                .or_else(|| file.machines_dir.clone())
                .unwrap_or_else(|| data.to_owned()),
        })
    }

    /// Returns where others reach this process, which listens at `listen`.
    pub fn address(&self, listen: SocketAddr) -> Result<String, ConfigError> {
        match &self.advertise {
            Some(address) => Ok(address.clone()),
            // Nobody can connect to "every address".
            None if listen.ip().is_unspecified() && matches!(self.store, Address::Postgres(_)) => {
                Err(ConfigError::NoAdvertise { listen })
            }
            None => Ok(listen.to_string()),
        }
    }
}

/// Refuses an address with a password in a file that others may read.
fn private(address: Address, file: &Path) -> Result<Address, ConfigError> {
    if !address.has_password() {
        return Ok(address);
    }
    let metadata = std::fs::metadata(file).map_err(|source| ConfigError::Read {
        path: file.into(),
        source,
    })?;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(ConfigError::Exposed {
            path: file.into(),
            mode,
        });
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "postgres://cb:s3cret@db/cocoonbox";

    fn resolve(
        flags: &Flags,
        pairs: &[(&str, &str)],
        file: &File,
        path: &Path,
    ) -> Result<Fleet, ConfigError> {
        let env = |key: &str| {
            let found = pairs.iter().find(|(name, _)| *name == key);
            found.map(|(_, value)| (*value).to_owned())
        };
        Fleet::resolve(flags, &env, file, path, Path::new("/data"))
    }

    #[test]
    fn nothing_said_is_one_process_in_its_folder() {
        let found = resolve(&Flags::default(), &[], &File::default(), Path::new("/none"));
        assert_eq!(found.unwrap(), Fleet::embedded(Path::new("/data")));
    }

    #[test]
    fn passwords_come_by_environment_or_private_file_only() {
        let none = (Flags::default(), File::default(), Path::new("/none"));
        let by_env = resolve(&none.0, &[("COCOONBOX_STORE", SECRET)], &none.1, none.2).unwrap();
        assert!(by_env.store.has_password());
        assert!(!format!("{by_env:?}").contains("s3cret"));
        let flags = Flags {
            store: Some(SECRET.into()),
            ..Flags::default()
        };
        let error = resolve(&flags, &[], &none.1, none.2).unwrap_err();
        assert!(matches!(error, ConfigError::PasswordInArgument), "{error}");

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        std::fs::write(&path, format!("{SECRET}\n")).unwrap();
        let mode = |mode| {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&path, mode).unwrap();
            let from = [("COCOONBOX_STORE_FILE", path.to_str().unwrap())];
            resolve(&none.0, &from, &none.1, none.2)
        };
        assert!(matches!(
            mode(0o644),
            Err(ConfigError::Exposed { mode: 0o644, .. })
        ));
        assert_eq!(mode(0o600).unwrap().store, by_env.store);
    }

    #[test]
    fn others_are_told_an_address_that_they_can_reach() {
        let flags = Flags {
            store: Some("postgres://db/cocoonbox".into()),
            no_notify: true,
            ..Flags::default()
        };
        let mut fleet = resolve(&flags, &[], &File::default(), Path::new("/none")).unwrap();
        assert!(matches!(&fleet.store, Address::Postgres(postgres) if !postgres.notifies));
        let (one, any) = ("10.0.0.5:8750", "0.0.0.0:8750");
        assert_eq!(fleet.address(one.parse().unwrap()).unwrap(), one);
        assert!(fleet.address(any.parse().unwrap()).is_err());
        fleet.advertise = Some("api-1:8750".into());
        assert_eq!(fleet.address(any.parse().unwrap()).unwrap(), "api-1:8750");
    }
}
