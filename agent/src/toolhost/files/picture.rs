//! Pictures that a model is shown as they are.

use std::{fs::File, io::Read};

use imagesize::ImageType;

use super::{Answer, Refusal, path::Place};

/// Largest file of a picture. Vendors take about five; nothing is made smaller here.
pub(crate) const PICTURE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Whether the beginning is that of a picture which models take.
pub(super) fn is_picture(beginning: &[u8]) -> bool {
    kind(beginning).is_some()
}

pub(super) fn read(place: &Place, file: File, bytes: u64) -> Result<Answer, Refusal> {
    let path = place.shown.clone();
    if bytes > PICTURE_BYTES_MAX {
        return Err(Refusal::PictureTooLarge {
            path,
            bytes,
            max: PICTURE_BYTES_MAX,
        });
    }
    let mut picture = Vec::new();
    file.take(PICTURE_BYTES_MAX)
        .read_to_end(&mut picture)
        .map_err(|why| Refusal::System {
            path: path.clone(),
            why,
        })?;
    let Some(said) = describe(&picture) else {
        let bytes = picture.len() as u64;
        return Err(Refusal::Binary { path, bytes });
    };
    Ok(Answer {
        text: format!("[`{path}` is a picture: {said}]"),
        picture,
    })
}

/// Format and size; `None` if it is none that can be shown.
pub(crate) fn describe(picture: &[u8]) -> Option<String> {
    let kind = kind(picture)?;
    let size = imagesize::blob_size(picture).ok()?;
    Some(format!(
        "{kind}, {} x {} pixels, {} bytes",
        size.width,
        size.height,
        picture.len()
    ))
}

fn kind(beginning: &[u8]) -> Option<&'static str> {
    match imagesize::image_type(beginning).ok()? {
        ImageType::Png => Some("PNG"),
        ImageType::Jpeg => Some("JPEG"),
        ImageType::Gif => Some("GIF"),
        ImageType::Webp => Some("WebP"),
        _ => None,
    }
}
