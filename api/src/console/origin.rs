//! Whose request it is: the console's cookie counts in requests that the console's own page makes.
//!
//! Browsers send a cookie with whatever any page asks of us. Such a request is told by its `Origin`, which scripts
//! cannot set: it must be the host that the request is for. `SameSite=Strict` says the same to browsers that
//! know it.

use axum::{extract::Request, middleware::Next, response::Response};
use http::{HeaderMap, HeaderValue, header};
use tonic::Code;

use super::{passkeys, share};
use crate::{auth::BrowserSession, status};

/// Holds a device token.
pub(super) const COOKIE: &str = "cocoonbox_session";

/// What a browser was asked to sign: the text of a challenge, out of its cookie.
#[derive(Clone, Debug)]
pub(super) struct Asked(pub(super) String);

/// The secret of a share, out of its cookie.
#[derive(Clone)]
pub(super) struct Shared(pub(super) HeaderValue);

/// Turns the cookie of an own request into the bearer token that the rest of the api knows.
pub(super) async fn admit(mut request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let is_ours = ["/console/", share::PATH]
        .iter()
        .any(|of| path.starts_with(of));
    if is_foreign(&request) && is_ours {
        let what = "the console answers its own page only";
        let mut answer = status::status(Code::PermissionDenied, "OTHER_ORIGIN", what).into_http();
        *answer.status_mut() = http::StatusCode::FORBIDDEN;
        return answer;
    }
    let own = is_own(&request);
    let headers = request.headers_mut();
    let token = own.then(|| token(headers)).flatten();
    let asked = own.then(|| cookie(headers, passkeys::COOKIE).map(str::to_owned));
    let shared = own.then(|| share_secret(headers)).flatten();
    headers.remove(header::COOKIE);
    if let Some(token) = token
        && !headers.contains_key(header::AUTHORIZATION)
    {
        headers.insert(header::AUTHORIZATION, token);
        request.extensions_mut().insert(BrowserSession);
    }
    if let Some(shared) = shared {
        request.extensions_mut().insert(Shared(shared));
    }
    if let Some(asked) = asked.flatten() {
        request.extensions_mut().insert(Asked(asked));
    }
    next.run(request).await
}

/// The address bar and links have no origin; a page's own scripts name the host that they came from, always in
/// requests that are not GET, and for WebSockets.
fn is_own(request: &Request) -> bool {
    match request.headers().get(header::ORIGIN) {
        Some(origin) => host(origin).is_some_and(|from| Some(from) == authority(request)),
        // Of a GET without an origin a browser says itself where it is from.
        None => request
            .headers()
            .get("sec-fetch-site")
            .is_some_and(|site| site == "same-origin"),
    }
}

fn is_foreign(request: &Request) -> bool {
    request.headers().contains_key(header::ORIGIN) && !is_own(request)
}

fn host(origin: &HeaderValue) -> Option<&str> {
    let origin = origin.to_str().ok()?;
    origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"))
}

/// HTTP/2 has it in the URI, HTTP/1 in a header.
fn authority(request: &Request) -> Option<&str> {
    let in_header = || request.headers().get(header::HOST)?.to_str().ok();
    let authority = request.uri().authority().map(http::uri::Authority::as_str);
    authority.or_else(in_header)
}

fn token(headers: &HeaderMap) -> Option<HeaderValue> {
    let token = cookie(headers, COOKIE)?;
    let mut bearer = HeaderValue::try_from(format!("Bearer {token}")).ok()?;
    bearer.set_sensitive(true);
    Some(bearer)
}

fn share_secret(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut secret = HeaderValue::try_from(cookie(headers, share::COOKIE)?).ok()?;
    secret.set_sensitive(true);
    Some(secret)
}

fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let cookies = headers.get_all(header::COOKIE);
    cookies
        .iter()
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split("; "))
        .find_map(|cookie| cookie.strip_prefix(name)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(headers: &[(&str, &str)]) -> Request {
        let mut request = Request::new(axum::body::Body::empty());
        for (name, value) in headers {
            let name: http::HeaderName = name.parse().unwrap();
            request.headers_mut().append(name, value.parse().unwrap());
        }
        request
    }

    #[test]
    fn only_the_page_itself_is_own() {
        let own = [
            ("host", "box.example:8750"),
            ("origin", "https://box.example:8750"),
        ];
        assert!(is_own(&request(&own)) && !is_foreign(&request(&own)));
        for other in [
            "https://box.example",
            "https://evil.example:8750",
            "https://box.example:8750.evil.example",
            "null",
            "box.example:8750",
        ] {
            let other = request(&[("host", "box.example:8750"), ("origin", other)]);
            assert!(!is_own(&other) && is_foreign(&other));
        }
        assert!(!is_own(&request(&[("host", "box.example:8750")])));
        let typed = [
            ("host", "box.example:8750"),
            ("sec-fetch-site", "cross-site"),
        ];
        assert!(!is_own(&request(&typed)));
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        let found = token(request(&[("cookie", "a=b; cocoonbox_session=cbx_x; c=d")]).headers());
        assert_eq!(found.unwrap(), "Bearer cbx_x");
        for none in [
            "",
            "cocoonbox_session",
            "xcocoonbox_session=cbx_x",
            "a=cocoonbox_session=x",
        ] {
            assert_eq!(
                token(request(&[("cookie", none)]).headers()),
                None,
                "{none}"
            );
        }
    }
}
