//! What is repaired, what is refused, and what is never touched.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn schema() -> Schema {
    Schema::new(&json!({
        "type": "object",
        "properties": {
            "command": { "type": "string" },
            "timeout_ms": { "type": "integer", "minimum": 1 },
            "background": { "type": "boolean" },
            "ratio": { "type": "number" },
            "names": { "type": "array", "items": { "type": "string" } },
            "edits": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": { "old": { "type": "string" }, "count": { "type": "integer" } },
                    "required": ["old"],
                    "additionalProperties": false,
                },
            },
            "either": { "anyOf": [{ "type": "integer" }, { "type": "boolean" }] },
            "limit": { "$ref": "#/$defs/limit" },
        },
        "required": ["command"],
        "additionalProperties": false,
        "$defs": { "limit": { "type": ["integer", "null"] } },
    }))
    .expect("a schema")
}

fn repaired(text: &str) -> (Value, Vec<Repair>) {
    let read = read(&schema(), text, false).expect(text);
    assert!(schema().admits(&read.value));
    (read.value, read.repairs)
}

fn refused(text: &str) -> String {
    read(&schema(), text, false).expect_err(text).to_string()
}

#[test]
fn the_usual_mistakes_are_repaired_and_said() {
    let at = |at: &str| at.to_owned();
    let ls = json!({ "command": "ls" });
    let table: [(&str, Value, Vec<Repair>); 22] = [
        (r#"{"command":"ls"}"#, ls.clone(), vec![]),
        (
            r#"{"command":"ls",}"#,
            ls.clone(),
            vec![Repair::TrailingComma],
        ),
        (
            r#"{"command":"ls","names":["a","b",]}"#,
            json!({ "command": "ls", "names": ["a", "b"] }),
            vec![Repair::TrailingComma],
        ),
        ("{'command': 'ls'}", ls.clone(), vec![Repair::SingleQuotes]),
        (
            r#"{'command': 'echo "a"'}"#,
            json!({ "command": "echo \"a\"" }),
            vec![Repair::SingleQuotes],
        ),
        ("{command: \"ls\"}", ls.clone(), vec![Repair::BareKey]),
        (
            "{\"command\":\"a\nb\tc\"}",
            json!({ "command": "a\nb\tc" }),
            vec![Repair::ControlCharacter],
        ),
        (
            r#"{"command":"it\'s"}"#,
            json!({ "command": "it's" }),
            vec![Repair::Escape],
        ),
        (
            "```json\n{\"command\":\"ls\"}\n```",
            ls.clone(),
            vec![Repair::Fence],
        ),
        (
            "```\n{\"command\":\"ls\",}\n```",
            ls.clone(),
            vec![Repair::Fence, Repair::TrailingComma],
        ),
        (
            r#""{\"command\":\"ls\"}""#,
            ls.clone(),
            vec![Repair::Quoted { at: at("") }],
        ),
        (r#"{"command":"ls""#, ls.clone(), vec![Repair::Unclosed]),
        (
            r#"{"command":"ls","edits":[{"old":"a"},{"old":"b"}"#,
            json!({ "command": "ls", "edits": [{ "old": "a" }, { "old": "b" }] }),
            vec![Repair::Unclosed],
        ),
        (
            r#"{"command":"ls","timeout_ms":"5","background":"true","ratio":"0.5"}"#,
            json!({ "command": "ls", "timeout_ms": 5, "background": true, "ratio": 0.5 }),
            vec![
                Repair::Text {
                    at: at("/timeout_ms"),
                },
                Repair::Text {
                    at: at("/background"),
                },
                Repair::Text { at: at("/ratio") },
            ],
        ),
        (
            r#"{"command":"ls","edits":"[{\"old\":\"a\"}]"}"#,
            json!({ "command": "ls", "edits": [{ "old": "a" }] }),
            vec![Repair::Quoted { at: at("/edits") }],
        ),
        (
            r#"{"command":"ls","timeout_ms":null}"#,
            ls.clone(),
            vec![Repair::Null {
                at: at("/timeout_ms"),
            }],
        ),
        (
            r#"{"command":"ls","limit":null,"edits":[{"old":"a","count":null}]}"#,
            json!({ "command": "ls", "limit": null, "edits": [{ "old": "a" }] }),
            vec![Repair::Null {
                at: at("/edits/0/count"),
            }],
        ),
        (
            r#"{"arguments":{"command":"ls"}}"#,
            ls.clone(),
            vec![Repair::Wrapped {
                name: at("arguments"),
            }],
        ),
        (
            r#"{"name":"shell","input":"{\"command\":\"ls\"}"}"#,
            ls.clone(),
            vec![
                Repair::Wrapped { name: at("input") },
                Repair::Quoted { at: at("") },
            ],
        ),
        (
            "{'command': 'ls', 'background': True, 'timeout_ms': None}",
            json!({ "command": "ls", "background": true }),
            vec![
                Repair::SingleQuotes,
                Repair::PythonLiteral,
                Repair::Null {
                    at: at("/timeout_ms"),
                },
            ],
        ),
        (
            r#"{"command":"ls","either":"7"}"#,
            json!({ "command": "ls", "either": 7 }),
            vec![Repair::Text { at: at("/either") }],
        ),
        (
            r#"{"command":"ls","background":"False","limit":"3"}"#,
            json!({ "command": "ls", "background": false, "limit": 3 }),
            vec![
                Repair::Text {
                    at: at("/background"),
                },
                Repair::Text { at: at("/limit") },
            ],
        ),
    ];
    for (text, value, repairs) in table {
        assert_eq!(repaired(text), (value, repairs), "{text}");
    }
}

#[test]
fn what_has_two_readings_is_refused() {
    for (text, hint) in [
        // A quote in a string, or its end.
        (r#"{"command":"echo "hi""}"#, "a quote inside a string"),
        ("{'command': 'it's'}", "double quotes"),
        // A backslash that is meant, or one that is not.
        (r#"{"command":"grep \d"}"#, "backslash"),
        // The text may have gone on.
        (r#"{"command":"ls"#, "inside a string"),
        (r#"{"command":"ls","timeout_ms":5"#, "in the middle"),
        (r#"{"command":"ls","#, "in the middle"),
        (r#"{"command":"#, "missing at the end"),
        // The bracket may be missing behind `old` as well as at the end.
        (r#"{"edits":{"old":"a","command":"ls"}"#, "not clear where"),
        (r#"{"command":"a","command":"b",}"#, "there twice"),
        (r#"{"command":"ls"}{"command":"ls"}"#, "more text"),
        ("Sure: {\"command\":\"ls\"}", "double quotes"),
        (r#"{"command":"ls" "background":true}"#, "`,` or `}`"),
    ] {
        let said = refused(text);
        assert!(said.contains(hint), "{text}: {said}");
    }
    let cut = read(&schema(), r#"{"command":"ls""#, true).expect_err("cut");
    assert!(cut.to_string().contains("not clear where"), "{cut}");
}

#[test]
fn faults_say_where_what_was_expected_and_what_was_found() {
    for (text, said) in [
        ("{}", "`command` is missing"),
        (
            r#"{"command":"ls","cwd":"/","x":1}"#,
            "the whole cannot have `cwd`, `x`; it can have `command`, `timeout_ms`",
        ),
        (
            r#"{"command":1}"#,
            "`/command` has to be of type string, found the number 1",
        ),
        (
            r#"{"command":"ls","timeout_ms":"soon"}"#,
            "`/timeout_ms` has to be of type integer, found the string \"soon\"",
        ),
        (
            r#"{"command":"ls","timeout_ms":0}"#,
            "`/timeout_ms`: value is less than the minimum of 1, found the number 0",
        ),
        (
            r#"{"command":"ls","edits":[{"old":null}]}"#,
            "`/edits/0/old` has to be of type string, found null",
        ),
        (
            r#"{"command":"ls","edits":[{"count":1}]}"#,
            "`old` is missing in `/edits/0`",
        ),
        (
            "[]",
            "the whole has to be of type object, found the array []",
        ),
    ] {
        let found = refused(text);
        assert!(found.contains(said), "{text}: {found}");
    }
    let long = format!(r#"{{"command":{{"a":"{}"}}}}"#, "x".repeat(10_000));
    assert!(refused(&long).len() < 300);
}

#[test]
fn no_text_is_no_arguments() {
    let open = Schema::new(&json!({ "type": "object" })).expect("a schema");
    for text in ["", " \n"] {
        assert_eq!(read(&open, text, false).expect("read").value, json!({}));
    }
}

#[test]
fn a_strangers_schema_keeps_nobody_busy() {
    let choice = json!({ "anyOf": [
        { "$ref": "#/$defs/a" }, { "$ref": "#/$defs/a" }, { "properties": { "a": { "$ref": "#/$defs/a" } }, "type": "array" },
    ] });
    let schema = Schema::new(&json!({
        "type": "object",
        "properties": { "a": { "$ref": "#/$defs/a" } },
        "required": ["a"],
        "$defs": { "a": choice },
    }))
    .expect("a schema");
    let before = std::time::Instant::now();
    drop(read(&schema, r#"{"a":{"a":{"a":"1"}}}"#, false));
    assert!(before.elapsed().as_secs() < 10);
    let slow = json!({ "properties": { "a": { "pattern": "(a|a)*$" } } });
    let slow = Schema::new(&slow).expect("a schema");
    drop(read(
        &slow,
        &format!(r#"{{"a":"{}!"}}"#, "a".repeat(50_000)),
        false,
    ));
    for bad in [
        json!({ "type": "objekt" }),
        json!({ "$ref": "https://example.com/schema" }),
        json!({ "properties": { "a": { "pattern": "a{1000}{1000}" } } }),
        json!([]),
    ] {
        Schema::new(&bad).expect_err("not usable");
    }
    Schema::new(&json!({ "$ref": "#" })).expect("it admits everything");
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("finite", |n| n.is_finite())
            .prop_map(Value::from),
        "[ -~é\n\t'\"\\\\{}\\[\\],:]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::btree_map("[a-z'\" ]{0,5}", inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn valid_json_is_read_the_same_by_the_lenient_parser(value in json_value()) {
        // The lenient one sees it only wrapped in something that the strict one refuses.
        let text = format!("[{value},]");
        let (read, repairs) = lenient::parse(&text, false).expect("read");
        prop_assert_eq!(&read[0], &serde_json::from_str::<Value>(&value.to_string()).expect("json"));
        prop_assert_eq!(repairs, vec![Repair::TrailingComma]);
    }

    #[test]
    fn valid_arguments_are_never_changed(value in json_value()) {
        let open = Schema::new(&json!(true)).expect("a schema");
        let value: Value = serde_json::from_str(&value.to_string()).expect("json");
        let read = read(&open, &value.to_string(), false).expect("read");
        prop_assert_eq!(read, Read { value, repairs: Vec::new() });
    }

    #[test]
    fn what_is_read_fits(text in "[{}\\[\\]\"',:a-z0-9 \n\\\\TF`]{0,40}", is_cut: bool) {
        if let Ok(read) = read(&schema(), &text, is_cut) {
            prop_assert!(schema().admits(&read.value));
        }
    }

    #[test]
    fn a_cut_text_is_never_completed_otherwise_than_it_was(value in json_value(), keep in 0.0..1.0) {
        let whole = json!({ "command": "x", "any": value }).to_string();
        let open = Schema::new(&json!({ "type": "object" })).expect("a schema");
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss,
            reason = "a place in a short text")]
        let mut at = (whole.len() as f64 * keep) as usize;
        while !whole.is_char_boundary(at) { at -= 1; }
        let text = whole[..at].trim();
        prop_assume!(!text.is_empty());
        prop_assert!(read(&open, text, true).is_err(), "{}", text);
    }

    #[test]
    fn nothing_panics(text in any::<String>()) {
        drop(read(&schema(), &text, false));
    }
}
