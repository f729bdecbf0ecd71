//! A page as a model reads it: one line for each thing of its accessibility trees, all frames in one.

mod state;

use std::{collections::HashMap, fmt::Write as _, sync::Arc};

use serde::Deserialize;
use serde_json::Value;

use self::state::state;
use super::clickable::Clickables;
use crate::lines::quoted;

pub(super) use crate::lines::plain;

/// Lines of one page. What is behind them is said to be missing.
const LINES_MAX: usize = 20_000;
const DEPTH_MAX: usize = 24;
const NAME_CHARS_MAX: usize = 160;
const TEXT_CHARS_MAX: usize = 600;
/// What only answers clicks. Its name is the page's own word for it, not one that is meant for people.
pub(super) const CLICKABLE: &str = "clickable";

/// One document of a page: what a frame shows.
#[derive(Debug, Default)]
pub(super) struct Document {
    pub(super) nodes: Vec<AxNode>,
    /// Which document each element shows that is a frame, by its node; `None`: one that could not be read.
    pub(super) frames: HashMap<i64, Option<usize>>,
    /// What answers clicks, by its node. Told where nothing else that is told stands for it.
    pub(super) clickables: Arc<Clickables>,
}

/// A node of an accessibility tree, as far as it matters here.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct AxNode {
    node_id: String,
    ignored: bool,
    role: AxValue,
    name: AxValue,
    value: AxValue,
    properties: Vec<AxProperty>,
    child_ids: Vec<String>,
    #[serde(rename = "backendDOMNodeId")]
    pub(super) backend: Option<i64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct AxValue {
    value: Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct AxProperty {
    name: String,
    value: AxValue,
}

/// One line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) depth: usize,
    pub(super) role: String,
    pub(super) name: String,
    /// What stands behind the ref.
    pub(super) state: String,
    /// The document and the node that can be acted on.
    pub(super) target: Option<(usize, i64)>,
}

impl AxNode {
    fn role(&self) -> &str {
        self.role.value.as_str().unwrap_or_default()
    }

    /// What it is and what it is called, as a line has them.
    pub(super) fn identity(&self) -> (String, String) {
        (shown_role(self), plain(&self.name.text(), NAME_CHARS_MAX))
    }

    fn is(&self, property: &str) -> bool {
        let found = self.properties.iter().find(|one| one.name == property);
        found.is_some_and(|one| match &one.value.value {
            Value::Bool(holds) => *holds,
            Value::String(word) => !matches!(word.as_str(), "false" | ""),
            _ => false,
        })
    }

    fn property(&self, name: &str) -> Option<String> {
        let found = self.properties.iter().find(|one| one.name == name)?;
        Some(found.value.text()).filter(|text| !text.is_empty())
    }
}

impl AxValue {
    fn text(&self) -> String {
        match &self.value {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        }
    }
}

impl Line {
    /// The line as it is told, with its ref if it has one.
    pub(super) fn told(&self, number: Option<u32>) -> String {
        let mut told = format!("{}- {}", "  ".repeat(self.depth.min(DEPTH_MAX)), self.role);
        if !self.name.is_empty() {
            told.extend([" ", &quoted(&self.name)]);
        }
        if let Some(number) = number {
            let _ = write!(told, " [ref=e{number}]");
        }
        told.push_str(&self.state);
        told
    }
}

/// What is left to do: a node, and what stands above it.
struct Step {
    document: usize,
    node: usize,
    depth: usize,
    /// Whose text this is, where nothing shown stands between.
    anchor: Option<i64>,
    /// The line above whose name may say it already.
    above: Option<usize>,
}

enum Todo {
    Visit(Step),
    /// All below a line has been visited.
    Leave(usize),
}

/// Makes the lines of a page. The first document is the page's own.
pub(super) fn outline(documents: &[Document]) -> Vec<Line> {
    let index: Vec<HashMap<&str, usize>> = documents
        .iter()
        .map(|document| {
            let nodes = document.nodes.iter().enumerate();
            nodes
                .map(|(at, node)| (node.node_id.as_str(), at))
                .collect()
        })
        .collect();
    let mut lines = Vec::<Line>::new();
    let mut shown = vec![false; documents.len()];
    let mut left = Vec::new();
    let mut is_kept = HashMap::<usize, bool>::new();
    if let Some(first) = shown.first_mut() {
        *first = true;
        left.extend(root(documents, 0, 0, None).map(Todo::Visit));
    }
    // A tree may claim to hold itself.
    let mut seen: Vec<Vec<bool>> = documents
        .iter()
        .map(|document| vec![false; document.nodes.len()])
        .collect();
    while let Some(todo) = left.pop() {
        let step = match todo {
            Todo::Visit(step) => step,
            Todo::Leave(line) => {
                // What is told inside stands for it, with a better name.
                is_kept.insert(line, lines.len() == line + 1);
                continue;
            }
        };
        if std::mem::replace(&mut seen[step.document][step.node], true) {
            continue;
        }
        if lines.len() == LINES_MAX {
            lines.push(Line {
                role: "…".to_owned(),
                name: format!("the page goes on; only {LINES_MAX} lines of it are shown"),
                ..Line::default()
            });
            break;
        }
        let node = &documents[step.document].nodes[step.node];
        if let Some(line) = clickable(documents, &step) {
            left.push(Todo::Leave(lines.len()));
            lines.push(line);
        }
        let below = visit(documents, &step, &mut lines);
        match below {
            Below::Nothing => {}
            Below::Children {
                depth,
                anchor,
                above,
            } => {
                let known = &index[step.document];
                let children = node.child_ids.iter().rev();
                left.extend(children.filter_map(|id| known.get(id.as_str())).map(|at| {
                    Todo::Visit(Step {
                        document: step.document,
                        node: *at,
                        depth,
                        anchor,
                        above,
                    })
                }));
            }
            Below::Frame => {
                let frames = &documents[step.document].frames;
                let inner = node.backend.and_then(|backend| frames.get(&backend));
                match inner {
                    // A document that shows itself would have no end.
                    Some(Some(inner)) if !shown.get(*inner).copied().unwrap_or(true) => {
                        shown[*inner] = true;
                        let above = Some(lines.len() - 1);
                        let root = root(documents, *inner, step.depth + 1, above);
                        left.extend(root.map(Todo::Visit));
                    }
                    _ => {
                        if let Some(line) = lines.last_mut() {
                            line.state.push_str(" (could not be read)");
                        }
                    }
                }
            }
        }
    }
    let mut at = 0;
    lines.retain(|_| {
        at += 1;
        is_kept.get(&(at - 1)).copied().unwrap_or(true)
    });
    lines
}

/// The line of something that answers clicks and is nothing else.
fn clickable(documents: &[Document], step: &Step) -> Option<Line> {
    let Document {
        nodes, clickables, ..
    } = &documents[step.document];
    let node = &nodes[step.node];
    let backend = node.backend?;
    let hint = clickables.get(&backend)?;
    (node.ignored || is_transparent(node)).then(|| Line {
        depth: step.depth,
        role: CLICKABLE.to_owned(),
        name: hint.clone(),
        state: String::new(),
        target: Some((step.document, backend)),
    })
}

enum Below {
    Nothing,
    Children {
        depth: usize,
        anchor: Option<i64>,
        above: Option<usize>,
    },
    Frame,
}

fn root(
    documents: &[Document],
    document: usize,
    depth: usize,
    above: Option<usize>,
) -> Option<Step> {
    // It comes first.
    documents[document].nodes.first()?;
    Some(Step {
        document,
        node: 0,
        depth,
        anchor: None,
        above,
    })
}

fn visit(documents: &[Document], step: &Step, lines: &mut Vec<Line>) -> Below {
    let node = &documents[step.document].nodes[step.node];
    let through = Below::Children {
        depth: step.depth,
        anchor: node.backend.or(step.anchor),
        above: step.above,
    };
    if node.ignored {
        return if node.role() == "StaticText" {
            Below::Nothing
        } else {
            through
        };
    }
    let target = |backend: Option<i64>| backend.map(|backend| (step.document, backend));
    let role = node.role();
    match role {
        "InlineTextBox" | "LineBreak" | "ListMarker" => return Below::Nothing,
        "StaticText" => {
            text(node, step, target(step.anchor), lines);
            return Below::Nothing;
        }
        _ => {}
    }
    if is_transparent(node) {
        return through;
    }
    let (role_shown, mut name) = node.identity();
    if is_field(node) && name.is_empty() {
        name = node.property("placeholder").unwrap_or_default();
    }
    // A label that stands before what it names says nothing more.
    if let Some(last) = lines.last()
        && (last.role.as_str(), last.depth, &last.name) == ("text", step.depth, &name)
    {
        lines.pop();
    }
    lines.push(Line {
        depth: step.depth,
        role: role_shown,
        name,
        state: state(documents, step.document, node),
        target: target(node.backend),
    });
    if matches!(role, "Iframe" | "IframePresentational") {
        return Below::Frame;
    }
    let is_leaf = matches!(role, "Canvas" | "meter" | "progressbar")
        || is_field(node)
        || is_list_closed(node);
    if is_leaf {
        return Below::Nothing;
    }
    Below::Children {
        depth: step.depth + 1,
        anchor: None,
        above: Some(lines.len() - 1),
    }
}

fn text(node: &AxNode, step: &Step, target: Option<(usize, i64)>, lines: &mut Vec<Line>) {
    let words = plain(&node.name.text(), TEXT_CHARS_MAX);
    let is_said = step
        .above
        .is_some_and(|above| lines[above].name.contains(&words));
    let is_label =
        |last: &Line| last.depth == step.depth && last.name == words && last.role != "text";
    if words.is_empty() || is_said || lines.last().is_some_and(is_label) {
        return;
    }
    if let Some(last) = lines.last_mut()
        && last.role == "text"
        && (last.depth, last.target) == (step.depth, target)
        && last.name.len() + words.len() < TEXT_CHARS_MAX
    {
        last.name.extend([" ", &words]);
        return;
    }
    lines.push(Line {
        depth: step.depth,
        role: "text".to_owned(),
        name: words,
        state: String::new(),
        target,
    });
}

/// Whether it says nothing itself and only groups.
fn is_transparent(node: &AxNode) -> bool {
    let (is_named, can_focus) = (!node.name.text().is_empty(), node.is("focusable"));
    match node.role() {
        "RootWebArea" | "LabelText" | "MenuListPopup" | "none" | "presentation" | "Unknown"
        | "" => true,
        "generic" | "Section" | "img" | "image" | "SvgRoot" | "Legend" | "strong" | "emphasis"
        | "mark" | "paragraph" | "group" | "form" | "rowgroup" | "LayoutTable"
        | "LayoutTableRow" | "LayoutTableCell" | "Details" | "Pre" | "code" | "Abbr"
        | "sectionfooter" | "sectionheader" => !is_named && !can_focus,
        _ => false,
    }
}

/// Whether its value says all that is in it.
fn is_field(node: &AxNode) -> bool {
    matches!(
        node.role(),
        "textbox"
            | "searchbox"
            | "spinbutton"
            | "slider"
            | "ColorWell"
            | "Date"
            | "DateTime"
            | "InputTime"
    ) || (node.role() == "combobox" && node.property("editable").is_some())
}

fn is_list_closed(node: &AxNode) -> bool {
    node.role() == "combobox" && node.property("hasPopup").as_deref() == Some("menu")
}

fn shown_role(node: &AxNode) -> String {
    match node.role() {
        "Iframe" | "IframePresentational" => "iframe".to_owned(),
        "DisclosureTriangle" => "button".to_owned(),
        "generic" if node.is("editable") => "textbox".to_owned(),
        role => role.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests;
