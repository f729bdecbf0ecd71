//! The elements of programs as a model reads them: one line each, with refs that stay.

use std::{collections::HashMap, fmt::Write as _};

use super::{
    backend::{Element, Token, Tree, Window},
    geometry::Mapping,
};
use crate::lines::{plain, quoted};

const NAME_CHARS_MAX: usize = 160;
const VALUE_CHARS_MAX: usize = 600;
const INDENT_MAX: usize = 24;
/// Elements that one agent has seen and whose refs are known. Those seen longest ago are forgotten.
const REFS_MAX: usize = 20_000;

/// The refs of one agent: the same element is the same number for as long as it is there.
#[derive(Debug, Default)]
pub(super) struct Refs {
    last: u32,
    by_token: HashMap<Token, u32>,
    by_number: HashMap<u32, Seen>,
}

/// An element as it was when the agent saw it last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) token: Token,
    pub(super) role: String,
    pub(super) name: String,
}

impl Refs {
    fn number(&mut self, element: &Element) -> u32 {
        let number = *self
            .by_token
            .entry(element.token.clone())
            .or_insert_with(|| {
                self.last += 1;
                self.last
            });
        self.saw(number, element);
        if self.by_number.len() > REFS_MAX {
            let from = self
                .last
                .saturating_sub(u32::try_from(REFS_MAX).unwrap_or(u32::MAX));
            self.by_number.retain(|number, _| *number > from);
            self.by_token.retain(|_, number| *number > from);
        }
        number
    }

    /// An agent has been told what an element is by now.
    pub(super) fn saw(&mut self, number: u32, element: &Element) {
        let seen = Seen {
            token: element.token.clone(),
            role: element.role.clone(),
            name: plain(&element.name, NAME_CHARS_MAX),
        };
        self.by_number.insert(number, seen);
    }

    pub(super) fn seen(&self, number: u32) -> Option<&Seen> {
        self.by_number.get(&number)
    }

    /// Reads `e12`.
    pub(super) fn parse(text: &str) -> Option<u32> {
        text.trim().strip_prefix('e')?.parse().ok()
    }
}

impl Seen {
    pub(super) fn told(&self) -> String {
        if self.name.is_empty() {
            self.role.clone()
        } else {
            format!("{} {}", self.role, quoted(&self.name))
        }
    }

    /// Whether it is still what it was.
    pub(super) fn is(&self, element: &Element) -> bool {
        self.role == element.role && self.name == plain(&element.name, NAME_CHARS_MAX)
    }
}

/// One line for each element. Places are those of the picture.
pub(super) fn lines(tree: &Tree, refs: &mut Refs, mapping: Mapping) -> Vec<String> {
    tree.elements
        .iter()
        .map(|element| line(element, refs, mapping))
        .collect()
}

fn line(element: &Element, refs: &mut Refs, mapping: Mapping) -> String {
    let indent = "  ".repeat(element.depth.min(INDENT_MAX));
    let mut line = format!("{indent}- {}", plain(&element.role, 40));
    let name = plain(&element.name, NAME_CHARS_MAX);
    if !name.is_empty() {
        let _ = write!(line, " {}", quoted(&name));
    }
    let _ = write!(line, " [ref=e{}]", refs.number(element));
    for state in &element.states {
        let _ = write!(line, " [{state}]");
    }
    if let Some(frame) = element.frame {
        let frame = mapping.rect_in_picture(frame);
        let _ = write!(
            line,
            " ({},{} {}x{})",
            frame.x, frame.y, frame.width, frame.height
        );
    }
    if let Some(value) = &element.value {
        let value = plain(value, VALUE_CHARS_MAX);
        if !value.is_empty() && value != name {
            let _ = write!(line, ": {}", quoted(&value));
        }
    }
    if element.untold > 0 {
        let _ = write!(line, " [{} more in it are not told]", element.untold);
    }
    line
}

/// One line for each window, the one in front first.
pub(super) fn window_lines(windows: &[Window], mapping: Mapping) -> Vec<String> {
    let line = |window: &Window| {
        let frame = mapping.rect_in_picture(window.frame);
        let mut line = format!(
            "- window {} [{}] of {} ({},{} {}x{})",
            quoted(&plain(&window.title, NAME_CHARS_MAX)),
            window_name(window.id),
            plain(&window.program, 40),
            frame.x,
            frame.y,
            frame.width,
            frame.height
        );
        if window.is_active {
            line.push_str(" [active]");
        }
        if window.is_hidden {
            line.push_str(" [minimized]");
        }
        line
    };
    windows.iter().rev().map(line).collect()
}

/// A window as messages have it.
pub(super) fn window_name(id: u32) -> String {
    format!("w{id:x}")
}

pub(super) fn parse_window(text: &str) -> Option<u32> {
    u32::from_str_radix(text.trim().strip_prefix('w')?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::super::geometry::{Rect, Size};
    use super::*;

    fn element(path: &str, depth: usize, role: &str, name: &str) -> Element {
        Element {
            token: Token {
                program: ":1.5".into(),
                path: path.into(),
            },
            depth,
            role: role.into(),
            name: name.into(),
            value: None,
            states: Vec::new(),
            is_enabled: true,
            frame: Some(Rect {
                x: 100,
                y: 60,
                width: 40,
                height: 20,
            }),
            untold: 0,
        }
    }

    fn whole() -> Mapping {
        Mapping::of(
            Size {
                width: 2_560,
                height: 1_600,
            }
            .whole(),
        )
    }

    #[test]
    fn elements_are_lines_and_keep_their_refs() {
        let mut entry = element("/3", 1, "entry", "");
        (entry.value, entry.states) = (Some("a \"b\"\nc".into()), vec!["focused"]);
        let tree = Tree {
            elements: vec![element("/1", 0, "frame", "Save \"as\""), entry],
            notes: Vec::new(),
        };
        let mut refs = Refs::default();
        let shown = lines(&tree, &mut refs, whole());
        assert_eq!(
            shown,
            [
                "- frame \"Save \\\"as\\\"\" [ref=e1] (53,32 21x10)",
                "  - entry [ref=e2] [focused] (53,32 21x10): \"a \\\"b\\\" c\""
            ]
        );
        // What comes before it does not change what it is called.
        let mut more = tree.clone();
        more.elements.insert(0, element("/9", 0, "label", "new"));
        assert!(lines(&more, &mut refs, whole())[2].contains("[ref=e2]"));
        let seen = refs
            .seen(Refs::parse("e1").expect("a ref"))
            .expect("it was seen");
        assert!(seen.is(&tree.elements[0]) && !seen.is(&more.elements[0]));
        assert_eq!((Refs::parse("12"), Refs::parse("e")), (None, None));
    }

    #[test]
    fn refs_of_long_ago_are_forgotten_and_not_given_again() {
        let mut refs = Refs::default();
        let count = REFS_MAX + 10;
        let tree = Tree {
            elements: (0..count)
                .map(|at| element(&at.to_string(), 0, "label", "x"))
                .collect(),
            notes: Vec::new(),
        };
        lines(&tree, &mut refs, whole());
        assert!(refs.seen(5).is_none() && refs.by_number.len() <= REFS_MAX);
        let again = Tree {
            elements: vec![element("4", 0, "label", "x")],
            notes: Vec::new(),
        };
        let shown = lines(&again, &mut refs, whole());
        assert!(
            shown[0].contains(&format!("[ref=e{}]", count + 1)),
            "{shown:?}"
        );
    }

    #[test]
    fn windows_are_told_from_the_front() {
        let window = |id, is_active| Window {
            id,
            title: "T".into(),
            program: "p".into(),
            pid: None,
            frame: Rect {
                x: 0,
                y: 0,
                width: 2_560,
                height: 1_600,
            },
            is_active,
            is_hidden: !is_active,
        };
        let shown = window_lines(
            &[window(0x20_0003, false), window(0x40_0003, true)],
            whole(),
        );
        assert!(
            shown[0].starts_with("- window \"T\" [w400003] of p (0,0 ")
                && shown[0].ends_with("[active]")
        );
        assert!(shown[1].ends_with("[minimized]"));
        assert_eq!(parse_window("w400003"), Some(0x40_0003));
    }
}
