//! Which headers cross the door.

use http::header::{self, HeaderMap, HeaderName};

/// Headers about one connection, not about the message (RFC 9110, 7.6.1), and the framing, which is
/// made anew on each side.
const HOP_BY_HOP: [HeaderName; 6] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// The door's own words. A web site must not speak in its name, nor a box to a web site.
const OWN_PREFIX: &str = "x-cocoonbox-";

const PROXY_PREFIX: &str = "proxy-";

/// Removes what must not be passed on, in either direction.
pub(crate) fn strip(headers: &mut HeaderMap) {
    // A length beside another framing is how a request is smuggled.
    if headers.contains_key(header::TRANSFER_ENCODING) {
        headers.remove(header::CONTENT_LENGTH);
    }
    let listed: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    let gone: Vec<HeaderName> = headers
        .keys()
        .filter(|name| {
            let text = name.as_str();
            HOP_BY_HOP.contains(name)
                || listed.contains(name)
                || text.starts_with(PROXY_PREFIX)
                || text.starts_with(OWN_PREFIX)
        })
        .cloned()
        .collect();
    for name in gone {
        headers.remove(name);
    }
}

/// Returns the length that a message declares, if it declares one.
pub(crate) fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers
        .get(header::CONTENT_LENGTH)?
        .to_str()
        .ok()?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_message_passes() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Secret"),
            ("connection", "x-other"),
            ("proxy-authorization", "Basic x"),
            ("proxy-connection", "keep-alive"),
            ("keep-alive", "1"),
            ("te", "trailers"),
            ("trailer", "x"),
            ("transfer-encoding", "chunked"),
            ("content-length", "5"),
            ("upgrade", "h2c"),
            ("x-secret", "1"),
            ("x-other", "1"),
            ("x-cocoonbox-reason", "LIE"),
            ("cookie", "a=b"),
            ("authorization", "Bearer own"),
        ] {
            headers.append(name, value.parse().unwrap());
        }
        strip(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["authorization", "cookie"]);
    }
}
