//! Configuration: `cocoonbox.toml`, over it `COCOONBOX_…` in the environment, over it flags.
//!
//! Secrets come only from files or the environment, never from flags.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::{
    door::WebPolicy,
    gateway::{GatewayConfig, Secret, Vendor},
};

/// One port for everything a client needs.
pub const LISTEN: &str = "127.0.0.1:8750";
const ANTHROPIC: &str = "https://api.anthropic.com";
const OPENAI: &str = "https://api.openai.com";
/// Enough for any coding turn; a reply that needs more is cut and says so.
const OUTPUT_TOKENS_MAX: u32 = 16_000;

/// Everything the api is started with.
#[derive(Clone, Debug)]
pub struct Config {
    pub data: PathBuf,
    pub listen: SocketAddr,
    /// The image that boxes start from.
    pub image: PathBuf,
    /// The static agent binary.
    pub agent: PathBuf,
    pub file: File,
    pub gateway: GatewayConfig,
    /// The installation's default model, if any vendor is configured.
    pub model: Option<Model>,
}

/// The model that agents use unless told otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// `anthropic` or `openai`: the wire.
    pub wire: String,
    pub model: String,
    #[serde(default = "output_tokens_max")]
    pub output_tokens_max: u32,
}

/// `cocoonbox.toml`. Unknown keys are errors: a typo must not silently mean a default.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct File {
    pub model: Option<Model>,
    pub anthropic: VendorFile,
    pub openai: VendorFile,
    pub web: Web,
    pub limits: Limits,
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

/// Caps on each box.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    pub memory_bytes: u64,
    /// Thousandths of a core.
    pub cpu_millis: u32,
    pub pids: u32,
    /// Boxes of one user that are not deleted.
    pub boxes_per_user: usize,
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
    #[error("model wire `{0}` is neither `anthropic` nor `openai`")]
    Wire(String),
    #[error("web destination `{0}` is not of the form host:port")]
    Destination(String),
    #[error("base url `{0}` does not begin with http:// or https://")]
    BaseUrl(String),
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

fn output_tokens_max() -> u32 {
    OUTPUT_TOKENS_MAX
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
    ) -> Result<(GatewayConfig, Option<Model>), ConfigError> {
        let anthropic = vendor(&self.anthropic, ANTHROPIC, "ANTHROPIC", env)?;
        let openai = vendor(&self.openai, OPENAI, "OPENAI", env)?;
        let guess = if anthropic.is_some() || openai.is_none() {
            ("anthropic", "claude-sonnet-4-5")
        } else {
            ("openai", "gpt-5.1")
        };
        let mut model = self.model.clone().unwrap_or_else(|| Model {
            wire: guess.0.into(),
            model: guess.1.into(),
            output_tokens_max: OUTPUT_TOKENS_MAX,
        });
        if let Some(wire) = env("COCOONBOX_MODEL_WIRE") {
            model.wire = wire;
        }
        if let Some(name) = env("COCOONBOX_MODEL") {
            model.model = name;
        }
        if !matches!(model.wire.as_str(), "anthropic" | "openai") {
            return Err(ConfigError::Wire(model.wire));
        }
        let configured = anthropic.is_some() || openai.is_some();
        Ok((
            GatewayConfig { anthropic, openai },
            configured.then_some(model),
        ))
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

    fn resolve(pairs: &[(&str, &str)]) -> (GatewayConfig, Option<Model>) {
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
            resolve(&[("OPENAI_API_KEY", "k")]).1.unwrap().wire,
            "openai"
        );
        let both = resolve(&[("OPENAI_API_KEY", "k"), ("ANTHROPIC_API_KEY", "k")]);
        assert_eq!(both.1.unwrap().wire, "anthropic");
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
    fn typos_are_errors() {
        assert!(toml::from_str::<File>("modle = 1").is_err());
        assert!(!format!("{:?}", resolve(&[("OPENAI_API_KEY", "s3cret")]).0).contains("s3cret"));
    }
}
