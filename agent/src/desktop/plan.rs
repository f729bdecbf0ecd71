//! What the image says its desktop is made of, and a display that an agent has for itself.

use std::{
    collections::{BTreeMap, HashSet},
    io,
    path::{Path, PathBuf},
};

use cocoonbox_commands::desktop::DISPLAY_MAX;
use serde::Deserialize;

/// Where an image with a desktop has its plan.
pub const PATH: &str = "/usr/share/cocoonbox/desktop.toml";

/// The part that looks at a display and acts on it.
pub(super) const COMPUTER: &str = "computer";

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
    #[serde(default)]
    pub private: Private,
}

/// What a display is made of that an agent has for itself. In all words of it `{n}` stands for its number.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Private {
    /// Of such displays; they are numbered from 1 on.
    pub count: u32,
    /// In the place of what the plan says.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    #[serde(rename = "part", default)]
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
    #[error("there can be {DISPLAY_MAX} displays for agents alone, and {0} are asked for")]
    TooManyDisplays(u32),
    #[error("a display for an agent alone has no part `{COMPUTER}` that is on demand")]
    NoComputer,
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
        Self::parse(&text, path).map(Some)
    }

    /// What a display is made of that an agent has for itself.
    pub fn private(&self, number: u32) -> Option<Self> {
        if !(1..=self.private.count).contains(&number) {
            return None;
        }
        let here = |text: &String| text.replace("{n}", &number.to_string());
        let all = |texts: &[String]| texts.iter().map(here).collect();
        let part = |part: &Part| Part {
            command: all(&part.command),
            ready: Ready {
                socket: part.ready.socket.as_ref().map(|path| {
                    let path = path.to_string_lossy().into_owned();
                    here(&path).into()
                }),
                command: part.ready.command.as_deref().map(all),
                ..part.ready
            },
            after: all(&part.after),
            ..part.clone()
        };
        let mut environment = self.environment.clone();
        let own = self.private.environment.iter();
        environment.extend(own.map(|(name, value)| (name.clone(), here(value))));
        Some(Self {
            environment,
            leave: Vec::new(),
            parts: self.private.parts.iter().map(part).collect(),
            private: Private::default(),
        })
    }

    fn parse(text: &str, path: &Path) -> Result<Self, Error> {
        let mut plan: Self =
            toml::from_str(text).map_err(|source| Error::Form(Box::new(source)))?;
        let private = &plan.private;
        followable(&private.parts)?;
        if private.count > DISPLAY_MAX {
            return Err(Error::TooManyDisplays(private.count));
        }
        let is_computer = |part: &Part| part.name == COMPUTER && part.on_demand;
        if private.count > 0 && !private.parts.iter().any(is_computer) {
            return Err(Error::NoComputer);
        }
        let numbers = 1..=private.count;
        plan.parts
            .extend(numbers.map(|number| Part::private(number, path)));
        followable(&plan.parts)?;
        Ok(plan)
    }
}

impl Part {
    /// What keeps the parts of a display that an agent has for itself.
    fn private(number: u32, plan: &Path) -> Self {
        let plan = plan.to_string_lossy();
        let number_word = number.to_string();
        let command = [
            "/proc/self/exe",
            "desktop",
            "--plan",
            &*plan,
            "--private",
            &number_word,
        ];
        Self {
            name: private_name(number),
            command: command.map(str::to_owned).into(),
            needs: Vec::new(),
            ready: Ready::default(),
            on_demand: true,
            after: Vec::new(),
        }
    }
}

/// Of the part that keeps such a display, and of the socket where it is asked for.
pub(crate) fn private_name(number: u32) -> String {
    format!("display-{number}")
}

fn followable(parts: &[Part]) -> Result<(), Error> {
    if parts.len() > PARTS_MAX {
        return Err(Error::TooMany(parts.len()));
    }
    let mut above = HashSet::new();
    for part in parts {
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
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        Plan::parse(text, Path::new("plan"))
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn the_plans_of_the_images_are_read() {
        let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("../image");
        for flavour in ["light", "desktop"] {
            let path = image.join(flavour).join("files").join(&PATH[1..]);
            let plan = Plan::read(&path).unwrap().unwrap();
            assert_eq!(plan.environment["DISPLAY"], ":1");
            assert!(plan.parts.iter().any(|part| part.ready.port == Some(5900)));
            assert!(plan.parts.iter().any(|part| part.name == "display-3"));
            let second = plan.private(2).unwrap();
            assert_eq!(second.environment["DISPLAY"], ":12");
            assert_eq!(second.environment["XDG_SESSION_TYPE"], "x11");
            let words = format!("{second:?}");
            assert!(!words.contains("{n}"), "{words}");
            assert!(words.contains("\"5902\""), "{words}");
            assert!(plan.private(4).is_none());
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
        let private = |more: &str| part("") + "[private]\n" + more;
        assert_eq!(
            refused(&private("count = 8")),
            "there can be 7 displays for agents alone, and 8 are asked for"
        );
        assert_eq!(
            refused(&private("count = 1")),
            "a display for an agent alone has no part `computer` that is on demand"
        );
        assert_eq!(
            refused(&private(
                "count = 1\n[[private.part]]\nname = 'b'\ncommand = ['true']\nneeds = ['a']"
            )),
            "part `b` needs `a`, which does not stand above it"
        );
        let computer = "[[private.part]]\nname = 'computer'\ncommand = ['true']\non_demand = true";
        let twice = private(&format!("count = 1\n{computer}")).replacen("'a'", "'display-1'", 1);
        assert_eq!(refused(&twice), "two parts are called `display-1`");
        let mut many = part("");
        for number in 0..PARTS_MAX {
            many += &part("").replace("'a'", &format!("'{number}'"));
        }
        assert_eq!(refused(&many), "the plan has 33 parts, the limit is 32");
    }
}
