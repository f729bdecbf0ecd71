//! Pictures in requests: what a vendor looks at before a model does.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Bytes of one picture; the smallest of the vendors' limits.
const BYTES_MAX: usize = 5 << 20;

/// Checks a picture that came in base64, and says what is wrong with it.
pub(crate) fn check(media_type: &str, base64: &str) -> Result<(), &'static str> {
    let bytes = STANDARD
        .decode(base64)
        .map_err(|_| "the image is not valid base64")?;
    if bytes.len() > BYTES_MAX {
        return Err("image exceeds 5 MB maximum");
    }
    let is_it = match media_type {
        "image/png" => bytes.starts_with(b"\x89PNG\r\n\x1a\n"),
        "image/jpeg" => bytes.starts_with(b"\xff\xd8\xff"),
        "image/gif" => bytes.starts_with(b"GIF8"),
        "image/webp" => bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP"),
        _ => return Err("only image/jpeg, image/png, image/gif and image/webp are supported"),
    };
    if is_it {
        Ok(())
    } else {
        Err("the image was specified as another type than it is")
    }
}

/// Checks a picture that came as a URL. One that would have to be fetched is taken on trust.
pub(crate) fn check_url(url: &str) -> Result<(), &'static str> {
    let Some(data) = url.strip_prefix("data:") else {
        return if url.starts_with("https://") {
            Ok(())
        } else {
            Err("expected a base64-encoded data URL or an https URL")
        };
    };
    let (media_type, base64) = data
        .split_once(";base64,")
        .ok_or("expected a base64-encoded data URL")?;
    check(media_type, base64)
}

/// Whether a name is one that the vendors let a tool have.
pub(crate) fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    (1..=64).contains(&text.len()) && text.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_looked_at() {
        let png = STANDARD.encode(b"\x89PNG\r\n\x1a\nrest");
        assert_eq!(check("image/png", &png), Ok(()));
        assert_eq!(check_url(&format!("data:image/png;base64,{png}")), Ok(()));
        assert_eq!(check_url("https://a.example/b.png"), Ok(()));
        for (media_type, base64) in [
            ("image/jpeg", png.as_str()),
            ("image/tiff", &png),
            ("image/png", "???"),
            ("image/png", ""),
        ] {
            assert!(check(media_type, base64).is_err(), "{media_type} {base64}");
        }
        for url in ["file:///etc/passwd", "data:image/png,x", "data:"] {
            assert!(check_url(url).is_err(), "{url}");
        }
    }
}
