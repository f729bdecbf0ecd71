//! What can be done with the browser, as a model writes it.

use serde::Deserialize;

/// Something that changes what a page shows, or the browser.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Act {
    Navigate {
        url: String,
        #[serde(default)]
        new_tab: bool,
    },
    Back {},
    Forward {},
    Reload {},
    Click {
        #[serde(rename = "ref")]
        target: String,
        #[serde(default)]
        double: bool,
        #[serde(default)]
        right: bool,
    },
    Hover {
        #[serde(rename = "ref")]
        target: String,
    },
    /// Keys, one after the other, where the caret is or at the end of a field.
    Type {
        #[serde(rename = "ref")]
        target: Option<String>,
        text: String,
        #[serde(default)]
        enter: bool,
    },
    /// Puts a text in the place of what a field holds.
    Fill {
        #[serde(rename = "ref")]
        target: String,
        text: String,
        #[serde(default)]
        enter: bool,
    },
    Select {
        #[serde(rename = "ref")]
        target: String,
        values: Vec<String>,
    },
    Press {
        #[serde(rename = "ref")]
        target: Option<String>,
        key: String,
    },
    Scroll {
        #[serde(rename = "ref")]
        target: Option<String>,
        /// Pixels; down and right are positive.
        #[serde(default)]
        down: i32,
        #[serde(default)]
        right_by: i32,
    },
    Drag {
        #[serde(rename = "ref")]
        target: String,
        to: String,
    },
    Upload {
        #[serde(rename = "ref")]
        target: Option<String>,
        files: Vec<String>,
    },
    Dialog {
        accept: bool,
        text: Option<String>,
    },
    SelectTab {
        tab: u32,
    },
    CloseTab {
        tab: Option<u32>,
    },
    Pdf {},
    Evaluate {
        script: String,
        #[serde(rename = "ref")]
        target: Option<String>,
    },
}

/// Something that only looks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Look {
    Snapshot {
        /// Lines of the last snapshot to leave out.
        #[serde(default)]
        offset: usize,
        /// Only what is below this element.
        #[serde(rename = "ref")]
        target: Option<String>,
        /// Only lines with this text, and what stands above them.
        find: Option<String>,
    },
    Screenshot {
        #[serde(rename = "ref")]
        target: Option<String>,
    },
    Tabs {},
    Wait {
        text: Option<String>,
        gone: Option<String>,
        #[serde(default)]
        idle: bool,
        timeout_ms: Option<u64>,
    },
    Console {},
    Network {},
    Downloads {},
}
