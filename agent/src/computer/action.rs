//! What can be done at a display, as a model writes it.

use serde::Deserialize;

use super::backend::Button;

/// Something that gives input.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Act {
    Click {
        #[serde(rename = "ref")]
        target: Option<String>,
        x: Option<i32>,
        y: Option<i32>,
        #[serde(default)]
        button: Button,
        times: Option<u32>,
        hold: Option<String>,
    },
    Move {
        #[serde(rename = "ref")]
        target: Option<String>,
        x: Option<i32>,
        y: Option<i32>,
    },
    Drag {
        #[serde(rename = "ref")]
        target: Option<String>,
        x: Option<i32>,
        y: Option<i32>,
        to: Option<String>,
        to_x: Option<i32>,
        to_y: Option<i32>,
        /// Places on the way.
        #[serde(default)]
        path: Vec<[i32; 2]>,
        #[serde(default)]
        button: Button,
        hold: Option<String>,
    },
    Scroll {
        #[serde(rename = "ref")]
        target: Option<String>,
        x: Option<i32>,
        y: Option<i32>,
        /// Notches; down and right are positive.
        #[serde(default)]
        down: i32,
        #[serde(default)]
        right_by: i32,
        hold: Option<String>,
    },
    Key {
        keys: String,
        times: Option<u32>,
    },
    Type {
        #[serde(rename = "ref")]
        target: Option<String>,
        text: String,
        #[serde(default)]
        enter: bool,
    },
    Set {
        #[serde(rename = "ref")]
        target: String,
        text: String,
    },
    Window {
        window: String,
    },
}

/// Something that only looks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Look {
    Snapshot {
        window: Option<String>,
        /// Lines to leave out.
        #[serde(default)]
        offset: usize,
        /// Only lines with this text, and what stands above them.
        find: Option<String>,
    },
    Screenshot {
        /// A part of the display, in pixels of the picture of all of it.
        area: Option<[i32; 4]>,
    },
    Windows {},
    Wait {
        text: Option<String>,
        gone: Option<String>,
        timeout_ms: Option<u64>,
    },
}
