//! What `up` started the api with, so that the next `up` need not be told.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{cli::boxes::Up, failure::Failure};

const FILE: &str = "up.toml";

/// The arguments of `cocoonbox-api serve`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Serve {
    pub(super) image: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent: Option<PathBuf>,
    /// Follows `--api`, so it is not remembered.
    #[serde(skip)]
    pub(super) listen: String,
}

impl Serve {
    /// As asked, else as last time.
    pub(super) fn resolve(data: &Path, args: &Up) -> Result<Self, Failure> {
        let last = read(data)?;
        let image = match (&args.image, &last) {
            (Some(image), _) => absolute(image)?,
            (None, Some(last)) => last.image.clone(),
            (None, None) => {
                return Err(Failure::usage("the first `up` needs the image that boxes start from")
                    .advise("--image FILE or COCOONBOX_IMAGE; `image/build` makes one and prints its path"));
            }
        };
        let agent = match &args.agent {
            Some(agent) => Some(absolute(agent)?),
            None => last.and_then(|last| last.agent),
        };
        Ok(Self {
            image,
            agent,
            listen: String::new(),
        })
    }

    pub(super) fn remember(&self, data: &Path) -> Result<(), Failure> {
        let path = data.join(FILE);
        let fail = |error: &dyn std::error::Error| {
            Failure::local(format!("writing `{}`", path.display()), error)
        };
        let text = toml::to_string(self).map_err(|error| fail(&error))?;
        fs::write(&path, text).map_err(|error| fail(&error))
    }
}

fn read(data: &Path) -> Result<Option<Serve>, Failure> {
    let path = data.join(FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(Failure::local(
                format!("reading `{}`", path.display()),
                &error,
            ));
        }
    };
    let parsed = toml::from_str(&text);
    parsed
        .map(Some)
        .map_err(|error| Failure::local(format!("reading `{}`", path.display()), &error))
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    fs::canonicalize(path).map_err(|error| Failure::local(format!("`{}`", path.display()), &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_up_starts_what_the_last_one_did() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path();
        let nothing = Up {
            image: None,
            agent: None,
            admin: None,
        };
        assert!(
            Serve::resolve(data, &nothing)
                .unwrap_err()
                .message
                .contains("image")
        );
        let image = fs::canonicalize(data).unwrap().join("core.erofs");
        fs::write(&image, "").unwrap();
        let given = Up {
            image: Some(image.clone()),
            ..nothing.clone()
        };
        Serve::resolve(data, &given)
            .unwrap()
            .remember(data)
            .unwrap();
        assert_eq!(Serve::resolve(data, &nothing).unwrap().image, image);
    }
}
