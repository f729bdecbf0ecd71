//! What a box sends, as far as a guest may see it: pictures, and the bell.
//!
//! A box tells all viewers what is in its clipboard, and that may be a password. What is sent to a guest is read, message
//! by message, to take that out. Only so much of RFB is read as a guest may ask for ([`looking`]): a pixel is four bytes,
//! and rectangles come in encodings that say how long they are. Anything else ends the stream.

use super::message::Message;

/// Rectangles as they are, copied ones, ZRLE, and that the screen has another size. The box paints the pointer into
/// the picture for whoever knows no cursors, which is where a guest wants to see it.
const ENCODINGS: [i32; 4] = [RAW, COPY, ZRLE, SIZE];
const RAW: i32 = 0;
const COPY: i32 = 1;
const ZRLE: i32 = 16;
const SIZE: i32 = -223;
const BITS: u8 = 32;
const BYTES: u64 = 4;

const SET_PIXEL_FORMAT: u8 = 0;
const SET_ENCODINGS: u8 = 2;
const UPDATE_REQUEST: u8 = 3;

const PICTURE: u8 = 0;
const COLOURS: u8 = 1;
const BELL: u8 = 2;
const CUT_TEXT: u8 = 3;

/// Of a screen's name. Ours are short.
const NAME_BYTES_MAX: u64 = 4_096;
/// Of one rectangle; the largest screen has a quarter of a gigabyte.
const RECTANGLE_BYTES_MAX: u64 = 1 << 28;

/// Why a screen is not shown on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Hidden {
    #[error("a pixel has {0} bits, and guests are shown 32")]
    Pixel(u8),
    #[error("message type {0} is not for guests")]
    Message(u8),
    #[error("encoding {0} is not for guests")]
    Encoding(i32),
    #[error("{0} bytes at once")]
    Long(u64),
}

/// Reads what a box sends to a guest.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    next: Next,
    /// The beginning of what has to be whole to be understood: some bytes.
    part: Vec<u8>,
    /// Bytes that pass unread.
    pass: u64,
    /// Bytes that are left out.
    skip: u64,
    /// Of the picture under way.
    rectangles: u16,
}

#[derive(Clone, Copy, Debug, Default)]
enum Next {
    #[default]
    Described,
    Message,
    Picture,
    Rectangle,
    Compressed,
    Colours,
    CutText,
}

impl Next {
    fn length(self) -> usize {
        match self {
            Self::Described => 24,
            Self::Message => 1,
            Self::Picture => 3,
            Self::Rectangle => 12,
            Self::Compressed => 4,
            Self::Colours => 5,
            Self::CutText => 7,
        }
    }
}

impl Shown {
    /// Reads on, and returns what the guest may have of it.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<Vec<u8>, Hidden> {
        let mut shown = Vec::with_capacity(bytes.len());
        while !bytes.is_empty() {
            if self.pass > 0 {
                let (now, later) = split(bytes, self.pass);
                shown.extend_from_slice(now);
                self.pass -= now.len() as u64;
                bytes = later;
            } else if self.skip > 0 {
                let (now, later) = split(bytes, self.skip);
                self.skip -= now.len() as u64;
                bytes = later;
            } else {
                let missing = self.next.length() - self.part.len();
                let (now, later) = split(bytes, missing as u64);
                self.part.extend_from_slice(now);
                bytes = later;
                if self.part.len() == self.next.length() {
                    let whole = std::mem::take(&mut self.part);
                    self.step(&whole, &mut shown)?;
                }
            }
        }
        Ok(shown)
    }

    fn step(&mut self, whole: &[u8], shown: &mut Vec<u8>) -> Result<(), Hidden> {
        match self.next {
            Next::Described => {
                if whole[4] != BITS {
                    return Err(Hidden::Pixel(whole[4]));
                }
                shown.extend_from_slice(whole);
                self.pass = bounded(u64::from(u32_at(whole, 20)), NAME_BYTES_MAX)?;
                self.next = Next::Message;
            }
            Next::Message => match whole[0] {
                PICTURE => self.next = Next::Picture,
                COLOURS => self.next = Next::Colours,
                CUT_TEXT => self.next = Next::CutText,
                BELL => shown.push(BELL),
                other => return Err(Hidden::Message(other)),
            },
            Next::Picture => {
                shown.push(PICTURE);
                shown.extend_from_slice(whole);
                self.rectangles = u16_at(whole, 1);
                self.next = self.rectangle();
            }
            Next::Rectangle => {
                shown.extend_from_slice(whole);
                self.rectangles -= 1;
                self.next = self.rectangle();
                let pixels = u64::from(u16_at(whole, 4)) * u64::from(u16_at(whole, 6));
                match u32_at(whole, 8).cast_signed() {
                    RAW => self.pass = bounded(pixels * BYTES, RECTANGLE_BYTES_MAX)?,
                    COPY => self.pass = 4,
                    ZRLE => self.next = Next::Compressed,
                    SIZE => {}
                    other => return Err(Hidden::Encoding(other)),
                }
            }
            Next::Compressed => {
                shown.extend_from_slice(whole);
                self.pass = bounded(u64::from(u32_at(whole, 0)), RECTANGLE_BYTES_MAX)?;
                self.next = self.rectangle();
            }
            // Pixels of four bytes need none.
            Next::Colours => {
                self.skip = 6 * u64::from(u16_at(whole, 3));
                self.next = Next::Message;
            }
            // The length of an extended one is negative.
            Next::CutText => {
                let length = u32_at(whole, 3).cast_signed();
                self.skip = u64::from(length.unsigned_abs());
                self.next = Next::Message;
            }
        }
        Ok(())
    }

    fn rectangle(&self) -> Next {
        if self.rectangles == 0 {
            Next::Message
        } else {
            Next::Rectangle
        }
    }
}

/// Returns what of a guest's message goes to the box: how and when it wants to be shown pictures, and nothing else.
pub fn looking(message: &Message) -> Result<Option<Vec<u8>>, Hidden> {
    let bytes = &message.bytes;
    match bytes.first() {
        Some(&SET_PIXEL_FORMAT) => match bytes.get(4) {
            Some(&BITS) => Ok(Some(bytes.clone())),
            bits => Err(Hidden::Pixel(bits.copied().unwrap_or_default())),
        },
        Some(&SET_ENCODINGS) => Ok(Some(encodings(bytes))),
        Some(&UPDATE_REQUEST) => Ok(Some(bytes.clone())),
        _ => Ok(None),
    }
}

fn encodings(bytes: &[u8]) -> Vec<u8> {
    let (asked, _) = bytes.get(4..).unwrap_or_default().as_chunks::<4>();
    let kept = asked.iter().map(|encoding| i32::from_be_bytes(*encoding));
    let kept: Vec<i32> = kept
        .filter(|encoding| ENCODINGS.contains(encoding))
        .collect();
    let count = u16::try_from(kept.len()).unwrap_or_default();
    let mut message = vec![SET_ENCODINGS, 0];
    message.extend(count.to_be_bytes());
    message.extend(kept.iter().flat_map(|encoding| encoding.to_be_bytes()));
    message
}

fn split(bytes: &[u8], at: u64) -> (&[u8], &[u8]) {
    let at = usize::try_from(at).unwrap_or(usize::MAX);
    bytes.split_at(at.min(bytes.len()))
}

fn bounded(bytes: u64, max: u64) -> Result<u64, Hidden> {
    if bytes > max {
        Err(Hidden::Long(bytes))
    } else {
        Ok(bytes)
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::screen::rfb::What;

    fn described(bits: u8) -> Vec<u8> {
        let mut bytes = vec![5, 0, 3, 32, bits, 24, 0, 1];
        bytes.resize(20, 0);
        bytes.extend(9_u32.to_be_bytes());
        bytes.extend(b"cocoonbox");
        bytes
    }

    fn rectangle(sides: (u16, u16), encoding: i32, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 4];
        bytes.extend(sides.0.to_be_bytes());
        bytes.extend(sides.1.to_be_bytes());
        bytes.extend(encoding.to_be_bytes());
        bytes.extend(body);
        bytes
    }

    fn picture(rectangles: &[Vec<u8>]) -> Vec<u8> {
        let count = u16::try_from(rectangles.len()).unwrap();
        let mut bytes = vec![PICTURE, 0];
        bytes.extend(count.to_be_bytes());
        bytes.extend(rectangles.concat());
        bytes
    }

    fn cut_text(text: &[u8]) -> Vec<u8> {
        let length = u32::try_from(text.len()).unwrap();
        [&[CUT_TEXT, 0, 0, 0][..], &length.to_be_bytes(), text].concat()
    }

    fn pictures() -> Vec<u8> {
        let compressed = [&7_u32.to_be_bytes()[..], &[CUT_TEXT; 7]].concat();
        picture(&[
            rectangle((2, 1), RAW, &[CUT_TEXT; 8]),
            rectangle((9, 9), COPY, &[0; 4]),
            rectangle((64, 64), ZRLE, &compressed),
            rectangle((800, 600), SIZE, b""),
        ])
    }

    #[test]
    fn a_guest_gets_pictures_and_never_the_clipboard_wherever_it_is_cut() {
        let extended = [&[CUT_TEXT, 0, 0, 0, 255, 255, 255, 252][..], b"caps"].concat();
        let secret = cut_text(b"hunter2");
        let colours = [&[COLOURS, 0, 0, 0, 0, 2][..], &[9; 12]].concat();
        let sent = [
            described(32),
            secret.clone(),
            pictures(),
            extended,
            picture(&[]),
            vec![BELL],
            colours,
            secret,
            pictures(),
        ]
        .concat();
        let seen = [
            described(32),
            pictures(),
            picture(&[]),
            vec![BELL],
            pictures(),
        ]
        .concat();
        for piece in 1..=sent.len() {
            let mut shown = Shown::default();
            let pieces = sent.chunks(piece).map(|piece| shown.push(piece).unwrap());
            assert_eq!(pieces.collect::<Vec<_>>().concat(), seen, "{piece}");
        }
    }

    #[test]
    fn what_is_not_understood_is_not_shown() {
        let after = |bytes: &[u8]| {
            let mut shown = Shown::default();
            shown.push(&described(32)).unwrap();
            shown.push(bytes).unwrap_err()
        };
        let tight = picture(&[rectangle((1, 1), 7, b"x")]);
        let huge = picture(&[rectangle((u16::MAX, u16::MAX), RAW, b"")]);
        let long = picture(&[rectangle((1, 1), ZRLE, &[255; 4])]);
        assert_eq!(after(&tight), Hidden::Encoding(7));
        assert!(matches!(after(&huge), Hidden::Long(_)));
        assert!(matches!(after(&long), Hidden::Long(_)));
        assert_eq!(after(&[150]), Hidden::Message(150));
        let shallow = Shown::default().push(&described(16)).unwrap_err();
        assert_eq!(shallow, Hidden::Pixel(16));
    }

    #[test]
    fn a_guest_asks_for_pictures_only() {
        let asks = |bytes: &[u8]| {
            looking(&Message {
                what: What::View,
                bytes: bytes.to_vec(),
            })
        };
        let update = [3, 1, 0, 0, 0, 0, 5, 0, 3, 32];
        assert_eq!(asks(&update), Ok(Some(update.to_vec())));
        let mut format = vec![0; 20];
        format[4] = 32;
        assert_eq!(asks(&format), Ok(Some(format.clone())));
        format[4] = 16;
        assert_eq!(asks(&format), Err(Hidden::Pixel(16)));
        let list = |encodings: &[i32]| {
            let count = u16::try_from(encodings.len()).unwrap();
            let mut bytes = vec![SET_ENCODINGS, 0];
            bytes.extend(count.to_be_bytes());
            bytes.extend(encodings.iter().flat_map(|one| one.to_be_bytes()));
            bytes
        };
        // Without those that would add messages, and without the clipboard's.
        let asked = list(&[
            7,
            16,
            1,
            0,
            -223,
            -308,
            -239,
            -313,
            -312,
            i32::from_be_bytes(*b"\xc0\xa1\xe5\xce"),
        ]);
        assert_eq!(asks(&asked), Ok(Some(list(&[16, 1, 0, -223]))));
        for kind in [4, 5, 6, 150, 248, 250, 251, 255] {
            assert_eq!(asks(&[kind; 12]), Ok(None), "{kind}");
        }
    }

    proptest! {
        /// Boxes send what they like. However it is cut, a guest gets the same of it, no more than was sent, or none.
        #[test]
        fn whatever_a_box_sends_is_shown_or_ends(
            sent in proptest::collection::vec(any::<u8>(), 0..600),
            piece in 1..64_usize,
        ) {
            let shown_in = |piece: usize| {
                let mut shown = Shown::default();
                let mut all = shown.push(&described(32))?;
                for piece in sent.chunks(piece) {
                    all.extend(shown.push(piece)?);
                }
                Ok::<_, Hidden>(all)
            };
            let whole = shown_in(usize::MAX);
            prop_assert_eq!(&shown_in(piece), &whole);
            if let Ok(all) = whole {
                prop_assert!(all.len() <= described(32).len() + sent.len());
            }
        }
    }
}
