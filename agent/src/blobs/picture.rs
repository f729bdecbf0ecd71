//! What a picture is, by its bytes and not by what somebody says of them.

use cocoonbox_proto::log::v1::Image;
use imagesize::ImageType;

/// Of one picture. Vendors take five megabytes in base64, which is less than four of them.
pub(crate) const PICTURE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Of either side: what vendors refuse above.
const SIDE_PX_MAX: usize = 8_000;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadPicture {
    #[error("the picture has {bytes} bytes; {PICTURE_BYTES_MAX} fit")]
    TooLarge { bytes: usize },
    #[error("the bytes are not a PNG, JPEG, GIF or WebP picture")]
    Unknown,
    #[error("the picture has {width} x {height} pixels; each side can have 1 to {SIDE_PX_MAX}")]
    Sides { width: usize, height: usize },
}

/// Looks at a picture's bytes. The blob's name is left empty.
pub(crate) fn image_of(data: &[u8]) -> Result<Image, BadPicture> {
    if data.len() > PICTURE_BYTES_MAX {
        return Err(BadPicture::TooLarge { bytes: data.len() });
    }
    let media_type = match imagesize::image_type(data) {
        Ok(ImageType::Png) => "image/png",
        Ok(ImageType::Jpeg) => "image/jpeg",
        Ok(ImageType::Gif) => "image/gif",
        Ok(ImageType::Webp) => "image/webp",
        Ok(_) | Err(_) => return Err(BadPicture::Unknown),
    };
    let size = imagesize::blob_size(data).map_err(|_| BadPicture::Unknown)?;
    let (width, height) = (size.width, size.height);
    let side = |px: usize| {
        let side = u32::try_from(px).ok();
        side.filter(|_| (1..=SIDE_PX_MAX).contains(&px))
    };
    match (side(width), side(height)) {
        (Some(width_px), Some(height_px)) => Ok(Image {
            blob: String::new(),
            media_type: media_type.to_owned(),
            width_px,
            height_px,
            size_bytes: data.len() as u64,
        }),
        _ => Err(BadPicture::Sides { width, height }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A GIF's head: all that is looked at.
    fn gif(width: u16, height: u16) -> Vec<u8> {
        let mut data = b"GIF89a".to_vec();
        data.extend(width.to_le_bytes());
        data.extend(height.to_le_bytes());
        data.extend([0; 16]);
        data
    }

    #[test]
    fn bytes_say_what_they_are() {
        let image = image_of(&gif(30, 20)).expect("a picture");
        assert_eq!(
            (image.media_type.as_str(), image.width_px, image.height_px),
            ("image/gif", 30, 20)
        );
        assert_eq!(image.size_bytes, 26);
    }

    #[test]
    fn what_is_none_is_refused() {
        assert_eq!(image_of(b"<svg/>"), Err(BadPicture::Unknown));
        assert_eq!(image_of(b""), Err(BadPicture::Unknown));
        assert_eq!(
            image_of(&gif(0, 5)),
            Err(BadPicture::Sides {
                width: 0,
                height: 5
            })
        );
        assert!(matches!(
            image_of(&gif(9_000, 5)),
            Err(BadPicture::Sides { .. })
        ));
        assert!(matches!(
            image_of(&vec![0; PICTURE_BYTES_MAX + 1]),
            Err(BadPicture::TooLarge { .. })
        ));
    }
}
