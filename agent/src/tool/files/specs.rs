//! What a model is told of the file tools.

use serde_json::{Value, json};

use super::args::Kind;
use crate::{
    tool::schema::{flag, number, object, path, text},
    wire::ToolSpec,
};

const MANY: u64 = u32::MAX as u64;

pub(super) fn specs() -> Vec<(Kind, ToolSpec)> {
    let spec = |kind, name: &'static str, description: &'static str, parameters| {
        let spec = ToolSpec {
            name: name.into(),
            description: description.into(),
            parameters,
        };
        (kind, spec)
    };
    vec![
        spec(
            Kind::Read,
            "read",
            "Reads a file: text 2,000 lines or 48 KiB at a time, whatever its encoding; a picture (PNG, JPEG, \
             GIF, WebP, up to 4 MiB) is shown to you as such; a PDF as the text of its pages.",
            object(
                json!({
                    "path": path(),
                    "offset": number("First line, counted from 1.", 1, MANY),
                    "limit": number("Number of lines.", 1, MANY),
                }),
                &["path"],
            ),
        ),
        spec(
            Kind::Write,
            "write",
            "Writes a whole file, replacing what is there and making missing folders. For a change of a file \
             use `edit`. Refused if the file is not any more as you read it.",
            object(
                json!({ "path": path(), "content": text("The whole content.") }),
                &["path", "content"],
            ),
        ),
        spec(
            Kind::Edit,
            "edit",
            "Replaces a text in a file. `old` has to occur exactly once, with all its spaces, unless \
             `replace_all` is set. Encoding and line endings stay what they are: write `\\n`. Refused if the \
             file is not any more as you read it.",
            object(
                json!({
                    "path": path(),
                    "old": text(OLD),
                    "new": text("What stands there afterwards."),
                    "replace_all": flag("Replace every occurrence."),
                }),
                &["path", "old", "new"],
            ),
        ),
        spec(
            Kind::MultiEdit,
            "multi_edit",
            "Makes several edits in one file, one after the other, all or none: each works on what the ones \
             before it left. Otherwise as `edit`.",
            object(
                json!({ "path": path(), "edits": edits() }),
                &["path", "edits"],
            ),
        ),
        spec(
            Kind::Ls,
            "ls",
            "Lists a folder.",
            object(json!({ "path": path() }), &[]),
        ),
        spec(
            Kind::Glob,
            "glob",
            "Finds files by name beneath a folder, those changed last first. Leaves out what .gitignore names.",
            object(
                json!({
                    "pattern": text("As `*.rs` (in any folder), `src/**/*.{ts,tsx}` or `**/test_*`."),
                    "path": path(),
                }),
                &["pattern"],
            ),
        ),
        spec(
            Kind::Grep,
            "grep",
            "Finds lines that match a regular expression (Rust syntax), in a file or in all files beneath a \
             folder. Skips binary files and what .gitignore names.",
            object(grep(), &["pattern"]),
        ),
    ]
}

const OLD: &str = "The text to replace, exactly as it is in the file.";

fn edits() -> Value {
    let edit = object(
        json!({
            "old": text(OLD),
            "new": text("What stands there afterwards."),
            "replace_all": flag("Replace every occurrence."),
        }),
        &["old", "new"],
    );
    json!({ "type": "array", "items": edit, "minItems": 1, "description": "The edits, in order." })
}

fn grep() -> Value {
    json!({
        "pattern": text("Regular expression."),
        "path": path(),
        "glob": text("Only files whose name or path matches this glob, as in `*.rs`."),
        "ignore_case": flag("Match capital and small letters alike."),
        "context": number("Lines shown before and after each match.", 0, 20),
        "show": {
            "type": "string",
            "enum": ["lines", "files", "counts"],
            "description": "The matching lines (default), only the names of files that have one, or how many \
                lines match in each file.",
        },
        "limit": number("Lines (or files) in the answer. Default 300.", 1, 300),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value that fits a schema.
    fn sample(schema: &Value) -> Value {
        match schema["type"].as_str() {
            Some("string") => schema["enum"].get(0).cloned().unwrap_or(json!("x")),
            Some("integer") => json!(1),
            Some("array") => json!([sample(&schema["items"])]),
            Some("object") => {
                let properties = schema["properties"].as_object().expect("an object");
                let sampled = properties
                    .iter()
                    .map(|(name, schema)| (name.clone(), sample(schema)));
                Value::Object(sampled.collect())
            }
            _ => json!(true),
        }
    }

    #[test]
    fn the_parser_knows_every_property_and_nothing_else() {
        for (kind, spec) in specs() {
            let args = sample(&spec.parameters);
            kind.call(args.clone(), "a")
                .expect("every property is known");
            let required = spec.parameters["required"].as_array().expect("a list");
            for name in required {
                let mut less = args.as_object().expect("an object").clone();
                less.shift_remove(name.as_str().expect("a name"));
                kind.call(Value::Object(less), "a")
                    .expect_err("a required property is missing");
            }
            let mut more = args.as_object().expect("an object").clone();
            more.insert("other".to_owned(), json!(1));
            kind.call(Value::Object(more), "a")
                .expect_err("an unknown property");
        }
    }
}
