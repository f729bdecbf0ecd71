//! What a tool of a server answered, as a model is told.

use base64::{Engine, prelude::BASE64_STANDARD};
use cocoonbox_proto::log::v1::agent_tool_finished::Outcome;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

use crate::tool::{Finished, Picture};

/// Pictures of one result.
const PICTURES_MAX: usize = 8;

pub(super) fn finished(result: CallToolResult) -> Finished {
    let mut told = Told::default();
    for block in result.content {
        told.block(block);
    }
    if let Some(structured) = result.structured_content
        && told.parts.is_empty()
    {
        // Servers that send both say the same in both.
        told.parts.push(structured.to_string());
    }
    let outcome = match result.is_error {
        Some(true) => Outcome::Error,
        _ => Outcome::Ok,
    };
    if told.parts.is_empty() && told.pictures.is_empty() {
        told.parts.push("the tool answered nothing".to_owned());
    }
    let mut finished = Finished::new(outcome, told.parts.join("\n\n"));
    finished.images = told.pictures;
    finished
}

#[derive(Default)]
struct Told {
    parts: Vec<String>,
    pictures: Vec<Picture>,
}

impl Told {
    fn block(&mut self, block: ContentBlock) {
        match block {
            ContentBlock::Text(text) => self.parts.push(text.text),
            ContentBlock::Image(image) => self.picture(&image.mime_type, &image.data),
            ContentBlock::Audio(audio) => {
                let (kind, bytes) = (audio.mime_type, audio.data.len() / 4 * 3);
                self.parts
                    .push(format!("[{kind}, {bytes} bytes: sound is not passed on]"));
            }
            ContentBlock::Resource(embedded) => self.resource(embedded.resource),
            ContentBlock::ResourceLink(link) => {
                let about = link.description.unwrap_or_default();
                self.parts
                    .push(format!("[resource {} ({}) {about}]", link.uri, link.name));
            }
            _ => self
                .parts
                .push("[content of a kind that is not known here]".to_owned()),
        }
    }

    fn resource(&mut self, resource: ResourceContents) {
        match resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                self.parts.push(format!("[resource {uri}]\n{text}"));
            }
            ResourceContents::BlobResourceContents {
                mime_type: Some(kind),
                blob,
                ..
            } if kind.starts_with("image/") => {
                self.picture(&kind, &blob);
            }
            ResourceContents::BlobResourceContents {
                uri,
                mime_type,
                blob,
                ..
            } => {
                let kind = mime_type.unwrap_or_else(|| "no type".to_owned());
                let bytes = blob.len() / 4 * 3;
                self.parts
                    .push(format!("[resource {uri}: {kind}, {bytes} bytes, not text]"));
            }
            _ => self
                .parts
                .push("[a resource of a kind that is not known here]".to_owned()),
        }
    }

    fn picture(&mut self, kind: &str, data: &str) {
        if self.pictures.len() == PICTURES_MAX {
            self.parts.push(format!(
                "[{kind}: more than {PICTURES_MAX} pictures, left out]"
            ));
            return;
        }
        match BASE64_STANDARD.decode(data.trim()) {
            Ok(data) => self.pictures.push(Picture { data }),
            Err(_) => self.parts.push(format!("[{kind}: not valid base64]")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(result: serde_json::Value) -> Finished {
        finished(serde_json::from_value(result).expect("a result"))
    }

    #[test]
    fn every_kind_of_content_reaches_the_model() {
        let found = told(json!({ "content": [
            { "type": "text", "text": "one" },
            { "type": "image", "mimeType": "image/png", "data": "aGk=" },
            { "type": "audio", "mimeType": "audio/wav", "data": "aGk=" },
            { "type": "resource", "resource": { "uri": "file:///a", "text": "two" } },
            { "type": "resource", "resource": { "uri": "file:///b", "mimeType": "image/gif", "blob": "aG8=" } },
            { "type": "resource", "resource": { "uri": "file:///c", "blob": "aG8=" } },
            { "type": "resource_link", "uri": "file:///d", "name": "d" },
            { "type": "image", "mimeType": "image/png", "data": "?" },
        ], "structuredContent": { "n": 1 } }));
        assert_eq!(found.outcome, Outcome::Ok);
        let pictures: Vec<_> = found.images.iter().map(|p| p.data.as_slice()).collect();
        assert_eq!(pictures, [b"hi", b"ho"]);
        assert_eq!(
            found.content.split("\n\n").collect::<Vec<_>>(),
            [
                "one",
                "[audio/wav, 3 bytes: sound is not passed on]",
                "[resource file:///a]\ntwo",
                "[resource file:///c: no type, 3 bytes, not text]",
                "[resource file:///d (d) ]",
                "[image/png: not valid base64]",
            ]
        );
    }

    #[test]
    fn structure_alone_and_errors_and_nothing() {
        let found =
            told(json!({ "content": [], "structuredContent": { "n": 1 }, "isError": true }));
        assert_eq!(
            (found.outcome, found.content.as_str()),
            (Outcome::Error, "{\"n\":1}")
        );
        assert_eq!(
            told(json!({ "content": [] })).content,
            "the tool answered nothing"
        );
        let many: Vec<_> = (0..9)
            .map(|_| json!({ "type": "image", "mimeType": "image/png", "data": "aGk=" }))
            .collect();
        let found = told(json!({ "content": many }));
        assert_eq!(found.images.len(), 8);
        assert!(found.content.contains("left out"));
    }
}
