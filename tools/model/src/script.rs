//! The script file: what the model says, step by step, and what goes wrong on the way.
//!
//! Every table refuses unknown keys, because a misspelt key would silently change a test.

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};

/// The script that the binary plays unless told otherwise.
const DEMO: &str = include_str!("../scripts/demo.toml");

/// Branches may hold branches; deeper than this is a program, not a script.
const BRANCH_DEPTH_MAX: usize = 8;

/// Everything that a server plays.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The models that `GET /v1/models` lists. Requests may name any model.
    #[serde(default = "default_models")]
    pub models: Vec<String>,
    /// The only key that is let in. Without it, any key or none will do.
    pub api_key: Option<String>,
    /// Characters per content delta. Without it, text goes word by word.
    pub chunk_chars: Option<NonZeroUsize>,
    /// The pause before each content delta, in milliseconds.
    #[serde(default)]
    pub chunk_delay_ms: u64,
    /// Thinking is shown in OpenAI chat, too, as servers that are not OpenAI's show it.
    #[serde(default)]
    pub reasoning_content: bool,
    /// Tried in order; the first whose `when` matches is played.
    #[serde(default, rename = "conversation")]
    pub conversations: Vec<Block>,
}

/// The steps for one kind of prompt: a `[[conversation]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Block {
    /// A substring of the last user prompt, in any case. Without it, every prompt matches.
    pub when: Option<String>,
    /// The model that a request names. Without it, any.
    pub model: Option<String>,
    /// One step per model turn after the prompt.
    #[serde(default, rename = "step")]
    pub steps: Vec<Step>,
}

/// One model turn: a `[[conversation.step]]`, or one way of a `branch`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Said before everything else, as a thinking block with a signature.
    pub thinking: Option<String>,
    /// Sent next as it stands: a block or item of a kind of the vendor's own. OpenAI chat has no place for
    /// one.
    pub vendor_block: Option<Map<String, Value>>,
    /// Said next. `{last}` and `{last_exit}` stand for the last tool result and the exit code in it.
    pub text: Option<String>,
    /// Said instead of text: the model declines.
    pub refusal: Option<String>,
    /// Called in parallel after the text.
    #[serde(default)]
    pub tools: Vec<Tool>,
    /// Why the turn ends. Without it: `tool_use` with tools, `refusal` with a refusal, else `end_turn`.
    pub stop: Option<Stop>,
    /// What the turn cost. Without it, estimated at four characters a token.
    pub usage: Option<Usage>,
    /// A substring that the last tool result must hold; else the model says so instead of this step.
    pub expect: Option<String>,
    /// How many pictures must have come since the model's last turn; else the model says so instead.
    pub expect_images: Option<usize>,
    /// Overrides the script's `chunk_chars`.
    pub chunk_chars: Option<NonZeroUsize>,
    /// Overrides the script's `chunk_delay_ms`.
    pub chunk_delay_ms: Option<u64>,
    /// Only in a branch: the substring of the last tool result that chooses it.
    pub when_last: Option<String>,
    /// Steps to play instead of this one; the first whose `when_last` matches is chosen.
    #[serde(default)]
    pub branch: Vec<Step>,
    /// First fault: the request is refused.
    pub fail: Option<Fail>,
    /// Second fault: the connection drops mid-stream.
    pub cut: Option<Cut>,
    /// Third fault: the vendor reports an error mid-stream.
    pub error_event: Option<ErrorEvent>,
    /// Fourth fault: a malformed event arrives mid-stream.
    pub garbage: Option<Garbage>,
    /// Fifth fault: the stream falls silent for a while.
    pub stall: Option<Stall>,
    /// Sixth fault: an event comes twice.
    pub repeat: Option<Repeat>,
}

/// One tool call.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    pub name: String,
    /// The arguments as a table.
    pub args: Option<Map<String, Value>>,
    /// The arguments byte for byte, valid JSON or not.
    pub raw_args: Option<String>,
}

/// Why a turn ends, in the words of Anthropic; the other wire translates.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    EndTurn,
    ToolUse,
    MaxTokens,
    StopSequence,
    PauseTurn,
    Refusal,
    ModelContextWindowExceeded,
}

/// Tokens of one turn. The kinds of input do not overlap.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
}

/// Answers with an error instead of a reply. The status may be 200: some servers do that.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fail {
    pub status: u16,
    /// Seconds, sent as the `retry-after` header.
    pub retry_after: Option<u32>,
    /// Sent as the `retry-after-ms` header.
    pub retry_after_ms: Option<u32>,
    /// Sent as the `x-cocoonbox-reason` header, as the gateway does with its own answers: `budget`.
    pub reason: Option<String>,
    /// The vendor's error type. Without it, the one that belongs to the status.
    pub kind: Option<String>,
    pub message: Option<String>,
    #[serde(default = "once")]
    pub times: u32,
}

/// Drops the connection after some content deltas.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cut {
    #[serde(default)]
    pub after_chunks: usize,
    /// In the middle of the next event, instead of before it.
    #[serde(default)]
    pub inside: bool,
    #[serde(default = "once")]
    pub times: u32,
}

/// Sends an error event after some content deltas and ends the stream.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorEvent {
    #[serde(default)]
    pub after_chunks: usize,
    /// Without it, `overloaded_error` or what comes closest on the wire.
    pub kind: Option<String>,
    pub message: Option<String>,
    #[serde(default = "once")]
    pub times: u32,
}

/// Sends one malformed event after some content deltas and goes on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Garbage {
    #[serde(default)]
    pub after_chunks: usize,
    #[serde(default = "once")]
    pub times: u32,
}

/// Sends one event twice after some content deltas and goes on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    #[serde(default)]
    pub after_chunks: usize,
    #[serde(default = "once")]
    pub times: u32,
}

/// Sends nothing for a while after some content deltas and goes on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stall {
    #[serde(default)]
    pub after_chunks: usize,
    pub ms: u64,
    /// With a sign of life after each so many milliseconds.
    pub ping_ms: Option<NonZeroU64>,
    #[serde(default = "once")]
    pub times: u32,
}

/// Why a script cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("script `{path}` cannot be read")]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("script is not valid")]
    Parse(#[source] Box<toml::de::Error>),
    #[error("{place}: {fact}")]
    Rule { place: String, fact: &'static str },
}

impl Error {
    /// Returns whether the same call may succeed later: never, the file has to change.
    pub fn is_retryable(&self) -> bool {
        false
    }
}

impl Script {
    /// Reads a script from TOML text.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let script: Self = toml::from_str(text).map_err(|source| Error::Parse(Box::new(source)))?;
        script.check()?;
        Ok(script)
    }

    /// Reads a script from a TOML file.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text)
    }

    /// Returns the demo that the binary plays by default.
    pub fn demo() -> Self {
        Self::parse(DEMO).expect("the embedded script is parsed by a test")
    }

    /// Returns a script that plays the same steps to every prompt.
    pub fn of_steps(steps: Vec<Step>) -> Result<Self, Error> {
        let script = Self {
            models: default_models(),
            api_key: None,
            chunk_chars: None,
            chunk_delay_ms: 0,
            reasoning_content: false,
            conversations: vec![Block {
                when: None,
                model: None,
                steps,
            }],
        };
        script.check()?;
        Ok(script)
    }

    fn check(&self) -> Result<(), Error> {
        for (c, block) in self.conversations.iter().enumerate() {
            for (s, step) in block.steps.iter().enumerate() {
                let place = format!("conversation {c} step {s}");
                if step.when_last.is_some() {
                    return Err(Error::Rule {
                        place,
                        fact: "`when_last` belongs in a `branch`",
                    });
                }
                step.check(&place, 0)?;
            }
        }
        Ok(())
    }
}

impl Step {
    /// Returns a step that only says `text`.
    pub fn say(text: impl Into<String>) -> Self {
        Self {
            text: Some(text.into()),
            ..Self::default()
        }
    }

    /// Returns a step that only calls one tool.
    pub fn call(name: impl Into<String>, args: Map<String, Value>) -> Self {
        let tool = Tool {
            name: name.into(),
            args: Some(args),
            raw_args: None,
        };
        Self {
            tools: vec![tool],
            ..Self::default()
        }
    }

    fn check(&self, place: &str, depth: usize) -> Result<(), Error> {
        let rule = |fact| {
            Err(Error::Rule {
                place: place.to_owned(),
                fact,
            })
        };
        if depth > BRANCH_DEPTH_MAX {
            return rule("branches are nested too deeply");
        }
        if self.refusal.is_some() && (self.text.is_some() || !self.tools.is_empty()) {
            return rule("a `refusal` stands alone");
        }
        if self.text.as_deref() == Some("") || self.thinking.as_deref() == Some("") {
            return rule("`text` and `thinking` must not be empty");
        }
        if self
            .tools
            .iter()
            .any(|tool| tool.args.is_some() && tool.raw_args.is_some())
        {
            return rule("a tool has `args` or `raw_args`, not both");
        }
        if self
            .fail
            .as_ref()
            .is_some_and(|fail| !matches!(fail.status, 200 | 400..=599))
        {
            return rule("`fail.status` must be 200, or from 400 to 599");
        }
        for (b, branch) in self.branch.iter().enumerate() {
            let place = format!("{place} branch {b}");
            if branch.when_last.is_none() {
                return Err(Error::Rule {
                    place,
                    fact: "a branch needs `when_last`",
                });
            }
            branch.check(&place, depth + 1)?;
        }
        Ok(())
    }
}

fn default_models() -> Vec<String> {
    vec!["scripted-1".to_owned()]
}

fn once() -> u32 {
    1
}

#[cfg(test)]
mod tests;
