//! What a model is told about its tools. The schemas are those of `args`, and a test holds them to it.

use serde_json::{Value, json};

use crate::wire::ToolSpec;

/// Returns every tool.
pub(crate) fn specs() -> Vec<ToolSpec> {
    let text = |about: &str| json!({ "type": "string", "description": about });
    let number = |about: &str, min: u64, max: u64| json!({ "type": "integer", "minimum": min, "maximum": max, "description": about });
    let flag = |about: &str| json!({ "type": "boolean", "description": about });
    let path =
        || text("Relative to /workspace, or absolute beneath /workspace, /home/user or /tmp.");
    vec![
        ToolSpec {
            name: "shell",
            description: "Runs a command with bash in /workspace as the user of this box. Returns the \
                exit code and what was written to both outputs, the middle left out where it is long. \
                There is no terminal and no input. A command that does not end by itself (a server, a \
                watcher) belongs in the background: that returns at once, the command goes on, and its \
                output is recorded for the user; redirect it to a file to look at it yourself.",
            parameters: object(
                json!({
                    "command": text("A bash command line."),
                    "timeout_ms": number("Kills the command and everything it started. Default \
                        120000; in the background none.", 1, super::args::TIMEOUT_MAX_MS),
                    "background": flag("Return at once and let it run."),
                }),
                &["command"],
            ),
        },
        ToolSpec {
            name: "read",
            description: "Reads a text file, 2,000 lines or 48 KiB at a time.",
            parameters: object(
                json!({
                    "path": path(),
                    "offset": number("First line, counted from 1.", 1, u64::from(u32::MAX)),
                    "limit": number("Number of lines.", 1, u64::from(u32::MAX)),
                }),
                &["path"],
            ),
        },
        ToolSpec {
            name: "write",
            description: "Writes a whole file, replacing what is there and making missing folders.",
            parameters: object(
                json!({ "path": path(), "content": text("The whole content.") }),
                &["path", "content"],
            ),
        },
        ToolSpec {
            name: "edit",
            description: "Replaces a text in a file. `old` has to occur exactly once, with all its \
                spaces, unless `replace_all` is set.",
            parameters: object(
                json!({
                    "path": path(),
                    "old": text("The text to replace, exactly as it is in the file."),
                    "new": text("What stands there afterwards."),
                    "replace_all": flag("Replace every occurrence."),
                }),
                &["path", "old", "new"],
            ),
        },
        ToolSpec {
            name: "ls",
            description: "Lists a folder.",
            parameters: object(json!({ "path": path() }), &[]),
        },
        ToolSpec {
            name: "grep",
            description: "Finds lines that match a regular expression (Rust syntax), in a file or in \
                all files beneath a folder. Skips binary files and what .gitignore names.",
            parameters: object(
                json!({
                    "pattern": text("Regular expression."),
                    "path": path(),
                    "glob": text("Only files whose name or path matches this glob, as in `*.rs`."),
                    "ignore_case": flag("Match capital and small letters alike."),
                }),
                &["pattern"],
            ),
        },
    ]
}

fn object(properties: Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parser_knows_every_property_and_nothing_else() {
        for spec in specs() {
            let properties = spec.parameters["properties"]
                .as_object()
                .expect("an object");
            let args: serde_json::Map<_, _> = properties
                .iter()
                .map(|(name, schema)| {
                    let value = match schema["type"].as_str() {
                        Some("string") => json!("x"),
                        Some("integer") => json!(1),
                        _ => json!(true),
                    };
                    (name.clone(), value)
                })
                .collect();
            let all = Value::Object(args.clone()).to_string();
            super::super::args::parse(spec.name, &all).expect("every property is known");
            let required = spec.parameters["required"].as_array().expect("a list");
            for name in required {
                let mut less = args.clone();
                less.shift_remove(name.as_str().expect("a name"));
                super::super::args::parse(spec.name, &Value::Object(less).to_string())
                    .expect_err("a required property is missing");
            }
        }
    }
}
