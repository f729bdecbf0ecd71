//! Arguments as a model wrote them, checked before anything runs.

use serde::{Deserialize, de::DeserializeOwned};

/// A call of a tool.
#[derive(Debug, PartialEq)]
pub(super) enum Args {
    Shell(Shell),
    Read(Read),
    Write(Write),
    Edit(Edit),
    Ls(Ls),
    Grep(Grep),
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct Shell {
    pub(super) command: String,
    pub(super) timeout_ms: Option<u64>,
    #[serde(default)]
    pub(super) background: bool,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct Read {
    pub(super) path: String,
    #[serde(default)]
    pub(super) offset: u64,
    #[serde(default)]
    pub(super) limit: u64,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct Write {
    pub(super) path: String,
    pub(super) content: String,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct Edit {
    pub(super) path: String,
    pub(super) old: String,
    pub(super) new: String,
    #[serde(default)]
    pub(super) replace_all: bool,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct Ls {
    #[serde(default)]
    pub(super) path: String,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct Grep {
    pub(super) pattern: String,
    #[serde(default)]
    pub(super) path: String,
    #[serde(default)]
    pub(super) glob: String,
    #[serde(default)]
    pub(super) ignore_case: bool,
}

/// Why a call cannot be carried out. The message is for the model.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum Problem {
    #[error("there is no tool `{name}`; the tools are shell, read, write, edit, ls and grep")]
    NoSuchTool { name: String },
    #[error("the arguments are not valid JSON ({why})")]
    NotJson { why: String },
    #[error("the arguments do not fit the tool's schema: {why}")]
    Schema { why: String },
    #[error("`command` is empty")]
    NoCommand,
    #[error("`timeout_ms` is {asked}; it can be 1 to {max}")]
    Timeout { asked: u64, max: u64 },
}

/// Longest time-out of a command in the foreground; longer work belongs in the background.
pub(super) const TIMEOUT_MAX_MS: u64 = 600_000;

pub(super) fn parse(name: &str, args_json: &str) -> Result<Args, Problem> {
    let args = match name {
        "shell" => Args::Shell(of_schema(args_json)?),
        "read" => Args::Read(of_schema(args_json)?),
        "write" => Args::Write(of_schema(args_json)?),
        "edit" => Args::Edit(of_schema(args_json)?),
        "ls" => Args::Ls(of_schema(args_json)?),
        "grep" => Args::Grep(of_schema(args_json)?),
        _ => {
            let name = name.chars().filter(|c| !c.is_control()).take(60).collect();
            return Err(Problem::NoSuchTool { name });
        }
    };
    match &args {
        Args::Shell(shell) if shell.command.trim().is_empty() => Err(Problem::NoCommand),
        Args::Shell(Shell {
            timeout_ms: Some(asked),
            ..
        }) if !(1..=TIMEOUT_MAX_MS).contains(asked) => Err(Problem::Timeout {
            asked: *asked,
            max: TIMEOUT_MAX_MS,
        }),
        _ => Ok(args),
    }
}

fn of_schema<T: DeserializeOwned>(args_json: &str) -> Result<T, Problem> {
    let text = if args_json.trim().is_empty() {
        "{}"
    } else {
        args_json
    };
    serde_json::from_str(text).map_err(|error| {
        let why = error.to_string();
        if error.is_data() {
            Problem::Schema { why }
        } else {
            Problem::NotJson { why }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_said_for_a_model() {
        let text = |name: &str, args: &str| parse(name, args).expect_err("a problem").to_string();
        assert!(text("bash", "{}").contains("no tool `bash`"));
        assert!(text("shell", "{\"command\": \"ls").contains("not valid JSON"));
        assert!(text("shell", "{\"command\": 1}").contains("expected a string"));
        assert!(text("shell", "{\"command\":\"x\",\"cwd\":\"/\"}").contains("unknown field `cwd`"));
        assert!(text("shell", "{}").contains("missing field `command`"));
        assert!(text("shell", "{\"command\":\" \"}").contains("empty"));
        assert!(text("shell", "{\"command\":\"x\",\"timeout_ms\":700000}").contains("600000"));
        assert!(text("read", "[]").contains("schema"));
    }

    #[test]
    fn an_empty_text_is_no_arguments() {
        assert_eq!(
            parse("ls", "").expect("args"),
            Args::Ls(Ls {
                path: String::new()
            })
        );
    }
}
