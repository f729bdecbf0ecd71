//! `output`: pages through a result that was too long to be told at once.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    Context, Finished, Tool,
    args::typed,
    schema::{number, object, text},
};
use crate::{
    blobs::{self, Blobs},
    wire::ToolSpec,
};

/// Of one page where the model says nothing, and at most: what is told of any result.
const LIMIT_DEFAULT: u64 = 16 * 1024;
const LIMIT_MAX: u64 = 48 * 1024;
/// Longest character in UTF-8.
const CHARACTER_BYTES_MAX: usize = 4;

/// `output`.
pub(crate) struct OutputTool {
    blobs: Blobs,
    spec: ToolSpec,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    blob: String,
    #[serde(default)]
    offset: u64,
    limit: Option<u64>,
}

impl OutputTool {
    pub(crate) fn new(blobs: Blobs) -> Self {
        let spec = ToolSpec {
            name: "output".into(),
            description: "Reads a part of a tool result that was too long to be shown whole. The \
                result names its blob."
                .into(),
            parameters: object(
                json!({
                    "blob": text("The name, as the result says it."),
                    "offset": number("Bytes to skip. Default 0.", 0, u64::from(u32::MAX)),
                    "limit": number("Bytes to read. Default 16384.", 1, LIMIT_MAX),
                }),
                &["blob"],
            ),
        };
        Self { blobs, spec }
    }

    async fn page(&self, page: &Page) -> Finished {
        let limit = page.limit.unwrap_or(LIMIT_DEFAULT).clamp(1, LIMIT_MAX);
        // So that the last character is whole.
        let bytes = usize::try_from(limit).unwrap_or_default() + CHARACTER_BYTES_MAX;
        let piece = match self.blobs.read_up_to(&page.blob, page.offset, bytes).await {
            Ok(piece) => piece,
            Err(error @ (blobs::Error::Store(_) | blobs::Error::Read(_))) => {
                tracing::warn!(%error, "blob not read");
                return Finished::error("the output could not be read; it may work again later");
            }
            Err(error) => return Finished::error(error.to_string()),
        };
        if !piece.media_type.starts_with("text/") {
            return Finished::error(format!("this blob is no text but {}", piece.media_type));
        }
        let (skipped, shown) = characters(&piece.data, bytes - CHARACTER_BYTES_MAX);
        let from = page.offset + skipped as u64;
        let to = from + shown.len() as u64;
        let size = piece.size_bytes;
        let rest = if to < size {
            format!("go on at offset {to}")
        } else {
            "this is the end".to_owned()
        };
        Finished::ok(format!("{shown}\n[bytes {from} to {to} of {size}; {rest}]"))
    }
}

#[async_trait]
impl Tool for OutputTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, _: &Context<'_>, args: Value, _: &CancellationToken) -> Option<Finished> {
        Some(match typed(args) {
            Ok(page) => self.page(&page).await,
            Err(finished) => finished,
        })
    }
}

/// Returns the text in the first `limit` bytes, without the pieces of characters at its ends, and how
/// many bytes are before it. At least one character, where there is one.
fn characters(data: &[u8], limit: usize) -> (usize, String) {
    let is_inside = |byte: &u8| byte & 0b1100_0000 == 0b1000_0000;
    let skipped = data
        .iter()
        .take(CHARACTER_BYTES_MAX - 1)
        .take_while(|byte| is_inside(byte))
        .count();
    let mut end = data.len().min(limit.max(skipped + 1));
    while end < data.len() && is_inside(&data[end]) {
        end += 1;
    }
    let text = String::from_utf8_lossy(&data[skipped.min(end)..end]);
    (skipped, text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_the_text_again() {
        let text = "ab🦋c🦋🦋d é";
        for limit in 1..12 {
            let (mut at, mut found) = (0, String::new());
            while at < text.len() {
                let end = text.len().min(at + limit + CHARACTER_BYTES_MAX);
                let (skipped, shown) = characters(&text.as_bytes()[at..end], limit);
                assert_eq!(skipped, 0);
                assert!(!shown.is_empty());
                at += shown.len();
                found.push_str(&shown);
            }
            assert_eq!(found, text);
        }
    }

    #[test]
    fn a_page_that_begins_inside_a_character_begins_behind_it() {
        let text = "🦋b".as_bytes();
        assert_eq!(characters(&text[1..], 10), (3, "b".to_owned()));
        assert_eq!(characters(b"", 10), (0, String::new()));
    }
}
