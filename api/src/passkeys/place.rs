//! Where the console is opened: passkeys are for a name, and a browser says which page it signed for.

use reqwest::Url;

/// A page's origin, and the host name that passkeys made there are for ("RP ID").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub origin: String,
    pub host: String,
}

/// All origins at which passkeys are good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places(Vec<Place>);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadOrigin {
    #[error("`{0}` is not of the form https://HOST or https://HOST:PORT")]
    Form(String),
    #[error("`{0}` has an address where passkeys need a host name")]
    Address(String),
    #[error(
        "`{0}` is without TLS; browsers have passkeys at https:// and at http://localhost only"
    )]
    Plain(String),
}

impl Places {
    /// Those of the configuration, and `http://localhost` at the port that is listened on: what else listens on a
    /// user's host is another origin, and gets nothing signed for this one.
    pub fn new(origins: &[String], port: u16) -> Result<Self, BadOrigin> {
        let local = format!("http://localhost:{port}");
        let all = [&local].into_iter().chain(origins);
        Ok(Self(
            all.map(|origin| Place::parse(origin))
                .collect::<Result<_, _>>()?,
        ))
    }

    /// Finds an origin as a browser says it.
    pub fn at(&self, origin: &str) -> Option<&Place> {
        self.0.iter().find(|place| place.origin == origin)
    }

    pub fn origins(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|place| place.origin.as_str())
    }
}

impl Place {
    fn parse(text: &str) -> Result<Self, BadOrigin> {
        let form = || BadOrigin::Form(text.to_owned());
        let url = Url::parse(text).map_err(|_| form())?;
        let is_bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        let is_anonymous = url.username().is_empty() && url.password().is_none();
        if !is_bare || !is_anonymous || !matches!(url.scheme(), "http" | "https") {
            return Err(form());
        }
        let host = url
            .domain()
            .ok_or_else(|| BadOrigin::Address(text.to_owned()))?;
        if url.scheme() == "http" && host != "localhost" {
            return Err(BadOrigin::Plain(text.to_owned()));
        }
        Ok(Self {
            host: host.to_owned(),
            // As browsers write it: lower case, no default port.
            origin: url.origin().ascii_serialization(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_tls_or_localhost() {
        let origins = [
            "https://Box.Example:443/".to_owned(),
            "https://b.example:8443".to_owned(),
        ];
        let places = Places::new(&origins, 8750).unwrap();
        let all: Vec<&str> = places.origins().collect();
        assert_eq!(
            all,
            [
                "http://localhost:8750",
                "https://box.example",
                "https://b.example:8443"
            ]
        );
        assert_eq!(
            places.at("https://b.example:8443").unwrap().host,
            "b.example"
        );
        for other in [
            "https://b.example",
            "http://localhost",
            "http://localhost:1",
            "null",
            "",
        ] {
            assert_eq!(places.at(other), None, "{other}");
        }
        let refused = |origin: &str| Places::new(&[origin.to_owned()], 1).unwrap_err();
        for form in [
            "",
            "box.example",
            "https://a@b.example",
            "https://b.example/x",
            "ftp://b.example",
        ] {
            assert_eq!(refused(form), BadOrigin::Form(form.to_owned()));
        }
        for address in [
            "https://10.0.0.5",
            "https://[::1]:8750",
            "http://127.0.0.1:8750",
        ] {
            assert_eq!(refused(address), BadOrigin::Address(address.to_owned()));
        }
        let plain = "http://box.example";
        assert_eq!(refused(plain), BadOrigin::Plain(plain.to_owned()));
    }
}
