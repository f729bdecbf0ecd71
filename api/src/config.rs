//! Configuration: `cocoonbox.toml`, over it `COCOONBOX_…` in the environment, over it flags.
//!
//! Secrets come only from files or the environment, never from flags.

mod console;
mod fleet;
mod models;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use cocoonbox_capsule_s3::{Address, BadAddress, BadCredentials, Credentials, S3};
use cocoonbox_events::checkpoint::{BadKeyName, KeyName};
use cocoonbox_installation::AddressError;
use serde::Deserialize;

pub use console::Console;
pub use fleet::{Flags, Fleet};
pub use models::{BadModel, Model, ModelFile, Models, settled, to_json};

use crate::{
    budget::{BadPrice, PriceFile, Prices},
    capsules::{Shelf, When},
    door::WebPolicy,
    gateway::{GatewayConfig, Secret, Vendor},
    passkeys::BadOrigin,
};

/// One port for everything a client needs.
pub const LISTEN: &str = "127.0.0.1:8750";
const ANTHROPIC: &str = "https://api.anthropic.com";
const OPENAI: &str = "https://api.openai.com";

/// Everything the api is started with.
#[derive(Clone, Debug)]
pub struct Config {
    pub data: PathBuf,
    pub listen: SocketAddr,
    pub fleet: Fleet,
    /// The image that boxes start from.
    pub image: PathBuf,
    /// The static agent binary.
    pub agent: PathBuf,
    pub file: File,
    pub gateway: GatewayConfig,
    /// The models that agents use unless told otherwise, if any vendor is configured.
    pub models: Option<Models>,
}

/// `cocoonbox.toml`. Unknown keys are errors: a typo must not silently mean a default.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct File {
    /// Where logs, keys and tokens lie; absent: in the data folder.
    pub store: Option<String>,
    /// A file that holds the store's address and nothing else.
    pub store_file: Option<PathBuf>,
    /// A file that holds the store's address with the role that owns its tables, which then brings them up to date.
    pub store_owner_file: Option<PathBuf>,
    /// Where other api processes on the same store reach this one.
    pub advertise: Option<String>,
    /// Where the machines' disks lie; absent: in the data folder.
    pub machines_dir: Option<PathBuf>,
    /// The name that checkpoints and the keys that sign them go by, best a host name of yours; absent: one
    /// that follows from the system log's id.
    pub origin: Option<String>,
    /// Where `GET /metrics` is answered without a login, besides the api's own socket; absent: nowhere.
    pub metrics: Option<SocketAddr>,
    pub model: Option<ModelFile>,
    pub anthropic: VendorFile,
    pub openai: VendorFile,
    pub web: Web,
    pub console: Console,
    pub limits: Limits,
    pub idle: Idle,
    pub capsule: Capsule,
    /// What models cost, by name; `*` stands for anything. Before those that are built in.
    pub prices: BTreeMap<String, PriceFile>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VendorFile {
    pub base_url: Option<String>,
    /// A file that holds the key and nothing else.
    pub key_file: Option<PathBuf>,
}

/// Plain web access of boxes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Web {
    pub enabled: bool,
    /// `host:port` destinations that are allowed even if their address is private.
    pub allow: Vec<String>,
}

/// When boxes are put to sleep by themselves.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Idle {
    /// Nobody calls or watches the box, nothing is written in it, no agent and no command has anything to do; 0 = never.
    /// Programs without a command that waits for them, on a desktop or in a browser, end with a box that sleeps.
    pub after_seconds: u64,
}

/// Caps on each box.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    pub memory_bytes: u64,
    /// Thousandths of a core.
    pub cpu_millis: u32,
    pub pids: u32,
    /// Read from the disk, and written to it, in a second; 0 = as many as there are.
    pub io_bytes_per_second: u64,
    /// What the disks of a box hold that is made from now on; 0 = whatever the host has.
    pub disk_bytes: u64,
    /// Boxes of one user that are not deleted.
    pub boxes_per_user: usize,
}

/// Saves of boxes' files.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Capsule {
    /// Where they lie; absent: in the data folder. Processes on one store are given one folder, by whatever
    /// shares it.
    pub folder: Option<PathBuf>,
    /// Or where in S3: `s3://BUCKET/PREFIX?endpoint=…&region=…`, for processes on any host.
    pub store: Option<String>,
    /// The file with the keys to it, which only its owner may read.
    pub credentials_file: Option<PathBuf>,
    /// A box that runs is saved this often; 0 = never by itself.
    pub every_minutes: u32,
    /// When a turn of an agent has ended that did more than read.
    pub after_turns: bool,
    /// Before an agent makes a call that may destroy files; the call waits for it, and is not made if it fails.
    pub before_destructive: bool,
    /// When a box has gone to sleep.
    pub asleep: bool,
    /// What is not kept is given back this often, and a part of what is stored is read and compared; 0 = never by
    /// itself.
    pub sweep_hours: u32,
    /// What is saved of one user's boxes may take so much; 0 = as much as it likes.
    pub quota_bytes: u64,
}

impl Capsule {
    /// When boxes are saved that nobody asks to save.
    pub fn when(&self) -> When {
        let minutes = u64::from(self.every_minutes);
        When {
            every: (minutes > 0).then(|| Duration::from_mins(minutes)),
            after_turns: self.after_turns,
            asleep: self.asleep,
        }
    }

    /// How often capsules are swept by themselves.
    pub fn sweeps(&self) -> Option<Duration> {
        let hours = u64::from(self.sweep_hours);
        (hours > 0).then(|| Duration::from_hours(hours))
    }

    /// Where saved files lie that do not lie in the data folder.
    pub fn shelf(&self) -> Result<Option<Shelf>, ConfigError> {
        match (&self.store, &self.folder, &self.credentials_file) {
            (None, None, None) => Ok(None),
            (None, Some(folder), None) => Ok(Some(Shelf::Folder(folder.clone()))),
            (Some(store), None, Some(file)) => {
                let address = Address::parse(store)?;
                let store = S3::open(address, &Credentials::read(file)?)?;
                Ok(Some(Shelf::S3(store)))
            }
            _ => Err(ConfigError::CapsulePlace),
        }
    }

    pub fn quota(&self) -> Option<u64> {
        Some(self.quota_bytes).filter(|bytes| *bytes > 0)
    }
}

impl Default for Capsule {
    fn default() -> Self {
        Self {
            folder: None,
            store: None,
            credentials_file: None,
            every_minutes: 15,
            after_turns: true,
            before_destructive: true,
            asleep: true,
            sweep_hours: 24,
            quota_bytes: 0,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("reading `{path}`")]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("`{path}` is not valid")]
    Parse {
        path: PathBuf,
        #[source]
        source: Box<toml::de::Error>,
    },
    #[error("`[{table}]` is not usable")]
    Model {
        table: String,
        #[source]
        source: BadModel,
    },
    #[error("`[capsule]` has a `folder`, or a `store` and a `credentials_file`, or none of them")]
    CapsulePlace,
    #[error("the store in `[capsule]`")]
    CapsuleStore(#[from] BadAddress),
    #[error("the credentials in `[capsule]`")]
    CapsuleCredentials(#[from] BadCredentials),
    #[error(transparent)]
    CapsuleOpen(#[from] cocoonbox_capsule_s3::OpenError),
    #[error("web destination `{0}` is not of the form host:port")]
    Destination(String),
    #[error("base url `{0}` does not begin with http:// or https://")]
    BaseUrl(String),
    #[error("the origin of checkpoints")]
    Origin(#[from] BadKeyName),
    #[error("`origins` in `[console]`")]
    ConsoleOrigin(#[from] BadOrigin),
    #[error(transparent)]
    Price(#[from] BadPrice),
    #[error(transparent)]
    Store(#[from] AddressError),
    #[error(
        "the store's address has a password, and everybody on the host can read arguments; \
         give it in COCOONBOX_STORE or in a file that COCOONBOX_STORE_FILE names"
    )]
    PasswordInArgument,
    #[error(
        "`{path}` holds a password and has mode {mode:o}; only its owner may read it (chmod 600)"
    )]
    Exposed { path: PathBuf, mode: u32 },
    #[error(
        "other api processes cannot reach this one at {listen}; name its address with --advertise \
         or COCOONBOX_ADVERTISE"
    )]
    NoAdvertise { listen: SocketAddr },
}

impl Default for Web {
    fn default() -> Self {
        Self {
            enabled: true,
            allow: Vec::new(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 2 << 30,
            cpu_millis: 2_000,
            pids: 1_024,
            io_bytes_per_second: 256 << 20,
            disk_bytes: 0,
            boxes_per_user: 20,
        }
    }
}

impl Web {
    /// Reads the allowed destinations.
    pub fn policy(&self) -> Result<WebPolicy, ConfigError> {
        let destination = |text: &String| {
            let (host, port) = text.rsplit_once(':')?;
            let host = host.trim_matches(['[', ']']);
            Some((host.to_owned(), port.parse().ok()?)).filter(|(host, _)| !host.is_empty())
        };
        let allow = self.allow.iter();
        let allow = allow
            .map(|text| destination(text).ok_or_else(|| ConfigError::Destination(text.clone())))
            .collect::<Result<_, _>>()?;
        Ok(WebPolicy {
            enabled: self.enabled,
            allow,
        })
    }
}

/// Returns the folder for data when none is given (XDG Base Directory Specification).
pub fn default_data(env: &dyn Fn(&str) -> Option<String>) -> PathBuf {
    let share = env("XDG_DATA_HOME")
        .filter(|dir| dir.starts_with('/'))
        .map(PathBuf::from);
    let home = || PathBuf::from(env("HOME").unwrap_or_else(|| "/root".into())).join(".local/share");
    share.unwrap_or_else(home).join("cocoonbox")
}

impl File {
    /// Reads the name that checkpoints go by.
    pub fn origin(&self) -> Result<Option<KeyName>, ConfigError> {
        Ok(self.origin.clone().map(KeyName::new).transpose()?)
    }

    /// Reads what models cost.
    pub fn prices(&self) -> Result<Prices, ConfigError> {
        Ok(Prices::new(&self.prices)?)
    }

    /// Reads a config file; a missing one is the default.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(source) => {
                return Err(ConfigError::Read {
                    path: path.into(),
                    source,
                });
            }
        };
        toml::from_str(&text).map_err(|source| ConfigError::Parse {
            path: path.into(),
            source: Box::new(source),
        })
    }

    /// Brings in what the environment says: vendors' usual names for keys and base URLs, and
    /// `COCOONBOX_MODEL_WIRE`, `COCOONBOX_MODEL`.
    pub fn resolve(
        &self,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<(GatewayConfig, Option<Models>), ConfigError> {
        let anthropic = vendor(&self.anthropic, ANTHROPIC, "ANTHROPIC", env)?;
        let openai = vendor(&self.openai, OPENAI, "OPENAI", env)?;
        let guess = if anthropic.is_some() || openai.is_none() {
            ("anthropic", "claude-sonnet-4-5")
        } else {
            ("openai", "gpt-5.1")
        };
        let mut main = match &self.model {
            Some(file) => file.main(),
            None => Model::named(guess.0, guess.1),
        };
        if let Some(wire) = env("COCOONBOX_MODEL_WIRE") {
            main.wire = wire;
        }
        if let Some(name) = env("COCOONBOX_MODEL") {
            main.model = name;
        }
        let is_configured = anthropic.is_some() || openai.is_some();
        let gateway = GatewayConfig { anthropic, openai };
        let models = is_configured.then(|| Models::new(main, self.model.as_ref()));
        let models = models.map(|models| models.settled(&gateway)).transpose()?;
        Ok((gateway, models))
    }
}

fn vendor(
    file: &VendorFile,
    default_url: &str,
    name: &str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Vendor>, ConfigError> {
    let set = |key: &str| env(key).filter(|value| !value.is_empty());
    let base_url = set(&format!("{name}_BASE_URL")).or_else(|| file.base_url.clone());
    let key = match (set(&format!("{name}_API_KEY")), &file.key_file) {
        (Some(key), _) => Some(key),
        (None, Some(path)) => Some(
            std::fs::read_to_string(path)
                .map_err(|source| ConfigError::Read {
                    path: path.clone(),
                    source,
                })?
                .trim()
                .to_owned(),
        ),
        (None, None) => None,
    };
    // A base URL alone is a compatible server that wants no key.
    if key.is_none() && base_url.is_none() {
        return Ok(None);
    }
    let base_url = base_url.unwrap_or_else(|| default_url.into());
    if !base_url.starts_with("http://") && !base_url.starts_with("https://") {
        return Err(ConfigError::BaseUrl(base_url));
    }
    let base_url = base_url
        .trim_end_matches('/')
        .trim_end_matches("/v1")
        .to_owned();
    Ok(Some(Vendor {
        base_url,
        key: Secret::new(key.unwrap_or_default()),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(pairs: &[(&str, &str)]) -> (GatewayConfig, Option<Models>) {
        let env = |key: &str| {
            pairs
                .iter()
                .find(|(name, _)| *name == key)
                .map(|(_, value)| (*value).to_owned())
        };
        File::default().resolve(&env).unwrap()
    }

    #[test]
    fn keys_choose_the_wire() {
        assert!(resolve(&[]).1.is_none());
        assert_eq!(
            resolve(&[("OPENAI_API_KEY", "k")]).1.unwrap().main.wire,
            "openai"
        );
        let both = resolve(&[("OPENAI_API_KEY", "k"), ("ANTHROPIC_API_KEY", "k")]);
        assert_eq!(both.1.unwrap().main.wire, "anthropic");
    }

    #[test]
    fn a_base_url_is_taken_with_or_without_version() {
        let vendor = resolve(&[("OPENAI_BASE_URL", "http://127.0.0.1:1/v1/")])
            .0
            .openai
            .unwrap();
        assert_eq!(vendor.base_url, "http://127.0.0.1:1");
    }

    #[test]
    fn an_origin_is_a_name() {
        let origin = |text: &str| toml::from_str::<File>(text).unwrap().origin();
        assert!(origin("").unwrap().is_none());
        let named = origin("origin = 'logs.example'").unwrap();
        assert_eq!(named.unwrap().as_str(), "logs.example");
        assert!(origin("origin = 'a b'").is_err());
    }

    #[test]
    fn typos_are_errors() {
        assert!(toml::from_str::<File>("modle = 1").is_err());
        assert!(!format!("{:?}", resolve(&[("OPENAI_API_KEY", "s3cret")]).0).contains("s3cret"));
    }
}
