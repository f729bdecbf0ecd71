//! How a thing is: what stands behind its ref.

use std::fmt::Write as _;

use super::{
    AxNode, Document, NAME_CHARS_MAX, TEXT_CHARS_MAX, is_field, is_list_closed, plain, quoted,
};

/// Of a closed list that are shown with it.
const OPTIONS_MAX: usize = 24;

pub(super) fn state(documents: &[Document], document: usize, node: &AxNode) -> String {
    let mut state = String::new();
    for flag in [
        "disabled",
        "required",
        "readonly",
        "multiline",
        "focused",
        "selected",
        "modal",
        "busy",
    ] {
        if node.is(flag) {
            state.extend([" [", flag, "]"]);
        }
    }
    for (property, word) in [("checked", "checked"), ("pressed", "pressed")] {
        match node.property(property).as_deref() {
            Some("true") => state.extend([" [", word, "]"]),
            Some("mixed") => state.extend([" [", word, "=mixed]"]),
            _ => {}
        }
    }
    match node.property("expanded").as_deref() {
        Some("true") => state.push_str(" [expanded]"),
        Some("false") if !is_list_closed(node) => state.push_str(" [collapsed]"),
        _ => {}
    }
    if node.is("invalid") {
        state.push_str(" [invalid]");
    }
    if node.role() == "heading"
        && let Some(level) = node.property("level")
    {
        let _ = write!(state, " [level={level}]");
    }
    let value = plain(&node.value.text(), TEXT_CHARS_MAX);
    if !value.is_empty()
        && (is_field(node)
            || is_list_closed(node)
            || node.role() == "combobox"
            || node.role() == "progressbar"
            || node.role() == "meter")
    {
        state.extend([": ", &quoted(&value)]);
    }
    if is_list_closed(node) {
        state.push_str(&options(documents, document, node));
    }
    if node.role() == "Canvas" {
        state.push_str(" (drawn, not readable here: take a screenshot)");
    }
    state
}

fn options(documents: &[Document], document: usize, node: &AxNode) -> String {
    let nodes = &documents[document].nodes;
    let find = |id: &String| nodes.iter().find(|node| node.node_id == *id);
    let mut names = Vec::new();
    let mut left: Vec<&AxNode> = node.child_ids.iter().rev().filter_map(find).collect();
    while let Some(one) = left.pop() {
        if one.role() == "option" {
            names.push(plain(&one.name.text(), NAME_CHARS_MAX));
        } else if names.len() <= OPTIONS_MAX {
            left.extend(one.child_ids.iter().rev().filter_map(find));
        }
        if names.len() > OPTIONS_MAX {
            break;
        }
    }
    let more = if names.len() > OPTIONS_MAX {
        " | …"
    } else {
        ""
    };
    names.truncate(OPTIONS_MAX);
    format!(" (options: {}{more})", names.join(" | "))
}
