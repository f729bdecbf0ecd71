//! Places on a display and in a picture of it, and how one is the other.

/// Longest side and most pixels of a picture that models take in without making it smaller themselves, after
/// which nobody could say where on the display a pixel of theirs is.
const SIDE_PX_MAX: u32 = 1_568;
const PIXELS_MAX: u64 = 1_150_000;

/// A place, in pixels from the upper left corner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) x: i32,
    pub(super) y: i32,
}

/// How large a display or a picture is, in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) width: u32,
    pub(super) height: u32,
}

/// A part of a display, in its pixels. It may stand out over the edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rect {
    pub(super) x: i32,
    pub(super) y: i32,
    pub(super) width: u32,
    pub(super) height: u32,
}

/// Where the pixels of a picture are on a display: a picture of all of it, or of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    /// What the picture shows.
    pub(super) area: Rect,
    /// How large the picture is.
    pub(super) picture: Size,
}

impl Size {
    pub(super) fn whole(self) -> Rect {
        Rect {
            x: 0,
            y: 0,
            width: self.width,
            height: self.height,
        }
    }
}

impl Rect {
    pub(super) fn middle(self) -> Point {
        Point {
            x: self.x.saturating_add(half(self.width)),
            y: self.y.saturating_add(half(self.height)),
        }
    }

    pub(super) fn contains(self, point: Point) -> bool {
        let within = |at: i32, from: i32, length: u32| {
            let past = i64::from(at) - i64::from(from);
            past >= 0 && past < i64::from(length)
        };
        within(point.x, self.x, self.width) && within(point.y, self.y, self.height)
    }

    /// What both have. `None`: nothing.
    pub(super) fn shared(self, other: Self) -> Option<Self> {
        let (x, width) = overlap((self.x, self.width), (other.x, other.width))?;
        let (y, height) = overlap((self.y, self.height), (other.y, other.height))?;
        Some(Self {
            x,
            y,
            width,
            height,
        })
    }
}

impl Mapping {
    /// The picture of a part of a display that is shown to a model: as it is, or smaller if it has to be.
    pub(super) fn of(area: Rect) -> Self {
        let (width, height) = (area.width.max(1), area.height.max(1));
        let pixels = u64::from(width) * u64::from(height);
        let by_side = f64::from(SIDE_PX_MAX) / f64::from(width.max(height));
        #[expect(
            clippy::cast_precision_loss,
            reason = "a display has less than 2^52 pixels"
        )]
        let by_pixels = (PIXELS_MAX as f64 / pixels as f64).sqrt();
        let scale = by_side.min(by_pixels).min(1.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive, and no more than there was"
        )]
        let scaled = |length: u32| ((f64::from(length) * scale).floor() as u32).max(1);
        Self {
            area: Rect {
                width,
                height,
                ..area
            },
            picture: Size {
                width: scaled(width),
                height: scaled(height),
            },
        }
    }

    /// The pixel of the display under the middle of one of the picture. `None`: the picture has no such pixel.
    pub(super) fn on_display(self, pixel: Point) -> Option<Point> {
        let along = |at: i32, length: u32, from: i32, shown: u32| {
            let at = u32::try_from(at).ok().filter(|at| *at < length)?;
            let past = (2 * u64::from(at) + 1) * u64::from(shown) / (2 * u64::from(length));
            from.checked_add(i32::try_from(past).ok()?)
        };
        Some(Point {
            x: along(pixel.x, self.picture.width, self.area.x, self.area.width)?,
            y: along(pixel.y, self.picture.height, self.area.y, self.area.height)?,
        })
    }

    /// The pixel of the picture that shows one of the display. What is outside of the picture is so here, too.
    pub(super) fn in_picture(self, point: Point) -> Point {
        let along = |at: i32, from: i32, shown: u32, length: u32| {
            let past = i64::from(at) - i64::from(from);
            // By its middle, so that there and back is the same pixel.
            let scaled = (2 * past + 1) * i64::from(length);
            let scaled = scaled.div_euclid(2 * i64::from(shown.max(1)));
            i32::try_from(scaled).unwrap_or(if scaled < 0 { i32::MIN } else { i32::MAX })
        };
        Point {
            x: along(point.x, self.area.x, self.area.width, self.picture.width),
            y: along(point.y, self.area.y, self.area.height, self.picture.height),
        }
    }

    /// Where a part of the display is in the picture.
    pub(super) fn rect_in_picture(self, rect: Rect) -> Rect {
        let from = self.in_picture(Point {
            x: rect.x,
            y: rect.y,
        });
        let scaled = |length: u32, shown: u32, picture: u32| {
            let scaled = u64::from(length) * u64::from(picture) / u64::from(shown.max(1));
            u32::try_from(scaled).unwrap_or(u32::MAX)
        };
        Rect {
            x: from.x,
            y: from.y,
            width: scaled(rect.width, self.area.width, self.picture.width),
            height: scaled(rect.height, self.area.height, self.picture.height),
        }
    }
}

fn half(length: u32) -> i32 {
    i32::try_from(length / 2).unwrap_or(i32::MAX)
}

fn overlap(one: (i32, u32), other: (i32, u32)) -> Option<(i32, u32)> {
    let from = one.0.max(other.0);
    let end = |(at, length): (i32, u32)| i64::from(at) + i64::from(length);
    let length = u32::try_from(end(one).min(end(other)) - i64::from(from)).ok()?;
    (length > 0).then_some((from, length))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn display(width: u32, height: u32) -> Mapping {
        Mapping::of(Size { width, height }.whole())
    }

    #[test]
    fn a_usual_display_is_shown_pixel_by_pixel() {
        let mapping = display(1280, 800);
        assert_eq!(mapping.picture, mapping_size(1280, 800));
        let corner = Point { x: 1279, y: 799 };
        assert_eq!(mapping.on_display(corner), Some(corner));
        assert_eq!(mapping.on_display(Point { x: 1280, y: 0 }), None);
        assert_eq!(mapping.on_display(Point { x: -1, y: 0 }), None);
    }

    fn mapping_size(width: u32, height: u32) -> Size {
        Size { width, height }
    }

    #[test]
    fn what_is_seen_at_any_scale_is_what_is_hit() {
        // A target of eight pixels, seen in pictures of half, the same, a quarter more and twice the size.
        for (numerator, denominator) in [(1, 2), (1, 1), (5, 4), (2, 1)] {
            let mapping = Mapping {
                area: mapping_size(1280, 800).whole(),
                picture: mapping_size(
                    1280 * numerator / denominator,
                    800 * numerator / denominator,
                ),
            };
            for (x, y) in [(0, 0), (637, 401), (1272, 792)] {
                let target = Rect {
                    x,
                    y,
                    width: 8,
                    height: 8,
                };
                let seen = mapping.rect_in_picture(target).middle();
                let hit = mapping.on_display(seen).expect("it is in the picture");
                assert!(target.contains(hit), "{numerator}/{denominator}: {hit:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn every_pixel_of_a_picture_is_one_of_the_display(
            width in 1_u32..8_000, height in 1_u32..8_000, x in -500_i32..500, across in 0_u64..1_000,
        ) {
            let mapping = Mapping::of(Rect { x, y: 0, width, height });
            prop_assert!(mapping.picture.width <= SIDE_PX_MAX && mapping.picture.height <= SIDE_PX_MAX);
            prop_assert!(u64::from(mapping.picture.width) * u64::from(mapping.picture.height) <= PIXELS_MAX);
            let at = |length: u32| i32::try_from(u64::from(length) * across / 1_000).expect("small");
            let pixel = Point { x: at(mapping.picture.width), y: at(mapping.picture.height) };
            let point = mapping.on_display(pixel).expect("a pixel of the picture");
            prop_assert!(mapping.area.contains(point));
            // Seen again, it is the pixel that was meant: the picture is never larger than what it shows.
            prop_assert_eq!(mapping.in_picture(point), pixel);
        }

        #[test]
        fn what_two_have_in_common_is_in_both(
            a in (-50_i32..50, -50_i32..50, 0_u32..60, 0_u32..60), b in (-50_i32..50, -50_i32..50, 0_u32..60, 0_u32..60),
            x in -60_i32..120, y in -60_i32..120,
        ) {
            let rect = |(x, y, width, height)| Rect { x, y, width, height };
            let (a, b, point) = (rect(a), rect(b), Point { x, y });
            let shared = a.shared(b).is_some_and(|shared| shared.contains(point));
            prop_assert_eq!(shared, a.contains(point) && b.contains(point));
        }
    }
}
