//! What clients asked, kept for assertions. Keys are kept as hashes only.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use axum::http::{HeaderMap, Method};
use serde_json::Value;

use crate::conversation::Position;

/// Requests kept; beyond it the oldest go.
const REQUESTS_MAX: usize = 1024;

/// Body bytes kept: long conversations are sent again in full with every turn.
const BODY_BYTES_MAX: usize = 64 << 20;

/// Headers that hold a secret.
const SECRET_HEADERS: [&str; 4] = [
    "authorization",
    "x-api-key",
    "proxy-authorization",
    "cookie",
];

/// A request that the server answered.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub method: String,
    pub path: String,
    /// The `authorization` header, with its scheme.
    pub authorization: Option<Secret>,
    /// The `x-api-key` header.
    pub api_key: Option<Secret>,
    /// Every header that holds no secret, with its name in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, or null when there was none or it was not JSON.
    pub body: Value,
    /// The step that was played, unless the request was refused or the script had none for it.
    pub position: Option<Position>,
    /// How often the same body came before.
    pub attempt: u32,
    /// The status that the request was answered with.
    pub status: u16,
    body_bytes: usize,
}

/// A secret that can be compared but not read.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(blake3::Hash);

/// The latest requests, oldest first.
#[derive(Debug, Default)]
pub(crate) struct RequestLog(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    requests: VecDeque<Recorded>,
    body_bytes: usize,
}

impl Recorded {
    pub(crate) fn new(method: &Method, path: &str, headers: &HeaderMap) -> Self {
        let secret = |name: &str| headers.get(name).map(|value| Secret::new(value.as_bytes()));
        let open = headers
            .iter()
            .filter(|(name, _)| !SECRET_HEADERS.contains(&name.as_str()))
            .map(|(name, value)| {
                (
                    name.as_str().to_owned(),
                    String::from_utf8_lossy(value.as_bytes()).into_owned(),
                )
            });
        Self {
            method: method.as_str().to_owned(),
            path: path.to_owned(),
            authorization: secret("authorization"),
            api_key: secret("x-api-key"),
            headers: open.collect(),
            body: Value::Null,
            position: None,
            attempt: 0,
            status: 200,
            body_bytes: 0,
        }
    }

    pub(crate) fn set_body(&mut self, body: Value, body_bytes: usize) {
        self.body = body;
        self.body_bytes = body_bytes;
    }

    /// Returns the first value of a header that holds no secret.
    pub fn header(&self, name: &str) -> Option<&str> {
        let same = |(key, _): &&(String, String)| key.eq_ignore_ascii_case(name);
        self.headers
            .iter()
            .find(same)
            .map(|(_, value)| value.as_str())
    }
}

impl Secret {
    fn new(value: &[u8]) -> Self {
        Self(blake3::hash(value))
    }

    /// Returns whether the secret is this value.
    pub fn is(&self, value: &str) -> bool {
        // Comparing hashes takes the same time wherever they differ.
        self.0 == blake3::hash(value.as_bytes())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl RequestLog {
    pub(crate) fn push(&self, request: Recorded) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.body_bytes += request.body_bytes;
        kept.requests.push_back(request);
        while kept.requests.len() > REQUESTS_MAX || kept.body_bytes > BODY_BYTES_MAX {
            let Some(oldest) = kept.requests.pop_front() else {
                break;
            };
            kept.body_bytes -= oldest.body_bytes;
        }
    }

    pub(crate) fn all(&self) -> Vec<Recorded> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.requests.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(headers: &HeaderMap) -> Recorded {
        Recorded::new(&Method::POST, "/v1/messages", headers)
    }

    #[test]
    fn secrets_are_compared_but_never_shown() {
        let mut headers = HeaderMap::new();
        headers.insert("x-api-key", "sk-1".parse().unwrap());
        headers.insert("cookie", "sk-2".parse().unwrap());
        headers.insert("user-agent", "test".parse().unwrap());
        let request = request(&headers);
        let key = request.api_key.as_ref().unwrap();
        assert!(key.is("sk-1") && !key.is("sk-2"));
        assert!(!format!("{request:?}").contains("sk-"), "{request:?}");
        assert_eq!(request.header("User-Agent"), Some("test"));
    }

    #[test]
    fn the_oldest_go_first() {
        let log = RequestLog::default();
        for body_bytes in [1, BODY_BYTES_MAX - 1, 2] {
            let mut request = request(&HeaderMap::new());
            request.set_body(Value::Null, body_bytes);
            log.push(request);
        }
        assert_eq!(log.all().len(), 1);
        for _ in 0..REQUESTS_MAX + 5 {
            log.push(request(&HeaderMap::new()));
        }
        assert_eq!(log.all().len(), REQUESTS_MAX);
    }
}
