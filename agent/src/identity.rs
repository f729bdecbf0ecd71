//! Who this box is: the file that the api writes on every boot and wake. It holds nothing secret.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use cocoonbox_events::LogId;
use cocoonbox_proto::log::v1::{ModelChoice, Wire};
use ed25519_dalek::VerifyingKey;
use serde::Deserialize;

/// A box with its key and models in a few hundred bytes; anything much longer is not it.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// What the file says.
#[derive(Clone, Debug)]
pub struct Identity {
    pub box_id: String,
    pub wake_id: String,
    /// Names the edge's key.
    pub key_id: String,
    pub public_key: VerifyingKey,
    /// The box's log.
    pub log: LogId,
    models: HashMap<String, ModelChoice>,
}

/// Why there is no identity.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("reading identity file `{path}`")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("identity file `{path}` is not the expected JSON")]
    Json {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error("field `{field}` of the identity file is not usable")]
    Field { field: &'static str },
}

#[derive(Deserialize)]
struct Raw {
    box_id: String,
    wake_id: String,
    key_id: String,
    public_key: String,
    log_id: String,
    #[serde(default)]
    models: HashMap<String, RawModel>,
}

#[derive(Deserialize)]
struct RawModel {
    wire: String,
    model: String,
    #[serde(default)]
    output_tokens_max: u32,
}

impl Identity {
    pub fn read(path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Read {
            path: path.to_path_buf(),
            source,
        };
        if fs::metadata(path).map_err(failed)?.len() > FILE_BYTES_MAX {
            return Err(failed(io::ErrorKind::FileTooLarge.into()));
        }
        let bytes = fs::read(path).map_err(failed)?;
        let raw: Raw = serde_json::from_slice(&bytes).map_err(|source| Error::Json {
            path: path.to_path_buf(),
            source,
        })?;
        let key = BASE64_URL_SAFE_NO_PAD
            .decode(raw.public_key.trim_end_matches('='))
            .ok()
            .and_then(|bytes| <[u8; 32]>::try_from(bytes).ok())
            .and_then(|bytes| VerifyingKey::from_bytes(&bytes).ok());
        let mut models = HashMap::new();
        for (role, model) in raw.models {
            let wire = match model.wire.as_str() {
                "anthropic" => Wire::AnthropicMessages,
                "openai" => Wire::OpenaiChat,
                _ => {
                    return Err(Error::Field {
                        field: "models.wire",
                    });
                }
            };
            let choice = ModelChoice {
                wire: wire.into(),
                model: model.model,
                output_tokens_max: model.output_tokens_max,
            };
            models.insert(role, choice);
        }
        Ok(Self {
            box_id: raw.box_id,
            wake_id: raw.wake_id,
            key_id: raw.key_id,
            public_key: key.ok_or(Error::Field {
                field: "public_key",
            })?,
            log: raw
                .log_id
                .parse()
                .map_err(|_| Error::Field { field: "log_id" })?,
            models,
        })
    }

    /// Returns the model for a role; the role `main` stands in for one that is not configured.
    pub fn model(&self, role: &str) -> Option<ModelChoice> {
        self.models
            .get(role)
            .or_else(|| self.models.get("main"))
            .cloned()
    }
}

/// The file, looked at again when it was rewritten: a woken machine with its memory kept is told its
/// wake id in this way.
#[derive(Clone, Debug)]
pub struct IdentityFile {
    path: PathBuf,
    current: Arc<Mutex<(Arc<Identity>, Option<SystemTime>)>>,
}

impl IdentityFile {
    pub fn open(path: &Path) -> Result<Self, Error> {
        let modified = modified(path);
        let identity = Arc::new(Identity::read(path)?);
        Ok(Self {
            path: path.to_path_buf(),
            current: Arc::new(Mutex::new((identity, modified))),
        })
    }

    pub fn current(&self) -> Arc<Identity> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let modified = modified(&self.path);
        if modified.is_some() && modified != current.1 {
            match Identity::read(&self.path) {
                Ok(identity) => *current = (Arc::new(identity), modified),
                // Half-written; the next call looks again.
                Err(error) => tracing::warn!(%error, "identity not read"),
            }
        }
        Arc::clone(&current.0)
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}
