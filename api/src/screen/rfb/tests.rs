use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

/// What a viewer says before its messages.
const GREETING: &[u8] = b"RFB 003.008\n\x01\x01";

fn key(down: bool, keysym: u32) -> Vec<u8> {
    [&[4, u8::from(down), 0, 0][..], &keysym.to_be_bytes()].concat()
}

fn placed(down: bool, keysym: u32, keycode: u32) -> Vec<u8> {
    let head = [255, 0, 0, u8::from(down)];
    [&head[..], &keysym.to_be_bytes(), &keycode.to_be_bytes()].concat()
}

fn pointer(buttons: u8, x: u16, y: u16) -> Vec<u8> {
    [&[5, buttons][..], &x.to_be_bytes(), &y.to_be_bytes()].concat()
}

fn encodings(list: &[i32]) -> Vec<u8> {
    let count = u16::try_from(list.len()).unwrap();
    let list: Vec<u8> = list.iter().flat_map(|one| one.to_be_bytes()).collect();
    [&[2, 0][..], &count.to_be_bytes(), &list].concat()
}

fn paste(text: &[u8]) -> Vec<u8> {
    let length = i32::try_from(text.len()).unwrap();
    [&[6, 0, 0, 0][..], &length.to_be_bytes(), text].concat()
}

fn extended(flags: u32, text: &[u8]) -> Vec<u8> {
    let length = -i32::try_from(text.len() + 4).unwrap();
    let head = [6, 0, 0, 0];
    [&head[..], &length.to_be_bytes(), &flags.to_be_bytes(), text].concat()
}

fn fence(payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    [&[248, 0, 0, 0, 0, 0, 0, 0, length][..], payload].concat()
}

fn resize(width: u16, height: u16, screens: u8) -> Vec<u8> {
    let sides = [width.to_be_bytes(), height.to_be_bytes()].concat();
    let list = vec![7; usize::from(screens) * 16];
    [&[251, 0][..], &sides, &[screens, 0], &list].concat()
}

fn pixel_format(bits: u8) -> Vec<u8> {
    let mut bytes = vec![0; 20];
    bytes[4] = bits;
    bytes
}

fn sized(kind: u8, length: usize) -> Vec<u8> {
    let mut bytes = vec![1; length];
    bytes[0] = kind;
    bytes
}

/// Everything a greeted viewer says in these bytes, and the error that it ends with.
fn said(bytes: &[u8]) -> (Vec<Message>, Option<Error>) {
    let mut viewer = Viewer::default();
    viewer.push(GREETING).unwrap();
    let said = viewer.push(bytes).unwrap_or_default();
    let messages = said.into_iter().map(|said| match said {
        Said::Message(message) => message,
        other => panic!("{other:?}"),
    });
    (messages.collect(), viewer.error())
}

fn what(bytes: &[u8]) -> What {
    let (messages, error) = said(bytes);
    assert_eq!(error, None, "{bytes:?}");
    assert_eq!(messages.len(), 1, "{bytes:?}");
    assert_eq!(messages[0].bytes, bytes);
    messages[0].what
}

#[test]
fn versions_are_greeted_as_the_rfc_has_it() {
    let none = 1_u32.to_be_bytes().to_vec();
    let greeted = |bytes: &[u8]| Viewer::default().push(bytes).unwrap();
    let told = Said::Answer(vec![0; 4]);
    let offer = Said::Answer(vec![1, 1]);
    assert_eq!(
        greeted(b"RFB 003.008\n\x01\x00"),
        [offer.clone(), told, Said::Ready]
    );
    assert_eq!(greeted(b"RFB 003.007\n\x01\x01"), [offer, Said::Ready]);
    for old in [
        b"RFB 003.003\n\x01",
        b"RFB 003.005\n\x01",
        b"RFB 004.008\n\x01",
    ] {
        assert_eq!(greeted(old), [Said::Answer(none.clone()), Said::Ready]);
    }
}

#[test]
fn what_is_no_viewer_is_told_early() {
    for bytes in [
        &b"GET / HTTP/1.1\r\n"[..],
        b"R B",
        b"\x16\x03\x01",
        b"RFB 3.8\n    ",
    ] {
        assert_eq!(Viewer::default().push(bytes), Err(Error::Version));
    }
    let mut viewer = Viewer::default();
    let said = viewer.push(b"RFB 003.008\n\x02").unwrap();
    assert_eq!(said.len(), 1);
    assert_eq!(viewer.push(b"x"), Err(Error::Security(2)));
}

#[test]
fn messages_are_known_and_input_is_told_from_looking() {
    for view in [
        pixel_format(32),
        encodings(&[0, 5, 16, -258, -308]),
        encodings(&[]),
        sized(3, 10),
        sized(150, 10),
        fence(b""),
        fence(&[9; 64]),
    ] {
        assert_eq!(what(&view), What::View);
    }
    let down = true;
    let (keysym, keycode) = (0xffe3, 29);
    assert_eq!(what(&key(down, keysym)), What::Key { down, keysym });
    let expected = What::PlacedKey {
        down,
        keysym,
        keycode,
    };
    assert_eq!(what(&placed(down, keysym, keycode)), expected);
    let expected = What::Pointer {
        buttons: 5,
        x: 700,
        y: 799,
    };
    assert_eq!(what(&pointer(5, 700, 799)), expected);
    assert_eq!(what(&paste("Привет".as_bytes())), What::Clipboard);
    assert_eq!(what(&paste(b"")), What::Clipboard);
    assert_eq!(what(&resize(1_280, 800, 1)), What::Resize);
    assert_eq!(what(&[250, 0, 1, 2]), What::Power);
    // Of the extended clipboard: caps, request and peek look, notify and provide do.
    for (bits, is_input) in [
        (24, false),
        (25, false),
        (26, false),
        (27, true),
        (28, true),
    ] {
        let message = extended(1 << bits | 1, b"zlib");
        assert_eq!(what(&message).is_input(), is_input, "{bits}");
    }
    assert!(!what(&extended(0x1f00_0001, &[0; 4])).is_input());
}

#[test]
fn what_would_change_a_viewers_messages_is_not_asked_for() {
    let (messages, _) = said(&encodings(&[16, -316, -305, 0, -259, -309, -312]));
    assert_eq!(messages[0].bytes, encodings(&[16, 0, -312]));
}

#[test]
fn what_is_malformed_or_too_large_ends_the_stream() {
    let too_long = i32::try_from(CLIPBOARD_BYTES_MAX).unwrap() + 1;
    let cut_text = |length: i32| [&[6, 0, 0, 0][..], &length.to_be_bytes()].concat();
    for (bytes, error) in [
        (vec![1; 20], Error::Unknown(1)),
        (vec![253, 0], Error::Unknown(253)),
        (vec![255, 1, 0, 0], Error::UnknownQemu(1)),
        (pixel_format(24), Error::Pixel(24)),
        (vec![2, 0, 255, 255], Error::Encodings(65_535)),
        (
            cut_text(too_long),
            Error::Clipboard(CLIPBOARD_BYTES_MAX + 1),
        ),
        (cut_text(i32::MIN), Error::Clipboard(1 << 31)),
        (cut_text(-3), Error::ClipboardFlags(0)),
        (extended(1, b""), Error::ClipboardFlags(1)),
        (extended(3 << 27, b""), Error::ClipboardFlags(3 << 27)),
        (vec![248, 0, 0, 0, 0, 0, 0, 0, 65], Error::Fence(65)),
        (
            resize(0, 800, 1),
            Error::Size {
                width: 0,
                height: 800,
            },
        ),
        (
            resize(1_280, 8_193, 1),
            Error::Size {
                width: 1_280,
                height: 8_193,
            },
        ),
        (vec![251, 0, 1, 1, 1, 1, 17, 0], Error::Screens(17)),
    ] {
        assert_eq!(said(&bytes), (Vec::new(), Some(error)), "{bytes:?}");
    }
}

#[test]
fn what_came_before_the_fault_is_read() {
    let bytes = [key(true, 65), vec![99], key(false, 65)].concat();
    let (messages, error) = said(&bytes);
    assert_eq!((messages.len(), error), (1, Some(Error::Unknown(99))));
}

#[test]
fn what_is_held_is_let_go() {
    let mut held = Held::default();
    let (control, shift) = (0xffe3, 0xffe1);
    for bytes in [
        key(true, control),
        placed(true, shift, 42),
        placed(true, 65, 30),
        // Shift has gone meanwhile, and the same key types another letter.
        placed(false, 97, 30),
        pointer(1, 3, 4),
        pointer(3, 5, 6),
    ] {
        assert_eq!(held.note(what(&bytes)), b"");
    }
    let ups = [
        placed(false, shift, 42),
        key(false, control),
        pointer(0, 5, 6),
    ]
    .concat();
    assert_eq!(held.release(), ups);
    assert_eq!(held.release(), b"");
}

#[test]
fn a_hundred_held_keys_are_let_go_too() {
    let mut held = Held::default();
    let mut ups = Vec::new();
    for keysym in 0..100 {
        ups.extend(held.note(what(&key(true, keysym))));
    }
    assert_eq!(
        ups,
        (0..36).flat_map(|one| key(false, one)).collect::<Vec<_>>()
    );
    ups.extend(held.release());
    assert_eq!(said(&ups).0.len(), 100);
}

#[tokio::test]
async fn a_screen_is_greeted_up_to_its_description() {
    let (mut ours, mut screen) = tokio::io::duplex(64);
    let served = async {
        screen.write_all(b"RFB 003.008\n").await.unwrap();
        let mut said = [0; 12];
        screen.read_exact(&mut said).await.unwrap();
        assert_eq!(&said, b"RFB 003.008\n");
        screen.write_all(&[2, 2, 1]).await.unwrap();
        assert_eq!(screen.read_u8().await.unwrap(), 1);
        screen.write_all(&[0; 4]).await.unwrap();
        assert_eq!(screen.read_u8().await.unwrap(), 1);
        screen.write_all(b"described").await.unwrap();
    };
    let (greeted, ()) = tokio::join!(greet(&mut ours), served);
    greeted.unwrap();
    let mut rest = [0; 9];
    ours.read_exact(&mut rest).await.unwrap();
    assert_eq!(&rest, b"described");
}

#[tokio::test]
async fn a_screen_that_does_not_fit_is_not_shown() {
    for (bytes, expected) in [
        (
            &b"RFB 003.003\n\0\0\0\x01"[..],
            "it does not speak RFB 3.7 or 3.8",
        ),
        (b"HTTP/1.1 400", "it does not speak RFB 3.7 or 3.8"),
        (b"RFB 003.008\n\x01\x02", "it wants a password"),
        (b"RFB 003.008\n\x00\0\0\0\x03bad", "it wants a password"),
        (b"RFB 003.008\n\x01\x01\0\0\0\x01", "it wants a password"),
        (b"RFB 003", "the screen's server broke off"),
    ] {
        let (mut ours, mut screen) = tokio::io::duplex(64);
        screen.write_all(bytes).await.unwrap();
        screen.shutdown().await.unwrap();
        let error = greet(&mut ours).await.unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

fn messages() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let message = prop_oneof![
        Just(pixel_format(32)),
        Just(sized(3, 10)),
        prop::collection::vec(any::<i32>(), 0..20).prop_map(|list| encodings(&list)),
        (any::<bool>(), any::<u32>()).prop_map(|(down, keysym)| key(down, keysym)),
        (any::<bool>(), any::<u32>(), 0..9_u32)
            .prop_map(|(down, keysym, code)| placed(down, keysym, code)),
        (any::<u8>(), any::<u16>(), any::<u16>())
            .prop_map(|(buttons, x, y)| pointer(buttons, x, y)),
        prop::collection::vec(any::<u8>(), 0..300).prop_map(|text| paste(&text)),
        (24..29_u32, prop::collection::vec(any::<u8>(), 0..300))
            .prop_map(|(bit, text)| extended(1 << bit, &text)),
        prop::collection::vec(any::<u8>(), 0..64).prop_map(|payload| fence(&payload)),
        (1..8_192_u16, 1..8_192_u16, 0..4_u8)
            .prop_map(|(width, height, screens)| resize(width, height, screens)),
    ];
    prop::collection::vec(message, 0..12)
}

/// All that is said, however the bytes come.
fn in_pieces(bytes: &[u8], size: usize) -> (Vec<Said>, Option<Error>) {
    let mut viewer = Viewer::default();
    let mut all = Vec::new();
    for piece in bytes.chunks(size) {
        match viewer.push(piece) {
            Ok(said) => all.extend(said),
            Err(_) => break,
        }
    }
    (all, viewer.error())
}

proptest! {
    #[test]
    fn good_messages_come_out_as_they_went_in(messages in messages(), size in 1..400_usize) {
        let bytes = [GREETING, &messages.concat()].concat();
        let (said, error) = in_pieces(&bytes, size);
        prop_assert_eq!(error, None);
        prop_assert_eq!(said.len(), messages.len() + 3);
        for (said, message) in said[3..].iter().zip(&messages) {
            let Said::Message(read) = said else { panic!("{said:?}") };
            if message[0] != 2 {
                prop_assert_eq!(&read.bytes, message);
            }
        }
    }

    #[test]
    fn pieces_make_no_difference(
        messages in messages(),
        garbage in prop::collection::vec(any::<u8>(), 0..60),
        size in 1..40_usize,
    ) {
        let bytes = [GREETING, &messages.concat(), &garbage].concat();
        let whole = in_pieces(&bytes, bytes.len());
        prop_assert_eq!(in_pieces(&bytes, size), whole);
    }

    /// What is sent on and what is let go at the end leave nothing down, whatever was pressed.
    #[test]
    fn nothing_stays_down(messages in messages()) {
        let mut held = Held::default();
        let mut sent = Vec::new();
        for message in said(&messages.concat()).0 {
            sent.extend(held.note(message.what));
            sent.extend(message.bytes);
        }
        sent.extend(held.release());
        let mut after = Held::default();
        for message in said(&sent).0 {
            after.note(message.what);
        }
        prop_assert_eq!(after.release(), b"");
    }
}
