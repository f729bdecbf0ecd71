//! Keys to a store, from a file that nobody else may read.

use std::{
    fmt,
    fs::File,
    io::{self, Read as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use zeroize::Zeroizing;

/// More is no file of keys.
const BYTES_MAX: u64 = 16 << 10;

/// What requests are signed with.
#[derive(Clone)]
pub struct Credentials {
    pub(crate) access_key_id: String,
    pub(crate) secret_access_key: Zeroizing<String>,
    pub(crate) session_token: Option<Zeroizing<String>>,
}

#[derive(Debug, thiserror::Error)]
pub enum BadCredentials {
    #[error("the credentials in `{path}` cannot be read")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("others may read the credentials in `{path}`: chmod 600")]
    Open { path: PathBuf },
    #[error("the credentials have no `{0}`")]
    Missing(&'static str),
    #[error("line {0} of the credentials is no `name = value`")]
    Line(usize),
}

impl Credentials {
    /// Reads a file with lines like those of the AWS tools: `aws_access_key_id = …`, `aws_secret_access_key = …` and
    /// perhaps `aws_session_token = …`. Only the first section counts.
    pub fn read(path: &Path) -> Result<Self, BadCredentials> {
        let failed = |source| BadCredentials::Read {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.mode() & 0o077 != 0 {
            let path = path.to_owned();
            return Err(BadCredentials::Open { path });
        }
        let mut text = Zeroizing::new(String::new());
        let read = file.take(BYTES_MAX).read_to_string(&mut text);
        read.map_err(failed)?;
        Self::parse(&text)
    }

    /// Reads the text of such a file.
    pub fn parse(text: &str) -> Result<Self, BadCredentials> {
        let (mut id, mut secret, mut token) = (None, None, None);
        let mut sections = 0;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if line.starts_with('[') {
                sections += 1;
                if sections > 1 {
                    break;
                }
                continue;
            }
            let pair = line.split_once('=');
            let (name, value) = pair.ok_or(BadCredentials::Line(number + 1))?;
            let value = value.trim().trim_matches('"');
            let name = name.trim();
            match name.strip_prefix("aws_").unwrap_or(name) {
                "access_key_id" => id = Some(value.to_owned()),
                "secret_access_key" => secret = Some(Zeroizing::new(value.to_owned())),
                "session_token" => token = Some(Zeroizing::new(value.to_owned())),
                // Regions and the like, which the address says.
                _ => {}
            }
        }
        let is_there = |text: &String| !text.is_empty();
        Ok(Self {
            access_key_id: id
                .filter(is_there)
                .ok_or(BadCredentials::Missing("aws_access_key_id"))?,
            secret_access_key: secret
                .filter(|text| !text.is_empty())
                .ok_or(BadCredentials::Missing("aws_secret_access_key"))?,
            session_token: token.filter(|text| !text.is_empty()),
        })
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn files_of_the_aws_tools_are_read() {
        let text = "# mine\n[default]\naws_access_key_id = AK\naws_secret_access_key=\"S=K\"\nregion = x\n[other]\naws_access_key_id = NO\n";
        let read = Credentials::parse(text).unwrap();
        assert_eq!(
            (read.access_key_id.as_str(), read.secret_access_key.as_str()),
            ("AK", "S=K")
        );
        assert!(read.session_token.is_none());
        assert_eq!(format!("{read:?}"), "***");
        let bare =
            Credentials::parse("access_key_id = A\nsecret_access_key = B\nsession_token = T")
                .unwrap();
        assert!(bare.session_token.is_some());
        assert!(matches!(
            Credentials::parse("A B"),
            Err(BadCredentials::Line(1))
        ));
        let half = Credentials::parse("access_key_id = A\nsecret_access_key =");
        assert!(matches!(half, Err(BadCredentials::Missing(_))));
    }

    #[test]
    fn a_file_that_others_may_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        std::fs::write(&path, "access_key_id = A\nsecret_access_key = B").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(
            Credentials::read(&path),
            Err(BadCredentials::Open { .. })
        ));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        Credentials::read(&path).unwrap();
    }
}
