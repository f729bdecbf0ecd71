//! Who this box is: the file that the api writes on every boot and wake. It holds nothing secret.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use cocoonbox_proto::log::v1::{ModelChoice, ModelRole, ModelRoles, Wire};
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
    roles: ModelRoles,
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
    #[serde(default)]
    models: RawModels,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawModels {
    main: Option<RawModel>,
    computer: Option<RawModel>,
    summarize: Option<RawModel>,
    fallbacks: Vec<RawModel>,
}

/// What is absent was not known yet to the api that wrote the file.
#[derive(Deserialize)]
struct RawModel {
    wire: String,
    model: String,
    #[serde(default)]
    output_tokens_max: u32,
    #[serde(default)]
    images: bool,
    #[serde(default)]
    context_tokens_max: u32,
    #[serde(default)]
    thinking_tokens_max: u32,
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
        Ok(Self {
            box_id: raw.box_id,
            wake_id: raw.wake_id,
            key_id: raw.key_id,
            public_key: key.ok_or(Error::Field {
                field: "public_key",
            })?,
            roles: raw.models.read()?,
        })
    }

    /// Returns the models that agents use unless told otherwise. Without a main one there are none.
    pub fn roles(&self) -> Option<&ModelRoles> {
        Some(&self.roles).filter(|roles| roles.main.is_some())
    }

    /// Returns the model for a role; `main` stands in for one that is not configured.
    pub fn model(&self, role: ModelRole) -> Option<ModelChoice> {
        let own = match role {
            ModelRole::Main => None,
            ModelRole::Computer => self.roles.computer.as_ref(),
            ModelRole::Summarize => self.roles.summarize.as_ref(),
        };
        own.or(self.roles.main.as_ref()).cloned()
    }
}

impl RawModels {
    fn read(self) -> Result<ModelRoles, Error> {
        let fallbacks = self.fallbacks.into_iter().map(RawModel::read);
        Ok(ModelRoles {
            main: self.main.map(RawModel::read).transpose()?,
            computer: self.computer.map(RawModel::read).transpose()?,
            summarize: self.summarize.map(RawModel::read).transpose()?,
            fallbacks: fallbacks.collect::<Result<_, _>>()?,
        })
    }
}

impl RawModel {
    fn read(self) -> Result<ModelChoice, Error> {
        let wire = match self.wire.as_str() {
            "anthropic" => Wire::AnthropicMessages,
            "openai" => Wire::OpenaiChat,
            "openai-responses" => Wire::OpenaiResponses,
            _ => {
                return Err(Error::Field {
                    field: "models.wire",
                });
            }
        };
        Ok(ModelChoice {
            wire: wire.into(),
            model: self.model,
            output_tokens_max: self.output_tokens_max,
            images: self.images,
            context_tokens_max: self.context_tokens_max,
            thinking_tokens_max: self.thinking_tokens_max,
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(models: &str) -> Result<Identity, Error> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("identity");
        let key = BASE64_URL_SAFE_NO_PAD
            .encode(ed25519_dalek::SigningKey::from_bytes(&[7; 32]).verifying_key());
        let text = format!(
            r#"{{"box_id":"b","wake_id":"w","key_id":"k","public_key":"{key}","models":{models}}}"#
        );
        fs::write(&path, text).unwrap();
        Identity::read(&path)
    }

    #[test]
    fn roles_are_read_and_main_stands_in() {
        let identity = read(
            r#"{"main":{"wire":"anthropic","model":"a","output_tokens_max":9},
                "computer":{"wire":"openai-responses","model":"b","images":true,
                            "context_tokens_max":5,"thinking_tokens_max":3},
                "role_of_the_future":{},
                "fallbacks":[{"wire":"openai","model":"c"}]}"#,
        )
        .unwrap();
        let roles = identity.roles().unwrap();
        assert_eq!(roles.fallbacks[0].wire(), Wire::OpenaiChat);
        let main = identity.model(ModelRole::Main).unwrap();
        assert_eq!((main.output_tokens_max, main.images), (9, false));
        let computer = identity.model(ModelRole::Computer).unwrap();
        let expected = ModelChoice {
            wire: Wire::OpenaiResponses.into(),
            model: "b".into(),
            output_tokens_max: 0,
            images: true,
            context_tokens_max: 5,
            thinking_tokens_max: 3,
        };
        assert_eq!(computer, expected);
        assert_eq!(identity.model(ModelRole::Summarize), Some(main));
    }

    #[test]
    fn a_box_may_be_told_of_no_model_but_not_of_a_strange_one() {
        assert_eq!(read("{}").unwrap().roles(), None);
        let strange = read(r#"{"main":{"wire":"telex","model":"m"}}"#);
        assert!(matches!(
            strange,
            Err(Error::Field {
                field: "models.wire"
            })
        ));
    }
}
