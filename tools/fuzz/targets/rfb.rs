//! What a viewer of a screen sends, in pieces of any size. What passes for input must never be more than was said.

#![no_main]

use cocoonbox_api::screen::rfb::{CLIPBOARD_BYTES_MAX, Held, Said, Viewer};
use libfuzzer_sys::fuzz_target;

fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Viewer, Vec<Said>) {
    let (mut viewer, mut all) = (Viewer::default(), Vec::new());
    for piece in pieces {
        match viewer.push(piece) {
            Ok(said) => all.extend(said),
            Err(_) => break,
        }
    }
    (viewer, all)
}

fuzz_target!(|input: &[u8]| {
    let Some((first, bytes)) = input.split_first() else {
        return;
    };
    let (whole, said) = read([bytes].into_iter());
    let size = usize::from(*first) + 1;
    let (in_pieces, said_in_pieces) = read(bytes.chunks(size));
    assert_eq!(whole.error(), in_pieces.error());
    assert_eq!(said, said_in_pieces);
    let mut held = Held::default();
    let mut sent = Vec::new();
    for said in said {
        let Said::Message(message) = said else {
            continue;
        };
        assert!(message.bytes.len() <= CLIPBOARD_BYTES_MAX + 8);
        sent.extend(held.note(message.what));
        sent.extend(message.bytes);
    }
    // What is sent on is good RFB itself, and what lets everything go leaves nothing down.
    sent.extend(held.release());
    let (mut box_side, mut after) = (Viewer::default(), Held::default());
    box_side
        .push(b"RFB 003.008\n\x01\x01")
        .expect("a greeting");
    for said in box_side.push(&sent).expect("good messages") {
        if let Said::Message(message) = said {
            after.note(message.what);
        }
    }
    assert_eq!(box_side.error(), None);
    assert!(after.release().is_empty());
});
