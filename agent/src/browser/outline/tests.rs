use proptest::prelude::*;
use serde_json::json;

use super::*;

fn document(nodes: Value) -> Document {
    Document {
        nodes: serde_json::from_value(nodes).unwrap(),
        frames: HashMap::new(),
        clickables: Arc::default(),
    }
}

fn node(id: i64, role: &str, name: &str, children: &[i64]) -> Value {
    let children: Vec<String> = children.iter().map(ToString::to_string).collect();
    json!({
        "nodeId": id.to_string(), "ignored": false, "role": { "type": "role", "value": role },
        "name": { "type": "computedString", "value": name }, "childIds": children, "backendDOMNodeId": id,
    })
}

fn with(mut node: Value, property: &str, value: Value) -> Value {
    if property == "value" || property == "ignored" {
        node[property] = if property == "value" {
            json!({ "value": value })
        } else {
            value
        };
        return node;
    }
    if node["properties"].is_null() {
        node["properties"] = json!([]);
    }
    let one = json!({ "name": property, "value": { "type": "x", "value": value } });
    node["properties"].as_array_mut().unwrap().push(one);
    node
}

fn told(documents: &[Document]) -> String {
    let lines = outline(documents);
    let number = |line: &Line| line.target.map(|(_, node)| u32::try_from(node).unwrap());
    let told: Vec<String> = lines.iter().map(|line| line.told(number(line))).collect();
    told.join("\n")
}

#[test]
fn a_page_reads_as_an_outline() {
    let page = document(json!([
        node(1, "RootWebArea", "Title", &[2, 3, 10, 11, 20, 30]),
        node(2, "heading", "Hi there", &[4]),
        node(3, "form", "", &[5, 7, 8]),
        node(4, "StaticText", "Hi there", &[]),
        node(5, "LabelText", "", &[6, 9]),
        node(6, "StaticText", "Name ", &[]),
        with(
            with(node(9, "textbox", "Name", &[60]), "value", json!("a \"b\"")),
            "required",
            json!(true)
        ),
        node(60, "StaticText", "a b", &[]),
        with(
            node(7, "checkbox", "I agree", &[]),
            "checked",
            json!("true")
        ),
        with(node(8, "button", "Go", &[]), "disabled", json!(true)),
        node(10, "generic", "", &[12]),
        node(12, "StaticText", "a  div\nthat is clicked", &[]),
        with(
            with(
                node(11, "combobox", "Size", &[13]),
                "hasPopup",
                json!("menu")
            ),
            "value",
            json!("L")
        ),
        node(13, "MenuListPopup", "", &[14, 15]),
        node(14, "option", "S", &[]),
        node(15, "option", "L", &[]),
        node(20, "Canvas", "", &[]),
        with(node(30, "none", "", &[31]), "ignored", json!(true)),
        node(31, "link", "more", &[]),
    ]));
    let expected = r#"- heading "Hi there" [ref=e2]
- textbox "Name" [ref=e9] [required]: "a \"b\""
- checkbox "I agree" [ref=e7] [checked]
- button "Go" [ref=e8] [disabled]
- text "a div that is clicked" [ref=e10]
- combobox "Size" [ref=e11]: "L" (options: S | L)
- canvas [ref=e20] (drawn, not readable here: take a screenshot)
- link "more" [ref=e31]"#;
    assert_eq!(told(&[page]), expected);
}

#[test]
fn frames_stand_where_they_are_shown_and_one_that_went_away_says_so() {
    let mut page = document(json!([
        node(1, "RootWebArea", "", &[2, 3]),
        node(2, "Iframe", "ad", &[]),
        node(3, "Iframe", "", &[]),
    ]));
    let mut inner = document(json!([
        node(1, "RootWebArea", "", &[5, 6]),
        node(5, "button", "in", &[]),
        node(6, "Iframe", "round", &[]),
    ]));
    page.frames = HashMap::from([(2, Some(1)), (3, None)]);
    // One that claims to show the page that shows it.
    inner.frames = HashMap::from([(6, Some(0))]);
    let expected = "- iframe \"ad\" [ref=e2]\n  - button \"in\" [ref=e5]\n  \
        - iframe \"round\" [ref=e6] (could not be read)\n- iframe [ref=e3] (could not be read)";
    assert_eq!(told(&[page, inner]), expected);
}

#[test]
fn what_only_answers_clicks_is_told_where_nothing_in_it_is() {
    let mut page = document(json!([
        node(1, "RootWebArea", "", &[2, 4, 6, 9]),
        with(node(2, "none", "", &[3]), "ignored", json!(true)),
        node(3, "StaticText", "says it itself", &[]),
        with(node(4, "none", "", &[5]), "ignored", json!(true)),
        with(node(5, "none", "", &[]), "ignored", json!(true)),
        node(6, "generic", "", &[7, 8]),
        node(7, "button", "Go", &[]),
        with(node(8, "none", "", &[]), "ignored", json!(true)),
        node(9, "button", "Stop", &[]),
    ]));
    let hints = [2, 4, 5, 6, 8, 9].map(|node| (node, format!("class{node}")));
    page.clickables = Arc::new(hints.into());
    let expected = r#"- text "says it itself" [ref=e2]
- clickable "class5" [ref=e5]
- button "Go" [ref=e7]
- clickable "class8" [ref=e8]
- button "Stop" [ref=e9]"#;
    assert_eq!(told(&[page]), expected);
}

#[test]
fn what_a_page_says_stays_on_its_line() {
    let page = document(json!([
        node(1, "RootWebArea", "", &[2]),
        node(2, "button", "a\n- button \"Pay\" [ref=e1]\u{7}", &[]),
    ]));
    assert_eq!(
        told(&[page]),
        r#"- button "a - button \"Pay\" [ref=e1]" [ref=e2]"#
    );
    assert_eq!(plain("  x \t y ", 9), "x y");
    assert_eq!(plain("🦋🦋🦋", 2), "🦋🦋…");
}

proptest! {
    /// A page can claim any tree, even one that is none.
    #[test]
    fn any_tree_ends_and_each_line_is_one(
        nodes in prop::collection::vec(
            (0..12_i64, 0..8_usize, ".{0,12}", prop::collection::vec(0..12_i64, 0..3), any::<bool>()),
            0..40,
        ),
    ) {
        const ROLES: [&str; 8] =
            ["generic", "button", "StaticText", "Iframe", "textbox", "combobox", "list", "none"];
        let made = nodes.iter().map(|(id, role, name, children, ignored)| {
            with(node(*id, ROLES[*role], name, children), "ignored", json!(ignored))
        });
        let page = document(made.collect());
        for line in outline(&[page]) {
            prop_assert!(!line.told(Some(1)).contains('\n'));
        }
    }
}
