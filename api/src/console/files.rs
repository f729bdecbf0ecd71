//! The page's files, as they were built into this program.

use axum::{
    extract::Path,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

/// One file of `api/console/dist`.
struct File {
    /// Relative, with `/`; without the `.gz` of those that are packed.
    path: &'static str,
    bytes: &'static [u8],
    packed: bool,
}

// Written by `build.rs`: `const FILES: &[File]`, by path.
include!(concat!(env!("OUT_DIR"), "/console.rs"));

/// Nothing but our own files, no frame around us, no form elsewhere. Styles may be inline: the terminal writes its
/// own, and a style runs no script.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
     img-src 'self' blob: data:; font-src 'self'; connect-src 'self'; manifest-src 'self'; \
     frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
const MISSING: &str =
    "This program was built without the console: build it by `make`, which needs npm.\n";

pub(super) async fn page() -> Response {
    serve("index.html", false)
}

pub(super) async fn manifest() -> Response {
    serve("manifest.webmanifest", false)
}

pub(super) async fn icon() -> Response {
    serve("icon.svg", false)
}

/// Files whose name holds a hash of their content.
pub(super) async fn asset(Path(path): Path<String>) -> Response {
    serve(&format!("assets/{path}"), true)
}

fn serve(path: &str, is_hashed: bool) -> Response {
    let Ok(at) = FILES.binary_search_by(|file| file.path.cmp(path)) else {
        let why = if FILES.is_empty() {
            MISSING
        } else {
            "There is no such file.\n"
        };
        return (StatusCode::NOT_FOUND, why).into_response();
    };
    let file = &FILES[at];
    let mut headers = HeaderMap::new();
    let cache = if is_hashed {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    let mut set = |name: HeaderName, value| headers.insert(name, HeaderValue::from_static(value));
    set(header::CONTENT_TYPE, media_type(path));
    set(header::CACHE_CONTROL, cache);
    set(header::CONTENT_SECURITY_POLICY, POLICY);
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(header::REFERRER_POLICY, "no-referrer");
    set(
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    );
    if file.packed {
        // Every browser that can run the page unpacks it.
        set(header::CONTENT_ENCODING, "gzip");
    }
    (headers, file.bytes).into_response()
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("webmanifest") => "application/manifest+json",
        Some("woff2") => "font/woff2",
        _ => "application/octet-stream",
    }
}
