//! Which pictures a model is shown, and what it is told of the others.

use std::{collections::HashMap, sync::Arc};

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use cocoonbox_commands::agent::Entry;
use cocoonbox_proto::log::v1::{Image, ModelChoice};

use super::request::Request;

/// Bytes of pictures, by the name of their blob. One that is not among them is told of in words.
pub(crate) type ImageBytes = HashMap<String, Bytes>;

/// Pictures in one call. Vendors take more, but hold each to a smaller size then.
const IMAGES_MAX: usize = 20;

/// Bytes of pictures in one call. Vendors refuse a body of 32 MiB, and base64 adds a third.
const BYTES_MAX: u64 = 16 << 20;

/// The oldest are left out by so many at a time, so that the conversation up to there stays the same,
/// and cached, for that many calls.
const HIDDEN_STEP: usize = 5;

/// Returns the pictures that a call shows: their bytes are what a [`Request`] needs.
pub(crate) fn images_shown<'a>(
    model: &ModelChoice,
    conversation: &'a [Arc<Entry>],
) -> Vec<&'a Image> {
    if !model.images {
        return Vec::new();
    }
    let images = all(conversation);
    let hidden = hidden(&images);
    images.into_iter().skip(hidden).collect()
}

/// What a vendor is given for a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// Its bytes in base64.
    Picture {
        media_type: String,
        base64: String,
    },
    Note(String),
}

/// Gives out the pictures of a conversation, in its order.
#[derive(Debug)]
pub(super) struct Gallery<'a> {
    reads_images: bool,
    /// Pictures, from the first, that are too old to be shown.
    hidden: usize,
    met: usize,
    bytes: &'a ImageBytes,
}

impl<'a> Gallery<'a> {
    pub(super) fn new(request: &Request<'a>) -> Self {
        Self {
            reads_images: request.model.images,
            hidden: hidden(&all(request.conversation)),
            met: 0,
            bytes: request.images,
        }
    }

    /// Takes the next picture of the conversation.
    pub(super) fn show(&mut self, image: &Image) -> Shown {
        let is_hidden = self.met < self.hidden;
        self.met += 1;
        if !self.reads_images {
            return note(image, "this model reads text only");
        }
        if is_hidden {
            return note(image, "there are many later ones");
        }
        match self.bytes.get(&image.blob) {
            Some(bytes) if !bytes.is_empty() => Shown::Picture {
                media_type: image.media_type.clone(),
                base64: BASE64_STANDARD.encode(bytes),
            },
            _ => note(image, "it is not kept any more"),
        }
    }
}

impl Shown {
    /// Returns the picture as a URL that carries it, or what is said instead.
    pub(super) fn url(self) -> Result<String, String> {
        match self {
            Self::Picture { media_type, base64 } => {
                Ok(format!("data:{media_type};base64,{base64}"))
            }
            Self::Note(note) => Err(note),
        }
    }
}

fn note(image: &Image, why: &str) -> Shown {
    let kind = image.media_type.rsplit('/').next().unwrap_or_default();
    let size = match (image.width_px, image.height_px) {
        (0, _) | (_, 0) => String::new(),
        (width, height) => format!(" {width}x{height}"),
    };
    Shown::Note(format!("[image{size} {kind}, not shown: {why}]"))
}

fn all(conversation: &[Arc<Entry>]) -> Vec<&Image> {
    let images = conversation.iter().flat_map(|entry| match &**entry {
        Entry::User { images, .. } => images.iter().collect::<Vec<_>>(),
        Entry::ToolResults(results) => results.iter().flat_map(|result| &result.images).collect(),
        Entry::Assistant { .. } => Vec::new(),
    });
    images.collect()
}

fn hidden(images: &[&Image]) -> usize {
    let mut bytes = 0_u64;
    let fitting = images.iter().rev().take(IMAGES_MAX).take_while(|image| {
        bytes = bytes.saturating_add(image.size_bytes);
        bytes <= BYTES_MAX
    });
    let hidden = images.len() - fitting.count();
    // Never the last one: a tool has just shown it.
    hidden
        .next_multiple_of(HIDDEN_STEP)
        .min(images.len().saturating_sub(1))
        .max(hidden)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conversation(count: usize, size_bytes: u64) -> Vec<Arc<Entry>> {
        let image = |index| Image {
            blob: format!("b{index}"),
            media_type: "image/png".into(),
            width_px: 800,
            height_px: 600,
            size_bytes,
        };
        let entry = |index| Entry::User {
            text: "look".into(),
            images: vec![image(index)],
        };
        (0..count).map(entry).map(Arc::new).collect()
    }

    fn shown(count: usize, size_bytes: u64) -> Vec<String> {
        let model = ModelChoice {
            images: true,
            ..ModelChoice::default()
        };
        let conversation = conversation(count, size_bytes);
        let shown = images_shown(&model, &conversation);
        shown.into_iter().map(|image| image.blob.clone()).collect()
    }

    #[test]
    fn the_oldest_are_left_out_a_few_at_a_time() {
        assert_eq!(shown(20, 1).len(), 20);
        for count in 21..=25 {
            assert_eq!(shown(count, 1).first().map(String::as_str), Some("b5"));
        }
        assert_eq!(shown(26, 1).first().map(String::as_str), Some("b10"));
    }

    #[test]
    fn large_ones_count_by_their_bytes() {
        assert_eq!(shown(4, 4 << 20).len(), 4);
        assert_eq!(shown(5, 4 << 20), ["b4"]);
        assert_eq!(shown(1, 64 << 20), Vec::<String>::new());
    }

    #[test]
    fn what_is_not_shown_is_said() {
        let conversation = conversation(1, 3);
        let bytes = ImageBytes::from([("b0".to_owned(), Bytes::from_static(b"abc"))]);
        let none = ImageBytes::new();
        let show = |images, bytes| {
            let model = ModelChoice {
                images,
                ..ModelChoice::default()
            };
            let request = Request {
                model: &model,
                system: "",
                conversation: &conversation,
                tools: &[],
                images: bytes,
            };
            Gallery::new(&request).show(all(&conversation)[0])
        };
        let picture = Shown::Picture {
            media_type: "image/png".into(),
            base64: "YWJj".into(),
        };
        assert_eq!(show(true, &bytes), picture);
        assert_eq!(picture.url(), Ok("data:image/png;base64,YWJj".into()));
        let text_only = "[image 800x600 png, not shown: this model reads text only]";
        assert_eq!(show(false, &bytes), Shown::Note(text_only.into()));
        let gone = "[image 800x600 png, not shown: it is not kept any more]";
        assert_eq!(show(true, &none), Shown::Note(gone.into()));
    }
}
