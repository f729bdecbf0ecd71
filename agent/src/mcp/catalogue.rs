//! What a server offers, bounded and put into words that every vendor takes.

use std::sync::Arc;

use cocoonbox_proto::log::v1::Risk;
use rmcp::{
    Peer, RoleClient,
    model::{PaginatedRequestParams, Tool, ToolAnnotations},
};
use serde_json::{Map, Value, json};

use super::name;
use crate::{args::Schema, wire::ToolSpec};

/// Tools of one server that a model is told of. More would fill its context before it has begun.
const TOOLS_MAX: usize = 128;
/// Pages that are asked for.
const PAGES_MAX: usize = 64;
/// Longest description, in characters.
const ABOUT_CHARS_MAX: usize = 2_000;
/// Longest schema of one tool, and of all tools of a server.
const SCHEMA_BYTES_MAX: usize = 16 * 1024;
const SCHEMAS_BYTES_MAX: usize = 256 * 1024;
/// Longest name that is passed on to a server.
const NAME_BYTES_MAX: usize = 256;

/// A tool of a server.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Offer {
    /// The server's own name for it.
    pub(super) tool: String,
    pub(super) spec: ToolSpec,
    /// What the server says of it, as far as that is bad news.
    pub(super) risk: Risk,
}

/// All that a server offers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Catalogue {
    pub(super) offers: Vec<Arc<Offer>>,
    /// Tools that were left out because there are too many.
    pub(super) left_out: usize,
}

/// Asks a server for its tools, page by page.
pub(super) async fn list(server: &str, peer: &Peer<RoleClient>) -> Result<Catalogue, String> {
    let mut catalogue = Catalogue::default();
    let mut schemas_bytes = 0;
    let mut cursor: Option<String> = None;
    for _ in 0..PAGES_MAX {
        let params = PaginatedRequestParams::default().with_cursor(cursor.clone());
        let page = peer.list_tools(Some(params)).await;
        let page = page.map_err(|error| format!("it does not say which tools it has: {error}"))?;
        for tool in page.tools {
            catalogue.take(server, &tool, &mut schemas_bytes);
        }
        match page.next_cursor {
            // One that gives the same cursor again would never come to an end.
            Some(next) if cursor.as_ref() != Some(&next) => cursor = Some(next),
            _ => return Ok(catalogue),
        }
    }
    Ok(catalogue)
}

impl Catalogue {
    fn take(&mut self, server: &str, tool: &Tool, schemas_bytes: &mut usize) {
        let name = name::of(server, &tool.name);
        let is_known = self.offers.iter().any(|offer| offer.spec.name == name);
        if is_known || tool.name.len() > NAME_BYTES_MAX {
            return;
        }
        if self.offers.len() == TOOLS_MAX || *schemas_bytes > SCHEMAS_BYTES_MAX {
            self.left_out += 1;
            return;
        }
        let about = tool.description.as_deref().or(tool.title.as_deref());
        let (parameters, is_whole) = parameters(&tool.input_schema);
        *schemas_bytes += parameters.to_string().len();
        let mut description = printable(about.unwrap_or("Says nothing about itself."));
        if !is_whole {
            description
                .push_str(" (Its schema cannot be shown here; its server checks the arguments.)");
        }
        description.push_str(" [A tool of the MCP server `");
        description.push_str(&printable(server));
        description.push_str("`, in that server's words.]");
        self.offers.push(Arc::new(Offer {
            tool: tool.name.to_string(),
            spec: ToolSpec {
                name: name.into(),
                description: description.into(),
                parameters,
            },
            risk: risk(tool.annotations.as_ref()),
        }));
    }
}

/// A server's hints may make a call count as more than its name says, never as less: a stranger's word that it
/// only reads is worth nothing, its word that it destroys is. That it reaches the world outside is what every
/// server's tool is taken for anyway.
fn risk(hints: Option<&ToolAnnotations>) -> Risk {
    match hints.and_then(|hints| hints.destructive_hint) {
        Some(true) => Risk::Destructive,
        Some(false) | None => Risk::Unspecified,
    }
}

fn printable(text: &str) -> String {
    let mut chars = text.chars().filter(|c| !c.is_control() || *c == '\n');
    let mut kept: String = chars.by_ref().take(ABOUT_CHARS_MAX).collect();
    if chars.next().is_some() {
        kept.push('…');
    }
    kept
}

/// A schema that every vendor takes, and whether it says all that the server's did. One refused schema
/// would make the vendor refuse every call of the model.
fn parameters(schema: &Map<String, Value>) -> (Value, bool) {
    let open = || (json!({ "type": "object", "properties": {} }), false);
    let mut clean = schema.clone();
    // Vendors refuse choices at the top, and drafts that they do not know.
    let choices = [
        "anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum", "const", "$ref",
    ];
    let before = clean.len();
    clean.retain(|key, _| !choices.contains(&key.as_str()));
    let is_whole = clean.len() == before;
    clean.retain(|key, _| !matches!(key.as_str(), "$schema" | "$id" | "$comment" | "$anchor"));
    clean.insert("type".to_owned(), json!("object"));
    let properties = clean.entry("properties").or_insert_with(|| json!({}));
    let Some(properties) = properties.as_object() else {
        return open();
    };
    let names: Vec<&String> = properties.keys().collect();
    if !names.iter().all(|name| is_property_name(name)) {
        return open();
    }
    let mut clean = Value::Object(clean);
    with_items(&mut clean, 0);
    if clean.to_string().len() > SCHEMA_BYTES_MAX || Schema::new(&clean).is_err() {
        return open();
    }
    (clean, is_whole)
}

/// As the strictest vendor wants it.
fn is_property_name(name: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    (1..=64).contains(&name.len()) && name.bytes().all(is_plain)
}

/// Says of every array that its items may be anything, where nothing is said: one vendor insists.
fn with_items(schema: &mut Value, depth: usize) {
    if depth > 64 {
        return;
    }
    match schema {
        Value::Object(members) => {
            if members.get("type") == Some(&json!("array")) && !members.contains_key("items") {
                members.insert("items".to_owned(), json!({}));
            }
            for member in members.values_mut() {
                with_items(member, depth + 1);
            }
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| with_items(item, depth + 1)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(schema: Value) -> (Value, bool) {
        parameters(schema.as_object().expect("an object"))
    }

    #[test]
    fn schemas_are_made_fit_for_every_vendor() {
        let kept = json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/x" } },
            "$defs": { "x": { "type": "string" } } });
        assert_eq!(of(kept.clone()), (kept, true));
        let nothing = json!({ "type": "object", "properties": {} });
        assert_eq!(of(json!({})), (nothing.clone(), true));
        let (found, is_whole) = of(json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "properties": { "a": { "type": "array" } },
            "anyOf": [{ "required": ["a"] }],
        }));
        assert_eq!(
            found["properties"]["a"],
            json!({ "type": "array", "items": {} })
        );
        assert_eq!(
            (found.get("$schema"), found.get("anyOf"), is_whole),
            (None, None, false)
        );
        for bad in [
            json!({ "properties": { "a": { "type": "strin" } } }),
            json!({ "properties": { "a": { "$ref": "https://example.com" } } }),
            json!({ "properties": { "a b": {} } }),
            json!({ "properties": [] }),
            json!({ "properties": { "a": { "description": "x".repeat(20_000) } } }),
            json!({ "properties": { "a": { "items": [{ "type": "string" }] } } }),
        ] {
            assert_eq!(of(bad), (nothing.clone(), false));
        }
    }

    #[test]
    fn hints_raise_a_risk_and_lower_none() {
        let offered = |hints: Value| {
            let mut catalogue = Catalogue::default();
            let tool =
                json!({ "name": "t", "inputSchema": { "type": "object" }, "annotations": hints });
            let tool: Tool = serde_json::from_value(tool).expect("a tool");
            catalogue.take("s", &tool, &mut 0);
            catalogue.offers[0].risk
        };
        let reads =
            json!({ "readOnlyHint": true, "destructiveHint": false, "openWorldHint": false });
        assert_eq!(offered(reads), Risk::Unspecified);
        assert_eq!(offered(json!({})), Risk::Unspecified);
        let liar = json!({ "readOnlyHint": true, "destructiveHint": true });
        assert_eq!(offered(liar), Risk::Destructive);
    }

    #[test]
    fn ten_thousand_tools_and_long_descriptions_are_bounded() {
        let mut catalogue = Catalogue::default();
        let mut bytes = 0;
        for n in 0..10_000 {
            let tool = json!({ "name": format!("t{n}"), "description": "\u{7}é".repeat(50_000),
                "inputSchema": { "type": "object" } });
            let tool: Tool = serde_json::from_value(tool).expect("a tool");
            catalogue.take("many", &tool, &mut bytes);
        }
        assert_eq!(
            (catalogue.offers.len(), catalogue.left_out),
            (TOOLS_MAX, 10_000 - TOOLS_MAX)
        );
        let about = &catalogue.offers[0].spec.description;
        assert!(about.chars().count() < ABOUT_CHARS_MAX + 100);
        assert!(!about.contains('\u{7}'));
    }
}
