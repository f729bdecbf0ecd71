//! What the keys of a keyboard write, and which of them write nothing and can be lent.

use std::collections::VecDeque;

use super::keys::{Keysym, SHIFT, UNICODE};

/// A keyboard's table, as the X server gives it.
#[derive(Clone, Debug, Default)]
pub(super) struct Keymap {
    /// The first key's number.
    first: u8,
    /// Columns of a key. The first two are without and with Shift.
    columns: usize,
    keysyms: Vec<Keysym>,
}

/// How something is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stroke {
    pub(super) keycode: u8,
    pub(super) shift: bool,
}

/// Keys that write nothing of their own, and what they are lent to. Those lent longest ago come first.
///
/// What a program makes of a key it looks up when it reads of it, which may be later. So a key keeps what it is
/// lent to for as long as another one is free.
#[derive(Clone, Debug, Default)]
pub(super) struct Lent(VecDeque<(u8, Option<Keysym>)>);

impl Keymap {
    pub(super) fn new(first: u8, columns: u8, keysyms: Vec<Keysym>) -> Self {
        Self {
            first,
            columns: usize::from(columns),
            keysyms,
        }
    }

    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// The key that has this meaning.
    pub(super) fn stroke(&self, keysym: Keysym) -> Option<Stroke> {
        // One that is lent means something else tomorrow: who wants it asks for it again.
        let own = |row: &[Keysym], column| row.get(column) == Some(&keysym) && !is_lent(row);
        let find = |column: usize| {
            let (keycode, _) = self.rows().find(|(_, row)| own(row, column))?;
            Some(Stroke {
                keycode,
                shift: column == 1,
            })
        };
        find(0).or_else(|| find(1)).or_else(|| {
            // A letter with one column is written large with Shift, by the protocol's own rule.
            let large = char::from_u32(keysym).filter(char::is_ascii_uppercase)?;
            let small = Keysym::from(u32::from(large.to_ascii_lowercase()));
            let (keycode, _) = self
                .rows()
                .find(|(_, row)| row[0] == small && row.get(1).is_none_or(|one| *one == 0))?;
            Some(Stroke {
                keycode,
                shift: true,
            })
        })
    }

    /// Keys that can be lent: those that write nothing, and those that were lent before, by whomever.
    pub(super) fn to_lend(&self) -> Lent {
        let free = self
            .rows()
            .filter(|(_, row)| row.iter().all(|one| *one == 0));
        let lent = self.rows().filter(|(_, row)| is_lent(row));
        // The server itself, when a person writes what no key has, takes the lowest.
        let mut keys: Vec<_> = free.map(|(keycode, _)| (keycode, None)).collect();
        keys.reverse();
        let lent = lent.map(|(keycode, row)| (keycode, Some(row[0])));
        keys.splice(0..0, lent);
        // Free ones are taken first.
        keys.sort_by_key(|(_, keysym)| keysym.is_some());
        Lent(keys.into())
    }

    fn rows(&self) -> impl Iterator<Item = (u8, &[Keysym])> {
        let rows = self.keysyms.chunks_exact(self.columns.max(1));
        (self.first..=u8::MAX).zip(rows)
    }
}

impl Lent {
    /// How many different characters can be written before a key has to mean something else.
    pub(super) fn room(&self) -> usize {
        self.0.len()
    }

    /// Takes in what can be lent by now: a keyboard that was given another layout has forgotten what was lent.
    pub(super) fn refresh(&mut self, now: Self) {
        let known = std::mem::take(&mut self.0);
        let find = |keycode: u8| now.0.iter().find(|(one, _)| *one == keycode).copied();
        let mut kept: VecDeque<_> = known.iter().filter_map(|(one, _)| find(*one)).collect();
        for one in now.0.iter().rev() {
            if !known.iter().any(|(keycode, _)| *keycode == one.0) {
                kept.push_front(*one);
            }
        }
        self.0 = kept;
    }

    /// The key that has this meaning, and whether it has to be told so first. `None`: there are no keys to lend.
    pub(super) fn lend(&mut self, keysym: Keysym) -> Option<(Stroke, bool)> {
        let at = self.0.iter().position(|(_, lent)| *lent == Some(keysym));
        let is_new = at.is_none();
        let (keycode, _) = self.0.remove(at.unwrap_or(0))?;
        self.0.push_back((keycode, Some(keysym)));
        let stroke = Stroke {
            keycode,
            shift: false,
        };
        Some((stroke, is_new))
    }
}

/// Splits a text into parts, none of which has more different characters without a key than `room`.
pub(super) fn parts(
    text: &[Keysym],
    room: usize,
    has_key: impl Fn(Keysym) -> bool,
) -> Vec<&[Keysym]> {
    let (mut parts, mut from, mut lent) = (Vec::new(), 0, Vec::new());
    for (at, keysym) in text.iter().enumerate() {
        if has_key(*keysym) || lent.contains(keysym) {
            continue;
        }
        if lent.len() == room.max(1) {
            parts.push(&text[from..at]);
            (from, lent) = (at, Vec::new());
        }
        lent.push(*keysym);
    }
    parts.push(&text[from..]);
    parts
}

/// Whether a key was lent, by whomever: it writes one character whatever is held. No usual key does but Space.
fn is_lent(row: &[Keysym]) -> bool {
    let first = row[0];
    let is_character = first >= UNICODE || (0x21..=0xff).contains(&first);
    // The server gives columns that were the same back as none.
    let is_same = row.iter().all(|one| *one == first || *one == 0);
    is_character && is_same && row.get(1) == Some(&first)
}

/// Whether a key only changes what others mean.
pub(super) fn is_modifier(keysym: Keysym) -> bool {
    (SHIFT..=0xffee).contains(&keysym) || keysym == 0xfe03
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn map() -> Keymap {
        // `a`, `1 !`, one that writes nothing, one lent before, one that is a letter in one column.
        let rows = [
            [0x61, 0x41],
            [0x31, 0x21],
            [0, 0],
            [UNICODE | 0x44f, UNICODE | 0x44f],
            [0x62, 0],
            [0, 0],
        ];
        Keymap::new(8, 2, rows.concat())
    }

    #[test]
    fn keys_are_found_with_and_without_shift() {
        let stroke = |keysym| map().stroke(keysym).map(|one| (one.keycode, one.shift));
        assert_eq!(stroke(0x61), Some((8, false)));
        assert_eq!(stroke(0x41), Some((8, true)));
        assert_eq!(stroke(0x21), Some((9, true)));
        assert_eq!(stroke(0x42), Some((12, true)));
        assert_eq!(stroke(0x63), None);
    }

    #[test]
    fn free_keys_are_lent_first_and_the_highest_of_them() {
        let mut lent = map().to_lend();
        assert_eq!(lent.room(), 3);
        let mut code = |c| {
            lent.lend(UNICODE | c)
                .map(|(stroke, is_new)| (stroke.keycode, is_new))
        };
        assert_eq!(code(1), Some((13, true)));
        assert_eq!(code(0x44f), Some((11, false)));
        assert_eq!(code(2), Some((10, true)));
        assert_eq!(code(1), Some((13, false)));
        // The one whose last use is longest ago.
        assert_eq!(code(3), Some((11, true)));
        assert_eq!(Lent::default().lend(5), None);
    }

    #[test]
    fn a_keyboard_of_another_layout_has_forgotten_what_was_lent() {
        let mut lent = map().to_lend();
        lent.lend(UNICODE | 1);
        lent.refresh(map().to_lend());
        assert_eq!(lent.room(), 3);
        let again = lent.lend(UNICODE | 1);
        assert!(again.is_some_and(|(_, is_new)| is_new));
        let still = lent.lend(UNICODE | 0x44f);
        assert!(still.is_some_and(|(_, is_new)| !is_new));
    }

    proptest! {
        #[test]
        fn within_a_part_no_key_changes_its_meaning(text in "[a-e1-9]{0,60}", room in 1_usize..5) {
            let text: Vec<Keysym> = text.chars().map(u32::from).collect();
            let has_key = |keysym| keysym < 0x3a;
            let parts = parts(&text, room, has_key);
            prop_assert_eq!(parts.concat(), text.clone());
            let codes: Vec<u8> = (20..).take(room).collect();
            let mut lent = Lent(codes.iter().map(|code| (*code, None)).collect());
            for part in parts {
                let mut meaning = std::collections::HashMap::new();
                for keysym in part.iter().filter(|one| !has_key(**one)) {
                    let (stroke, _) = lent.lend(*keysym).expect("a key");
                    prop_assert_eq!(*meaning.entry(stroke.keycode).or_insert(*keysym), *keysym);
                }
            }
        }
    }
}
