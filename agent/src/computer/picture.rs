//! Pictures of a display: made smaller, written as PNG, held against an earlier one.

use super::{
    backend::Pixels,
    geometry::{Rect, Size},
    native,
    refusal::Fault,
};

/// A small part is shown larger, so that small print can be read: at most so many times, up to such a side.
const ENLARGED_MAX: u32 = 4;
const ENLARGED_SIDE_PX_MAX: u32 = 1_200;

/// How large a part of a display is shown by itself.
pub(super) fn enlarged(area: Size) -> Size {
    let longest = area.width.max(area.height).max(1);
    let times = (ENLARGED_SIDE_PX_MAX / longest).clamp(1, ENLARGED_MAX);
    Size {
        width: area.width * times,
        height: area.height * times,
    }
}

/// The same in another size: each pixel is the mean of those that it stands for.
pub(super) fn scaled(pixels: &Pixels, to: Size) -> Pixels {
    let from = pixels.size;
    if from == to || from.width == 0 || from.height == 0 {
        return pixels.clone();
    }
    let columns: Vec<_> = (0..to.width)
        .map(|at| span(at, from.width, to.width))
        .collect();
    let row_bytes = from.width as usize * 3;
    let mut rgb = Vec::with_capacity(to.width as usize * to.height as usize * 3);
    for row in 0..to.height {
        let (top, bottom) = span(row, from.height, to.height);
        for (left, right) in &columns {
            let (mut sums, count) = ([0_u32; 3], (right - left) * (bottom - top));
            for line in top..bottom {
                let line = &pixels.rgb[line * row_bytes..];
                for pixel in line[left * 3..right * 3].chunks_exact(3) {
                    for (sum, part) in sums.iter_mut().zip(pixel) {
                        *sum += u32::from(*part);
                    }
                }
            }
            let count = u32::try_from(count).unwrap_or(u32::MAX).max(1);
            // The mean of bytes is one.
            rgb.extend(sums.map(|sum| u8::try_from((sum + count / 2) / count).unwrap_or(u8::MAX)));
        }
    }
    Pixels { size: to, rgb }
}

/// A PNG file of what a display shows; in half the size if it would have more than `bytes_max` otherwise. Blocks.
pub(crate) fn of_display(display: &str, bytes_max: usize) -> Result<Vec<u8>, PictureError> {
    let pixels = native::look(display)?;
    let whole = png(&pixels)?;
    if whole.len() <= bytes_max {
        return Ok(whole);
    }
    let half = Size {
        width: pixels.size.width.div_ceil(2),
        height: pixels.size.height.div_ceil(2),
    };
    Ok(png(&scaled(&pixels, half))?)
}

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) enum PictureError {
    Display(#[from] Fault),
    File(#[from] png::EncodingError),
}

/// A PNG file of it.
pub(super) fn png(pixels: &Pixels) -> Result<Vec<u8>, png::EncodingError> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, pixels.size.width, pixels.size.height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Fast);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&pixels.rgb)?;
    writer.finish()?;
    Ok(file)
}

/// The part in which two pictures of one display differ.
pub(super) fn changed(before: &Pixels, after: &Pixels) -> Option<Rect> {
    if before.size != after.size {
        return Some(after.size.whole());
    }
    let row_bytes = after.size.width as usize * 3;
    let rows = before
        .rgb
        .chunks_exact(row_bytes.max(1))
        .zip(after.rgb.chunks_exact(row_bytes.max(1)));
    let (mut left, mut right, mut top, mut bottom) = (usize::MAX, 0, None, 0);
    for (at, (before, after)) in rows
        .enumerate()
        .filter(|(_, (before, after))| before != after)
    {
        let differs = |(one, other): (&u8, &u8)| one != other;
        let first = before.iter().zip(after).position(differs).unwrap_or(0) / 3;
        let last = before.iter().zip(after).rposition(differs).unwrap_or(0) / 3;
        (left, right) = (left.min(first), right.max(last));
        top.get_or_insert(at);
        bottom = at;
    }
    let top = top?;
    let number = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    let place = |at: usize| i32::try_from(at).unwrap_or(i32::MAX);
    Some(Rect {
        x: place(left),
        y: place(top),
        width: number(right - left + 1),
        height: number(bottom - top + 1),
    })
}

/// The pixels of one side that one of the other stands for; at least one.
fn span(at: u32, from: u32, to: u32) -> (usize, usize) {
    let place =
        |at: u64| usize::try_from(at * u64::from(from) / u64::from(to)).unwrap_or(usize::MAX);
    let begin = place(at.into());
    (begin, place(u64::from(at) + 1).max(begin + 1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of_one_colour(width: u32, height: u32, colour: [u8; 3]) -> Pixels {
        Pixels {
            size: Size { width, height },
            rgb: colour.repeat((width * height) as usize),
        }
    }

    #[test]
    fn a_picture_made_smaller_has_the_colours_between() {
        let mut pixels = of_one_colour(4, 2, [0, 0, 0]);
        pixels.rgb[..6].copy_from_slice(&[200, 100, 50, 200, 100, 50]);
        let half = scaled(
            &pixels,
            Size {
                width: 2,
                height: 1,
            },
        );
        assert_eq!(half.rgb, [100, 50, 25, 0, 0, 0]);
        let twice = scaled(
            &half,
            Size {
                width: 4,
                height: 2,
            },
        );
        assert_eq!(&twice.rgb[..9], [100, 50, 25, 100, 50, 25, 0, 0, 0]);
        assert_eq!(
            enlarged(Size {
                width: 100,
                height: 40
            }),
            Size {
                width: 400,
                height: 160
            }
        );
        assert_eq!(
            enlarged(Size {
                width: 900,
                height: 40
            }),
            Size {
                width: 900,
                height: 40
            }
        );
    }

    #[test]
    fn a_file_holds_the_picture() {
        let pixels = of_one_colour(30, 20, [1, 2, 3]);
        let file = png(&pixels).expect("a file");
        let mut reader = png::Decoder::new(std::io::Cursor::new(&file))
            .read_info()
            .expect("a PNG");
        let mut rgb = vec![0; reader.output_buffer_size().expect("a size")];
        reader.next_frame(&mut rgb).expect("a frame");
        assert_eq!(rgb, pixels.rgb);
    }

    proptest! {
        #[test]
        fn what_differs_is_found(x in 0_u32..20, y in 0_u32..10, w in 1_u32..8, h in 1_u32..8) {
            let before = of_one_colour(20, 10, [9, 9, 9]);
            let mut after = before.clone();
            let (right, bottom) = ((x + w).min(20), (y + h).min(10));
            for line in y..bottom {
                for column in x..right {
                    after.rgb[((line * 20 + column) * 3 + 1) as usize] = 7;
                }
            }
            let found = changed(&before, &after).expect("a difference");
            let expected = Rect { x: i32::try_from(x).expect("small"), y: i32::try_from(y).expect("small"), width: right - x, height: bottom - y };
            prop_assert_eq!(found, expected);
            prop_assert_eq!(changed(&before, &before), None);
        }

        #[test]
        fn a_picture_of_one_colour_stays_one(w in 1_u32..40, h in 1_u32..40, a in 1_u32..60, b in 1_u32..60) {
            let scaled = scaled(&of_one_colour(w, h, [7, 8, 9]), Size { width: a, height: b });
            prop_assert_eq!(scaled, of_one_colour(a, b, [7, 8, 9]));
        }
    }
}
