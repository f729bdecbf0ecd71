//! Where a store is, written as one line.

use url::Url;

/// Where the objects are: `s3://BUCKET/PREFIX?endpoint=…&region=…&path_style=…&sse=…&sse_key=…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub bucket: String,
    /// Before every name, without slashes at its ends; may be empty.
    pub prefix: String,
    /// Another server than Amazon's: `http://` or `https://`, a host and perhaps a port.
    pub endpoint: Option<String>,
    pub region: String,
    /// The bucket is in the path and not in the host's name; by itself with an endpoint.
    pub is_path_style: bool,
    /// How the server is asked to encrypt, besides what is sealed anyway.
    pub encryption: Option<Encryption>,
}

/// Encryption by the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// With the server's own keys.
    Server,
    /// With a key of the key service; its id, or the bucket's default.
    Key(Option<String>),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAddress {
    #[error("a store in S3 is written s3://BUCKET/PREFIX?endpoint=https://HOST&region=REGION")]
    Form,
    #[error("`{0}` is no name of a bucket")]
    Bucket(String),
    #[error(
        "a prefix has a-z, 0-9, `-`, `_`, `.` and single slashes between them, at most 200 in all"
    )]
    Prefix,
    #[error("`{0}` is no part of the address of a store in S3")]
    Unknown(String),
    #[error("`{name}={value}` means nothing")]
    Value { name: &'static str, value: String },
    /// Addresses are shown and logged.
    #[error("a store's address has no user or password in it; they are read from a file")]
    Secret,
}

const PREFIX_MAX: usize = 200;
const REGION: &str = "us-east-1";

impl Address {
    /// Whether a text is meant as one.
    pub fn is_one(text: &str) -> bool {
        text.starts_with("s3://")
    }

    pub fn parse(text: &str) -> Result<Self, BadAddress> {
        let url = Url::parse(text).map_err(|_| BadAddress::Form)?;
        if url.scheme() != "s3" || url.fragment().is_some() || url.port().is_some() {
            return Err(BadAddress::Form);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(BadAddress::Secret);
        }
        let bucket = url.host_str().ok_or(BadAddress::Form)?.to_owned();
        if !is_bucket(&bucket) {
            return Err(BadAddress::Bucket(bucket));
        }
        let prefix = url.path().trim_matches('/').to_owned();
        if !is_prefix(&prefix) {
            return Err(BadAddress::Prefix);
        }
        let mut address = Self {
            bucket,
            prefix,
            endpoint: None,
            region: REGION.to_owned(),
            is_path_style: false,
            encryption: None,
        };
        let (mut path_style, mut key) = (None, None);
        for (name, value) in url.query_pairs() {
            match &*name {
                "endpoint" => address.endpoint = Some(endpoint(&value)?),
                "region" if is_word(&value) => address.region = value.into_owned(),
                "region" => return Err(bad("region", &value)),
                "path_style" => path_style = Some(truth("path_style", &value)?),
                "sse" => {
                    address.encryption = Some(match &*value {
                        "AES256" => Encryption::Server,
                        "aws:kms" => Encryption::Key(None),
                        _ => return Err(bad("sse", &value)),
                    });
                }
                "sse_key" => key = Some(value.into_owned()),
                _ => return Err(BadAddress::Unknown(name.into_owned())),
            }
        }
        match (&mut address.encryption, key) {
            (_, None) => {}
            (Some(Encryption::Key(of)), Some(key)) => *of = Some(key),
            (_, Some(key)) => return Err(bad("sse_key", &key)),
        }
        address.is_path_style = path_style.unwrap_or(address.endpoint.is_some());
        Ok(address)
    }

    /// The same store, below a further part of the prefix.
    #[must_use]
    pub fn below(&self, part: &str) -> Self {
        let prefix = match self.prefix.as_str() {
            "" => part.to_owned(),
            prefix => format!("{prefix}/{part}"),
        };
        Self {
            prefix,
            ..self.clone()
        }
    }
}

fn is_bucket(name: &str) -> bool {
    let is_plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte);
    (3..=63).contains(&name.len()) && name.bytes().all(is_plain)
}

fn is_prefix(prefix: &str) -> bool {
    let is_part = |part: &str| {
        !matches!(part, "" | "." | "..")
            && part
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b))
    };
    prefix.is_empty() || prefix.len() <= PREFIX_MAX && prefix.split('/').all(is_part)
}

fn is_word(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !text.is_empty() && text.len() <= 64 && text.bytes().all(is_plain)
}

fn endpoint(text: &str) -> Result<String, BadAddress> {
    let refused = || bad("endpoint", text);
    let url = Url::parse(text).map_err(|_| refused())?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(BadAddress::Secret);
    }
    let is_plain = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.path() == "/"
        && url.query().is_none()
        && url.fragment().is_none();
    if is_plain {
        Ok(url.as_str().trim_end_matches('/').to_owned())
    } else {
        Err(refused())
    }
}

fn truth(name: &'static str, value: &str) -> Result<bool, BadAddress> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(bad(name, value)),
    }
}

fn bad(name: &'static str, value: &str) -> BadAddress {
    BadAddress::Value {
        name,
        value: value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_where_and_how() {
        let plain = Address::parse("s3://bucket").unwrap();
        assert_eq!(
            (plain.bucket.as_str(), plain.prefix.as_str()),
            ("bucket", "")
        );
        assert!(!plain.is_path_style && plain.endpoint.is_none());
        let full = "s3://my.bucket/a/b/?endpoint=http://127.0.0.1:9000/&region=eu-1&sse=aws:kms&sse_key=k1";
        let full = Address::parse(full).unwrap();
        assert_eq!(full.prefix, "a/b");
        assert_eq!(full.endpoint.as_deref(), Some("http://127.0.0.1:9000"));
        assert_eq!(full.region, "eu-1");
        assert!(full.is_path_style);
        assert_eq!(full.encryption, Some(Encryption::Key(Some("k1".into()))));
        assert_eq!(full.below("ann").prefix, "a/b/ann");
        assert_eq!(plain.below("ann").prefix, "ann");
        let virtual_host = "s3://bucket?endpoint=https://host&path_style=false&sse=AES256";
        let virtual_host = Address::parse(virtual_host).unwrap();
        assert!(!virtual_host.is_path_style);
        assert_eq!(virtual_host.encryption, Some(Encryption::Server));
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "bucket",
            "s3://",
            "s3://B!",
            "s3://ab",
            "s3://bucket/a//b",
            "s3://bucket/A",
            "s3://bucket?endpoint=ftp://x",
            "s3://bucket?endpoint=http://x/path",
            "s3://bucket?endpoint=http://user:pass@x",
            "s3://key:secret@bucket/x",
            "s3://bucket?secret_access_key=x",
            "s3://bucket?sse=rot13",
            "s3://bucket?sse=AES256&sse_key=k",
            "s3://bucket?sse_key=k",
            "s3://bucket?path_style=yes",
            "s3://bucket?region=",
            "http://bucket/x",
            "s3://bucket#x",
        ] {
            assert!(Address::parse(text).is_err(), "{text}");
        }
    }
}
