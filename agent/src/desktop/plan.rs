//! What the image says its desktop is made of.

use std::{
    collections::{BTreeMap, HashSet},
    io,
    path::{Path, PathBuf},
};

use serde::Deserialize;

/// Where an image with a desktop has its plan.
pub const PATH: &str = "/usr/share/cocoonbox/desktop.toml";

/// More parts, or a longer file, are a mistake in the image.
const PARTS_MAX: usize = 32;
const BYTES_MAX: u64 = 64 * 1024;

/// The parts of a desktop, in the order in which they are started.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Set for every part, and for every command of the box.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Run before the parts are ended.
    #[serde(default)]
    pub leave: Vec<String>,
    #[serde(rename = "part")]
    pub parts: Vec<Part>,
}

/// A program that runs as long as the box does.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    pub name: String,
    pub command: Vec<String>,
    /// Parts above it that have to be ready.
    #[serde(default)]
    pub needs: Vec<String>,
    #[serde(default)]
    pub ready: Ready,
    /// Started when somebody connects to the socket that it gets as its standard input, and not again when it
    /// has ended well until somebody else does. The socket has the part's name.
    #[serde(default)]
    pub on_demand: bool,
    /// Run when it has ended while the rest goes on, however it did: puts away what it may have left.
    #[serde(default)]
    pub after: Vec<String>,
}

/// What has to hold for a part to count as ready: all of it, or that it runs if there is nothing.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ready {
    /// A TCP port of 127.0.0.1 that is listened on.
    pub port: Option<u16>,
    /// A UNIX socket that is listened on.
    pub socket: Option<PathBuf>,
    /// A command that succeeds.
    pub command: Option<Vec<String>>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("reading `{path}`")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the plan is longer than {BYTES_MAX} bytes")]
    TooLong,
    #[error("the plan is no TOML of this form")]
    Form(#[source] Box<toml::de::Error>),
    #[error("the plan has {0} parts, the limit is {PARTS_MAX}")]
    TooMany(usize),
    #[error("two parts are called `{0}`")]
    Twice(String),
    #[error("part `{0}` has no command")]
    NoCommand(String),
    #[error("part `{part}` needs `{needs}`, which does not stand above it")]
    NotAbove { part: String, needs: String },
}

impl Plan {
    /// Reads the plan, or `None` where there is none.
    pub fn read(path: &Path) -> Result<Option<Self>, Error> {
        let reading = |source| Error::Read {
            path: path.to_owned(),
            source,
        };
        match path.metadata() {
            Ok(facts) if facts.len() > BYTES_MAX => return Err(Error::TooLong),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(reading(error)),
        }
        let text = std::fs::read_to_string(path).map_err(reading)?;
        Self::parse(&text).map(Some)
    }

    fn parse(text: &str) -> Result<Self, Error> {
        let plan: Self = toml::from_str(text).map_err(|source| Error::Form(Box::new(source)))?;
        if plan.parts.len() > PARTS_MAX {
            return Err(Error::TooMany(plan.parts.len()));
        }
        let mut above = HashSet::new();
        for part in &plan.parts {
            if part.command.first().is_none_or(String::is_empty) {
                return Err(Error::NoCommand(part.name.clone()));
            }
            if part.ready.command.as_ref().is_some_and(Vec::is_empty) {
                return Err(Error::NoCommand(part.name.clone()));
            }
            if let Some(missing) = part.needs.iter().find(|name| !above.contains(*name)) {
                return Err(Error::NotAbove {
                    part: part.name.clone(),
                    needs: missing.clone(),
                });
            }
            if !above.insert(&part.name) {
                return Err(Error::Twice(part.name.clone()));
            }
        }
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        Plan::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn the_plans_of_the_images_are_read() {
        let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("../image");
        for flavour in ["light", "desktop"] {
            let path = image.join(flavour).join("files").join(&PATH[1..]);
            let plan = Plan::read(&path).unwrap().unwrap();
            assert_eq!(plan.environment["DISPLAY"], ":1");
            assert!(plan.parts.iter().any(|part| part.ready.port == Some(5900)));
        }
        assert!(Plan::read(&image.join("nothing")).unwrap().is_none());
    }

    #[test]
    fn a_plan_that_cannot_be_followed_is_refused() {
        let part = |more: &str| format!("[[part]]\nname = 'a'\ncommand = ['true']\n{more}");
        assert_eq!(
            refused(&part("needs = ['b']")),
            "part `a` needs `b`, which does not stand above it"
        );
        assert_eq!(
            refused(&part("needs = ['a']")),
            "part `a` needs `a`, which does not stand above it"
        );
        assert_eq!(refused(&(part("") + &part(""))), "two parts are called `a`");
        assert_eq!(
            refused("[[part]]\nname = 'a'\ncommand = []"),
            "part `a` has no command"
        );
        assert_eq!(
            refused(&part("ready = { command = [] }")),
            "part `a` has no command"
        );
        assert_eq!(
            refused(&part("restart = true")),
            "the plan is no TOML of this form"
        );
        let mut many = part("");
        for number in 0..PARTS_MAX {
            many += &part("").replace("'a'", &format!("'{number}'"));
        }
        assert_eq!(refused(&many), "the plan has 33 parts, the limit is 32");
    }
}
