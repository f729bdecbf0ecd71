//! `mcp.json`, as the field writes it.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;

/// Servers that one box may have.
pub(super) const SERVERS_MAX: usize = 32;
/// Longest file that is read.
pub(super) const FILE_BYTES_MAX: usize = 256 * 1024;
/// Where it is, seen from the workspace.
pub(super) const FILE: &str = ".cocoonbox/mcp.json";

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    Command {
        argv: Vec<String>,
        cwd: String,
        env: BTreeMap<String, String>,
    },
    Url {
        url: String,
        headers: BTreeMap<String, String>,
    },
}

/// Servers by name; what is wrong with one is in its place.
pub(super) type Config = BTreeMap<String, Result<Reach, BadServer>>;

/// Why the file says nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadConfig {
    #[error("{FILE} is longer than {FILE_BYTES_MAX} bytes")]
    TooLong,
    #[error("{FILE} is not what it should be: {0}")]
    NotReadable(String),
    #[error("{FILE} names {0} servers; at most {SERVERS_MAX} are used")]
    TooMany(usize),
}

/// Why a server cannot be used as it is set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadServer {
    #[error("it needs either `command` or `url`")]
    NoReach,
    #[error("`url` has to begin with http:// or https://")]
    BadUrl,
    #[error("the transport `{0}` is not known here; `stdio` and `http` are")]
    Transport(String),
    #[error("{0}")]
    NotReadable(String),
}

#[derive(Deserialize)]
struct File {
    #[serde(default, rename = "mcpServers")]
    servers: BTreeMap<String, serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Entry {
    #[serde(rename = "type")]
    transport: Option<String>,
    command: Option<String>,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    cwd: String,
    url: Option<String>,
    headers: BTreeMap<String, String>,
    disabled: bool,
}

/// Reads the file's text. No text is no servers.
pub(super) fn parse(text: &str) -> Result<Config, BadConfig> {
    if text.len() > FILE_BYTES_MAX {
        return Err(BadConfig::TooLong);
    }
    if text.trim().is_empty() {
        return Ok(Config::new());
    }
    let file: File =
        serde_json::from_str(text).map_err(|error| BadConfig::NotReadable(error.to_string()))?;
    let mut config = Config::new();
    for (name, entry) in file.servers {
        let entry: Entry = match serde_json::from_value(entry) {
            Ok(entry) => entry,
            Err(error) => {
                config.insert(name, Err(BadServer::NotReadable(error.to_string())));
                continue;
            }
        };
        if !entry.disabled {
            config.insert(name, reach(entry));
        }
    }
    if config.len() > SERVERS_MAX {
        return Err(BadConfig::TooMany(config.len()));
    }
    Ok(config)
}

fn reach(entry: Entry) -> Result<Reach, BadServer> {
    match (entry.transport.as_deref(), entry.command, entry.url) {
        (None | Some("stdio"), Some(command), None) => Ok(Reach::Command {
            argv: std::iter::once(command).chain(entry.args).collect(),
            cwd: entry.cwd,
            env: entry.env,
        }),
        (None | Some("http" | "streamable-http" | "streamableHttp"), None, Some(url)) => {
            if !(url.starts_with("http://") || url.starts_with("https://")) {
                return Err(BadServer::BadUrl);
            }
            let headers = entry.headers;
            Ok(Reach::Url { url, headers })
        }
        (Some(other), ..)
            if !["stdio", "http", "streamable-http", "streamableHttp"].contains(&other) =>
        {
            Err(BadServer::Transport(other.chars().take(40).collect()))
        }
        _ => Err(BadServer::NoReach),
    }
}

impl Reach {
    pub(super) fn env(&self) -> HashMap<String, String> {
        match self {
            Self::Command { env, .. } => env.clone().into_iter().collect(),
            Self::Url { .. } => HashMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_form_is_read_and_each_fault_stays_with_its_server() {
        let config = parse(
            r#"{"mcpServers": {
                "files": {"command": "npx", "args": ["-y", "x"], "env": {"A": "b"}},
                "web": {"type": "http", "url": "https://mcp.example.org/mcp", "headers": {"X-Team": "t"}},
                "off": {"command": "x", "disabled": true},
                "old": {"type": "sse", "url": "https://mcp.example.org/sse"},
                "both": {"command": "x", "url": "https://x"},
                "ftp": {"url": "ftp://x"},
                "odd": {"command": 5}
            }, "other": 1}"#,
        )
        .expect("a config");
        let argv = vec!["npx".to_owned(), "-y".to_owned(), "x".to_owned()];
        let env = BTreeMap::from([("A".to_owned(), "b".to_owned())]);
        let cwd = String::new();
        assert_eq!(config["files"], Ok(Reach::Command { argv, cwd, env }));
        let headers = BTreeMap::from([("X-Team".to_owned(), "t".to_owned())]);
        let url = "https://mcp.example.org/mcp".to_owned();
        assert_eq!(config["web"], Ok(Reach::Url { url, headers }));
        assert!(!config.contains_key("off"));
        assert_eq!(config["old"], Err(BadServer::Transport("sse".to_owned())));
        assert_eq!(config["both"], Err(BadServer::NoReach));
        assert_eq!(config["ftp"], Err(BadServer::BadUrl));
        assert!(matches!(config["odd"], Err(BadServer::NotReadable(_))));
    }

    #[test]
    fn nothing_is_no_servers_and_too_much_is_refused() {
        assert_eq!(parse(" \n"), Ok(Config::new()));
        assert_eq!(parse("{}"), Ok(Config::new()));
        assert!(matches!(parse("[1]"), Err(BadConfig::NotReadable(_))));
        assert_eq!(
            parse(&" ".repeat(FILE_BYTES_MAX + 1)),
            Err(BadConfig::TooLong)
        );
        let many: Vec<String> = (0..40)
            .map(|n| format!("\"s{n}\": {{\"command\": \"x\"}}"))
            .collect();
        let many = format!("{{\"mcpServers\": {{{}}}}}", many.join(","));
        assert_eq!(parse(&many), Err(BadConfig::TooMany(40)));
    }
}
