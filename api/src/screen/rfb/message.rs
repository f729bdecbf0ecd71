//! One message of a viewer, cut out of what it sends.

/// Larger pastes are not made by hand. It is also what a slow box may cost us for each viewer.
pub const CLIPBOARD_BYTES_MAX: usize = 1 << 20;
/// Viewers know some dozens.
const ENCODINGS_MAX: usize = 512;
/// By the extension's own rule.
const FENCE_BYTES_MAX: usize = 64;
const SCREENS_MAX: usize = 16;
/// A larger picture is a mistake, and takes a quarter of a gigabyte of the box.
const SIDE_MAX: u16 = 8_192;

const SET_PIXEL_FORMAT: u8 = 0;
const SET_ENCODINGS: u8 = 2;
const UPDATE_REQUEST: u8 = 3;
const KEY_EVENT: u8 = 4;
const POINTER_EVENT: u8 = 5;
const CUT_TEXT: u8 = 6;
const CONTINUOUS_UPDATES: u8 = 150;
const FENCE: u8 = 248;
const XVP: u8 = 250;
const SET_DESKTOP_SIZE: u8 = 251;
const QEMU: u8 = 255;
const QEMU_KEY: u8 = 0;

/// Of the extended clipboard: its flags come first, and say what the message is.
const CLIPBOARD_CAPS: u32 = 1 << 24;
const CLIPBOARD_REQUEST: u32 = 1 << 25;
const CLIPBOARD_PEEK: u32 = 1 << 26;
const CLIPBOARD_NOTIFY: u32 = 1 << 27;
const CLIPBOARD_PROVIDE: u32 = 1 << 28;

/// Encodings that are not asked of a box in a viewer's name, since they change what a viewer may send: a seventh
/// byte of pointer events, GII's and QEMU audio's messages, and switching the machine off.
const WITHHELD: [i32; 4] = [-316, -305, -259, -309];

/// A message, ready to be sent on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub what: What,
    pub bytes: Vec<u8>,
}

/// What a message is about, as far as anybody has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// How and when the viewer wants to be shown the screen.
    View,
    Key {
        down: bool,
        keysym: u32,
    },
    /// With the key's place on the keyboard, as QEMU and TigerVNC take it.
    PlacedKey {
        down: bool,
        keysym: u32,
        keycode: u32,
    },
    Pointer {
        buttons: u8,
        x: u16,
        y: u16,
    },
    /// Gives the box something to paste.
    Clipboard,
    /// Says what the viewer's clipboard can take, or asks for what the box has in its own.
    ClipboardAsked,
    Resize,
    /// Switches the machine off. Never sent on: a box's life is the api's.
    Power,
}

/// Why a viewer's stream cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the viewer's first line is not an RFB version")]
    Version,
    #[error("security type {0} was not offered")]
    Security(u8),
    #[error("message type {0} is not known")]
    Unknown(u8),
    #[error("QEMU message {0} is not known")]
    UnknownQemu(u8),
    #[error("a pixel has 8, 16 or 32 bits, not {0}")]
    Pixel(u8),
    #[error("{0} encodings in one message; {ENCODINGS_MAX} fit")]
    Encodings(usize),
    #[error("a paste of {0} bytes; {CLIPBOARD_BYTES_MAX} fit")]
    Clipboard(usize),
    #[error("clipboard flags {0:#x} name no action")]
    ClipboardFlags(u32),
    #[error("a fence of {0} bytes; {FENCE_BYTES_MAX} fit")]
    Fence(usize),
    #[error("a desktop of {width}x{height}; a side has 1 to {SIDE_MAX}")]
    Size { width: u16, height: u16 },
    #[error("{0} screens in one desktop; {SCREENS_MAX} fit")]
    Screens(usize),
}

impl What {
    /// Whether it does something in the box, so that only the holder of the control lease may send it.
    pub fn is_input(self) -> bool {
        match self {
            Self::View | Self::ClipboardAsked => false,
            Self::Key { .. }
            | Self::PlacedKey { .. }
            | Self::Pointer { .. }
            | Self::Clipboard
            | Self::Resize
            | Self::Power => true,
        }
    }
}

/// Returns the length of the message that `bytes` begin with; `None`: more of it is needed to tell.
pub(super) fn length(bytes: &[u8]) -> Result<Option<usize>, Error> {
    let Some(&kind) = bytes.first() else {
        return Ok(None);
    };
    let length = match kind {
        SET_PIXEL_FORMAT => Some(20),
        SET_ENCODINGS => match u16_at(bytes, 2).map(usize::from) {
            Some(count) if count > ENCODINGS_MAX => return Err(Error::Encodings(count)),
            count => count.map(|count| 4 + 4 * count),
        },
        UPDATE_REQUEST | CONTINUOUS_UPDATES => Some(10),
        KEY_EVENT => Some(8),
        POINTER_EVENT => Some(6),
        CUT_TEXT => match cut_text_bytes(bytes) {
            Some(count) if count > CLIPBOARD_BYTES_MAX => return Err(Error::Clipboard(count)),
            count => count.map(|count| 8 + count),
        },
        FENCE => match bytes.get(8).copied().map(usize::from) {
            Some(count) if count > FENCE_BYTES_MAX => return Err(Error::Fence(count)),
            count => count.map(|count| 9 + count),
        },
        XVP => Some(4),
        SET_DESKTOP_SIZE => match bytes.get(6).copied().map(usize::from) {
            Some(count) if count > SCREENS_MAX => return Err(Error::Screens(count)),
            count => count.map(|count| 8 + 16 * count),
        },
        QEMU => match bytes.get(1) {
            Some(&QEMU_KEY) => Some(12),
            Some(&other) => return Err(Error::UnknownQemu(other)),
            None => None,
        },
        other => return Err(Error::Unknown(other)),
    };
    // The one action that there is no message without.
    if kind == CUT_TEXT && is_extended(bytes) && length.is_some_and(|length| length < 12) {
        return Err(Error::ClipboardFlags(0));
    }
    Ok(length)
}

/// Reads a whole message.
pub(super) fn read(mut bytes: Vec<u8>) -> Result<Message, Error> {
    let what = match bytes.first().copied().unwrap_or_default() {
        SET_PIXEL_FORMAT => match bytes.get(4).copied().unwrap_or_default() {
            8 | 16 | 32 => What::View,
            other => return Err(Error::Pixel(other)),
        },
        SET_ENCODINGS => {
            withhold(&mut bytes);
            What::View
        }
        KEY_EVENT => What::Key {
            down: bytes.get(1).is_some_and(|down| *down != 0),
            keysym: u32_at(&bytes, 4).unwrap_or_default(),
        },
        POINTER_EVENT => What::Pointer {
            buttons: bytes.get(1).copied().unwrap_or_default(),
            x: u16_at(&bytes, 2).unwrap_or_default(),
            y: u16_at(&bytes, 4).unwrap_or_default(),
        },
        CUT_TEXT if is_extended(&bytes) => {
            extended_clipboard(u32_at(&bytes, 8).unwrap_or_default())?
        }
        CUT_TEXT => What::Clipboard,
        XVP => What::Power,
        SET_DESKTOP_SIZE => {
            let width = u16_at(&bytes, 2).unwrap_or_default();
            let height = u16_at(&bytes, 4).unwrap_or_default();
            let fits = |side| (1..=SIDE_MAX).contains(&side);
            if !fits(width) || !fits(height) {
                return Err(Error::Size { width, height });
            }
            What::Resize
        }
        QEMU => What::PlacedKey {
            down: u16_at(&bytes, 2).is_some_and(|down| down != 0),
            keysym: u32_at(&bytes, 4).unwrap_or_default(),
            keycode: u32_at(&bytes, 8).unwrap_or_default(),
        },
        // Update requests, continuous updates, fences.
        _ => What::View,
    };
    Ok(Message { what, bytes })
}

fn extended_clipboard(flags: u32) -> Result<What, Error> {
    // What a viewer can do names every action, so it is looked for first.
    if flags & CLIPBOARD_CAPS != 0 {
        return Ok(What::ClipboardAsked);
    }
    let actions = CLIPBOARD_REQUEST | CLIPBOARD_PEEK | CLIPBOARD_NOTIFY | CLIPBOARD_PROVIDE;
    match flags & actions {
        CLIPBOARD_REQUEST | CLIPBOARD_PEEK => Ok(What::ClipboardAsked),
        CLIPBOARD_NOTIFY | CLIPBOARD_PROVIDE => Ok(What::Clipboard),
        _ => Err(Error::ClipboardFlags(flags)),
    }
}

/// Takes the withheld encodings out of a list of them.
fn withhold(bytes: &mut Vec<u8>) {
    let (head, list) = bytes.split_at(4);
    let is_withheld = |encoding: &[u8; 4]| WITHHELD.contains(&i32::from_be_bytes(*encoding));
    let (encodings, _) = list.as_chunks::<4>();
    let kept: Vec<u8> = encodings
        .iter()
        .filter(|encoding| !is_withheld(encoding))
        .flatten()
        .copied()
        .collect();
    let count = u16::try_from(kept.len() / 4).unwrap_or_default();
    let mut message = head[..2].to_vec();
    message.extend(count.to_be_bytes());
    message.extend(kept);
    *bytes = message;
}

fn cut_text_bytes(bytes: &[u8]) -> Option<usize> {
    let length = i32_at(bytes, 4)?;
    usize::try_from(length.unsigned_abs()).ok()
}

/// The length of an extended one is negative.
fn is_extended(bytes: &[u8]) -> bool {
    i32_at(bytes, 4).is_some_and(|length| length < 0)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let two = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_be_bytes(*two))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_be_bytes(*four))
}

fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    let four = bytes.get(at..)?.first_chunk()?;
    Some(i32::from_be_bytes(*four))
}
