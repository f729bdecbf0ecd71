//! Keys by their names, as pages are told of them.

use serde_json::{Value, json};

/// Modifiers, as bits of the protocol.
const ALT: u8 = 1;
const CONTROL: u8 = 2;
const META: u8 = 4;
const SHIFT: u8 = 8;

/// A key and what is held with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Press {
    modifiers: u8,
    key: Key,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    /// What it means: `a`, `Enter`.
    word: String,
    /// Which one it is: `KeyA`, `Enter`; empty where no usual keyboard has it.
    code: String,
    number: u32,
    /// What it writes.
    text: String,
    /// Control, Shift and such by themselves.
    modifier: u8,
}

/// Name, code of Windows, text.
const NAMED: [(&str, u32, &str); 31] = [
    ("Enter", 13, "\r"),
    ("Tab", 9, ""),
    ("Backspace", 8, ""),
    ("Delete", 46, ""),
    ("Escape", 27, ""),
    ("ArrowLeft", 37, ""),
    ("ArrowUp", 38, ""),
    ("ArrowRight", 39, ""),
    ("ArrowDown", 40, ""),
    ("Home", 36, ""),
    ("End", 35, ""),
    ("PageUp", 33, ""),
    ("PageDown", 34, ""),
    ("Insert", 45, ""),
    ("Space", 32, " "),
    ("F1", 112, ""),
    ("F2", 113, ""),
    ("F3", 114, ""),
    ("F4", 115, ""),
    ("F5", 116, ""),
    ("F6", 117, ""),
    ("F7", 118, ""),
    ("F8", 119, ""),
    ("F9", 120, ""),
    ("F10", 121, ""),
    ("F11", 122, ""),
    ("F12", 123, ""),
    ("ContextMenu", 93, ""),
    ("CapsLock", 20, ""),
    ("PrintScreen", 44, ""),
    ("Pause", 19, ""),
];

const MODIFIERS: [(&str, u32, u8, &str); 4] = [
    ("Control", 17, CONTROL, "ControlLeft"),
    ("Shift", 16, SHIFT, "ShiftLeft"),
    ("Alt", 18, ALT, "AltLeft"),
    ("Meta", 91, META, "MetaLeft"),
];

/// Signs of a usual keyboard: without Shift, with it, code, number.
const SIGNS: [(char, char, &str, u32); 21] = [
    ('`', '~', "Backquote", 192),
    ('1', '!', "Digit1", 49),
    ('2', '@', "Digit2", 50),
    ('3', '#', "Digit3", 51),
    ('4', '$', "Digit4", 52),
    ('5', '%', "Digit5", 53),
    ('6', '^', "Digit6", 54),
    ('7', '&', "Digit7", 55),
    ('8', '*', "Digit8", 56),
    ('9', '(', "Digit9", 57),
    ('0', ')', "Digit0", 48),
    ('-', '_', "Minus", 189),
    ('=', '+', "Equal", 187),
    ('[', '{', "BracketLeft", 219),
    (']', '}', "BracketRight", 221),
    ('\\', '|', "Backslash", 220),
    (';', ':', "Semicolon", 186),
    ('\'', '"', "Quote", 222),
    (',', '<', "Comma", 188),
    ('.', '>', "Period", 190),
    ('/', '?', "Slash", 191),
];

impl Press {
    /// Reads `Control+Shift+a`, `Enter`, `+`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut rest = text.trim();
        let mut modifiers = 0;
        while let Some((word, after)) = rest.split_once('+')
            && !after.is_empty()
            && let Some(bit) = modifier(word)
        {
            modifiers |= bit;
            rest = after;
        }
        let mut key = named(rest).or_else(|| {
            let mut chars = rest.chars();
            let c = chars.next()?;
            chars.next().is_none().then(|| of_char(c).1)
        })?;
        if key.text.len() == 1 && modifiers & SHIFT != 0 {
            key.word = key.word.to_uppercase();
            key.text = key.text.to_uppercase();
        }
        if modifiers & (CONTROL | ALT | META) != 0 {
            key.text.clear();
        }
        Some(Self { modifiers, key })
    }

    /// The key that writes a character; `None` where none does.
    pub(super) fn of(c: char) -> Option<Self> {
        if c == '\n' {
            return Self::parse("Enter");
        }
        if c == '\t' {
            return Self::parse("Tab");
        }
        let (needs_shift, key) = of_char(c);
        (!key.code.is_empty()).then_some(Self {
            modifiers: if needs_shift { SHIFT } else { 0 },
            key,
        })
    }

    /// The events of it: what is held goes down first and comes up last.
    pub(super) fn events(&self) -> Vec<Value> {
        let mut events = Vec::new();
        let held: Vec<_> = MODIFIERS
            .iter()
            .filter(|(_, _, bit, _)| self.modifiers & bit != 0 && self.key.modifier != *bit)
            .collect();
        let mut down = 0;
        for (name, number, bit, code) in &held {
            down |= bit;
            events.push(event("rawKeyDown", down, name, code, *number, ""));
        }
        let Key {
            word: key,
            code,
            number,
            text,
            modifier,
        } = &self.key;
        let kind = if text.is_empty() {
            "rawKeyDown"
        } else {
            "keyDown"
        };
        let mut one = event(kind, down | modifier, key, code, *number, text);
        // What a usual keyboard's shortcuts do in a field, pages' own handlers aside.
        if self.modifiers & !SHIFT == CONTROL {
            let command = match key.as_str() {
                "a" => Some("selectAll"),
                "c" => Some("copy"),
                "x" => Some("cut"),
                "v" => Some("paste"),
                "z" => Some("undo"),
                _ => None,
            };
            if let Some(command) = command {
                one["commands"] = json!([command]);
            }
        }
        events.push(one);
        events.push(event("keyUp", down, key, code, *number, ""));
        for (name, number, bit, code) in held.iter().rev() {
            down &= !bit;
            events.push(event("keyUp", down, name, code, *number, ""));
        }
        events
    }
}

fn event(kind: &str, modifiers: u8, key: &str, code: &str, number: u32, text: &str) -> Value {
    json!({
        "type": kind, "modifiers": modifiers, "key": key, "code": code, "text": text,
        "unmodifiedText": text, "windowsVirtualKeyCode": number, "nativeVirtualKeyCode": number,
    })
}

fn modifier(word: &str) -> Option<u8> {
    Some(match word.to_ascii_lowercase().as_str() {
        "control" | "ctrl" => CONTROL,
        "shift" => SHIFT,
        "alt" | "option" => ALT,
        "meta" | "cmd" | "command" | "super" => META,
        _ => return None,
    })
}

fn named(name: &str) -> Option<Key> {
    let alias = match name.to_ascii_lowercase().as_str() {
        "return" => "Enter",
        "esc" => "Escape",
        "del" => "Delete",
        "left" => "ArrowLeft",
        "up" => "ArrowUp",
        "right" => "ArrowRight",
        "down" => "ArrowDown",
        "ctrl" => "Control",
        _ => name,
    };
    for (name, number, bit, code) in MODIFIERS {
        if name.eq_ignore_ascii_case(alias) {
            return Some(Key {
                word: name.to_owned(),
                code: code.to_owned(),
                number,
                text: String::new(),
                modifier: bit,
            });
        }
    }
    let found = NAMED
        .iter()
        .find(|(name, ..)| name.eq_ignore_ascii_case(alias))?;
    let (name, number, text) = *found;
    Some(Key {
        word: if name == "Space" { " " } else { name }.to_owned(),
        code: name.to_owned(),
        number,
        text: text.to_owned(),
        modifier: 0,
    })
}

/// The key of a character, and whether Shift has to be held for it.
fn of_char(c: char) -> (bool, Key) {
    let key = |code: String, number| Key {
        word: c.to_string(),
        code,
        number,
        text: c.to_string(),
        modifier: 0,
    };
    if c.is_ascii_alphabetic() {
        let upper = c.to_ascii_uppercase();
        return (
            c.is_ascii_uppercase(),
            key(format!("Key{upper}"), upper.into()),
        );
    }
    if c == ' ' {
        return (false, key("Space".to_owned(), 32));
    }
    let sign = SIGNS
        .iter()
        .find(|(plain, shifted, ..)| *plain == c || *shifted == c);
    match sign {
        Some((_, shifted, code, number)) => (*shifted == c, key((*code).to_owned(), *number)),
        None => (false, key(String::new(), 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<String> {
        let press = Press::parse(text).unwrap();
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        press
            .events()
            .iter()
            .map(|event| {
                let bits = &event["modifiers"];
                let (kind, key, text) = (
                    word(&event["type"]),
                    word(&event["key"]),
                    word(&event["text"]),
                );
                format!("{kind} {key} {bits} {text:?}")
            })
            .collect()
    }

    #[test]
    fn what_is_held_comes_up_again() {
        assert_eq!(told("a"), ["keyDown a 0 \"a\"", "keyUp a 0 \"\""]);
        assert_eq!(
            told("ctrl+Shift+k"),
            [
                "rawKeyDown Control 2 \"\"",
                "rawKeyDown Shift 10 \"\"",
                "rawKeyDown K 10 \"\"",
                "keyUp K 10 \"\"",
                "keyUp Shift 2 \"\"",
                "keyUp Control 0 \"\"",
            ]
        );
        assert_eq!(
            told("Shift"),
            ["rawKeyDown Shift 8 \"\"", "keyUp Shift 0 \"\""]
        );
        assert_eq!(told("+"), ["keyDown + 0 \"+\"", "keyUp + 0 \"\""]);
        assert_eq!(told("Control++").len(), 4);
        assert_eq!(told("Return")[0], "keyDown Enter 0 \"\\r\"");
    }

    #[test]
    fn what_is_no_key_is_none() {
        for text in ["", "Nothing", "ab", "Control+", "Hyper+a"] {
            assert_eq!(Press::parse(text), None, "{text}");
        }
    }

    #[test]
    fn characters_have_their_keys_or_none() {
        let press = Press::of('?').unwrap();
        assert_eq!((press.modifiers, press.key.code.as_str()), (SHIFT, "Slash"));
        assert!(Press::of('é').is_none() && Press::of('🦋').is_none());
        assert_eq!(Press::of('\n'), Press::parse("Enter"));
    }
}
