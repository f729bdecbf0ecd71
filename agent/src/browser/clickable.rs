//! What answers clicks without saying so: an icon that is a `span` with a listener has no place in an
//! accessibility tree, and a page can be full of them.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::{Value, json};

use super::outline::plain;

/// Of a hint that stands for a name.
const HINT_CHARS_MAX: usize = 60;
/// Less is not meant to be hit.
const SIDE_MIN: f64 = 3.0;

/// Nodes that answer clicks, by backend node, each with what its page calls it: its id and its classes.
pub(super) type Clickables = HashMap<i64, String>;

/// What Chromium tells of the documents of a session (`DOMSnapshot.captureSnapshot`), as far as it matters here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Snapshot {
    documents: Vec<Tree>,
    strings: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Tree {
    nodes: Nodes,
    layout: Layout,
}

/// Columns: a node is an index into each.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Nodes {
    parent_index: Vec<i64>,
    node_name: Vec<i64>,
    backend_node_id: Vec<i64>,
    /// Names and values in turns.
    attributes: Vec<Vec<i64>>,
    is_clickable: Marked,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Marked {
    index: Vec<usize>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Layout {
    node_index: Vec<usize>,
    /// Of each node its cursor and its visibility, as they were asked for.
    styles: Vec<Vec<i64>>,
    bounds: Vec<Vec<f64>>,
}

/// What is asked for.
pub(super) fn asked() -> Value {
    json!({ "computedStyles": ["cursor", "visibility"] })
}

impl Snapshot {
    /// Those that have a listener for clicks, and those that a hand shows itself over though not around.
    pub(super) fn clickables(&self) -> Clickables {
        let mut all = Clickables::new();
        for tree in &self.documents {
            let listening: HashSet<usize> = tree.nodes.is_clickable.index.iter().copied().collect();
            let boxes = tree.layout.node_index.iter().enumerate();
            let pointing: HashSet<usize> = boxes
                .filter(|(at, _)| self.style(tree, *at, 0) == "pointer")
                .map(|(_, node)| *node)
                .collect();
            for (at, node) in tree.layout.node_index.iter().enumerate() {
                let parent = tree.nodes.parent_index.get(*node).copied();
                let parent = parent.and_then(|parent| usize::try_from(parent).ok());
                // The hand is passed on to whatever is inside.
                let is_pointed_at = pointing.contains(node)
                    && parent.is_none_or(|parent| !pointing.contains(&parent));
                if !(listening.contains(node) || is_pointed_at) || !self.is_drawn(tree, at) {
                    continue;
                }
                let name = self.string(tree.nodes.node_name.get(*node).copied());
                if matches!(name, "HTML" | "BODY" | "#document" | "#text") {
                    continue;
                }
                if let Some(backend) = tree.nodes.backend_node_id.get(*node) {
                    all.insert(*backend, self.hint(tree, *node));
                }
            }
        }
        all
    }

    fn is_drawn(&self, tree: &Tree, at: usize) -> bool {
        let is_big = |bounds: &Vec<f64>| matches!(bounds[..], [_, _, width, height] if width >= SIDE_MIN && height >= SIDE_MIN);
        tree.layout.bounds.get(at).is_some_and(is_big) && self.style(tree, at, 1) != "hidden"
    }

    fn style(&self, tree: &Tree, at: usize, which: usize) -> &str {
        let style = tree
            .layout
            .styles
            .get(at)
            .and_then(|styles| styles.get(which));
        self.string(style.copied())
    }

    fn string(&self, index: Option<i64>) -> &str {
        let index = index.and_then(|index| usize::try_from(index).ok());
        index
            .and_then(|index| self.strings.get(index))
            .map_or("", String::as_str)
    }

    fn hint(&self, tree: &Tree, node: usize) -> String {
        let attributes = tree
            .nodes
            .attributes
            .get(node)
            .map_or(&[][..], Vec::as_slice);
        let value_of = |name: &str| {
            let mut pairs = attributes.chunks_exact(2);
            let found = pairs.find(|pair| self.string(Some(pair[0])) == name);
            found.map_or("", |pair| self.string(Some(pair[1])))
        };
        let hint = [value_of("id"), value_of("class")].join(" ");
        plain(&hint, HINT_CHARS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn snapshot(text: Value) -> Snapshot {
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn listeners_and_hands_are_found_and_what_is_not_seen_is_not() {
        let strings = json!([
            "HTML",
            "SPAN",
            "class",
            " trash  red",
            "pointer",
            "auto",
            "visible",
            "hidden",
            "id",
            "open"
        ]);
        let found = snapshot(json!({ "strings": strings, "documents": [{
            "nodes": {
                "parentIndex": [-1, 0, 0, 2, 0, 0], "nodeName": [0, 1, 1, 1, 1, 1],
                "backendNodeId": [10, 11, 12, 13, 14, 15],
                "attributes": [[], [2, 3], [8, 9, 2, 3], [], [], []],
                "isClickable": { "index": [0, 1, 4, 5] },
            },
            "layout": {
                "nodeIndex": [0, 1, 2, 3, 4, 5],
                "styles": [[5, 6], [5, 6], [4, 6], [4, 6], [5, 7], [5, 6]],
                "bounds": [
                    [0, 0, 9, 9], [0, 0, 9, 9], [0, 0, 9, 9], [0, 0, 9, 9], [0, 0, 9, 9], [0, 0, 1, 9]
                ],
            },
        }] }));
        let expected = [
            (11, "trash red".to_owned()),
            (12, "open trash red".to_owned()),
        ];
        assert_eq!(found.clickables(), expected.into());
    }

    proptest! {
        /// The columns come from a process that a page may have taken over.
        #[test]
        fn columns_that_do_not_fit_are_survived(
            columns in prop::collection::vec(prop::collection::vec(-2..9_i64, 0..6), 6),
            clicked in prop::collection::vec(0..9_usize, 0..6),
        ) {
            let rows = |column: &Vec<i64>| column.iter().map(|one| vec![*one; 4]).collect::<Vec<_>>();
            let layout = columns[3].iter().map(|one| one.abs()).collect::<Vec<_>>();
            snapshot(json!({ "strings": ["a", "pointer"], "documents": [{
                "nodes": {
                    "parentIndex": columns[0], "nodeName": columns[1], "backendNodeId": columns[2],
                    "attributes": rows(&columns[4]), "isClickable": { "index": clicked },
                },
                "layout": { "nodeIndex": layout, "styles": rows(&columns[5]), "bounds": rows(&columns[5]) },
            }] })).clickables();
        }
    }
}
