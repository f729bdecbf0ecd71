//! What is known of a tool before it runs.

mod place;
mod shell;
mod text;

use cocoonbox_proto::log::v1::{Effect, Risk};
use serde_json::Value;

use place::Place;

/// A question to a person: the conversation itself answers it.
pub const ASK_USER: &str = "ask_user";
/// The list of what is to do: the conversation itself keeps it.
pub const TODO: &str = "todo";
/// Starts a subagent.
pub const TASK: &str = "task";

/// Says whether running the tool `name` again may change the world. A name that is not known here
/// counts as one that does.
pub fn effect(name: &str) -> Effect {
    match name {
        "read" | "ls" | "glob" | "grep" | "output" | "web_fetch" | "skill" | "mcp_servers"
        | "browser_look" | "computer_look" | ASK_USER
        | TODO
        // Started again, it goes on with the subagent that it has.
        | TASK => Effect::ReadOnly,
        _ => Effect::SideEffect,
    }
}

/// Whether it is said here what a tool of this name risks. One of a stranger's, as those of MCP
/// servers, is judged by its name alone.
pub fn is_known(name: &str) -> bool {
    known(name, &Value::Null).is_some()
}

/// Says how much harm a call can do. A name that is not known here, and arguments that are not
/// understood, count as the greater harm.
pub fn risk(name: &str, args_json: &str) -> Risk {
    let args = match serde_json::from_str(args_json) {
        Ok(Value::Object(args)) => Value::Object(args),
        // It may be mended before it runs.
        _ => Value::Null,
    };
    known(name, &args).unwrap_or_else(|| unknown(name))
}

fn known(name: &str, args: &Value) -> Option<Risk> {
    if effect(name) == Effect::ReadOnly {
        return Some(Risk::Read);
    }
    let text = |field: &str| args.get(field).and_then(Value::as_str);
    Some(match name {
        "shell" => text("command").map_or(Risk::Destructive, shell::risk),
        "terminal" => terminal(args),
        "write" | "edit" | "multi_edit" => match text("path") {
            Some(path) => match place::path(path, false) {
                Place::Workspace | Place::Nowhere => Risk::WriteWorkspace,
                Place::Outside => Risk::WriteOutside,
                Place::Device => Risk::Destructive,
            },
            None => Risk::WriteOutside,
        },
        "browser" => browser(text("action")),
        "computer" => computer(text("action")),
        "memory" => match text("action") {
            Some("view") => Risk::Read,
            _ => Risk::WriteWorkspace,
        },
        _ => return None,
    })
}

/// What a page makes of a click is not known, and it knows who is logged in. A script does anything at once.
fn browser(action: Option<&str>) -> Risk {
    match action {
        Some("hover" | "scroll" | "select_tab" | "close_tab") => Risk::Read,
        Some("pdf") => Risk::WriteOutside,
        Some(
            "navigate" | "back" | "forward" | "reload" | "click" | "type" | "fill" | "select"
            | "press" | "drag" | "upload" | "dialog",
        ) => Risk::NetworkWrite,
        _ => Risk::Destructive,
    }
}

/// A program may do anything with a click, and it is not known which program it is.
fn computer(action: Option<&str>) -> Risk {
    match action {
        Some("move" | "scroll" | "window") => Risk::Read,
        Some("click" | "drag" | "key" | "type" | "set") => Risk::NetworkWrite,
        _ => Risk::Destructive,
    }
}

/// What is typed may be the half of a command, whose other half was typed before.
fn terminal(args: &Value) -> Risk {
    let Value::Object(fields) = args else {
        return Risk::Destructive;
    };
    const TYPED: [&str; 3] = ["input", "keys", "command"];
    let has = |name: &str| fields.get(name).is_some_and(|value| !value.is_null());
    if has("close") || has("signal") || TYPED.into_iter().any(has) {
        let texts = TYPED.iter().filter_map(|name| fields.get(*name)?.as_str());
        let risks = texts.map(shell::risk);
        return risks.fold(Risk::NetworkWrite, Risk::max);
    }
    Risk::Read
}

/// A tool of somebody's, as those of MCP servers: its name may say the worst of it.
fn unknown(name: &str) -> Risk {
    const MONEY: &[&str] = &[
        "pay",
        "payment",
        "payments",
        "charge",
        "purchase",
        "buy",
        "checkout",
        "invoice",
        "transfer",
        "refund",
        "subscribe",
        "billing",
        "order",
    ];
    const DESTROYS: &[&str] = &[
        "delete",
        "remove",
        "drop",
        "destroy",
        "purge",
        "wipe",
        "erase",
        "truncate",
        "kill",
        "terminate",
        "reset",
        "revoke",
        "uninstall",
        "unlink",
        "rm",
        "force",
    ];
    let mut spaced = String::new();
    for c in name.chars() {
        // `deleteFile` is two words.
        if c.is_uppercase() {
            spaced.push(' ');
        }
        spaced.extend(c.to_lowercase());
    }
    let has = |words: &[&str]| {
        spaced
            .split(|c: char| !c.is_alphanumeric())
            .any(|part| words.contains(&part))
    };
    if has(MONEY) {
        Risk::Money
    } else if has(DESTROYS) {
        Risk::Destructive
    } else {
        Risk::NetworkWrite
    }
}

/// Returns what an approval is for: exactly this tool with exactly these arguments.
pub fn args_hash(name: &str, args_json: &str) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(name.as_bytes());
    hasher.update(&[0]);
    hasher.update(args_json.as_bytes());
    *hasher.finalize().as_bytes()
}
